"""File names as text."""

from __future__ import annotations


def printable(filename: str) -> str:
    r"""Return a file's name as valid text; bytes that are not UTF-8 show as escapes.

    >>> printable("caf\udce9.jpg")
    'caf\\udce9.jpg'
    """
    return filename.encode("utf-8", "backslashreplace").decode("utf-8")
