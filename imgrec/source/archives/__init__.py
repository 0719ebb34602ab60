"""Archives of class folders, read where they are."""
