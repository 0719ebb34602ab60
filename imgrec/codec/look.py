"""A look at a picture: 32 x 32 grey pixels, to compare it with others; or a close one of 64 x 64.

It is upright, without borders of one colour, and scaled to these pixels whatever its shape. Every
machine gets the same look from the same pixels: each level is the rounded mean of an area, and the
sums are of whole numbers that a float holds exactly.

A close look has the levels twice: as grey, and as the mean of the strongest and the weakest of red,
green and blue, which stays as it is if somebody turns the hue.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif, jpeg, pillow
from imgrec.codec.image import known_format
from imgrec.codec.tone import tone
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.near.descriptor import CLOSE_SIDE, SIDE, halve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_BORDER = 8
"""The levels of 256 in which the pixels of a border differ at most."""
_UNITS = 256
"""The side of a cell. The square of it, times the highest level, is just below 2^24."""
_CACHED_LINES = 256
"""The longest sides whose areas are cached: 64 KiB each at most, and 5 to 25 KiB usually."""
_MOST_BORDER = 4
"""A border is at most this fraction of a side."""
_TO_GREY = 19595, 38470, 7471
"""How much red, green and blue count, in 1/65536, as in Pillow."""


class Look(NamedTuple):
    """What one decode shows of a picture."""

    grey: bytes
    """32 x 32 levels, row by row."""
    close: bytes
    """2 x 64 x 64 levels."""
    pixels: int
    """The number of pixels of the picture."""
    tone: bytes
    """The tone (`codec.tone`) of a JPEG that was decoded strictly, to its end; b"" for others."""


class _Decoded(NamedTuple):
    """A picture at a reduced scale."""

    levels: NDArray[np.uint8]
    """Grey, or red, green and blue. Means of blocks of `scale` x `scale` pixels."""
    scale: int
    shape: tuple[int, ...]
    """The height and width of the picture."""
    is_checked: bool = False
    """Whether it is a JPEG that was decoded strictly, to its end."""


def look(data: bytes, filename: str) -> Look:
    """Look at an image, decoded at the smallest sufficient scale; raise BadImage."""
    image_format = known_format(data, filename)
    decoded = _decode_jpeg(data) if image_format == "JPEG" else None
    if decoded is None:
        with pillow.bad_images(image_format):
            decoded = _reduced(pillow.decode_to_fit(data, image_format)[0])
    return _look_at(decoded, exif.orientation(data))


def look_at_pixels(data: bytes, blob: Pixels) -> Look:
    """Look at uncompressed pixels."""
    return _look_at(_reduced(pillow.picture_of(data, blob)), exif.UPRIGHT)


def look_at_checked(
    grey: NDArray[np.uint8] | None, shape: tuple[int, ...], orientation: int
) -> bytes | None:
    """Return 32 x 32 levels from the output of `jpeg.strict_decode`; None if that is too small."""
    if grey is None or min(shape[:2]) < SIDE * jpeg.CHECK_SCALE:
        return None
    levels = grey[:, :, 0]
    decoded = _Decoded(levels, jpeg.CHECK_SCALE, shape)
    return _upright(_scaled(levels, decoded, SIDE), orientation).tobytes()


def _decode_jpeg(data: bytes) -> _Decoded | None:
    """Decode a JPEG at a smaller scale; None if libjpeg-turbo rejects it."""
    header = jpeg.read_header(data)
    height, width, _ = header.shape
    pillow.refuse_bomb(height, width)
    if not header.is_common or header.colours not in jpeg.SIMPLE_COLOURS:
        return None
    scale = next((s for s in jpeg.SCALES if min(height, width) >= s * CLOSE_SIDE), 1)
    try:
        decoded = jpeg.turbo_decode(data, header.shape, "RGB", scale=scale, strict=True)
    except BadImage:
        return None
    return _Decoded(decoded, scale, (height, width), is_checked=True)


def _reduced(picture: Image) -> _Decoded:
    import numpy as np

    shape = picture.height, picture.width
    if picture.mode == "I;16":
        return _Decoded((np.asarray(picture) >> 8).astype(np.uint8), 1, shape)
    if picture.mode not in ("1", "L", "LA", "RGB"):
        picture = picture.convert("RGB")
    if picture.mode != "RGB":
        picture = picture.convert("L")
    scale = max(1, min(shape) // (2 * CLOSE_SIDE))
    if scale > 1:
        picture = picture.reduce(scale)
    return _Decoded(np.asarray(picture), scale, shape)


def _look_at(decoded: _Decoded, orientation: int) -> Look:
    import numpy as np

    levels = decoded.levels
    both = np.stack([levels, levels]) if levels.ndim == 2 else _grey_and_light(levels)
    close = _upright(_scaled(both, decoded, CLOSE_SIDE), orientation)
    height, width = decoded.shape[:2]
    toned = _tone(both[0], decoded.scale) if decoded.is_checked else b""
    return Look(halve(close[0]).tobytes(), close.tobytes(), height * width, toned)


def _tone(grey: NDArray[np.uint8], scale: int) -> bytes:
    """Return the tone of a picture as `jpeg.strict_decode` would show it, which is smaller."""
    import numpy as np

    block = jpeg.CHECK_SCALE // scale
    rows, columns = (length // block * block for length in grey.shape)
    if block == 1 or not rows * columns:
        return tone(grey)
    sums, across = grey[:rows, :columns].astype(np.uint16), block
    while across > 1:
        sums = sums[::2] + sums[1::2]
        sums = sums[:, ::2] + sums[:, 1::2]
        across //= 2
    return tone(((sums + block * block // 2) // (block * block)).astype(np.uint8))


def _grey_and_light(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in grey, and as the means of its strongest and weakest colours."""
    import numpy as np

    red, green, blue = (np.ascontiguousarray(levels[:, :, at]) for at in range(3))
    shares = zip((red, green, blue), _TO_GREY, strict=True)
    parts = [colour.astype(np.int32) * share for colour, share in shares]
    both = np.empty((2, *red.shape), np.uint8)
    both[0] = (parts[0] + parts[1] + parts[2] + (1 << 15)) >> 16
    # Several times as fast as `levels.max(axis=2)`.
    strongest = np.maximum(np.maximum(red, green), blue)
    weakest = np.minimum(np.minimum(red, green), blue)
    both[1] = strongest - (strongest - weakest) // 2
    return both


def _upright(scaled: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    if orientation == exif.UPRIGHT:
        return scaled
    scaled = scaled.swapaxes(-1, -2) if orientation >= exif.TURNED else scaled
    scaled = scaled[..., ::-1, :] if orientation in exif.UPSIDE_DOWN else scaled
    return scaled[..., ::-1] if orientation in exif.MIRRORED else scaled


def _inside(grey: NDArray[np.uint8]) -> tuple[slice, slice]:
    """Return the rows and columns of a picture without its borders."""
    top, low = (grey.item(0, 0), grey.item(0, -1)), (grey.item(-1, 0), grey.item(-1, -1))
    sides = (*zip(top, low, strict=True), top, low)
    # Of most pictures, the corners tell that there is no border.
    if min(abs(one - other) for one, other in sides) > _BORDER:
        return slice(0, grey.shape[0]), slice(0, grey.shape[1])
    rows = slice(_border(grey), len(grey) - _border(grey[::-1]))
    turned = grey[rows].T
    return rows, slice(_border(turned), len(turned) - _border(turned[::-1]))


def _scaled(levels: NDArray[np.uint8], decoded: _Decoded, side: int) -> NDArray[np.uint8]:
    """Scale what is inside the borders of a picture to `side` x `side` pixels.

    Of several planes, the first decides where the borders are. Each pixel of the result is the mean
    of an area, rounded; areas begin and end at 1/256 of a pixel of the result.
    """
    import numpy as np

    inside = _inside(levels.reshape(-1, *levels.shape[-2:])[0])
    areas = []
    for part, extent in zip(inside, decoded.shape, strict=False):
        of = _cached_areas if part.stop - part.start <= _CACHED_LINES else _areas
        areas.append(of(part.start, part.stop, decoded.scale, extent, side))
    down, across = areas
    # Whole numbers below 2^24, which a float holds exactly.
    sums = down @ levels[(..., *inside)].astype(np.float32) @ across.T
    sums += _UNITS * _UNITS // 2
    sums *= 1 / (_UNITS * _UNITS)
    return sums.astype(np.uint8)


def _border(grey: NDArray[np.uint8]) -> int:
    """Return how many of the first lines are a border: of one colour, with a straight edge."""
    import numpy as np

    first = grey[0]
    # Most pictures have no border. Looking at the ends first takes 0.5 us instead of 3.
    if abs(int(first[0]) - int(first[-1])) > _BORDER:
        return 0
    low, high = int(first.min()), int(first.max())
    if high - low > _BORDER:
        return 0
    most = len(grey) // _MOST_BORDER
    lines = grey[: most + 2].astype(np.int16)
    is_other = np.abs(lines - (low + high) // 2) > _BORDER
    count = int(is_other.any(axis=1).argmax())
    # The line at the edge may be partly border.
    if not 0 < count <= most or np.count_nonzero(is_other[count + 1]) * 2 < grey.shape[1]:
        return 0
    return count + 1


def _areas(start: int, end: int, scale: int, extent: int, side: int) -> NDArray[np.float32]:
    """Return how much of each line is in each of `side` cells: whole units, which add up to 256.

    A line has `scale` pixels, but the last one may have less.
    """
    import numpy as np

    edges = np.minimum(np.arange(start, end + 1) * scale, extent)
    edges -= edges[0]
    units = (2 * _UNITS * side * edges + edges[-1]) // (2 * edges[-1])
    cells = np.arange(side + 1) * _UNITS
    begins = np.maximum(cells[:-1, None], units[None, :-1])
    ends = np.minimum(cells[1:, None], units[None, 1:])
    areas: NDArray[np.float32] = np.maximum(ends - begins, 0).astype(np.float32)
    return areas


_cached_areas = lru_cache(maxsize=1024)(_areas)
