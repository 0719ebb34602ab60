"""Locks on folders, which the kernel drops with the process, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIES, _PAUSE_S = 100, 0.01


def make_locked(path: Path) -> int:
    """Make a folder, unless it is there, and return a descriptor that holds its lock.

    Closing it ends that. Raises BlockingIOError if another holds the lock for longer than those do
    who only look whether it is held, or who remove a small folder; and OSError.
    """
    for attempt in range(_TRIES):
        try:
            path.mkdir(parents=True, exist_ok=True)
            return lock(path)
        except (BlockingIOError, FileNotFoundError):  # it, or one above it, has just been removed
            if attempt + 1 == _TRIES:
                raise
        time.sleep(_PAUSE_S)
    raise AssertionError(path)


def lock(path: Path) -> int:
    """Return a descriptor that holds the lock of a folder, as `make_locked` does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | NO_LINKS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not holds(descriptor, path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def holds(descriptor: int, path: Path) -> bool:
    """Tell whether a lock is of what is at `path` now."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
