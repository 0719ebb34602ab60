"""The hidden folder in which a dataset grows until it is published."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from imgrec.errors import ExecutionError
from imgrec.storage.files import write_error


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Syncer:
    """Brings files to disk, one after the other, in a thread of its own.

    Not a `ThreadPoolExecutor`: importing that takes longer than syncing a small dataset, and an
    interruption in the middle of an import can leave Python's import lock locked.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Path | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._faults: dict[Path, OSError] = {}
        self._begun: set[Path] = set()
        self._is_stopped = False

    def sync(self, path: Path) -> None:
        """Begin to bring a file to disk."""
        self._begun.add(path)
        self._queue.put(path)
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (path := self._queue.get()) and not self._is_stopped:
            try:
                _sync(path)
            except OSError as error:
                self._faults[path] = error

    def finish(self, paths: Iterable[Path]) -> None:
        """Wait until all of `paths` are on disk; raise OSError if one cannot be."""
        wanted = list(paths)
        for path in wanted:
            if path not in self._begun:
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


class Staging:
    """The hidden folder in which one dataset grows; locked while this object is open."""

    def __init__(self, target: Path) -> None:
        self._syncer = _Syncer()
        self.target = target
        self.path = target.with_name(f".{target.name}.incomplete")
        self.spool = self.path / ".spool"
        """The folder, made by whoever needs it, for what is not published."""
        self._replaced = target.with_name(f".{target.name}.replaced")
        self._made: list[Path] = []
        self._lock = -1

    def __enter__(self) -> Staging:
        try:
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY)
            # The kernel drops this lock with the process, however that ends.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ExecutionError(
                f"another run is packing {self.target} right now",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            ) from error
        except OSError as error:
            raise write_error(str(self.target), error) from error
        self._restore()
        self._empty()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._syncer.stop()
        if self.path.exists() and os.stat(self._lock).st_ino == self.path.stat().st_ino:
            shutil.rmtree(self.path)
            self._unmake()
        os.close(self._lock)

    def _unmake(self) -> None:
        """Remove the folders above that were made for nothing."""
        with suppress(OSError):  # as soon as one is not empty
            for folder in {self.target.parent: None} | dict.fromkeys(self._made):
                folder.rmdir()

    def _restore(self) -> None:
        """Bring back what a run that died in mid-replacement had put aside."""
        if not self._replaced.exists():
            return
        if self.target.exists():
            shutil.rmtree(self._replaced)
        else:
            self._replaced.rename(self.target)

    def _empty(self) -> None:
        shutil.rmtree(self.spool, ignore_errors=True)
        for leftover in self.path.iterdir():
            leftover.unlink()

    def settle(self, *filenames: str) -> None:
        """Begin to bring finished files to disk, while others are still being written."""
        for filename in filenames:
            self._syncer.sync(self.path / filename)

    def publish(self) -> None:
        """Give the folder its final name, at once, replacing what stood there."""
        try:
            shutil.rmtree(self.spool, ignore_errors=True)
            self._syncer.finish(self.path.iterdir())
            _sync(self.path)
            if self.target.exists():
                self.target.rename(self._replaced)
            self.path.rename(self.target)
            _sync(self.target.parent)
        except OSError as error:
            self._restore()
            raise write_error(str(self.target), error) from error
        shutil.rmtree(self._replaced, ignore_errors=True)


def stamp(path: Path, time_ns: int) -> None:
    """Date a file back to `time_ns`."""
    os.utime(path, ns=(time_ns, time_ns))
