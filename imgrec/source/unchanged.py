"""Recognise the files that an earlier version was packed from, without opening them.

A file is the same if it has its name and its size, and has not changed since before that version
was begun: the clock of its disk says so. A folder that took the place of another brings older files
along, so the folder must still be the same, too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.model import Blob
from imgrec.stamp import Stamp, state_of
from imgrec.text import printable


class KnownFile(NamedTuple):
    """A file as an earlier version knew it."""

    size: int
    content: bytes
    """Its hash, which becomes its content in the catalog."""
    home: tuple[int, int]
    """Device and inode of its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unopened:
    """The files of an earlier version that need not be opened if they are unchanged."""

    files: Mapping[str, tuple[int, bytes]]
    """Size and hash of each, by its printable name."""
    homes: Mapping[str, tuple[int, int]]
    """See `Catalog`."""
    before_ns: int
    """When that version was begun, and some more for coarse clocks."""

    def among(self, names: Sequence[str], blobs: Sequence[Blob]) -> dict[int, KnownFile]:
        """Return what is known of some files on disk, by place."""
        found = {}
        homes: dict[str, tuple[int, int] | None] = {}
        for place, (name, blob) in enumerate(zip(names, blobs, strict=True)):
            known = self.files.get(printable(name))
            if known is None or not isinstance(blob, str):
                continue
            folder = blob.rpartition("/")[0]  # twice as fast as dirname
            if folder not in homes:
                homes[folder] = self.homes.get(folder) or self.homes.get(f"{folder}/")
            if home := homes[folder]:
                found[place] = KnownFile(*known, home)
        return found


def unchanged_files(
    blobs: Sequence[Blob], known: Mapping[int, KnownFile], before_ns: int
) -> dict[int, Stamp]:
    """Return the stamps of the known files that are unchanged, by place."""
    found: dict[int, Stamp] = {}
    homes: dict[str, tuple[int, int] | None] = {}
    for place, file in known.items():
        path = str(blobs[place])
        folder = os.path.dirname(path)
        if folder not in homes:
            homes[folder] = _inode_of(folder)
        try:
            status = os.lstat(path)
        except OSError:
            continue  # whoever opens it says why
        newest_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        is_same = status.st_size == file.size and newest_ns < before_ns
        if is_same and stat.S_ISREG(status.st_mode) and homes[folder] == file.home:
            found[place] = Stamp(newest_ns, state_of(path, status))
    return found


def _inode_of(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder or "/")
    except OSError:
        return None
    return status.st_dev, status.st_ino
