"""A local web page to browse a packed dataset."""
