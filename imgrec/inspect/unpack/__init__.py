"""From a packed dataset back to the files that it was packed from."""
