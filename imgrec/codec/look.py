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
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.near.descriptor import CLOSE_SIDE, SIDE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_BORDER = 8
"""The levels of 256 in which the pixels of a border differ at most."""
_CACHED_LINES = 256
"""The longest sides whose areas are cached: 128 KiB each at most."""
_MOST_BORDER = 4
"""A border is at most this fraction of a side."""
_TO_GREY = 19595, 38470, 7471
"""How much red, green and blue count, in 1/65536, as in Pillow."""


class Look(NamedTuple):
    """A picture at a small size."""

    grey: bytes
    """32 x 32 levels, row by row."""
    pixels: int
    """The number of pixels of the picture."""


class _Decoded(NamedTuple):
    """A picture at a reduced scale."""

    levels: NDArray[np.uint8]
    """Grey, or red, green and blue. Means of blocks of `scale` x `scale` pixels."""
    scale: int
    shape: tuple[int, ...]
    """The height and width of the picture."""


def look(data: bytes, filename: str) -> Look:
    """Look at an image, decoded at the smallest sufficient scale; raise BadImage."""
    return _look_at(_decode(data, filename, SIDE, "GRAY"), exif.orientation(data))


def look_at_pixels(data: bytes, blob: Pixels) -> Look:
    """Look at uncompressed pixels."""
    return look_at_picture(pillow.picture_of(data, blob))


def look_at_picture(picture: Image) -> Look:
    """Look at a decoded picture of a mode that PNG has, ignoring alpha."""
    return _look_at(_reduced(picture, SIDE, "GRAY"), exif.UPRIGHT)


def look_at_checked(
    grey: NDArray[np.uint8] | None, data: bytes, shape: tuple[int, ...]
) -> Look | None:
    """Look at a JPEG from the output of `jpeg.strict_decode`; None if that is too small."""
    if grey is None or min(shape[:2]) < SIDE * jpeg.CHECK_SCALE:
        return None
    return _look_at(_Decoded(grey, jpeg.CHECK_SCALE, shape), exif.orientation(data))


def look_closely(data: bytes, filename: str) -> bytes:
    """Return a close look at an image: 2 x 64 x 64 levels; raise BadImage."""
    return _look_closely_at(_decode(data, filename, CLOSE_SIDE, "RGB"), exif.orientation(data))


def look_closely_at_pixels(data: bytes, blob: Pixels) -> bytes:
    """Return a close look at uncompressed pixels."""
    decoded = _reduced(pillow.picture_of(data, blob), CLOSE_SIDE, "RGB")
    return _look_closely_at(decoded, exif.UPRIGHT)


def _decode(data: bytes, filename: str, side: int, colours: str) -> _Decoded:
    """Decode an image at the smallest scale that has enough pixels for a side."""
    image_format = known_format(data, filename)
    decoded = _decode_jpeg(data, side, colours) if image_format == "JPEG" else None
    if decoded is None:
        with pillow.bad_images(image_format):
            picture = pillow.decode_to_fit(data, image_format)[0]
            decoded = _reduced(picture, side, colours)
    return decoded


def _decode_jpeg(data: bytes, side: int, colours: str) -> _Decoded | None:
    """Decode a JPEG at a smaller scale; None if libjpeg-turbo rejects it."""
    header = jpeg.read_header(data)
    height, width, _ = header.shape
    pillow.refuse_bomb(height, width)
    if not header.is_common or header.colours not in jpeg.SIMPLE_COLOURS:
        return None
    scale = next((s for s in jpeg.SCALES if min(height, width) >= s * side), 1)
    try:
        decoded = jpeg.turbo_decode(data, header.shape, colours, scale=scale, strict=True)
    except BadImage:
        return None
    return _Decoded(decoded, scale, (height, width))


def _reduced(picture: Image, side: int, colours: str) -> _Decoded:
    import numpy as np

    shape = picture.height, picture.width
    if picture.mode == "I;16":
        return _Decoded((np.asarray(picture) >> 8).astype(np.uint8), 1, shape)
    if picture.mode not in ("1", "L", "LA", "RGB"):
        picture = picture.convert("RGB")
    if colours == "GRAY" or picture.mode != "RGB":
        picture = picture.convert("L")
    scale = max(1, min(shape) // (2 * side))
    if scale > 1:
        picture = picture.reduce(scale)
    return _Decoded(np.asarray(picture), scale, shape)


def _look_at(decoded: _Decoded, orientation: int) -> Look:
    levels = decoded.levels
    grey = levels[:, :, 0] if levels.ndim == 3 else levels
    scaled = _scaled(grey, _inside(grey), decoded, SIDE)
    height, width = decoded.shape[:2]
    return Look(_upright(scaled, orientation).tobytes(), height * width)


def _look_closely_at(decoded: _Decoded, orientation: int) -> bytes:
    import numpy as np

    levels = decoded.levels
    if levels.ndim == 2:
        grey = light = levels
    else:
        red, green, blue = (levels[:, :, at] for at in range(3))
        shares = zip((red, green, blue), _TO_GREY, strict=True)
        parts = [colour.astype(np.int32) * share for colour, share in shares]
        grey = ((parts[0] + parts[1] + parts[2] + (1 << 15)) >> 16).astype(np.uint8)
        # Several times as fast as `levels.max(axis=2)`.
        strongest = np.maximum(np.maximum(red, green), blue)
        weakest = np.minimum(np.minimum(red, green), blue)
        light = strongest - (strongest - weakest) // 2
    inside = _inside(grey)
    both = (_scaled(each, inside, decoded, CLOSE_SIDE) for each in (grey, light))
    return b"".join([_upright(each, orientation).tobytes() for each in both])


def _upright(scaled: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    if orientation == exif.UPRIGHT:
        return scaled
    scaled = scaled.T if orientation >= exif.TURNED else scaled
    scaled = scaled[::-1] if orientation in exif.UPSIDE_DOWN else scaled
    return scaled[:, ::-1] if orientation in exif.MIRRORED else scaled


def _inside(grey: NDArray[np.uint8]) -> tuple[slice, slice]:
    """Return the rows and columns of a picture without its borders."""
    rows = slice(_border(grey), len(grey) - _border(grey[::-1]))
    turned = grey[rows].T
    return rows, slice(_border(turned), len(turned) - _border(turned[::-1]))


def _scaled(
    levels: NDArray[np.uint8], inside: tuple[slice, slice], decoded: _Decoded, side: int
) -> NDArray[np.uint8]:
    """Scale a part of a picture to `side` x `side` pixels.

    Each pixel of the result is the mean of an area, rounded.
    """
    import numpy as np

    areas, total = [], 1
    for part, extent in zip(inside, decoded.shape, strict=False):
        of = _cached_areas if part.stop - part.start <= _CACHED_LINES else _areas
        areas.append(of(part.start, part.stop, decoded.scale, extent, side))
        total *= min(part.stop * decoded.scale, extent) - part.start * decoded.scale
    down, across = areas
    sums = down @ levels[inside].astype(np.float64) @ across.T
    return ((sums.astype(np.int64) + total // 2) // total).astype(np.uint8)


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


def _areas(start: int, end: int, scale: int, extent: int, side: int) -> NDArray[np.float64]:
    """Return how much each of `side` cells covers of each line: whole numbers.

    A line has `scale` pixels, but the last one may have less.
    """
    import numpy as np

    edges = np.minimum(np.arange(start, end + 1) * scale, extent) * side
    first, last = edges[0], edges[-1]
    cells = first + np.arange(side + 1) * ((last - first) // side)
    begins = np.maximum(cells[:-1, None], edges[None, :-1])
    ends = np.minimum(cells[1:, None], edges[None, 1:])
    areas: NDArray[np.float64] = np.maximum(ends - begins, 0).astype(np.float64)
    return areas


_cached_areas = lru_cache(maxsize=256)(_areas)
