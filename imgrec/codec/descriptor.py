"""What a picture looks like: a perceptual signature in 65 bytes, and its tone in 2.

A picture is a sum of waves (its cosine transform), with 0 to 7 half-waves down and 0 to 7 across.
Their strengths do not depend on the size of the picture, and hardly on its encoding.

    63 x int8   the strength of each wave except the constant one, row by row, to the power of 0.7
                so that fine ones count too, and scaled so that the strongest is 127 or -127
    2 x uint8   the mean colour, as Cb and Cr of JPEG: 128 and 128 for grey or unknown

A mirrored picture has the same waves, with the opposite sign for those with an odd number of
half-waves across. A picture with too few waves to recognise it, such as a blank page or a plain
gradient, has the signature `FLAT`. The EXIF orientation is applied first.

All sums are of whole numbers that a float holds exactly, so every machine gets the same signature.

The tone is brightness and contrast:

    uint8       the mean of its levels, from 0 for black to 255
    uint8       twice their standard deviation; 255 if the picture was not decoded
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif, jpeg, pillow
from imgrec.codec.image import known_format
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage
from imgrec.model import Pixels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

WAVES = 8
SIGNATURE_BYTES = WAVES * WAVES - 1 + 2
FLAT = bytes(SIGNATURE_BYTES)
GREY = (128, 128)
_POWER = 0.7
_LEAST_WAVES, _LEAST_STRENGTH = 15, 0.25
"""A picture is flat unless at least 15 of its waves have 0.25 of 256 levels.

Plain gradients, halves and spots of light were measured to have 4 to 14 such waves; the simplest of
2,700 handwritten characters has 15.
"""
_CELLS = 32
"""The least width and height of a picture that is decoded at a smaller scale."""
_CACHED_CELLS = 1 << 8
"""The longest waves that are cached: 16 KiB each."""
_UNIT = 1 << 16
_LUMA = (299, 587, 114)

TONE_BYTES = 2
NOT_DECODED = 255
UNKNOWN_TONE = bytes((0, NOT_DECODED))
_TONE_SIDE = 64


class Sketch(NamedTuple):
    """The waves of a picture, before they are encoded."""

    waves: NDArray[np.float64]
    """8 x 8, the number of half-waves down first, in levels of 256."""
    colour: tuple[int, int]
    pixels: int
    """The number of pixels of the picture."""


def sketch(data: bytes, filename: str) -> Sketch:
    """Sketch an image, decoded at the smallest sufficient scale; raise BadImage."""
    image_format = known_format(data, filename)
    result = _sketch_jpeg(data) if image_format == "JPEG" else None
    if result is None:
        with pillow.bad_images(image_format):
            result = sketch_picture(pillow.decode_to_fit(data, image_format)[0])
    return _upright(result, exif.orientation(data))


def sketch_pixels(data: bytes, blob: Pixels) -> Sketch:
    """Sketch uncompressed pixels."""
    return sketch_picture(pillow.picture_of(data, blob))


def sketch_picture(picture: Image) -> Sketch:
    """Sketch a decoded picture of a mode that PNG has, ignoring alpha."""
    import numpy as np

    height, width = picture.height, picture.width
    if picture.mode == "I;16":
        return _sketch_array((np.asarray(picture) >> 8).astype(np.uint8), 1, (height, width))
    picture = picture.convert("L" if picture.mode in ("1", "L", "LA") else "RGB")
    scale = max(1, min(height, width) // _CELLS)
    if scale > 1:
        picture = picture.reduce(scale)
    return _sketch_array(np.asarray(picture), scale, (height, width))


def sketch_checked(
    grey: NDArray[np.uint8] | None, data: bytes, shape: tuple[int, ...]
) -> Sketch | None:
    """Sketch a JPEG from the output of `jpeg.strict_decode`; None if that is too small."""
    if grey is None or min(shape[:2]) < _CELLS * jpeg.CHECK_SCALE:
        return None
    return _upright(_sketch_array(grey, jpeg.CHECK_SCALE, shape), exif.orientation(data))


def encode(sketches: Sequence[Sketch | None]) -> bytes:
    """Encode sketches as signatures, one after another; None is `FLAT`."""
    import numpy as np

    if not sketches:
        return b""
    blank = np.zeros((WAVES, WAVES))
    waves = np.stack([one.waves if one else blank for one in sketches]).reshape(len(sketches), -1)
    waves = waves[:, 1:]
    is_flat = np.count_nonzero(np.abs(waves) >= _LEAST_STRENGTH, axis=1) < _LEAST_WAVES
    eased = np.sign(waves) * np.abs(waves) ** _POWER
    strongest = np.abs(eased).max(axis=1, keepdims=True)
    coded = np.round(eased * (127 / np.maximum(strongest, 1e-9))).astype(np.int8).view(np.uint8)
    colours = np.array([one.colour if one else (0, 0) for one in sketches], np.uint8)
    signatures = np.hstack([coded, colours])
    signatures[is_flat] = 0
    return signatures.tobytes()


def _sketch_jpeg(data: bytes) -> Sketch | None:
    """Sketch a JPEG decoded at a smaller scale; None if libjpeg-turbo rejects it."""
    header = jpeg.read_header(data)
    height, width, channels = header.shape
    pillow.refuse_bomb(height, width)
    if not header.is_common or header.colours not in jpeg.SIMPLE_COLOURS:
        return None
    scale = next((s for s in jpeg.SCALES if min(height, width) >= s * _CELLS), 1)
    colours = "GRAY" if channels == 1 else "RGB"
    try:
        decoded = jpeg.turbo_decode(data, header.shape, colours, scale=scale, strict=True)
    except BadImage:
        return None
    return _sketch_array(decoded, scale, (height, width))


def _sketch_array(array: NDArray[np.uint8], scale: int, shape: tuple[int, ...]) -> Sketch:
    """Sketch a picture of `shape`, given means of its blocks of `scale` x `scale` pixels."""
    import numpy as np

    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    levels = array.astype(np.float64)
    if levels.ndim == 2:
        luma, colour = levels * sum(_LUMA), GREY
    else:
        luma = levels @ np.array(_LUMA, np.float64)
        red, green, blue = (float(mean) for mean in levels.mean(axis=(0, 1)))
        mean = sum(w * part for w, part in zip(_LUMA, (red, green, blue), strict=True)) / sum(_LUMA)
        colour = round(128 + 0.564 * (blue - mean)), round(128 + 0.713 * (red - mean))
    down, across = (
        (_cached_cosines if cells <= _CACHED_CELLS else _cosines)(cells, scale, extent)
        for cells, extent in zip(luma.shape, shape[:2], strict=True)
    )
    waves = (down @ luma @ across.T) / (_UNIT * _UNIT * sum(_LUMA))
    return Sketch(waves, colour, shape[0] * shape[1])


def _cosines(cells: int, scale: int, extent: int) -> NDArray[np.float64]:
    """Return the waves over cells of `scale` pixels; the last may extend beyond `extent`.

    They are weighted by the extent of each cell, and rounded to whole numbers.
    """
    import numpy as np

    edges = np.minimum(np.arange(cells + 1) * scale, extent) / extent
    middles = (edges[1:] + edges[:-1]) / 2
    waves = np.cos(np.pi * np.arange(WAVES)[:, None] * middles) * np.diff(edges)
    waves[cells:] = 0  # finer waves than pixels
    rounded: NDArray[np.float64] = np.round(waves * _UNIT)
    return rounded


# A rose of the sample data takes 79 microseconds to sketch, and 108 without this cache.
_cached_cosines = lru_cache(maxsize=2048)(_cosines)


def _upright(sketch: Sketch, orientation: int) -> Sketch:
    if orientation == exif.UPRIGHT:
        return sketch
    waves = (sketch.waves.T if orientation >= exif.TURNED else sketch.waves).copy()
    if orientation in exif.UPSIDE_DOWN:
        waves[1::2, :] *= -1
    if orientation in exif.MIRRORED:
        waves[:, 1::2] *= -1
    return sketch._replace(waves=waves)


def tone(levels: NDArray[np.uint8] | None) -> bytes:
    """Return the tone of a picture decoded at any scale; None was not decoded."""
    if levels is None:
        return UNKNOWN_TONE
    import numpy as np

    flat = levels.reshape(-1).astype(np.float64)  # exact for such sums
    mean = float(np.add.reduce(flat)) / flat.size
    variance = float(flat.dot(flat)) / flat.size - mean * mean
    deviation = math.sqrt(variance) if variance > 0 else 0.0
    return bytes((round(mean), min(round(2 * deviation), NOT_DECODED - 1)))


def levels_of_pixels(data: bytes) -> NDArray[np.uint8]:
    """Return the levels of bare pixels; for colours, all three channels are averaged."""
    import numpy as np

    return np.frombuffer(data, np.uint8)


def join_tones(tones: Sequence[bytes]) -> bytes:
    """Join the tones of pictures; return b"" if none is known."""
    return b"".join(tones) if any(one != UNKNOWN_TONE for one in tones) else b""


def levels_of(data: bytes, filename: str) -> NDArray[np.uint8] | None:
    """Decode an image at a small scale and return its levels; None if that fails."""
    import numpy as np

    from imgrec.codec.decode import thumbnail  # not needed by a worker that writes shards

    try:
        if format_of(data, filename) == "JPEG" and jpeg.read_header(data).is_common:
            grey, fault = jpeg.strict_decode(data)
            if not fault:
                return grey
        return np.asarray(thumbnail(data, filename, _TONE_SIDE).convert("L"))
    except BadImage:
        return None
