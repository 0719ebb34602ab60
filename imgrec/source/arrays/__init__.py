"""Images that come as arrays of pixels: CIFAR, IDX and pixels in tables."""
