"""From the bytes of an image to its pixels: exact, of a size that a reader asks for, or small."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.codec import bmp, exif, jpeg, pillow
from imgrec.codec.pillow import to_pil
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage, UsageError
from imgrec.options import parsing
from imgrec.options.declaration import ImageSize, option, parsed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from imgrec.model import Pixels

Size = tuple[int, int]
"""Height and width."""

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_COLOUR_SPACES = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_INKS = frozenset({"CMYK", "YCCK"})
_THUMBNAIL_QUALITY = 80
_OWN_BYTES = 1 << 13
_METADATA = (b"\xff\xe1", b"\xff\xed", b"\xff\xee", b"\xff\xfe")
"""The markers of EXIF and XMP, IPTC, Adobe data (as in CMYK pictures), and comments."""


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The pixels that a reader asks for."""

    image_size: ImageSize | None = option(None, "resize every image to this; None keeps its size")
    decode_size: ImageSize | None = option(None, "decode at the smallest scale that covers this")
    channels: int = option(3, "1 for grey, 3 for RGB, 4 for RGB and alpha")
    exact: bool = option(False, "decode all pixels before resizing")
    orient: bool = option(False, "turn images by their EXIF orientation")

    def __post_init__(self) -> None:
        if self.channels not in _COLOUR_SPACES:
            raise UsageError(
                f"channels must be 1, 3 or 4, not {self.channels!r}",
                hint="1 is grey, 3 is RGB, 4 is RGB and alpha",
            )
        if self.decode_size and (self.image_size or self.exact):
            other = "image_size" if self.image_size else "exact"
            raise UsageError(
                f"decode_size and {other} exclude each other",
                hint="decode_size is for a transform that resizes by itself",
            )

    @property
    def cover(self) -> Size | None:
        """The least size to decode a picture to; None for full size."""
        return None if self.exact else self.image_size or self.decode_size


def parse_size(value: int | Sequence[int] | None, option: str) -> Size | None:
    """Return height and width of an option; one number is a square.

    >>> parse_size(224, "image_size"), parse_size([192, 256], "image_size")
    ((224, 224), (192, 256))
    """
    size = parsing.parse_size(option, value)
    if size and size[0] * size[1] > pillow.MAX_PIXELS:
        raise UsageError(
            f"{option} cannot be {value!r}", hint=f"no more than {pillow.MAX_PIXELS:,} pixels"
        )
    return size


def to_array(data: bytes, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Decode to an array of `shape`, as TensorFlow does; raise BadImage if it fails.

    Pixels are identical except for three kinds of JPEG: with damaged pixels; progressive without
    the last scans, which decoders smooth differently; and with components of half the width or
    height in a pattern that TurboJPEG does not support. The last differ by at most 5 levels.
    """
    if shape[2] not in _MODES:
        raise BadImage(f"no image has {shape[2]} channels")
    return _decoded(data, shape[2], None, is_fast=True)


def decode_covering(data: bytes, decoding: Decoding) -> NDArray[np.uint8]:
    """Decode to the requested channels, no larger than `decoding.cover` needs.

    A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if both sides still cover it. The caller
    resizes.
    """
    turn = exif.orientation(data) if decoding.orient else exif.UPRIGHT
    cover = decoding.cover
    if cover and turn >= exif.TURNED:
        cover = cover[1], cover[0]
    return _turned(_decoded(data, decoding.channels, cover), turn)


def resize(array: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Resize with an antialiased bilinear filter."""
    from PIL import Image

    if array.shape[:2] == size:
        return array
    return from_pil(from_array(array).resize((size[1], size[0]), Image.Resampling.BILINEAR))


def from_array(array: NDArray[np.uint8]) -> Image:
    """Make a Pillow picture from an array."""
    from PIL import Image

    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def from_pil(picture: Image) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow picture."""
    import numpy as np

    array: NDArray[np.uint8] = np.array(picture)  # the result of `asarray` is read-only
    return array if array.ndim == 3 else array[:, :, None]


def _decoded(
    data: bytes, channels: int, cover: Size | None, *, is_fast: bool = False
) -> NDArray[np.uint8]:
    if data.startswith(b"\xff\xd8"):
        return _decoded_jpeg(data, channels, cover, is_fast=is_fast)
    picture = _plain_bmp(data) if data.startswith(b"BM") else None
    return from_pil(_eight_bits(picture or to_pil(data)).convert(_MODES[channels]))


def _eight_bits(picture: Image) -> Image:
    import numpy as np
    from PIL import Image

    if not picture.mode.startswith("I;16"):
        return picture
    # TensorFlow drops the low byte, and Pillow would clip.
    return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))


def _plain_bmp(data: bytes) -> Image | None:
    """Decode a BMP as TensorFlow does, which reads less of its header than Pillow.

    Pillow would drop the last 8 of 32 bits per pixel. Returns None if TensorFlow misreads it.
    """
    from PIL import Image

    header = bmp.read_header(data)
    height, width, channels = header.shape
    if not header.is_plain or not bmp.is_whole(data, header):
        return None
    pillow.refuse_bomb(height, width)
    rows, stride = data[header.pixels :], header.row_bytes
    direction = 1 if header.is_top_down else -1
    orders = {1: "L", 3: "BGR", 4: "BGRA"}
    return Image.frombytes(
        _MODES[channels], (width, height), rows, "raw", orders[channels], stride, direction
    )


def _decoded_jpeg(
    data: bytes, channels: int, cover: Size | None, *, is_fast: bool
) -> NDArray[np.uint8]:
    """Decode a JPEG with TurboJPEG, or with Pillow if that rejects it.

    `is_fast` uses the less exact arithmetic that is TensorFlow's default.
    """
    header = jpeg.read_header(data)
    pillow.refuse_bomb(*header.shape[:2])
    is_ink = channels == 3 and header.colours in _INKS
    if is_ink or (header.colours in jpeg.SIMPLE_COLOURS and channels in _COLOUR_SPACES):
        scale = _scale(header.shape[:2], cover) if cover and header.is_common else 1
        colours = "CMYK" if is_ink else _COLOUR_SPACES[channels]
        for is_bare in (False, True):
            with suppress(BadImage):
                version = jpeg.without_extras(data, header) if is_bare else data
                decoded = jpeg.turbo_decode(
                    version, header.shape, colours, scale=scale, strict=False, fastdct=is_fast
                )
                return _without_ink(decoded, is_inverted=header.is_adobe) if is_ink else decoded
    picture = pillow.decode(data, "JPEG", is_fast=is_fast)
    if is_ink:  # Pillow assumes that they are stored inverted
        return _without_ink(255 - from_pil(picture), is_inverted=header.is_adobe)
    return from_pil(picture.convert(_MODES[channels]))


def _without_ink(inks: NDArray[np.uint8], *, is_inverted: bool) -> NDArray[np.uint8]:
    """Convert CMYK to RGB as TensorFlow does."""
    import numpy as np

    light = (inks if is_inverted else 255 - inks).astype(np.uint16)
    return (light[:, :, :3] * light[:, :, 3:] // 255).astype(np.uint8)


def _scale(size: Size, cover: Size) -> int:
    """Return the largest divisor of a JPEG's size that still covers another size.

    >>> _scale((1200, 1600), (224, 224)), _scale((375, 500), (224, 224))
    (4, 1)
    """
    sides = list(zip(size, cover, strict=True))
    return next((s for s in jpeg.SCALES if all(-(-a // s) >= b for a, b in sides)), 1)


def _turned(array: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    import numpy as np

    if orientation == exif.UPRIGHT:
        return array
    if orientation >= exif.TURNED:
        array = array.swapaxes(0, 1)
    down = -1 if orientation in exif.UPSIDE_DOWN else 1
    across = -1 if orientation in exif.MIRRORED else 1
    return np.ascontiguousarray(array[::down, ::across])


def thumbnail(data: bytes, filename: str, side: int, blob: Pixels | None = None) -> Image:
    """Return an image upright, in RGB, and scaled down to fit `side` x `side`.

    `blob` describes `data` if it is bare pixels. Raises BadImage.
    """
    from PIL.Image import Resampling

    image_format = format_of(data, filename) if blob is None else "pixels"
    with pillow.bad_images(image_format):
        if blob is not None:
            picture = _on_white(pillow.picture_of(data, blob))
        elif data.startswith(b"\xff\xd8"):
            picture = _small_jpeg(data, side)
        else:
            picture = _on_white(pillow.decode_to_fit(data, image_format)[0])
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
                scaled, quality=_THUMBNAIL_QUALITY, colorsubsampling="420"
            )
            return encoded
    return encode_thumbnail(thumbnail(data, filename, side))


def encode_thumbnail(picture: Image) -> bytes:
    """Encode a picture as JPEG, without metadata."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=_THUMBNAIL_QUALITY, comment=b"")
    return out.getvalue()


def _small_jpeg(data: bytes, side: int) -> Image:
    """Decode a JPEG upright, scaled down to fit `side`; a damaged one may be larger."""
    from PIL.Image import Resampling

    header = jpeg.read_header(data)
    # The decoder scales by 1/2, 1/4 or 1/8 where that is still large enough.
    gap = 1.0 if header.is_common else None
    try:
        picture = pillow.opened(data, "JPEG")  # Pillow is imported faster than NumPy
        with pillow.bad_images("JPEG"):
            picture.thumbnail((side, side), Resampling.BILINEAR, reducing_gap=gap)
            picture = _on_white(picture)
    except BadImage:
        return from_array(_scaled_jpeg(data, side))  # the intact part
    return exif.upright(picture, header.orientation)


def _scaled_jpeg(data: bytes, side: int) -> NDArray[np.uint8]:
    """Decode a JPEG upright, at the smallest scale that still covers `side`."""
    height, width, _ = jpeg.read_header(data).shape
    pillow.refuse_bomb(height, width)
    least = max(1, side * min(height, width) // max(height, width))
    asked = Decoding(decode_size=(least, least), orient=True)
    return decode_covering(data, asked)


def _on_white(picture: Image) -> Image:
    """Convert a picture to RGB; show transparent pixels white."""
    from PIL import Image

    if picture.mode.startswith("I;16"):
        picture = picture.point(lambda level: level / 256).convert("L")
    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")
