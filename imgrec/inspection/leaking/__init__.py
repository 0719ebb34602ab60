"""Finding images that are in a dataset or a source more than once, or in two of them."""
