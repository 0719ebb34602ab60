"""Thumbnails."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from imgrec.codec import decode, exif, jpeg, pixels
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from imgrec.blob import Pixels

_QUALITY = 80
_OWN_BYTES = 1 << 13
_METADATA = (b"\xff\xe1", b"\xff\xed", b"\xff\xee", b"\xff\xfe")
"""The markers of EXIF and XMP, IPTC, Adobe data (as in CMYK pictures), and comments."""
_PAPER = (255, 255, 255)
"""The colour behind transparent pixels."""


def thumbnail(data: bytes, filename: str, side: int, blob: Pixels | None = None) -> Image:
    """Return an image upright, in RGB, and scaled down to fit `side` x `side`.

    `blob` describes `data` if it is bare pixels. Raises BadImage.
    """
    from PIL.Image import Resampling

    image_format = format_of(data, filename) if blob is None else "pixels"
    with pixels.bad_images(image_format):
        if blob is not None:
            picture = _seen(pixels.picture_of(data, blob))
        elif data.startswith(b"\xff\xd8"):
            picture = _small_jpeg(data, side)
        else:
            picture = _seen(pixels.decode_to_fit(data, image_format)[0])
            picture = exif.upright(picture, exif.orientation(data))
        # Bicubic takes twice as long, and looks no better for pictures of up to twice the size.
        picture.thumbnail((side, side), Resampling.BILINEAR)
    return picture


def own_thumbnail(data: bytes, side: int) -> tuple[int, int, int] | None:
    """Return the shape of a JPEG that can serve as its own thumbnail; None for anything else.

    It must be small, upright, and without colours that browsers show differently (CMYK). It must
    have no metadata: a report may be sent to people who are not to know where a photo was taken.
    """
    if len(data) > _OWN_BYTES or not data.startswith(b"\xff\xd8\xff"):
        return None
    header = jpeg.read_header(data)
    head = data[: header.scan]
    is_bare = not any(marker in head for marker in _METADATA) and header.is_common
    is_small = max(header.shape[:2]) <= side and jpeg.reaches_end(data, header)
    return header.shape if is_bare and is_small else None


def rough_thumbnail(data: bytes, filename: str, side: int) -> bytes:
    """Encode a thumbnail whose longer side may be up to twice `side`; raise BadImage.

    It takes three fifths of the time, because a JPEG decoded at a smaller scale is not resized.
    """
    if data.startswith(b"\xff\xd8"):
        scaled = _scaled_jpeg(data, side)
        if max(scaled.shape[:2]) <= 2 * side:
            import simplejpeg  # type: ignore[import-untyped]  # it has no stubs

            encoded: bytes = simplejpeg.encode_jpeg(
                scaled, quality=_QUALITY, colorsubsampling="420"
            )
            return encoded
    return encode_thumbnail(thumbnail(data, filename, side))


def encode_thumbnail(picture: Image) -> bytes:
    """Encode a picture as JPEG, without metadata."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=_QUALITY, comment=b"")
    return out.getvalue()


def _small_jpeg(data: bytes, side: int) -> Image:
    """Decode a JPEG upright, scaled down to fit `side`; a damaged one may be larger."""
    from PIL.Image import Resampling

    header = jpeg.read_header(data)
    # The decoder scales by 1/2, 1/4 or 1/8 where that is still large enough.
    gap = 1.0 if header.is_common else None
    try:
        picture = pixels.opened(data, "JPEG")  # Pillow is imported faster than NumPy
        with pixels.bad_images("JPEG"):
            picture.thumbnail((side, side), Resampling.BILINEAR, reducing_gap=gap)
            picture = _seen(picture)
    except BadImage:
        return decode.from_array(_scaled_jpeg(data, side))  # the intact part
    return exif.upright(picture, header.orientation)


def _scaled_jpeg(data: bytes, side: int) -> NDArray[np.uint8]:
    """Decode a JPEG upright, at the smallest scale that still covers `side`."""
    height, width, _ = jpeg.read_header(data).shape
    pixels.refuse_bomb(height, width)
    least = max(1, side * min(height, width) // max(height, width))
    asked = decode.Decoding(decode_size=(least, least), orient=True)
    return decode.decode_covering(data, asked)


def _seen(picture: Image) -> Image:
    from PIL import Image

    if picture.mode.startswith("I;16"):
        picture = picture.point(lambda level: level / 256).convert("L")
    if picture.has_transparency_data:
        paper = Image.new("RGBA", picture.size, (*_PAPER, 255))
        return Image.alpha_composite(paper, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")
