"""Datasets in the formats of other libraries: one module for each format."""
