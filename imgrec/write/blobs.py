"""Reading the bytes that a sample refers to."""

from __future__ import annotations

import os

from imgrec.errors import BadImage
from imgrec.model import Blob

_READ_BYTES = 1 << 30


def read_blob(blob: Blob, size: int) -> bytes:
    """Read a blob that was `size` bytes long when it was catalogued.

    Raises BadImage if it cannot be read or is no longer that long.
    """
    try:
        # O_NONBLOCK: a file that has become a pipe since must not hold us up.
        descriptor = os.open(blob, os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = _read(descriptor, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadImage(f"unreadable: {error.strerror}") from error
    if len(data) != size:
        raise BadImage("changed while it was being packed")
    return data


def _read(descriptor: int, size: int) -> bytes:
    """Read `size` bytes and one more if there is one, in a single call for most files."""
    data = os.read(descriptor, min(size + 1, _READ_BYTES))
    if len(data) >= size:
        return data
    pieces, missing = [data], size + 1 - len(data)
    while missing > 0 and (piece := os.read(descriptor, min(missing, _READ_BYTES))):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
