"""The header of an IDX file, such as those of MNIST.

00 00 · type of the values u8 (08: unsigned bytes) · number of dimensions u8 · size of each
dimension u32 · the values, the last dimension varying fastest. All numbers are big-endian.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from imgrec.errors import SourceError

IMAGES, LABELS = 3, 1
"""Dimensions of images (number, height, width) and of labels (number)."""
HEAD_BYTES = 16
"""How much of a file shows its header, of images or of labels."""
GZIP_MAGIC = b"\x1f\x8b"

_UBYTE = 0x08
_MAGIC_BYTES = 4
_WHAT = {IMAGES: "images", LABELS: "labels"}


class Header(NamedTuple):
    """The sizes of an IDX file of unsigned bytes."""

    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Count the bytes of the header itself."""
        return _MAGIC_BYTES + 4 * len(self.sizes)

    @property
    def data_size(self) -> int:
        """Count the bytes after it."""
        return math.prod(self.sizes)


def encode_header(*sizes: int) -> bytes:
    """Return the header of a file of unsigned bytes.

    >>> encode_header(60000, 28, 28).hex(" ", 4)
    '00000803 0000ea60 0000001c 0000001c'
    """
    return struct.pack(f">HBB{len(sizes)}I", 0, _UBYTE, len(sizes), *sizes)


def parse_header(head: bytes, dimensions: int) -> Header:
    """Read the header of images or labels; raise SourceError, without the file's name.

    >>> parse_header(bytes.fromhex("00000801 0000ea60"), LABELS).sizes
    (60000,)
    """
    magic, wanted = head[:_MAGIC_BYTES], _MAGICS[dimensions]
    if magic != wanted:
        like = next((f", like {_WHAT[n]}" for n in _MAGICS if magic == _MAGICS[n]), "")
        raise SourceError(
            f"begins with {magic.hex(' ') or 'nothing'}{like}, "
            f"but {_WHAT[dimensions]} begin with {wanted.hex(' ')}"
        )
    size = _MAGIC_BYTES + 4 * dimensions
    if len(head) < size:
        raise SourceError(f"expected a header of {size} bytes, found {len(head)}")
    return Header(struct.unpack_from(f">{dimensions}I", head, _MAGIC_BYTES))


_MAGICS = {n: encode_header(*[0] * n)[:_MAGIC_BYTES] for n in _WHAT}
