"""File names as text."""

from __future__ import annotations

import re

_LINE = re.compile(r"^[^ ][^:]*:\d+: ")


def printable(filename: str) -> str:
    r"""Return a file's name as valid text; bytes that are not UTF-8 show as escapes.

    >>> printable("caf\udce9.jpg")
    'caf\\udce9.jpg'
    """
    return filename.encode("utf-8", "backslashreplace").decode("utf-8")


def without_line(reason: str) -> str:
    """Return a reason without the line of the table that it begins with.

    >>> without_line("train.csv:17: no such image")
    'no such image'
    """
    return _LINE.sub("", reason)


def picked(match: re.Match[str], group: str) -> str:
    """Return what a pattern picks out: the group of that name, else the first, else all of it."""
    if group in match.re.groupindex:
        return match[group] or ""
    return (match[1] or "") if match.re.groups else match[0]
