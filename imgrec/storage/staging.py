"""The hidden folder in which a dataset grows until it is published."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from imgrec.errors import ExecutionError
from imgrec.storage.files import PART, Seal, remove_all, telling, write_error, write_file
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
from imgrec.storage.syncing import Syncer, sync


class Staging:
    """The hidden folder in which one dataset grows; locked while this object is open.

    What is finished in there is noted, so that a run that did not come to its end can be continued.
    It stays if there is something finished, whatever ended the run.
    """

    is_sure = False
    """Whether files that are said to be intact need no other look."""

    def __init__(self, target: Path) -> None:
        self._syncer = Syncer()
        self.target = target
        self.path = target.with_name(f".{target.name}{INCOMPLETE}")
        self.spool = self.path / SPOOL
        """The folder, made by whoever needs it, for what is not published."""
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
            with telling(self.target):
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
                f"{self.path} is where a dataset is to grow, and holds what imgrec did not make",
                hint="move it away, or pack under another --name or --version",
                path=str(self.path),
            )

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._syncer.stop()
            with suppress(OSError):  # what cannot be removed now, the next run removes
                if holds(self._lock, self.path):
                    self._clear(error)
        finally:
            os.close(self._lock)

    def _clear(self, error: BaseException | None) -> None:
        """Leave no more than a run that continues this one can use."""
        if error is None or len(_listed(self._notes)) <= 1:
            remove_stage(self.path)
            self._unmake()
            return
        remove_all(self.spool)
        _remove_parts(self.path)

    def _unmake(self) -> None:
        """Remove the folders above that were made for nothing."""
        with suppress(OSError):  # as soon as one is not empty
            for folder in {self.target.parent: None} | dict.fromkeys(self._made):
                folder.rmdir()

    def notes(self) -> dict[str, bytes]:
        """Return all that was noted here, by name, by this run or one before."""
        with telling(self.target):
            return {path.name: path.read_bytes() for path in _listed(self._notes)}

    def note(self, name: str, data: bytes) -> None:
        """Note something that the next run must know if this one is cut off."""
        with telling(self.target):
            self._notes.mkdir(exist_ok=True)
            # Not synced: a note that a power cut garbles is one that nobody will believe.
            (self._notes / name).write_bytes(data)

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything that a run before left but these."""
        with telling(self.target):
            for leftover in self.path.iterdir():
                if leftover.is_file() and leftover.name not in filenames:
                    leftover.unlink()
            for note in _listed(self._notes):
                if note.name not in notes:
                    note.unlink()

    def settle(self, *filenames: str) -> None:
        """Begin to bring finished files to disk, while others are still being written."""
        for filename in filenames:
            self._syncer.sync(self.path / filename)

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Settle files that are finished, and note so."""
        self.settle(*filenames)
        self.note(name, note)

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name the files that may still be what their seals say: those that are to be read."""
        return frozenset(seal.filename for seal in seals)

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Give the folder, which holds these files, its final name, replacing what stood there.

        `origin` is noted beside it, outside of the dataset. Raises ExecutionError, and publishes
        nothing, if one of the files is not there any more.
        """
        with telling(self.target):
            remove_all(self.spool)
            _remove_parts(self.path)
            self._syncer.finish(path for path in self.path.iterdir() if path != self._notes)
            self._refuse_missing(files)
            remove_all(self._notes)  # as late as can be: without them nothing is resumed
            sync(self.path)
            try:
                if os.path.lexists(self.target):
                    self.target.rename(self._replaced)
                self.path.rename(self.target)
                self._sync_above()
            except BaseException:  # also an interruption between the two
                with suppress(OSError):  # the next run brings it back
                    restore(self._replaced)
                raise
            note_origin(self.target, origin)
            with suppress(OSError):  # the next run removes it
                remove_all(self._replaced)

    def _refuse_missing(self, files: Collection[Seal]) -> None:
        """Raise ExecutionError if a run on another machine, which no lock told us of, came by."""
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
        """Bring the names of the dataset, and of each folder made for it, to disk."""
        dataset_folder = self.target.parent
        sync(dataset_folder)
        # The run that made the folders above may have been cut off before it came to this.
        for folder in {dataset_folder.parent: None} | {made.parent: None for made in self._made}:
            with suppress(PermissionError):  # not ours to read, and then not ours to sync
                sync(folder)


def _remove_parts(folder: Path) -> None:
    """Remove what attempts to write files left that were cut off, or that came second."""
    for part in folder.glob(f"*{PART}"):
        part.unlink(missing_ok=True)


def note_origin(target: Path, origin: bytes) -> None:
    """Note where a dataset came from; b"" for a place that nobody can find again."""
    path = origin_path(target)
    with suppress(OSError, ExecutionError):  # without that note, the next run has more to read
        if origin:
            write_file(str(path), origin)
        else:
            remove_all(path)


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
