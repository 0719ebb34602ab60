r"""The orientation in the EXIF data of a picture.

JPEG     FF E1 len16 BE "Exif\0\0" TIFF
PNG      len32 BE "eXIf" TIFF crc32
TIFF     "II*\0" little or "MM\0*" big endian, offset32 of the directory
         count16, then entries of 12 bytes: tag16 type16 count32 value32
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

UPRIGHT = 1
TURNED = 5
"""From this orientation on, height and width are swapped."""
UPSIDE_DOWN, MIRRORED = frozenset({3, 4, 7, 8}), frozenset({2, 3, 6, 7})
"""After that swap: orientations that need the rows, or the columns, in reverse order."""

_ORIENTATION = 0x0112
_SHORT = 3  # TIFF's number for a 16-bit value, which stands first in the value's 32 bits
_JPEG = b"\xff\xd8"
_PNG = b"\x89PNG\r\n\x1a\n"
_APP1, _SCAN, _END = 0xE1, 0xDA, 0xD9
_MOST_SEGMENTS = 100_000
"""Far more than any program writes."""
MARK = b"Exif\0\0"
"""The beginning of EXIF data."""
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""The transposition of Pillow that makes a picture of each orientation upright."""


def orientation(data: bytes) -> int:
    """Return the orientation of a JPEG or PNG, 1 to 8; 1 if there is none that is valid."""
    try:
        return _in_tiff(_tiff(data))
    except (IndexError, struct.error):  # truncated, or offsets beyond the end
        return UPRIGHT


def _tiff(data: bytes) -> bytes:
    if data.startswith(_JPEG):
        return _tiff_of_jpeg(data)
    return _tiff_of_png(data) if data.startswith(_PNG) else b""


def _tiff_of_jpeg(data: bytes) -> bytes:
    position = 2
    for _ in range(_MOST_SEGMENTS):
        if data[position] != 0xFF or data[position + 1] in (_SCAN, _END):
            break
        end = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if data[position + 1] == _APP1 and data.startswith(MARK, position + 4):
            return data[position + 4 + len(MARK) : end]
        position = end
    return b""


def _tiff_of_png(data: bytes) -> bytes:
    position = len(_PNG)
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"eXIf":
            return data[position + 8 : position + 8 + length]
        position += 12 + length
    return b""


def _in_tiff(tiff: bytes) -> int:
    if tiff[:4] not in (b"II*\0", b"MM\0*"):
        return UPRIGHT
    order = "<" if tiff.startswith(b"II") else ">"
    (directory,) = struct.unpack_from(order + "I", tiff, 4)
    (count,) = struct.unpack_from(order + "H", tiff, directory)
    for entry in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, entry)
        if tag == _ORIENTATION:
            return value if kind == _SHORT and 1 <= value <= 8 else UPRIGHT
    return UPRIGHT


def orientation_in(block: object) -> int:
    """Return the orientation in a block of EXIF data, as Pillow keeps it; 1 if there is none."""
    if not isinstance(block, bytes):
        return UPRIGHT
    try:
        return _in_tiff(block.removeprefix(MARK))
    except struct.error:  # truncated, or offsets beyond the end
        return UPRIGHT


def upright(picture: Image, orientation: int) -> Image:
    """Turn a picture of that orientation upright."""
    from PIL import Image

    method = _UPRIGHT.get(orientation)
    return picture.transpose(Image.Transpose[method]) if method else picture
