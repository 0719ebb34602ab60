"""Where a dataset grows until it is published: a hidden folder beside its target, or a store."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.files import (
    PART,
    Seal,
    holds,
    link_or_copy,
    make_locked,
    os_errors_as,
    remove_all,
    write_error,
    write_file,
)
from imgrec.storage.hidden import incomplete_path, origin_path, replaced_path
from imgrec.storage.leftovers import NOTES, SPOOL, is_stage, remove_stage, restore
from imgrec.storage.paths import is_remote

if TYPE_CHECKING:
    from imgrec.storage.remote.staging import StoreStaging

_CANNOT_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
"""Errors of file systems that sync folders by themselves, or not at all."""


def open_staging(target: Path) -> Stage:
    """Return the staging of a dataset that will be at `target`."""
    if is_remote(target):
        from imgrec.storage.remote.staging import StoreStaging

        return StoreStaging(target)
    return Staging(target)


def is_taken(target: Path) -> bool:
    """Return whether something exists at the place of a dataset."""
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
    """Whether `intact` has compared the files, so that nobody needs to read them."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = incomplete_path(target)
        self.spool = self.path / SPOOL
        """The folder for temporary files. Whoever needs it makes it."""
        self.results = str(self.spool)
        """Where the workers of a cluster leave what only this run reads."""
        self._notes = self.path / NOTES
        self.shard_notes = str(self._notes)
        """Where they note finished shards by themselves."""
        self._replaced = replaced_path(target)
        self._made: list[Path] = []
        self._lock = -1
        # Finished files are synced while others are being written, so that the end is not slow.
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="imgrec-sync")
        self._synced: dict[Path, tuple[int, Future[None]]] = {}
        """Inodes of files that are being synced: a second attempt at a task may replace a file."""

    def __enter__(self) -> Staging:
        try:
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self._lock = make_locked(self.path)
        except BlockingIOError as error:
            raise ExecutionError(
                f"another run is packing {self.target}, or imgrec clean is removing its leftovers",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            ) from error
        except OSError as error:
            raise write_error(str(self.target), error) from error
        try:
            with os_errors_as(self.target):
                if not is_stage(self.path):
                    raise ExecutionError(
                        f"{self.path} must hold the unfinished dataset, but contains other files",
                        hint="move it away, or pack under another --name or --version",
                        path=str(self.path),
                    )
                restore(self._replaced)
                remove_all(self.spool)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._syncer.shutdown(cancel_futures=True)
            with suppress(OSError):  # the next run removes the rest
                if holds(self._lock, self.path):
                    self._clear(error)
        finally:
            os.close(self._lock)

    def _clear(self, error: BaseException | None) -> None:
        """Leave only what a run that continues this one can use."""
        if error is not None and len(_listed(self._notes)) > 1:
            remove_all(self.spool)
            _remove_parts(self.path)
            return
        remove_stage(self.path)
        with suppress(OSError):  # up to the first folder that is not empty
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
            for path in self.path.iterdir():
                if path.is_file() and path.name not in filenames:
                    path.unlink()
            for note in _listed(self._notes):
                if note.name not in notes:
                    note.unlink()

    def link(self, source: Path, filename: str) -> None:
        """Add a file of another version of the dataset, without copying it if possible."""
        link_or_copy(str(source), str(self.path / filename))

    def start_sync(self, *filenames: str) -> None:
        """Start to sync finished files while others are still being written."""
        for path in (self.path / filename for filename in filenames):
            self._synced[path] = _inode(path), self._syncer.submit(sync, path)

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Start to sync finished files, and note that they are finished."""
        self.start_sync(*filenames)
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
            self._finish_sync()
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

    def _finish_sync(self) -> None:
        """Wait until all files are on disk; raise the OSError of any that failed."""
        paths = [path for path in self.path.iterdir() if path != self._notes]
        for path in paths:
            if path not in self._synced or self._synced[path][0] != _inode(path):
                self.start_sync(path.name)
        for path in paths:
            self._synced[path][1].result()

    def _refuse_missing(self, files: Collection[Seal]) -> None:
        """Raise ExecutionError if a run on another machine, which locks cannot stop, interfered."""
        for filename, size, _ in files:
            try:
                status = os.lstat(self.path / filename)
            except FileNotFoundError:
                status = None
            if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != size:
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


Stage: TypeAlias = "Staging | StoreStaging"
"""An unfinished dataset, on a disk or on an object store. Both have the same methods."""


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
