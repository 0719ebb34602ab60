"""Tables that say which class each image has."""
