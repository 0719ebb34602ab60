"""Making a picture smaller: to what size, with what filter, and stored as what.

Photos (JPEG, and the formats that phones and the web use in its place) become JPEG, everything
else PNG; so do photos with alpha or of 16 bits, which no JPEG has. Grey stays grey, and a palette
becomes the colours it stands for. What its EXIF data says of a picture's orientation is done to
the pixels, and no tag stays but a colour profile that fits them, since without one the colours
would be others.
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
"""What is asked of libjpeg-turbo, by what a JPEG has; the rest is left to Pillow."""
_SCALES = (8, 4, 2)
_GAP = 2
"""What is cheap (a scaled decode, averaging) leaves this many times the size for the filter to
shrink. That was measured to take less than half the time of filtering every pixel, and to differ
from it by 0.7 in 255, where coding a JPEG of quality 90 changes several times as much."""
_FULL_COLOUR = 90
"""Above this quality a JPEG keeps all of its colours, and takes up to a half more to store and to
decode; at most this, a quarter of them, as JPEGs mostly do."""
_PROFILES = {"L": b"GRAY", "LA": b"GRAY", "I;16": b"GRAY", "RGB": b"RGB ", "RGBA": b"RGB "}
"""The colours that the profile of a picture is about, by its mode: bytes 16 to 19 of a profile."""


class Shrunk(NamedTuple):
    """A picture that has become smaller."""

    data: bytes
    shape: Shape
    format: str
    is_turned: bool
    """Whether it was made upright."""


def smaller_size(height: int, width: int, options: ShrinkOptions) -> Size | None:
    """Return the size that a picture is to be shrunk to; None if it is small enough.

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

    Returns the picture, with the tags of the file, and the decoder's first complaint, or "". There
    is no picture if there is a complaint, nor of colours that need Pillow.
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
    # Of its last column and row, which are rounded up, there may be only a part.
    small = _resized(picture, size, (0, 0, width / scale, height / scale))
    small.info = pixels.tags_of(data, "JPEG")
    return small, ""


def _scale(before: Size, after: Size) -> int:
    """Return by how much a JPEG can be divided while it is decoded.

    >>> _scale((1200, 1600), (256, 341)), _scale((3000, 4000), (256, 341)), _scale((9, 9), (8, 8))
    (2, 4, 1)
    """
    sides = list(zip(before, after, strict=True))
    for scale in _SCALES:
        if all(old >= scale * _GAP * new for old, new in sides):
            return scale
    return 1


def shrink(picture: Image, size: Size, image_format: str, quality: int) -> Shrunk:
    """Shrink a decoded picture to `size`, unless it is so small, make it upright and encode it.

    `image_format` is what it was decoded from. `quality` is of a JPEG.
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
    """Return a picture whose values can be averaged, with the channels that TensorFlow sees."""
    if picture.mode == "P":
        return picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    return picture.convert("L") if picture.mode == "1" else picture


def _resized(picture: Image, size: Size, box: Box | None = None) -> Image:
    """Resize a picture, or what of it is in a box."""
    from PIL import Image

    height, width = size
    if picture.mode in ("LA", "RGBA"):
        # Band by band: Pillow would make black what nothing is seen of, while TensorFlow, asked
        # for three channels, shows it.
        bands = [_resized(band, size, box) for band in picture.split()]
        return Image.merge(picture.mode, bands)
    is_deep = picture.mode == "I;16"  # of which Pillow takes no averages
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
