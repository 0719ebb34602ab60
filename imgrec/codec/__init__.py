"""Bytes to values and back, with no policy: records, examples and images."""
