"""Read the files of a dataset, which may be missing, huge or pipes, on a disk or a store."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Self

from imgrec import layout
from imgrec.errors import DatasetError, ExecutionError, ImgrecError
from imgrec.faults import Code, Fault, Faults
from imgrec.storage.paths import is_remote
from imgrec.storage.urls import is_url

MAX_DOCUMENT_BYTES = 1 << 28
"""Documents are kept in memory. The report of a million skipped files has about 100 MB."""
_CHUNK_BYTES = 1 << 18
_NOT_A_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP})
"""Errors for a path without a file. All others are the disk's fault, not the dataset's."""
_OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Opening a pipe must not wait for its writer. Not every system has all of these flags."""
# 64 hexadecimal digits · two blanks · the name of a file in the same folder · line feed
_CHECKSUM_LINE = re.compile(rb"([0-9a-f]{64})  ([^/\0\n]+)")


class RegularFile:
    """A regular file, on a disk or a store, read from front to back.

    Opening anything else raises OSError: reading a pipe would never end.
    """

    def __init__(self, path: str) -> None:
        self._file: BinaryIO
        if is_url(path):
            from imgrec.storage.remote.read import open_stream

            self._file, self.size = open_stream(path)
        else:
            descriptor, self.size = open_regular(path)
            self._file = os.fdopen(descriptor, "rb", buffering=_CHUNK_BYTES)

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
        while self.read(_CHUNK_BYTES):
            pass
        return self._sha256.hexdigest()


def open_regular(path: str) -> tuple[int, int]:
    """Open a local regular file; return its descriptor and its size, or raise OSError."""
    descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor, status.st_size


def read_document(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
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
    """Return the names of everything in a folder; nothing if it cannot be listed."""
    if is_remote(folder):
        return frozenset(child.name for child in folder.iterdir())
    try:
        return frozenset(os.listdir(folder))
    except (OSError, ValueError):  # ValueError: a path with a NUL
        return frozenset()


def read_checksums(folder: Path, faults: Faults) -> dict[str, str]:
    """Return the SHA-256 of each file in SHA256SUMS; nothing, with a fault, if it is missing."""
    try:
        data = read_document(folder / layout.CHECKSUMS)
    except OSError as error:
        faults.add(os_fault(error, layout.CHECKSUMS))
        return {}
    if not data.endswith(b"\n"):
        faults.say(Code.NO_LINE_END, layout.CHECKSUMS)
    checksums: dict[str, str] = {}
    offset = 0
    for line in data.split(b"\n")[:-1]:
        match = _CHECKSUM_LINE.fullmatch(line)
        name = os.fsdecode(match[2]) if match else ""
        if match is None or name in (".", ".."):
            faults.say(Code.BAD_CHECKSUM_LINE, layout.CHECKSUMS, offset)
        elif name in checksums:
            faults.say(Code.LISTED_TWICE, layout.CHECKSUMS, offset)
        else:
            checksums[name] = match[1].decode()
        offset += len(line) + 1
    return checksums


def os_fault(error: OSError, name: str) -> Fault:
    """Return the fault for a file that the operating system cannot read."""
    if isinstance(error, FileNotFoundError):
        return Fault(Code.MISSING, name)
    if error.errno == errno.EFBIG:
        return Fault(Code.TOO_LARGE, name, facts={"limit": MAX_DOCUMENT_BYTES})
    reason = error.strerror or str(error)
    return Fault(Code.CANNOT_READ, name, facts={"reason": reason, "errno": error.errno})


def fault_error(folder: Path, fault: Fault, hint: str = "") -> ImgrecError:
    """Return the error to raise for a fault of a document."""
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
