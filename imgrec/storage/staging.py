"""Where a dataset grows until it is published: a hidden folder beside its target, or a store."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Protocol

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.files import PART, Seal, os_errors_as, remove_all, write_error, write_file
from imgrec.storage.leftovers import (
    INCOMPLETE,
    NOTES,
    REPLACED,
    SPOOL,
    is_stage,
    origin_path,
    remove_stage,
    restore,
)
from imgrec.storage.lock import holds, make_locked
from imgrec.storage.paths import is_remote

_CANNOT_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
"""Errors of file systems that sync folders by themselves, or not at all."""


class Stage(Protocol):
    """An unfinished dataset: `Staging` on a disk, `StoreStaging` on an object store."""

    target: Path
    """Where the dataset will be."""
    path: Path
    """The local folder in which files are written."""
    spool: Path
    """The folder for temporary files. Whoever needs it makes it."""
    is_sure: bool
    """Whether `intact` has compared the files, so that nobody needs to read them."""

    def __enter__(self) -> Stage: ...

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def notes(self) -> dict[str, bytes]:
        """Return all notes of an earlier run, by name."""
        ...

    def note(self, name: str, data: bytes) -> None:
        """Keep a note for a run that continues this one."""
        ...

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything of an earlier run except these."""
        ...

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Make finished files safe, and note that."""
        ...

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name the files that match their seals, or, unless this `is_sure`, may match."""
        ...

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Make the dataset of these files visible, replacing any earlier one.

        `origin` is kept beside the dataset, not in it.
        """
        ...


def open_staging(target: Path) -> Stage:
    """Return the staging of a dataset that will be at `target`."""
    if is_remote(target):
        from imgrec.storage.remote.staging import StoreStaging

        return StoreStaging(target)
    return Staging(target)


def is_taken(target: Path) -> bool:
    """Tell whether something exists at the place of a dataset."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        return staging.is_taken(target)
    with os_errors_as(target):
        return os.path.lexists(target)  # even a link to a disk that is not mounted


def read_origin(target: Path) -> bytes:
    """Return the private note about the origin of a dataset, or b""."""
    with suppress(OSError, ImgrecError):
        return origin_path(target).read_bytes()
    return b""


def note_origin(target: Path, origin: bytes) -> None:
    """Note where a dataset came from; b"" removes the note."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        staging.note_origin(target, origin)
        return
    path = origin_path(target)
    with suppress(OSError, ExecutionError):  # without the note, the next run only reads more
        if origin:
            write_file(str(path), origin)
        else:
            remove_all(path)


class Staging:
    """The hidden folder in which one dataset grows; locked while this object is open.

    Finished shards are noted, so that an interrupted run can be continued. If there are any, the
    folder stays, whatever ended the run.
    """

    is_sure = False

    def __init__(self, target: Path) -> None:
        self._syncer = Syncer()
        self.target = target
        self.path = target.with_name(f".{target.name}{INCOMPLETE}")
        self.spool = self.path / SPOOL
        self._notes = self.path / NOTES
        self._replaced = target.with_name(f".{target.name}{REPLACED}")
        self._made: list[Path] = []
        self._lock = -1

    def __enter__(self) -> Staging:
        try:
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self._lock = make_locked(self.path)
        except BlockingIOError as error:
            raise ExecutionError(
                f"another run is packing {self.target}, or imgrec clean is removing what one left",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            ) from error
        except OSError as error:
            raise write_error(str(self.target), error) from error
        try:
            with os_errors_as(self.target):
                self._refuse_foreign()
                restore(self._replaced)
                remove_all(self.spool)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def _refuse_foreign(self) -> None:
        if not is_stage(self.path):
            raise ExecutionError(
                f"{self.path} must hold the unfinished dataset, but contains other files",
                hint="move it away, or pack under another --name or --version",
                path=str(self.path),
            )

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._syncer.stop()
            with suppress(OSError):  # the next run removes the rest
                if holds(self._lock, self.path):
                    self._clear(error)
        finally:
            os.close(self._lock)

    def _clear(self, error: BaseException | None) -> None:
        """Leave only what a run that continues this one can use."""
        if error is None or len(_listed(self._notes)) <= 1:
            remove_stage(self.path)
            self._unmake()
            return
        remove_all(self.spool)
        _remove_parts(self.path)

    def _unmake(self) -> None:
        """Remove empty folders above that were made for this dataset."""
        with suppress(OSError):  # up to the first that is not empty
            for folder in {self.target.parent: None} | dict.fromkeys(self._made):
                folder.rmdir()

    def notes(self) -> dict[str, bytes]:
        """Return all notes of this run or an earlier one, by name."""
        with os_errors_as(self.target):
            return {path.name: path.read_bytes() for path in _listed(self._notes)}

    def note(self, name: str, data: bytes) -> None:
        """Keep a note for a run that continues this one."""
        with os_errors_as(self.target):
            self._notes.mkdir(exist_ok=True)
            # Not synced: notes carry a hash, so one that a power cut garbled is ignored.
            (self._notes / name).write_bytes(data)

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything of an earlier run except these."""
        with os_errors_as(self.target):
            for leftover in self.path.iterdir():
                if leftover.is_file() and leftover.name not in filenames:
                    leftover.unlink()
            for note in _listed(self._notes):
                if note.name not in notes:
                    note.unlink()

    def settle(self, *filenames: str) -> None:
        """Start to sync finished files while others are still being written."""
        for filename in filenames:
            self._syncer.sync(self.path / filename)

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Settle finished files, and note that."""
        self.settle(*filenames)
        self.note(name, note)

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name all files: they must be read to know."""
        return frozenset(seal.filename for seal in seals)

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Rename the folder of these files to its final name, replacing any earlier dataset.

        `origin` is kept beside the dataset, not in it. Raises ExecutionError, and publishes
        nothing, if one of the files is missing.
        """
        with os_errors_as(self.target):
            remove_all(self.spool)
            _remove_parts(self.path)
            self._syncer.finish(path for path in self.path.iterdir() if path != self._notes)
            self._refuse_missing(files)
            remove_all(self._notes)  # as late as possible: without notes nothing can be resumed
            sync(self.path)
            try:
                if os.path.lexists(self.target):
                    self.target.rename(self._replaced)
                self.path.rename(self.target)
                self._sync_above()
            except BaseException:  # also Ctrl-C between the two renames
                with suppress(OSError):  # else the next run restores it
                    restore(self._replaced)
                raise
            note_origin(self.target, origin)
            with suppress(OSError):  # the next run removes it
                remove_all(self._replaced)

    def _refuse_missing(self, files: Collection[Seal]) -> None:
        """Raise ExecutionError if a run on another machine, which locks cannot stop, interfered."""
        for filename, size, _ in files:
            try:
                found = os.lstat(self.path / filename)
            except FileNotFoundError:
                found = None
            if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise ExecutionError(
                    f"{self.path / filename} is not what was written there",
                    hint="is another machine packing to the same place? Run this again when it is "
                    "done",
                    path=str(self.path / filename),
                )

    def _sync_above(self) -> None:
        """Sync the names of the dataset and of each folder made for it."""
        dataset_folder = self.target.parent
        sync(dataset_folder)
        # An interrupted run may have made the folders above without syncing them.
        for folder in {dataset_folder.parent: None} | {made.parent: None for made in self._made}:
            with suppress(PermissionError):  # a folder that cannot be read cannot be synced
                sync(folder)


def _remove_parts(folder: Path) -> None:
    """Remove unfinished files."""
    for part in folder.glob(f"*{PART}"):
        part.unlink(missing_ok=True)


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1  # syncing it raises the error


class Syncer:
    """Syncs files in a thread while others are being written."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Path | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._faults: dict[Path, OSError] = {}
        self._begun: dict[Path, int] = {}
        """Inodes of files: a second attempt at a task may replace a file."""
        self._is_stopped = False

    def sync(self, path: Path) -> None:
        """Start to sync a file."""
        self._begun[path] = _inode(path)
        self._queue.put(path)
        if self._thread is None:
            thread = Thread(target=self._work, daemon=True)
            thread.start()
            self._thread = thread  # only now: a thread that has not started cannot be joined

    def _work(self) -> None:
        while (path := self._queue.get()) and not self._is_stopped:
            try:
                sync(path)
            except OSError as error:
                self._faults[path] = error

    def finish(self, paths: Iterable[Path]) -> None:
        """Wait until all of `paths` are on disk; raise the OSError of any that failed."""
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
        """End as soon as the current file is on disk."""
        self._is_stopped = True
        self._queue.put(None)
        if self._thread:
            self._thread.join()
