"""Run-length encoded BMPs: a decoder for Pillow that takes time by the file, not by the picture.

    n v           n > 0: a run of n pixels of value v (4 bits: of its two halves in turn)
    0 0           end of a row
    0 1           end of the picture
    0 2 dx dy     skip so many pixels and rows
    0 n bytes     n > 2: n pixels as they are, padded to an even offset

Pillow's own decoder fills rows up a pixel at a time. A few kilobytes can declare 90 million pixels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

_PILLOW_CODEC, _CODEC = "bmp_rle", "imgrec_bmp_rle"
_ROW_END, _PICTURE_END, _SKIP = 0, 1, 2
_HALVES = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))


def use_fast_decoder(image: Image) -> None:
    """Let an open picture, if it is run-length encoded as BMPs are, be decoded by this module."""
    tiles = getattr(image, "tile", [])
    if any(tile[0] == _PILLOW_CODEC for tile in tiles):
        _register()
        fast = [
            type(tile)(_CODEC, *tile[1:]) if tile[0] == _PILLOW_CODEC else tile for tile in tiles
        ]
        setattr(image, "tile", fast)  # noqa: B010  # the type of what is open has none


def expand(coded: bytes, width: int, pixels: int, *, is_4_bit: bool, offset: int) -> bytes:
    """Return a byte a pixel, row by row; less than `pixels` of them if the code ends too early.

    `offset` is where in the file the code begins. What Pillow makes of faulty code, this does too.

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
    """Tell Pillow of the decoder, under a name that no one else uses."""
    from PIL import Image, ImageFile

    class Decoder(ImageFile.PyDecoder):
        _pulls_fd = True

        def decode(self, buffer: object) -> tuple[int, int]:  # noqa: ARG002  # it reads by itself
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
