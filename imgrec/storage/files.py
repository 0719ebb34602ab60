"""Writing one file of a dataset in the making."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128

from imgrec.errors import ExecutionError
from imgrec.storage.deep import remove_tree
from imgrec.storage.direct import NEW, DirectFile, open_direct, read_direct

_BUFFER_BYTES = 1 << 20
_GATHERED_BYTES = 1 << 14
"""The most that is copied so that one call writes it along with more."""
_LARGE_BYTES = 4 << 20
"""What is expected to become larger is written past the page cache."""
PART = ".part"
"""What the name of a file ends in until it is whole."""
_TOKEN_BYTES = 6


def part_of(path: str) -> str:
    """Return a name for a file until it is whole, which no other attempt to write it has.

    Engines may run a task twice at once, of which the slower one must not write into the file of
    the other; their bytes are the same, so whichever gets its name last does not matter.
    """
    return f"{path}.{os.urandom(_TOKEN_BYTES).hex()}{PART}"


class Seal(NamedTuple):
    """The evidence of one written file."""

    filename: str
    size: int
    sha256: str


class HashingFile:
    """A new file that counts and hashes what is written to it.

    Small parts are gathered in one buffer of fixed size, since a growing `bytearray` was measured
    to cost three times as much as the write itself; large ones are written from where they are.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._sha256 = hashlib.sha256()
        self._xxh3 = xxh3_128()
        self.position = 0

    def write(self, *parts: bytes) -> None:
        """Append `parts`, one after the other."""
        size = sum(map(len, parts))
        self.position += size
        if size > _GATHERED_BYTES:
            self._write_out([self._buffer[: self._filled], *parts])
            self._filled = 0
            return
        if self._filled + size > _BUFFER_BYTES:
            self.flush()
        for part in parts:
            end = self._filled + len(part)
            self._buffer[self._filled : end] = part
            self._filled = end

    def flush(self) -> None:
        """Hand what is gathered to the operating system."""
        self._write_out([self._buffer[: self._filled]])
        self._filled = 0

    def close(self) -> None:
        """Do nothing more: nothing is under way."""

    def sha256(self) -> str:
        """Return the hash of everything flushed so far."""
        return self._sha256.hexdigest()

    def xxh3(self) -> str:
        """Return another hash of the same, which is checked ten times as fast."""
        return self._xxh3.hexdigest()

    def _write_out(self, pieces: Sequence[bytes | memoryview]) -> None:
        for piece in pieces:
            self._sha256.update(piece)
            self._xxh3.update(piece)
        written = os.writev(self._descriptor, pieces)
        for piece in pieces:  # what a single call did not take: hardly ever anything
            rest, written = memoryview(piece)[written:], max(written - len(piece), 0)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


OutFile: TypeAlias = HashingFile | DirectFile


@contextmanager
def create(path: str, *, expected_bytes: int = 0) -> Iterator[OutFile]:
    """Write a file of a dataset in the making, which gets its name only when it is whole.

    `expected_bytes` are reserved at once: a full disk is known before the work is done, and
    writing was measured to cost a quarter. Raises ExecutionError if the disk does not take the
    file; nothing of it stays then, nor if writing it fails.
    """
    is_large = expected_bytes >= _LARGE_BYTES
    with handed_over(path) as part:
        descriptor = open_direct(part) if is_large else os.open(part, NEW, 0o666)
        try:
            _reserve(descriptor, expected_bytes)
            with closing((DirectFile if is_large else HashingFile)(descriptor)) as file:
                yield file
                file.flush()
            os.ftruncate(descriptor, file.position)
        finally:
            os.close(descriptor)


@contextmanager
def handed_over(path: str) -> Iterator[str]:
    """Yield where a file may be written, also by a library, which gets its name when it is whole.

    Raises ExecutionError if it cannot get it; nothing of it stays then, nor if writing it fails.
    """
    part = part_of(path)
    try:
        yield part
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise


def seal_of(path: str) -> Seal:
    """Return the seal of a file that others have written."""
    try:
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return Seal(os.path.basename(path), file.tell(), sha256)
    except OSError as error:
        raise write_error(path, error) from error


def is_intact(folder: str, seal: Seal) -> bool:
    """Tell whether a file is still what its seal says."""
    path = os.path.join(folder, seal.filename)
    try:
        return os.path.getsize(path) == seal.size and seal_of(path) == seal
    except (OSError, ExecutionError):
        return False


def has_xxh3(path: str, size: int, wanted: str) -> bool:
    """Tell whether a file is still what it was when that was its size, and `xxh3` its hash."""
    found, count = xxh3_128(), 0
    try:
        for piece in read_direct(path):
            found.update(piece)
            count += len(piece)
    except OSError:
        return False
    return count == size and found.hexdigest() == wanted


def _reserve(descriptor: int, count: int) -> None:
    if not count or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise  # others mean that the disk is full; these, that it cannot reserve


def write_file(path: str, data: bytes) -> Seal:
    """Write a whole file at once and return its seal."""
    with create(path) as file:
        file.write(data)
    return Seal(os.path.basename(path), file.position, file.sha256())


def remove(*paths: str) -> None:
    """Delete files that are not to be part of the dataset."""
    for path in paths:
        with telling(path), suppress(FileNotFoundError):
            os.unlink(path)


def remove_all(path: str | os.PathLike[str]) -> None:
    """Delete a file, a link, or a folder with all that is in it, if it is there."""
    with suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                shutil.rmtree(path)
            except RecursionError:
                remove_tree(os.fspath(path))
        else:
            os.unlink(path)


@contextmanager
def telling(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise ExecutionError if the operating system refuses something that `path` needs."""
    try:
        yield
    except OSError as error:
        raise write_error(os.fspath(path), error) from error


def write_error(path: str, error: OSError) -> ExecutionError:
    """Say why `path` could not be written, and what to do."""
    hints = {
        errno.ENOSPC: "free some space and run it again: a pack goes on from there; or choose "
        "another disk with --data-dir",
        errno.EDQUOT: "your quota is used up: choose another disk with --data-dir",
        errno.EACCES: "choose a folder you may write to with --data-dir",
        errno.EPERM: "choose a folder you may write to with --data-dir",
        errno.EROFS: "choose a folder you may write to with --data-dir",
        errno.ENOLCK: "its file system has no locks: choose another disk with --data-dir",
    }
    return ExecutionError(
        f"cannot write {path}: {error.strerror or error}",
        hint=hints.get(error.errno or 0, "check --data-dir"),
        path=path,
    )
