"""Bringing files to disk while others are being written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

_UNFIT = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What file systems say that bring folders to disk by themselves, or not at all."""


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNFIT or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1  # syncing it will say why


class Syncer:
    """Brings files to disk, one after the other, in a thread of its own.

    Not a `ThreadPoolExecutor`: importing that takes longer than syncing a small dataset, and an
    interruption in the middle of an import can leave Python's import lock locked.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Path | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._faults: dict[Path, OSError] = {}
        self._begun: dict[Path, int] = {}
        """The inodes of files: another attempt may put another file in the place of one."""
        self._is_stopped = False

    def sync(self, path: Path) -> None:
        """Begin to bring a file to disk."""
        self._begun[path] = _inode(path)
        self._queue.put(path)
        if self._thread is None:
            thread = Thread(target=self._work, daemon=True)
            thread.start()
            self._thread = thread  # not before: one that has not begun cannot be waited for

    def _work(self) -> None:
        while (path := self._queue.get()) and not self._is_stopped:
            try:
                sync(path)
            except OSError as error:
                self._faults[path] = error

    def finish(self, paths: Iterable[Path]) -> None:
        """Wait until all of `paths` are on disk; raise OSError if one cannot be."""
        wanted = list(paths)
        for path in wanted:
            if self._begun.get(path) != _inode(path):
                self.sync(path)
        self._queue.put(None)
        if self._thread:
            self._thread.join()
        for path in wanted:
            if path in self._faults:
                raise self._faults[path]

    def stop(self) -> None:
        """End as soon as the file at hand is on disk."""
        self._is_stopped = True
        self._queue.put(None)
        if self._thread:
            self._thread.join()
