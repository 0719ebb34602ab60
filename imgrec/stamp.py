"""Stamps identify files without reading them: by device, inode, size and times."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from xxhash import xxh3_128_intdigest

_FILE = struct.Struct("<QQQqq")
_STATE_BITS = 128


class Stamp(NamedTuple):
    """The state of some files, as the operating system reports it.

    Two stamps are equal only if they describe the same files at the same paths, unchanged.
    """

    newest_ns: int = 0
    """The latest change of any of the files, by the clock of its own disk; 0 if unknown."""
    state: int = 0
    """A sum of hashes, one for each file, so that the order of files does not matter."""

    def merged(self, *others: Stamp) -> Stamp:
        """Return the stamp of these files and of the others."""
        stamps = (self, *others)
        return Stamp(max(one.newest_ns for one in stamps), sum_of(one.state for one in stamps))

    def dated(self, time_ns: int) -> Stamp:
        """Return a stamp that is at least as new."""
        return Stamp(max(self.newest_ns, time_ns), self.state)


NO_STAMP = Stamp()


def sum_of(states: Iterable[int]) -> int:
    """Add up the states of files."""
    return sum(states) % (1 << _STATE_BITS)


def state_of(path: str, found: os.stat_result) -> int:
    """Return the state of one file, which depends on its path, inode, size and times."""
    facts = _FILE.pack(
        found.st_dev & (1 << 64) - 1,
        found.st_ino & (1 << 64) - 1,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
    return xxh3_128_intdigest(facts + os.fsencode(path))


def stamp_of(path: str) -> Stamp:
    """Return the stamp of a file or of the target of a link; raise OSError if it is gone."""
    path = os.path.abspath(path)
    found = os.stat(path)
    return Stamp(max(found.st_ctime_ns, os.lstat(path).st_ctime_ns), state_of(path, found))


def stamp_of_object(url: str, size: int, changed_ns: int, tag: str) -> Stamp:
    """Return the stamp of an object on a store; `tag` changes whenever the object does."""
    facts = f"{size} {changed_ns} {tag} {url}".encode("utf-8", "surrogateescape")
    return Stamp(changed_ns, xxh3_128_intdigest(facts))
