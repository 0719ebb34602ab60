"""Opening packed datasets, without TensorFlow."""
