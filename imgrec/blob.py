"""Where the bytes of a sample are: a small value that a worker reads as late as it can."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Slice: TypeAlias = tuple[str, int]
"""Path and offset of bytes that stand as they are in a larger file: in a tar, or in a spool.

A plain tuple: there may be one for each of a million small files, and named ones were measured to
take three times as long on their way to a worker.
"""


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
