"""Read files of a dataset that nobody vouches for: they may be missing, huge, or pipes."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO, Self

from imgrec.errors import DatasetError, ExecutionError, ImgrecError
from imgrec.faults import Code, Fault
from imgrec.storage.paths import is_remote
from imgrec.storage.urls import is_url

MOST_DOCUMENT_BYTES = 1 << 28
"""Documents are kept in memory. A million skipped files make a report of some 100 MB."""
_PIECE_BYTES = 1 << 18
_NOT_A_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP})
"""Errors of a path at which there is no file. Others are the disk's fault, not the dataset's."""


class RegularFile:
    """A regular file, on a disk or a store, read from front to back.

    Opening raises OSError for anything else: reading a pipe would never end.
    """

    def __init__(self, path: str) -> None:
        self._file: BinaryIO
        if is_url(path):
            from imgrec.storage.remote.read import open_stream

            self._file, self.size = open_stream(path)
            return
        descriptor = open_at_once(path, os.O_RDONLY)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", path)
        self._file = os.fdopen(descriptor, "rb", buffering=_PIECE_BYTES)
        self.size = status.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only at the end of the file."""
        return self._file.read(size)

    def tell(self) -> int:
        """Return how much has been read."""
        return self._file.tell()


def open_at_once(path: str, flags: int) -> int:
    """Open a file as `os.open` does, without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))


class HashedFile(RegularFile):
    """A regular file that computes the SHA-256 of what is read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only at the end of the file."""
        data = self._file.read(size)
        self._sha256.update(data)
        return data

    def finish(self) -> str:
        """Read the rest, and return the hash of the whole file."""
        while self.read(_PIECE_BYTES):
            pass
        return self._sha256.hexdigest()


def read_document(path: Path, limit: int = MOST_DOCUMENT_BYTES) -> bytes:
    """Read a small file; raise OSError if it is not a regular file, or larger than `limit`."""
    if is_remote(path):
        size = path.stat().st_size
        data = path.read_bytes() if size <= limit else b""
    else:
        with RegularFile(str(path)) as file:
            size = file.size
            data = file.read(size) if size <= limit else b""
    if size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return data


def present_files(folder: Path) -> frozenset[str]:
    """Return the names of all that is in a folder."""
    if is_remote(folder):
        return frozenset(child.name for child in folder.iterdir())
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def os_fault(error: OSError, name: str) -> Fault:
    """Return the fault of a file that the operating system does not give."""
    if isinstance(error, FileNotFoundError):
        return Fault(Code.MISSING, name)
    if error.errno == errno.EFBIG:
        return Fault(Code.TOO_LARGE, name, facts={"limit": MOST_DOCUMENT_BYTES})
    reason = error.strerror or str(error)
    return Fault(Code.CANNOT_READ, name, facts={"reason": reason, "errno": error.errno})


def refusal(folder: Path, fault: Fault, hint: str = "") -> ImgrecError:
    """Return the error for a document that cannot be used."""
    path = folder / fault.path
    number = fault.facts.get("errno")
    if fault.code is Code.CANNOT_READ and number is not None and number not in _NOT_A_FILE:
        return ExecutionError(
            f"cannot read {path}: {fault.facts['reason']}",
            hint="make sure that it can be read, and run this again",
            path=str(path),
        )
    if fault.code in (Code.TOO_LARGE, Code.TOO_MANY_CLASSES):
        hint = "only a damaged or hostile dataset has this: get it again from a source you trust"
    return DatasetError(
        f"{path}: {fault.what}", hint=hint or "pack it again with --overwrite", path=str(path)
    )
