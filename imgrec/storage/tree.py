"""A folder of files that appears under its name at once, when it is complete.

It grows in a hidden folder beside its target. That folder contains no links, so nothing can be
written elsewhere. An unfinished tree is removed, at the latest by the next run.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.files import (
    NO_LINKS,
    holds,
    make_folders,
    make_locked,
    os_errors_as,
    remove_all,
    write_all,
)
from imgrec.text import path_of

_STAGE = ".imgrec-unpack"
"""The suffix of the hidden folder. It must be unique, since the folder is emptied."""
_NAME_BYTES, _PATH_BYTES = 255, 4096
"""The limits of Linux, if the file system does not report its own."""


class FileSystem(NamedTuple):
    """How a file system treats names."""

    folds_case: bool
    composes: bool
    """Whether it treats the two encodings of an accent as equal."""
    strips_dots: bool
    """Whether it drops a dot at the end of a name."""
    has_devices: bool
    """Whether names such as AUX are reserved for devices."""
    takes_bytes: bool
    """Whether it accepts names that are not UTF-8."""
    most_name_bytes: int
    most_path_bytes: int


class NewTree:
    """The hidden folder in which a tree grows; locked while this object is open."""

    def __init__(self, target: str) -> None:
        self.target = Path(os.path.realpath(target))
        self.path = self.target.parent / f".{self.target.name}{_STAGE}"
        self._shown = target or "."
        self._made: list[Path] = []
        self._lock = -1

    def __enter__(self) -> NewTree:
        with os_errors_as(self._shown, ""):
            self._refuse_taken()
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            try:
                self._lock = make_locked(self.path)
            except BlockingIOError as error:
                raise ExecutionError(
                    f"another run is unpacking to {self._shown} right now",
                    hint="wait for it, or give another folder",
                    path=self._shown,
                ) from error
            try:
                for leftover in self.path.iterdir():
                    remove_all(leftover)
            except OSError:
                os.close(self._lock)
                raise
        return self

    def __exit__(self, *_exception: object) -> None:
        try:
            with suppress(OSError):  # the next run removes the rest
                if holds(self._lock, self.path):
                    remove_all(self.path)
                    for folder in self._made:  # up to the first that is not empty
                        folder.rmdir()
        finally:
            os.close(self._lock)

    def _refuse_taken(self) -> None:
        if self.target.is_dir() and not self.target.is_symlink():
            if self.target == Path(os.path.realpath(".")):
                raise UsageError(
                    f"{self._shown} is the current folder and would be replaced",
                    hint="give a folder that does not exist yet",
                )
            if next(self.target.iterdir(), None) is None:
                return
        elif not os.path.lexists(self._shown) and not self.target.exists():
            return
        raise UsageError(
            f"{self._shown} exists already",
            hint="give a folder that is empty or does not exist yet: nothing is overwritten",
        )

    def probe(self) -> FileSystem:
        """Find out with a few empty files how the file system treats names."""
        path_bytes = _limit(self.path, "PC_PATH_MAX", _PATH_BYTES)
        with os_errors_as(self._shown, ""):
            return FileSystem(
                folds_case=self._merges("a", "A"),
                composes=self._merges("\u00e9", "e\u0301"),
                strips_dots=not self._keeps("a."),
                has_devices=not self._keeps("AUX"),
                takes_bytes=self._keeps(os.fsdecode(b"\xe9")),
                most_name_bytes=_limit(self.path, "PC_NAME_MAX", _NAME_BYTES),
                most_path_bytes=path_bytes - len(os.fsencode(self.path)) - 2,
            )

    def _merges(self, one: str, other: str) -> bool:
        made = self.path / path_of(one)
        made.touch()
        is_there = os.path.lexists(self.path / path_of(other))
        made.unlink()
        return is_there

    def _keeps(self, name: str) -> bool:
        try:
            (self.path / name).touch(exist_ok=False)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            return False
        is_kept = name in os.listdir(self.path)
        (self.path / name).unlink()
        return is_kept

    def publish(self) -> None:
        """Sync the tree, and rename it to its final name."""
        with os_errors_as(self._shown, ""):
            os.sync()  # once for all files: syncing each would take minutes
            if self.target.is_dir():  # an empty one: keep its permissions
                self.path.chmod(stat.S_IMODE(self.target.stat().st_mode))
            self.path.rename(self.target)
            os.sync()


def write_tree_file(root: str, name: str, data: bytes, made: set[str]) -> None:
    """Write a new file below `root`; `made` lists the folders that exist.

    `name` must have been checked. Raises ExecutionError if the disk refuses it.
    """
    path = f"{root}/{path_of(name)}"
    folder = path.rpartition("/")[0]
    with os_errors_as(path, ""):
        if folder not in made:
            make_folders(folder)
            made.add(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o666)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)


def _limit(path: Path, name: str, usual: int) -> int:
    try:
        found = os.pathconf(path, name)
    except (OSError, ValueError):
        return usual
    return found if found > 0 else usual
