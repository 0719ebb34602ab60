"""A folder of files that appears under its name at once, when all of it is written.

It grows in a hidden folder beside its target, which no one else knows of and in which there are
no links: nothing that is written there can end up elsewhere. What was not finished is removed,
at the latest by the next run.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.deep import make_folders
from imgrec.storage.files import remove_all
from imgrec.storage.lock import NO_LINKS, holds, make_locked
from imgrec.text import path_of

_STAGE = ".imgrec-unpack"
"""How the hidden folder is called that a tree grows in: as nothing else is, for it is emptied."""
_COMPOSED, _DECOMPOSED = "\u00e9", "e\u0301"
_NOT_UTF8 = os.fsdecode(b"\xe9")
_NAME_BYTES, _PATH_BYTES = 255, 4096
"""What Linux allows, where the file system does not say."""


class FileSystem(NamedTuple):
    """What a file system does to names."""

    folds_case: bool
    composes: bool
    """Whether it takes the two ways to write an accent for one."""
    strips_dots: bool
    """Whether it drops a dot at the end."""
    has_devices: bool
    """Whether names such as AUX are not names of files."""
    takes_bytes: bool
    """Whether a name need not be UTF-8."""
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
        try:
            self._refuse_taken()
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            self._lock = make_locked(self.path)
        except BlockingIOError as error:
            raise ExecutionError(
                f"another run is unpacking to {self._shown} right now",
                hint="wait for it, or give another folder",
                path=self._shown,
            ) from error
        except OSError as error:
            raise _write_error(self._shown, error) from error
        try:
            for leftover in self.path.iterdir():
                remove_all(leftover)
        except OSError as error:
            os.close(self._lock)
            raise _write_error(self._shown, error) from error
        return self

    def __exit__(self, *_exception: object) -> None:
        try:
            with suppress(OSError):  # what cannot be removed now, the next run removes
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
                    f"{self._shown} is the folder that this runs in, and would be replaced",
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
        """Find out what the file system does to names, with a few empty files."""
        try:
            return FileSystem(
                folds_case=self._merges("a", "A"),
                composes=self._merges(_COMPOSED, _DECOMPOSED),
                strips_dots=not self._keeps("a."),
                has_devices=not self._keeps("AUX"),
                takes_bytes=self._keeps(_NOT_UTF8),
                most_name_bytes=_limit(self.path, "PC_NAME_MAX", _NAME_BYTES),
                most_path_bytes=_limit(self.path, "PC_PATH_MAX", _PATH_BYTES)
                - len(os.fsencode(self.path))
                - 2,
            )
        except OSError as error:
            raise _write_error(self._shown, error) from error

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
        """Give the tree its name, at once, when all of it is on disk."""
        try:
            os.sync()  # once for all files: an fsync of each would take minutes
            if self.target.is_dir():  # an empty one, which may be for few to look into
                self.path.chmod(stat.S_IMODE(self.target.stat().st_mode))
            self.path.rename(self.target)
            os.sync()
        except OSError as error:
            raise _write_error(self._shown, error) from error


def write_new(root: str, name: str, data: bytes, made: set[str]) -> None:
    """Write a file that does not exist yet below `root`; `made` are the folders that do.

    `name` must be one that was looked at. Raises ExecutionError if the disk does not take it.
    """
    path = f"{root}/{path_of(name)}"
    folder = path.rpartition("/")[0]
    try:
        if folder not in made:
            make_folders(folder)
            made.add(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _write_error(path, error) from error


def _limit(path: Path, name: str, usual: int) -> int:
    try:
        found = os.pathconf(path, name)
    except (OSError, ValueError):
        return usual
    return found if found > 0 else usual


def _write_error(path: str, error: OSError) -> ExecutionError:
    hint = "choose another folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or choose a folder on another disk"
    elif error.errno == errno.EBUSY:  # nothing can take the place of where a disk is mounted
        hint = "it is a mount point: give a folder in it"
    return ExecutionError(f"cannot write {path}: {error.strerror or error}", hint=hint, path=path)
