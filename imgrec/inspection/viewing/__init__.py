"""A local page on which people browse a packed dataset."""
