"""Where a dataset grows until it is visible: on a disk, or on an object store."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from imgrec.storage.files import Seal, telling
from imgrec.storage.leftovers import DATED
from imgrec.storage.paths import is_remote
from imgrec.storage.staging import Staging


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

    def publish(self, files: Collection[Seal]) -> None:
        """Make the dataset visible, if these are its files, replacing what stood there."""
        ...

    def renew(self) -> None:
        """Note that the dataset which is there is also what the source holds now."""
        ...


def open_staging(target: Path) -> Stage:
    """Return where a dataset grows that is to be at `target`."""
    if is_remote(target):
        from imgrec.storage.remote.staging import StoreStaging

        return StoreStaging(target)
    return Staging(target)


def is_taken(target: Path) -> bool:
    """Tell whether something stands where a dataset is to be."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        return staging.is_taken(target)
    with telling(target):
        return os.path.lexists(target)  # a link to a disk that is not mounted is not ours, either


def begun_ns(target: Path) -> int:
    """Return when the run began that made a dataset."""
    if is_remote(target):
        from imgrec.storage.remote import staging

        return staging.begun_ns(target)
    with telling(target):
        return (target / DATED).stat().st_mtime_ns
