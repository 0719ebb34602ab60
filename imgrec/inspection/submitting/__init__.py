"""Turning predictions into the file that a competition takes."""
