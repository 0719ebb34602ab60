"""A look at a picture: 32 x 32 grey pixels, to compare it with others.

It is upright, without borders of one colour, and scaled to 32 x 32 pixels whatever its shape. Every
machine gets the same look from the same pixels: each level is the rounded mean of an area, and the
sums are of whole numbers that a float holds exactly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif, jpeg, pillow
from imgrec.codec.image import known_format
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.near.descriptor import SIDE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_BORDER = 8
"""The levels of 256 in which the pixels of a border differ at most."""
_CACHED_LINES = 256
"""The longest sides whose areas are cached: 64 KiB each."""
_MOST_BORDER = 4
"""A border is at most this fraction of a side."""


class Look(NamedTuple):
    """A picture at a small size."""

    grey: bytes
    """32 x 32 levels, row by row."""
    pixels: int
    """The number of pixels of the picture."""


def look(data: bytes, filename: str) -> Look:
    """Look at an image, decoded at the smallest sufficient scale; raise BadImage."""
    image_format = known_format(data, filename)
    result = _look_at_jpeg(data) if image_format == "JPEG" else None
    if result is None:
        with pillow.bad_images(image_format):
            result = look_at_picture(pillow.decode_to_fit(data, image_format)[0])
    return _upright(result, exif.orientation(data))


def look_at_pixels(data: bytes, blob: Pixels) -> Look:
    """Look at uncompressed pixels."""
    return look_at_picture(pillow.picture_of(data, blob))


def look_at_picture(picture: Image) -> Look:
    """Look at a decoded picture of a mode that PNG has, ignoring alpha."""
    import numpy as np

    shape = picture.height, picture.width
    if picture.mode == "I;16":
        return _scaled((np.asarray(picture) >> 8).astype(np.uint8), 1, shape)
    if picture.mode not in ("1", "L", "LA", "RGB"):
        picture = picture.convert("RGB")
    picture = picture.convert("L")
    scale = max(1, min(shape) // (2 * SIDE))
    if scale > 1:
        picture = picture.reduce(scale)
    return _scaled(np.asarray(picture), scale, shape)


def look_at_checked(
    grey: NDArray[np.uint8] | None, data: bytes, shape: tuple[int, ...]
) -> Look | None:
    """Look at a JPEG from the output of `jpeg.strict_decode`; None if that is too small."""
    if grey is None or min(shape[:2]) < SIDE * jpeg.CHECK_SCALE:
        return None
    return _upright(_scaled(grey, jpeg.CHECK_SCALE, shape), exif.orientation(data))


def _look_at_jpeg(data: bytes) -> Look | None:
    """Look at a JPEG decoded at a smaller scale; None if libjpeg-turbo rejects it."""
    header = jpeg.read_header(data)
    height, width, _ = header.shape
    pillow.refuse_bomb(height, width)
    if not header.is_common or header.colours not in jpeg.SIMPLE_COLOURS:
        return None
    scale = next((s for s in jpeg.SCALES if min(height, width) >= s * SIDE), 1)
    try:
        decoded = jpeg.turbo_decode(data, header.shape, "GRAY", scale=scale, strict=True)
    except BadImage:
        return None
    return _scaled(decoded, scale, (height, width))


def _upright(look: Look, orientation: int) -> Look:
    import numpy as np

    if orientation == exif.UPRIGHT:
        return look
    grey = np.frombuffer(look.grey, np.uint8).reshape(SIDE, SIDE)
    grey = grey.T if orientation >= exif.TURNED else grey
    grey = grey[::-1] if orientation in exif.UPSIDE_DOWN else grey
    grey = grey[:, ::-1] if orientation in exif.MIRRORED else grey
    return look._replace(grey=grey.tobytes())


def _scaled(array: NDArray[np.uint8], scale: int, shape: tuple[int, ...]) -> Look:
    """Scale a picture of `shape`, given means of its blocks of `scale` x `scale` pixels.

    Each pixel of the result is the mean of an area, rounded.
    """
    import numpy as np

    grey = array[:, :, 0] if array.ndim == 3 else array
    rows = _border(grey), len(grey) - _border(grey[::-1])
    grey = grey[slice(*rows)]
    columns = _border(grey.T), grey.shape[1] - _border(grey.T[::-1])
    grey = grey[:, slice(*columns)]
    down, across = (
        (_cached_areas if end - start <= _CACHED_LINES else _areas)(start, end, scale, extent)
        for (start, end), extent in zip((rows, columns), shape, strict=False)
    )
    sums = down @ grey.astype(np.float64) @ across.T
    total = int(down[0].sum() * across[0].sum())
    scaled = (sums.astype(np.int64) + total // 2) // total
    return Look(scaled.astype(np.uint8).tobytes(), shape[0] * shape[1])


def _border(grey: NDArray[np.uint8]) -> int:
    """Return how many of the first lines are a border: of one colour, with a straight edge."""
    import numpy as np

    first = grey[0].astype(np.int16)
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


def _areas(start: int, end: int, scale: int, extent: int) -> NDArray[np.float64]:
    """Return how much each of 32 cells covers of each line: whole numbers.

    A line has `scale` pixels, but the last one may have less.
    """
    import numpy as np

    edges = np.minimum(np.arange(start, end + 1) * scale, extent) * SIDE
    first, last = edges[0], edges[-1]
    cells = first + np.arange(SIDE + 1) * ((last - first) // SIDE)
    begins = np.maximum(cells[:-1, None], edges[None, :-1])
    ends = np.minimum(cells[1:, None], edges[None, 1:])
    areas: NDArray[np.float64] = np.maximum(ends - begins, 0).astype(np.float64)
    return areas


_cached_areas = lru_cache(maxsize=512)(_areas)
