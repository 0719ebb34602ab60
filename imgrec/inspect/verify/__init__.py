"""Whether a packed dataset is sound: every byte of it, and all that its files say of each other."""
