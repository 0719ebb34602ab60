"""A disk that fails: the n-th call of a kind that `imgrec.storage` makes raises, or falls short."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

import pytest

import imgrec

PACKAGE = str(Path(imgrec.__file__).parent)
STORAGE = os.path.join(PACKAGE, "storage", "")
BLOBS = os.path.join(STORAGE, "blobs.py")
"""What reads sources, and writes nothing."""
WARMING = os.path.join(STORAGE, "read_ahead.py")
"""What has files brought into the cache."""


class Kind(NamedTuple):
    """A function of the operating system, and what it may fail with."""

    module: ModuleType
    name: str
    errors: tuple[int, ...]


WRITING = (
    Kind(os, "open", (errno.EACCES, errno.ENOSPC, errno.EIO, errno.EMFILE)),
    Kind(io, "open", (errno.EACCES, errno.ENOSPC, errno.EIO)),
    Kind(os, "write", (errno.ENOSPC, errno.EIO)),
    Kind(os, "fsync", (errno.EIO, errno.ENOSPC)),
    Kind(os, "posix_fallocate", (errno.ENOSPC, errno.EIO)),
    Kind(os, "ftruncate", (errno.EIO,)),
    Kind(os, "replace", (errno.EACCES, errno.ENOSPC, errno.EIO)),
    Kind(os, "rename", (errno.EACCES, errno.ENOSPC, errno.EIO)),
    Kind(os, "unlink", (errno.EACCES, errno.EIO)),
    Kind(os, "mkdir", (errno.EACCES, errno.ENOSPC, errno.EIO)),
    Kind(os, "rmdir", (errno.EACCES, errno.EIO)),
    Kind(os, "stat", (errno.EACCES, errno.EIO)),
    Kind(os, "lstat", (errno.EACCES, errno.EIO)),
    Kind(os, "scandir", (errno.EACCES, errno.EIO)),
    Kind(os, "listdir", (errno.EACCES, errno.EIO)),
    Kind(fcntl, "flock", (errno.EIO, errno.ENOLCK)),
)
UNPACKING = tuple(kind for kind in WRITING if kind.name in {
    "write", "rename", "unlink", "mkdir", "stat", "lstat", "listdir", "flock",
} or (kind.module, kind.name) == (os, "open"))  # fmt: skip
CLEANING = tuple(kind for kind in WRITING if kind.name in {
    "unlink", "mkdir", "rmdir", "stat", "lstat", "scandir", "flock",
} or (kind.module, kind.name) == (os, "open"))  # fmt: skip
_OPEN = Kind(os, "open", (errno.EIO, errno.EMFILE))
_READ, _PREAD, _FSTAT = (Kind(os, name, (errno.EIO,)) for name in ("read", "pread", "fstat"))
READING = {"source": (_OPEN, _READ, _FSTAT), "archive": (_OPEN, _PREAD)}
"""By what is read, files or the parts of one: what fails for reasons that are not a file's own."""
DENYING = Kind(os, "open", (errno.EACCES, errno.ENOENT))
"""What fails for a file's own reasons."""
SHORT = (Kind(os, "write", ()),)


class Disk:
    """Counts the calls of one kind, and lets one of them fail."""

    def __init__(self, kind: Kind, failing: int = 0) -> None:
        self._function: Callable[..., object] = getattr(kind.module, kind.name)
        self._failing = failing
        self._error = kind.errors[failing % len(kind.errors)] if failing else 0
        self._is_read = kind == DENYING or any(kind in kinds for kinds in READING.values())
        self._guard = threading.Lock()
        self.calls = 0

    @property
    def has_failed(self) -> bool:
        return 0 < self._failing <= self.calls

    def __call__(self, *arguments: object, **options: object) -> object:
        if _is_of_storage(sys._getframe(1), is_read=self._is_read):
            with self._guard:
                self.calls += 1
                is_due = self.calls == self._failing
            if is_due:
                raise OSError(self._error, os.strerror(self._error))
        return self._function(*arguments, **options)


class ShortDisk(Disk):
    """Takes no more than a byte of each call."""

    def __call__(self, *arguments: object, **options: object) -> object:
        descriptor, data = arguments
        if _is_of_storage(sys._getframe(1), is_read=False):
            self.calls += 1
            return self._function(descriptor, data[:1])  # type: ignore[index]
        return self._function(*arguments, **options)


def _is_of_storage(frame: FrameType | None, *, is_read: bool) -> bool:
    """Return whether the innermost of our functions is one that writes output, or reads sources."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return name.startswith(STORAGE) and (name == BLOBS) == is_read
        frame = frame.f_back
    return False


@contextmanager
def failing(kind: Kind, call: int) -> Iterator[Disk]:
    """Let the `call`-th call of a kind fail, with one of its errors after the other."""
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(kind, call)
        patch.setattr(kind.module, kind.name, disk)
        yield disk


@contextmanager
def short_writes(kind: Kind) -> Iterator[Disk]:
    """Let every call of a kind write a single byte."""
    with pytest.MonkeyPatch.context() as patch:
        disk = ShortDisk(kind)
        patch.setattr(kind.module, kind.name, disk)
        yield disk


FOLDER_CALLS = ("scandir", "listdir")


@contextmanager
def broken(path: Path | str, error: int, call: str = "open", after: int = 0) -> Iterator[list[str]]:
    """Let calls of a kind fail for one file or folder, but for the first `after` of them.

    Calls that only warm the cache neither fail nor count. Yields a list with the name of each
    call that failed.
    """
    failed: list[str] = []
    seen: list[str] = []
    there: set[int] = set()
    opened = os.open

    def fails() -> None:
        seen.append(call)
        if len(seen) > after:
            failed.append(call)
            raise OSError(error, os.strerror(error))

    def open_file(name: object, *arguments: object, **options: object) -> int:
        is_it = isinstance(name, str | Path) and os.fspath(name) == os.fspath(path)
        is_it = is_it and sys._getframe(1).f_code.co_filename != WARMING
        if is_it and call == "open":
            fails()
        descriptor = opened(name, *arguments, **options)  # type: ignore[arg-type]
        (there.add if is_it else there.discard)(descriptor)
        return descriptor

    def read_file(descriptor: int, *arguments: int) -> bytes:
        if descriptor in there:
            fails()
        return function(descriptor, *arguments)  # type: ignore[no-any-return]

    def list_folder(name: str | Path | int = ".") -> object:
        if not isinstance(name, int) and os.path.abspath(name) == os.path.abspath(path):
            fails()
        return function(name)

    function: Callable[..., object] = getattr(os, call)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_file)
        if call != "open":
            patch.setattr(os, call, list_folder if call in FOLDER_CALLS else read_file)
        yield failed
