"""Shrink pictures: the size, the filter and the format of the result.

Photos (JPEG, and the formats that phones and the web use instead) become JPEG. Everything else
becomes PNG, and so do photos with alpha or 16 bits, which JPEG lacks. Grey stays grey, and a
palette becomes RGB. The EXIF orientation is applied to the pixels. Of the metadata, only a colour
profile that fits the pixels is kept: without it the colours would change.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif, jpeg, pixels
from imgrec.errors import BadImage
from imgrec.options import ShrinkOptions

if TYPE_CHECKING:
    from PIL.Image import Image

Shape = tuple[int, int, int]
Size = tuple[int, int]
"""Height and width."""
Box = tuple[float, float, float, float]
"""Left, upper, right and lower side."""

_PHOTOS = frozenset({"JPEG", "HEIF", "AVIF", "WEBP", "JPEG2000", "JXL"})
_JPEG_MODES = frozenset({"L", "RGB"})
_COLOUR_SPACES = {"Gray": "GRAY", "YCbCr": "RGB", "RGB": "RGB"}
"""The colour space to ask libjpeg-turbo for, by that of the JPEG; Pillow decodes others."""
_SCALES = (8, 4, 2)
_GAP = 2
"""Cheap steps (a scaled decode, averaging) leave this many times the size to the filter.

That was measured to take less than half the time of filtering every pixel, and to differ from it by
0.7 in 255; encoding a JPEG at quality 90 changes several times as much.
"""
_FULL_COLOUR = 90
"""Above this quality a JPEG keeps its full colour resolution, and takes up to half more to store
and to decode; otherwise a quarter of it, as most JPEGs do."""
_PROFILES = {"L": b"GRAY", "LA": b"GRAY", "I;16": b"GRAY", "RGB": b"RGB ", "RGBA": b"RGB "}
"""The colour space in bytes 16 to 19 of a fitting profile, by the mode of the picture."""


class Shrunk(NamedTuple):
    """A shrunk picture."""

    data: bytes
    shape: Shape
    format: str
    is_turned: bool
    """True if its orientation was applied."""


def smaller_size(height: int, width: int, options: ShrinkOptions) -> Size | None:
    """Return the size to shrink a picture to; None if it is small enough.

    >>> smaller_size(3000, 4000, ShrinkOptions(short_side=256))
    (256, 341)
    >>> smaller_size(3000, 4000, ShrinkOptions(max_side=256))
    (192, 256)
    >>> smaller_size(200, 300, ShrinkOptions(short_side=256)) is None
    True
    """
    if options.short_side is not None:
        side, wanted = min(height, width), options.short_side
    else:
        side, wanted = max(height, width), options.max_side or 0
    if side <= wanted:
        return None

    def scaled(length: int) -> int:  # rounded half up
        return max(1, (2 * length * wanted + side) // (2 * side))

    return scaled(height), scaled(width)


def decode_smaller(data: bytes, header: jpeg.JpegHeader, size: Size) -> tuple[Image | None, str]:
    """Decode a common JPEG, strictly and to its end, and shrink it to `size`.

    Returns the picture, with the metadata of the file, and the first complaint of the decoder or
    "". The picture is None if there is a complaint, or if its colours need Pillow.
    """
    from PIL import Image

    height, width, _ = header.shape
    scale = _scale((height, width), size)
    space = _COLOUR_SPACES.get(header.colours)
    if space is None:
        return None, jpeg.strict_fault(data)
    try:
        decoded = jpeg.turbo_decode(data, header.shape, space, scale=scale, strict=True)
    except BadImage as error:
        return None, str(error)
    picture = Image.fromarray(decoded[:, :, 0] if space == "GRAY" else decoded)
    # The size is rounded up, so the last column and row may be covered only in part.
    small = _resized(picture, size, (0, 0, width / scale, height / scale))
    small.info = pixels.tags_of(data, "JPEG")
    return small, ""


def _scale(before: Size, after: Size) -> int:
    """Return the scale at which a JPEG can be decoded.

    >>> _scale((1200, 1600), (256, 341)), _scale((3000, 4000), (256, 341)), _scale((9, 9), (8, 8))
    (2, 4, 1)
    """
    sides = list(zip(before, after, strict=True))
    for scale in _SCALES:
        if all(old >= scale * _GAP * new for old, new in sides):
            return scale
    return 1


def shrink(picture: Image, size: Size, image_format: str, quality: int) -> Shrunk:
    """Shrink a decoded picture to `size` if it is larger, make it upright and encode it.

    `image_format` is the format of the source, and `quality` that of a JPEG.
    """
    turn = exif.orientation_in(picture.info.get("exif"))
    small = exif.upright(_resized(_plain(picture), size), turn)
    profile = picture.info.get("icc_profile")
    is_kept = isinstance(profile, bytes) and profile[16:20] == _PROFILES.get(small.mode)
    small.info = {"icc_profile": profile} if is_kept else {}
    is_jpeg = image_format in _PHOTOS and small.mode in _JPEG_MODES
    data = _to_jpeg(small, quality) if is_jpeg else pixels.to_png(small)
    channels = len(small.getbands())
    shape = small.height, small.width, channels
    return Shrunk(data, shape, "JPEG" if is_jpeg else "PNG", turn != exif.UPRIGHT)


def _plain(picture: Image) -> Image:
    """Return a picture whose values can be averaged, with the channels that TensorFlow decodes."""
    if picture.mode == "P":
        return picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    return picture.convert("L") if picture.mode == "1" else picture


def _resized(picture: Image, size: Size, box: Box | None = None) -> Image:
    """Resize a picture, or the part in a box."""
    from PIL import Image

    height, width = size
    if picture.mode in ("LA", "RGBA"):
        # Band by band: Pillow would make transparent pixels black, while TensorFlow, asked for
        # three channels, shows their colours.
        bands = [_resized(band, size, box) for band in picture.split()]
        return Image.merge(picture.mode, bands)
    is_deep = picture.mode == "I;16"  # Pillow cannot average these
    gap = None if is_deep else _GAP
    return picture.resize((width, height), Image.Resampling.LANCZOS, box, reducing_gap=gap)


def _to_jpeg(picture: Image, quality: int) -> bytes:
    out = io.BytesIO()
    picture.save(
        out,
        "JPEG",
        quality=quality,
        subsampling="4:4:4" if quality > _FULL_COLOUR else "4:2:0",
        icc_profile=picture.info.get("icc_profile"),
    )
    return out.getvalue()
