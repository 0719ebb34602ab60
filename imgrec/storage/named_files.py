"""Files and folders that the user names: small texts to read, the output of -o, and new trees.

A tree is a folder of files that appears under its name at once, when it is complete. It grows in a
hidden folder beside its target. That folder contains no links, so nothing can be written elsewhere.
An unfinished tree is removed, at the latest by the next run.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
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
    write_file,
)
from imgrec.text import path_of, size, visible

_MOST_BYTES = 16 << 20
_OWN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that a shell opens for us, as for `<(sort names.txt)`."""
_STAGE, _REPLACED = ".imgrec-unpack", ".imgrec-replaced"
"""Suffixes of the hidden folder, and of the tree that it replaces, until that is removed.

They must be unique, since those folders are emptied.
"""
_NAME_BYTES, _PATH_BYTES = 255, 4096
"""The limits of Linux, if the file system does not report its own."""


def read_small_text(path: str, called: str, hint: str) -> str:
    """Return the text of a file; raise UsageError if it cannot be read.

    `called` is the option and its value. Devices, which may never end, and named pipes, which may
    have no writer, are refused. The shell's own pipes have a writer.
    """
    try:
        # Opening a named pipe without O_NONBLOCK waits until someone writes to it.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.expanduser(path), flags)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            is_own_pipe = stat.S_ISFIFO(mode) and path.startswith(_OWN_PIPES)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_own_pipe):
                raise UsageError(f"{called} is not a regular file", hint=hint, path=path)
            os.set_blocking(descriptor, True)
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {called}: {error.strerror}", hint=hint, path=path) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{called} is larger than {size(_MOST_BYTES)}", hint=hint, path=path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{called} is not UTF-8 text", hint="save it as UTF-8", path=path
        ) from error


def write_new(path: str, data: bytes) -> None:
    """Write a new file; raise UsageError if it exists."""
    refuse_existing(path, "choose another name")
    write_out(path, data)


def refuse_existing(path: str, hint: str) -> None:
    """Raise UsageError if a file would be replaced."""
    if os.path.lexists(path) and not is_stream(path):
        raise UsageError(f"{path} exists already", hint=hint, path=path)


def refuse_no_file(path: str, example: str) -> None:
    """Raise UsageError before the work begins if -o cannot be written."""
    folder = os.path.dirname(os.path.realpath(path)) if path else ""
    hint = f"give a file with -o, such as {example}"
    if path == "-":
        raise UsageError("-o - is not a file", hint=hint)
    if not path or is_stream(path):
        return
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder", hint=hint)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is neither a file nor a stream", hint=hint)
    if not os.path.isdir(folder):
        shown = folder if os.path.islink(path) else os.path.dirname(path)
        why = "is not a folder" if os.path.lexists(folder) else "does not exist"
        hint = "make that folder first, or give another path with -o"
        raise UsageError(f"cannot write {path}: {shown} {why}", hint=hint)


def write_out(path: str, data: bytes) -> None:
    """Write the file of -o; error messages name that option.

    An existing file is replaced once the new one is complete. The target of a link is written and
    the link stays. A stream (see `is_stream`) is written to.
    """
    with os_errors_as(path, "-o"):
        if is_stream(path):
            _write_into(path, data)
            return
        with suppress(FileNotFoundError):
            if os.path.islink(path):  # the system may forbid to follow it, such as in /tmp
                os.close(os.open(path, os.O_WRONLY))
    write_file(os.path.realpath(path), data, option="-o")


def is_stream(path: str) -> bool:
    """Return whether a path is a pipe, a terminal, a device such as /dev/null, or our own output.

    Replacing it by a file would break it for everyone who uses it.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    is_device = stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return is_device or _own_output(status) is not None


def _own_output(status: os.stat_result) -> int | None:
    """Return the descriptor of our standard output or error if this is that file."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), status):
                return descriptor
    return None


def _write_into(path: str, data: bytes) -> None:
    own = _own_output(os.stat(path))  # reopening it would overwrite its beginning
    descriptor = os.dup(own) if own else os.open(path, os.O_WRONLY | os.O_NOCTTY)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


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
    """The hidden folder in which a tree grows; locked while this object is open.

    It may replace an earlier tree if `is_replaceable` is true for the path of each of its files.
    """

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

    def publish(self) -> None:
        """Sync the tree, and rename it to its final name."""
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
