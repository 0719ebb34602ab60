"""Where the bytes of a sample are: a small value that a worker reads as late as possible."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Slice: TypeAlias = tuple[str, int]
"""Path and offset of uncompressed bytes in a larger file: in a tar, or in a spool.

A plain tuple: there may be a million of them, and pickling named tuples was measured to take three
times as long.
"""


class ZipMember(NamedTuple):
    """A member of a zip file, stored or deflated."""

    path: str
    header_offset: int
    """The offset of its local header."""
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
"""A path is a whole file. The size of a blob is kept beside it."""
