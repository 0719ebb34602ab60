"""Where the bytes of a sample are: a small value that a worker reads as late as it can."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Slice(NamedTuple):
    """Bytes that stand as they are in a larger file: a member of a tar, a part of a spool."""

    path: str
    offset: int


class ZipMember(NamedTuple):
    """A member of a zip file, stored or deflated."""

    path: str
    header_offset: int
    """Where its local header is."""
    packed_size: int
    method: int
    crc32: int


class Pixels(NamedTuple):
    """Uncompressed 8-bit pixels, which become a PNG when they are packed."""

    path: str
    offset: int
    height: int
    width: int
    channels: int
    is_planar: bool
    """All of one channel before the next, as in CIFAR, instead of pixel by pixel."""


Blob: TypeAlias = str | Slice | ZipMember | Pixels
"""A path is a whole file. How many bytes a blob has is told beside it."""
