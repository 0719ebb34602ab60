"""Why `tfds.load` does not load a dataset, and what does."""
