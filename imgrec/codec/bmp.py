"""BMP: its shape, and whether TensorFlow reads it correctly.

offset  2  uint32 LE  file size          18  int32 LE   width
offset 10  uint32 LE  where pixels start 22  int32 LE   height, negative for top-down
offset 14  uint32 LE  info header size   28  uint16 LE  bits per pixel
offset 30  uint32 LE  compression        46  uint32 LE  palette entries
offset 54             colour masks or, after the info header, the palette (B G R 0 each)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from imgrec.errors import BadImage

_HEADER = struct.Struct("<2sIIIIiiHHIIiiII")
_USED = 13  # the field with the number of palette entries; 0 stands for all
_OS2_HEADER = 12
_BI_RGB, _BI_BITFIELDS = 0, 3
_BGRX_MASKS = struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)
_CHANNELS = {8: 1, 24: 3, 32: 4}
_GREYS = bytes(level for level in range(256) for _ in range(3))


class BmpHeader(NamedTuple):
    """The header of a BMP."""

    shape: tuple[int, int, int]
    """As TensorFlow decodes it, if it `is_plain`."""
    is_plain: bool
    """TensorFlow decodes it to the right colours."""
    row_bytes: int
    pixels: int
    """Where the pixels start."""
    is_top_down: bool = False


def read_header(data: bytes) -> BmpHeader:
    """Read the header of a BMP; raise BadImage if it is truncated."""
    if int.from_bytes(data[14:18], "little") == _OS2_HEADER:
        width, height = struct.unpack_from("<HH", data.ljust(22, b"\0"), 18)
        return BmpHeader((height, width, 3), False, 0, 0)
    try:
        fields = _HEADER.unpack_from(data)
    except struct.error as error:
        raise BadImage("truncated BMP header") from error
    pixels, info_bytes, width, height, _, bits, compression = fields[3:10]
    used = fields[_USED]
    channels = _CHANNELS.get(bits, 3)
    is_plain = (
        bits in _CHANNELS
        and width > 0
        and height != 0
        and _are_colours_plain(data, bits, compression, 14 + info_bytes, used or 256)
    )
    return BmpHeader(
        (abs(height), abs(width), channels),
        is_plain,
        (bits * width + 31) // 32 * 4,
        pixels,
        is_top_down=height < 0,
    )


def _are_colours_plain(data: bytes, bits: int, compression: int, palette: int, used: int) -> bool:
    """Return whether pixels are stored as blue, green, red (and one more), or as grey levels.

    TensorFlow ignores compression, masks and palette: it takes palette indices for grey levels,
    and masked fields for blue, green, red.
    """
    if compression == _BI_BITFIELDS and bits == 32:
        return data[54:66] == _BGRX_MASKS
    if compression != _BI_RGB:
        return False
    entries = data[palette : palette + 1024]
    colours = b"".join(entries[at : at + 3] for at in range(0, len(entries), 4))
    return bits != 8 or (used == 256 and colours == _GREYS)


def is_whole(data: bytes, header: BmpHeader) -> bool:
    """Return whether the pixels end exactly where the file does, as TensorFlow requires."""
    return header.pixels + header.row_bytes * header.shape[0] == len(data)
