"""Reading files of which nothing is trusted, not even that they are files."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import BinaryIO, Self

from imgrec.storage.urls import is_url

_PIECE_BYTES = 1 << 20
MISSING = "it is missing"


class RegularFile:
    """A regular file, read from front to back.

    Opening raises OSError for anything that is no regular file: a pipe would never end.
    """

    def __init__(self, path: str) -> None:
        self._file: BinaryIO
        if is_url(path):
            from imgrec.storage.remote.reading import open_stream

            self._file, self.size = open_stream(path)
            return
        # O_NONBLOCK: a pipe must not hold us up.
        flags = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(path, flags)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(0, "not a regular file", path)
        self._file = os.fdopen(descriptor, "rb", buffering=_PIECE_BYTES)
        self.size = status.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only where the file ends."""
        return self._file.read(size)

    def tell(self) -> int:
        """Return how much has been read."""
        return self._file.tell()


class HashedFile(RegularFile):
    """A regular file, and the SHA-256 of what was read of it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only where the file ends."""
        data = self._file.read(size)
        self._sha256.update(data)
        return data

    def finish(self) -> str:
        """Read what is left, and return the hash of all of it."""
        while self.read(_PIECE_BYTES):
            pass
        return self._sha256.hexdigest()


def read_whole(path: str, most: int) -> tuple[bytes | None, str]:
    """Return a file and its SHA-256; None for the file if it has more than `most` bytes."""
    with HashedFile(path) as file:
        data = file.read(most + 1)
        return data if len(data) <= most else None, file.finish()


def why(error: OSError) -> str:
    """Say why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return MISSING
    return f"it cannot be read: {error.strerror or error}"
