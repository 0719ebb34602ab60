"""How many bytes files take on a disk or a store, and how many their removal frees.

Files are counted by what they are, not by their names: two versions of a dataset may share shards
as hard links. Sparse files count with the blocks they have. The system does not say which blocks
of reflinked files are shared, so those count in full.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from imgrec.storage.files import os_errors_as
from imgrec.storage.paths import is_remote

_BLOCK = 512
"""The unit of `st_blocks`."""


class StoredFile(NamedTuple):
    """A file by one of its names."""

    name: str
    """Its path below the folder."""
    size: int
    used: int
    """The bytes it takes."""
    identity: tuple[object, ...]
    """Equal for all names of a file."""
    links: int
    """How many names it has anywhere."""
    changed_ns: int


def stored_files(path: Path) -> tuple[StoredFile, ...]:
    """List all files in a folder, or the one at a path; raise ExecutionError if it cannot."""
    if is_remote(path):
        from imgrec.storage.remote.read import objects

        return tuple(
            StoredFile(name, stat.size, stat.size, (str(path), name), 1, stat.changed_ns)
            for name, stat in objects(str(path))
        )
    with os_errors_as(path):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        stats = [(one, one.lstat()) for one in found if one.is_symlink() or not one.is_dir()]
    return tuple(_stored(str(one.relative_to(path)), status) for one, status in stats)


def _stored(name: str, status: os.stat_result) -> StoredFile:
    # Some file systems count no blocks for small files, or none before they are synced.
    blocks = getattr(status, "st_blocks", 0) * _BLOCK
    used = min(status.st_size, blocks or status.st_size)
    identity = status.st_dev, status.st_ino
    return StoredFile(name, status.st_size, used, identity, status.st_nlink, status.st_mtime_ns)


def used_bytes(files: Iterable[StoredFile]) -> int:
    """Return how many bytes files take, each counted once."""
    return sum({file.identity: file.used for file in files}.values())


def freed_bytes(removals: Iterable[Sequence[StoredFile]]) -> list[int]:
    """Return how many bytes each removal frees, if they happen in this order.

    A file is freed with the last of its names.
    """
    gone: Counter[tuple[object, ...]] = Counter()
    freed = []
    for files in removals:
        freed.append(0)
        for file in files:
            gone[file.identity] += 1
            if gone[file.identity] == file.links:
                freed[-1] += file.used
    return freed
