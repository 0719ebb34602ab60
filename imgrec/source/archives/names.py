"""What the name of a file says of it being an archive."""

from __future__ import annotations

import os
import re

COMPRESSED_TARS = (
    ".tar.gz", ".tgz", ".taz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst", ".tzst",
)  # fmt: skip
_PART = re.compile(r"\.(zip|7z|rar|tar|tgz|tar\.[a-z0-9]+)\.\d{3}$|\.z\d\d$")
"""How parts of an archive that was split are called."""
_SUFFIXES = (*COMPRESSED_TARS, ".zip", ".tar", ".7z", ".rar")


def has_archive_name(filename: str) -> bool:
    """Tell whether a file is called as archives are, be it one that can be read or not."""
    name = filename.lower()
    return name.endswith(_SUFFIXES) or bool(_PART.search(name))


def archive_stem(path: str) -> str:
    """Return the name of an archive without what says that it is one.

    >>> archive_stem("downloads/flowers.tar.gz")
    'flowers'
    """
    name = os.path.basename(os.path.abspath(path))
    known = (name[: -len(suffix)] for suffix in _SUFFIXES if name.lower().endswith(suffix))
    return next(known, os.path.splitext(name)[0]) or name
