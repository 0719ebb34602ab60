"""Make a version of a dataset: pack a source, update it, or edit the version before."""
