"""Where a dataset grows until it is visible: on a disk, or on an object store."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from imgrec.errors import ImgrecError
from imgrec.storage import staging as local
from imgrec.storage.files import Seal, telling
from imgrec.storage.leftovers import origin_path
from imgrec.storage.paths import is_remote


class Stage(Protocol):
    """What `Staging` is on a disk, and `StoreStaging` on a store; each says what it promises."""

    target: Path
    """Where the dataset will be."""
    path: Path
    """The local folder in which files are written."""
    spool: Path
    is_sure: bool
    """Whether files that are said to be intact need no other look."""

    def __enter__(self) -> Stage: ...

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def notes(self) -> dict[str, bytes]:
        """Return all that was noted by a run before."""
        ...

    def note(self, name: str, data: bytes) -> None:
        """Note something for a run that continues this one."""
        ...

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything that a run before left but these."""
        ...

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Take files that are finished, and note so when they are safe."""
        ...

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name the files that are still what their seals say; or may be, unless this `is_sure`."""
        ...

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Make the dataset visible, if these are its files, replacing what stood there.

        `origin` is noted beside it, outside of the dataset.
        """
        ...


def open_staging(target: Path) -> Stage:
    """Return where a dataset grows that is to be at `target`."""
    if is_remote(target):
        from imgrec.storage.remote.staging import StoreStaging

        return StoreStaging(target)
    return local.Staging(target)


def is_taken(target: Path) -> bool:
    """Tell whether something stands where a dataset is to be."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        return staging.is_taken(target)
    with telling(target):
        return os.path.lexists(target)  # a link to a disk that is not mounted is not ours, either


def read_origin(target: Path) -> bytes:
    """Return the private note about the origin of a dataset; b"" if there is none."""
    with suppress(OSError, ImgrecError):
        return origin_path(target).read_bytes()
    return b""


def note_origin(target: Path, origin: bytes) -> None:
    """Note where a dataset came from; b"" for a place that nobody can find again."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        staging.note_origin(target, origin)
        return
    local.note_origin(target, origin)
