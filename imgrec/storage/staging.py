"""The hidden folder in which a dataset grows until it is published."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import TracebackType

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.files import PART, write_error

INCOMPLETE, REPLACED = ".incomplete", ".replaced"


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
    """The hidden folder in which one dataset grows; locked while this object is open.

    What is finished in there is noted, so that a run that was cut off can be continued. It stays
    if the run is, and goes if the run ends otherwise.
    """

    def __init__(self, target: Path) -> None:
        self._syncer = _Syncer()
        self.target = target
        self.path = target.with_name(f".{target.name}{INCOMPLETE}")
        self.spool = self.path / ".spool"
        """The folder, made by whoever needs it, for what is not published."""
        self._notes = self.path / ".notes"
        self._replaced = target.with_name(f".{target.name}{REPLACED}")
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
        shutil.rmtree(self.spool, ignore_errors=True)
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._syncer.stop()
        if self.path.exists() and os.stat(self._lock).st_ino == self.path.stat().st_ino:
            is_cut_off = isinstance(error, ExecutionError) or not isinstance(error, ImgrecError)
            if error is not None and is_cut_off and len(self.notes()) > 1:
                self._leave_whole()
            else:
                shutil.rmtree(self.path)
                self._unmake()
        os.close(self._lock)

    def _leave_whole(self) -> None:
        """Remove what is of no use to a run that continues this one."""
        shutil.rmtree(self.spool, ignore_errors=True)
        for part in self.path.glob(f"*{PART}"):
            part.unlink()

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

    def notes(self) -> dict[str, bytes]:
        """Return all that was noted here, by name, by this run or one before."""
        if not self._notes.is_dir():
            return {}
        return {path.name: path.read_bytes() for path in self._notes.iterdir()}

    def note(self, name: str, data: bytes) -> None:
        """Note something that the next run must know if this one is cut off."""
        try:
            self._notes.mkdir(exist_ok=True)
            # Not synced: a note that a power cut garbles is one that nobody will believe.
            (self._notes / name).write_bytes(data)
        except OSError as error:
            raise write_error(str(self.target), error) from error

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything that a run before left but these."""
        for leftover in self.path.iterdir():
            if leftover.is_file() and leftover.name not in filenames:
                leftover.unlink()
        for name in self.notes():
            if name not in notes:
                (self._notes / name).unlink()

    def settle(self, *filenames: str) -> None:
        """Begin to bring finished files to disk, while others are still being written."""
        for filename in filenames:
            self._syncer.sync(self.path / filename)

    def publish(self) -> None:
        """Give the folder its final name, at once, replacing what stood there."""
        try:
            shutil.rmtree(self.spool, ignore_errors=True)
            shutil.rmtree(self._notes, ignore_errors=True)
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


def find_leftovers(*dataset_folders: Path) -> Iterator[Path]:
    """Yield the hidden folders that runs which are over left beside the versions of datasets."""
    for folder in dataset_folders:
        for suffix in (INCOMPLETE, REPLACED):
            for path in sorted(folder.glob(f".*{suffix}")):
                if path.is_dir() and not path.is_symlink() and not _is_locked(path):
                    yield path


def size_of(path: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(found.lstat().st_size for found in path.rglob("*") if not found.is_dir())


def remove_leftover(path: Path) -> None:
    """Remove what `find_leftovers` found."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise write_error(str(path), error) from error
    with suppress(OSError):  # unless there is a dataset in it
        path.parent.rmdir()


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
