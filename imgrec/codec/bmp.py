"""BMP: its shape, whether TensorFlow reads it correctly, and a fast run-length decoder for Pillow.

offset  2  uint32 LE  file size          18  int32 LE   width
offset 10  uint32 LE  where pixels start 22  int32 LE   height, negative for top-down
offset 14  uint32 LE  info header size   28  uint16 LE  bits per pixel
offset 30  uint32 LE  compression        46  uint32 LE  palette entries
offset 54             colour masks or, after the info header, the palette (B G R 0 each)

Run-length encoded pixels:
    n v           n > 0: a run of n pixels of value v (4 bits: of its two halves in turn)
    0 0           end of a row
    0 1           end of the picture
    0 2 dx dy     skip so many pixels and rows
    0 n bytes     n > 2: n literal pixels, padded to an even offset
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.errors import BadImage

if TYPE_CHECKING:
    from PIL.Image import Image

_HEADER = struct.Struct("<2sIIIIiiHHIIiiII")
_USED = 13  # the field with the number of palette entries; 0 stands for all
_OS2_HEADER = 12
_BI_RGB, _BI_BITFIELDS = 0, 3
_BGRX_MASKS = struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)
_CHANNELS = {8: 1, 24: 3, 32: 4}
_PILLOW_CODEC, _CODEC = "bmp_rle", "imgrec_bmp_rle"
_ROW_END, _PICTURE_END, _SKIP = 0, 1, 2
_HALVES = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))


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
    """Tell whether pixels are stored as blue, green, red (and one more), or as grey levels.

    TensorFlow ignores compression, masks and palette: it takes palette indices for grey levels,
    and masked fields for blue, green, red.
    """
    if compression == _BI_BITFIELDS and bits == 32:
        return data[54:66] == _BGRX_MASKS
    if compression != _BI_RGB:
        return False
    greys = b"".join(bytes((level, level, level)) for level in range(256))
    entries = data[palette : palette + 1024]
    colours = b"".join(entries[at : at + 3] for at in range(0, len(entries), 4))
    return bits != 8 or (used == 256 and colours == greys)


def is_whole(data: bytes, header: BmpHeader) -> bool:
    """Tell whether the pixels end exactly where the file does, as TensorFlow requires."""
    return header.pixels + header.row_bytes * header.shape[0] == len(data)


def use_fast_decoder(image: Image) -> None:
    """Decode an open run-length encoded BMP with this module instead of Pillow.

    Pillow's decoder fills rows one pixel at a time, and a few kilobytes can declare 90 million
    pixels. Ours takes time by the size of the file, not of the picture.
    """
    tiles = getattr(image, "tile", [])
    if any(tile[0] == _PILLOW_CODEC for tile in tiles):
        _register()
        fast = [
            type(tile)(_CODEC, *tile[1:]) if tile[0] == _PILLOW_CODEC else tile for tile in tiles
        ]
        setattr(image, "tile", fast)  # noqa: B010  # the type has no such attribute


def expand(coded: bytes, width: int, pixels: int, *, is_4_bit: bool, offset: int) -> bytes:
    """Return one byte per pixel, row by row; fewer than `pixels` if the code ends early.

    `offset` is where in the file the code begins. Faulty code is decoded as Pillow does it.

    >>> expand(bytes([3, 7, 0, 0, 0, 3, 1, 2, 3, 0, 0, 1]), 4, 8, is_4_bit=False, offset=0).hex()
    '07070700010203'
    """
    out, at, x = bytearray(), 0, 0
    while len(out) < pixels and at + 1 < len(coded):
        count, value = coded[at], coded[at + 1]
        at += 2
        if count:
            count = min(count, max(0, width - x))
            run = bytes((value >> 4, value & 15)) if is_4_bit else bytes((value, value))
            out += (run * (count // 2 + 1))[:count]
            x += count
        elif value == _ROW_END:
            out += bytes(-len(out) % width)
            x = 0
        elif value == _PICTURE_END:
            break
        elif value == _SKIP:
            if at + 2 > len(coded):
                break
            skipped = coded[at] + coded[at + 1] * width
            at += 2
            out += bytes(min(pixels - len(out), skipped))
            x = len(out) % width
        else:
            count = min(pixels - len(out), value)
            size = (count + 1) // 2 if is_4_bit else count
            found = coded[at : at + size]
            out += found.hex().encode().translate(_HALVES)[:count] if is_4_bit else found
            if len(found) < size:
                break
            at += size
            at += (offset + at) % 2
            x += value
    return bytes(out)


@lru_cache(maxsize=1)
def _register() -> None:
    """Register the decoder with Pillow, under a unique name."""
    from PIL import Image, ImageFile

    class Decoder(ImageFile.PyDecoder):
        _pulls_fd = True

        def decode(self, buffer: object) -> tuple[int, int]:  # noqa: ARG002  # it reads from the file
            assert self.fd is not None
            offset, state = self.fd.tell(), self.state
            pixels = expand(
                self.fd.read(),
                state.xsize,
                state.xsize * state.ysize,
                is_4_bit=bool(self.args[1]),
                offset=offset,
            )
            rawmode = "L" if self.mode in ("1", "L") else "P"
            self.set_as_raw(pixels, rawmode, (0, self.args[-1]))
            return -1, 0

    Image.register_decoder(_CODEC, Decoder)
