"""Locks on folders. The kernel releases them when the process ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIES, _PAUSE_S = 100, 0.01


def make_locked(path: Path) -> int:
    """Make a folder if necessary, and return a descriptor that holds its lock until it is closed.

    Raises BlockingIOError if another process holds the lock for more than a second: those that
    only test the lock or remove a small folder are faster. May raise other OSErrors.
    """
    for attempt in range(_TRIES):
        try:
            path.mkdir(parents=True, exist_ok=True)
            return lock(path)
        except (BlockingIOError, FileNotFoundError):  # the folder has just been removed
            if attempt + 1 == _TRIES:
                raise
        time.sleep(_PAUSE_S)
    raise AssertionError(path)


def lock(path: Path) -> int:
    """Lock an existing folder, as `make_locked` does, without waiting."""
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
    """Tell whether a lock belongs to the folder that is at `path` now."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
