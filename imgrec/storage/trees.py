"""New folders of files: unpacked images and exports, on a disk or on an object store.

On a disk, a tree appears under its name at once, when it is complete. It grows in a hidden folder
beside its target. That folder contains no links, so nothing can be written elsewhere. An unfinished
tree is removed, at the latest by the next run. `remote.trees` describes trees on an object store.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.files import (
    NO_LINKS,
    holds,
    make_folders,
    make_locked,
    os_errors_as,
    remove_all,
    walk,
    write_all,
)
from imgrec.storage.paths import FileSystem, is_remote, refuse_miscount
from imgrec.text import path_of, visible

if TYPE_CHECKING:
    from imgrec.storage.remote.trees import StoreTree

_STAGE, _REPLACED = ".imgrec-unpack", ".imgrec-replaced"
"""Suffixes of the hidden folder, and of the tree that it replaces, until that is removed.

They must be unique, since those folders are emptied.
"""
_NAME_BYTES, _PATH_BYTES = 255, 4096
"""The limits of Linux, if the file system does not report its own."""

WriteFile: TypeAlias = Callable[[str, bytes], None]
"""Writes a new file of a tree, given its name and its bytes. The name must have been checked."""


def open_tree(
    target: str, *, is_replaceable: Callable[[str], bool] | None = None, hint: str = ""
) -> Tree:
    """Return the tree that will be at `target`, a path or a URL.

    It may replace an earlier tree if `is_replaceable` is true for the path of each of its files.
    """
    if is_remote(target):
        from imgrec.storage.remote.trees import StoreTree

        return StoreTree(target, is_replaceable=is_replaceable, hint=hint)
    return NewTree(target, is_replaceable=is_replaceable, hint=hint)


@contextmanager
def tree_writer(root: str) -> Iterator[WriteFile]:
    """Yield a function that writes files of the tree that grows at `root`.

    All of them are there when the block ends. Raises ExecutionError if one cannot be written.
    """
    if is_remote(root):
        from imgrec.storage.remote.trees import sending

        with sending(root) as write:
            yield write
    else:
        yield partial(_write_file, root, set())


@contextmanager
def tree_folder(root: str) -> Iterator[str]:
    """Yield a folder on this machine to write files of the tree that grows at `root`.

    For a tree on a store, they are sent when the block ends.
    """
    if is_remote(root):
        from imgrec.storage.remote.trees import sent_folder

        with sent_folder(root) as folder:
            yield folder
    else:
        yield root


class NewTree:
    """The hidden folder in which a tree grows; locked while this object is open."""

    def __init__(
        self, target: str, *, is_replaceable: Callable[[str], bool] | None = None, hint: str = ""
    ) -> None:
        self.target = Path(os.path.realpath(target))
        self.path = self.target.parent / f".{self.target.name}{_STAGE}"
        self._replaced = self.target.parent / f".{self.target.name}{_REPLACED}"
        self._is_replaceable = is_replaceable
        self._hint = hint or "nothing is overwritten"
        self._shown = target or "."
        self._made: list[Path] = []
        self._lock = -1

    def __enter__(self) -> NewTree:
        with os_errors_as(self._shown, ""):
            self._refuse_taken()  # before anything is made
            self._made = [folder for folder in self.path.parents if not folder.exists()]
            try:
                self._lock = make_locked(self.path)
            except BlockingIOError as error:
                raise ExecutionError(
                    f"another run is writing to {self._shown} right now",
                    hint="wait for it, or give another folder",
                    path=self._shown,
                ) from error
            try:
                self._restore()
                self._refuse_taken()
                for leftover in self.path.iterdir():
                    remove_all(leftover)
            except BaseException:
                self.__exit__()
                raise
        return self

    def _restore(self) -> None:
        """Remove the tree that was replaced; bring it back if a run died before replacing it."""
        if os.path.lexists(self._replaced):
            if os.path.lexists(self.target):
                remove_all(self._replaced)
            else:
                self._replaced.rename(self.target)

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
            if self._is_replaceable:
                self._refuse_strangers(self._is_replaceable)
                return
        elif not os.path.lexists(self._shown) and not self.target.exists():
            return
        raise UsageError(
            f"{self._shown} exists already",
            hint=f"give a folder that is empty or does not exist yet: {self._hint}",
        )

    def _refuse_strangers(self, is_replaceable: Callable[[str], bool]) -> None:
        """Raise UsageError if replacing the tree would remove other files."""
        for path in self.target.rglob("*"):
            name = path.relative_to(self.target).as_posix()
            if not is_replaceable(name) and (path.is_symlink() or not path.is_dir()):
                raise UsageError(
                    f"{self._shown} cannot be replaced: it also contains {visible(name)}",
                    hint="give another folder, or move that file away",
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

    def publish(self, count: int) -> None:
        """Sync the tree, which must have so many files, and rename it to its final name."""
        refuse_miscount(self._shown, count, sum(len(names) for _, _, names in walk(str(self.path))))
        with os_errors_as(self._shown, ""):
            os.sync()  # once for all files: syncing each would take minutes
            if self.target.is_dir():  # keep its permissions
                self.path.chmod(stat.S_IMODE(self.target.stat().st_mode))
            if self._is_replaceable and self.target.is_dir():
                self.target.rename(self._replaced)
            try:
                self.path.rename(self.target)
            except BaseException:  # also Ctrl-C between the two renames
                self._restore()
                raise
            os.sync()
            remove_all(self._replaced)


Tree: TypeAlias = "NewTree | StoreTree"
"""A tree that grows, on a disk or on an object store. Both have the same methods."""


def _write_file(root: str, made: set[str], name: str, data: bytes) -> None:
    """Write a new file below `root`; `made` lists the folders that exist."""
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
