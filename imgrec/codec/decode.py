"""From the bytes of a packed image to its pixels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.codec import bmp, exif, jpeg, pixels, png
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage, UsageError
from imgrec.options import parsing
from imgrec.options.declaration import ImageSize, option, parsed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Size = tuple[int, int]
"""Height and width."""

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_COLOUR_SPACES = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_SIMPLE = frozenset({"Gray", "YCbCr", "RGB"})
"""Colours that TurboJPEG converts to grey or RGB as other decoders do."""
_INKS = frozenset({"CMYK", "YCCK"})
_SCALES = (8, 4, 2)
"""A JPEG decodes faster to 1/8, 1/4 or 1/2 of its size. Other scales are slower than full size."""


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
                f"channels={self.channels!r} is none of 1, 3 and 4",
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
    if size and size[0] * size[1] > pixels.MAX_PIXELS:
        raise UsageError(
            f"{option} cannot be {value!r}", hint=f"no more than {pixels.MAX_PIXELS:,} pixels"
        )
    return size


def to_pil(data: bytes) -> Image:
    """Decode with Pillow in the image's own mode; raise BadImage if it fails."""
    image_format = format_of(data, "")
    if image_format == "PNG":
        data = png.still(data)
    try:
        return pixels.decode(data, image_format)
    except BadImage:
        if image_format != "PNG":
            raise
        # Pillow rejects faulty chunks that other decoders, and so the packer, ignore.
        return pixels.decode(png.without_extras(data), image_format)


def to_array(data: bytes, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Decode to an array of `shape`, as TensorFlow does; raise BadImage if it fails.

    Pixels are identical except for three kinds of JPEG: with damaged pixels; progressive without
    the last scans, which decoders smooth differently; and with components of half the width or
    height in a pattern that TurboJPEG does not support. The last differ by at most 5 levels.
    """
    if shape[2] not in _MODES:
        raise BadImage(f"no image has {shape[2]} channels")
    return _decoded(data, shape[2], None, is_fast=True)


def decode_for(data: bytes, decoding: Decoding) -> NDArray[np.uint8]:
    """Decode to the requested size and channels; raise BadImage if it fails."""
    array = decode_covering(data, decoding)
    return resize(array, decoding.image_size) if decoding.image_size else array


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
    """Make a Pillow picture from pixels."""
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

    Pillow would drop the last 8 of 32 bits per pixel.
    """
    from PIL import Image

    header = bmp.read_header(data)
    height, width, channels = header.shape
    if not header.is_plain or not bmp.is_whole(data, header):
        return None
    pixels.refuse_bomb(height, width)
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
    pixels.refuse_bomb(*header.shape[:2])
    is_ink = channels == 3 and header.colours in _INKS
    if is_ink or (header.colours in _SIMPLE and channels in _COLOUR_SPACES):
        scale = _scale(header.shape[:2], cover) if cover and header.is_common else 1
        colours = "CMYK" if is_ink else _COLOUR_SPACES[channels]
        for is_bare in (False, True):
            with suppress(BadImage):
                version = jpeg.without_extras(data, header) if is_bare else data
                decoded = jpeg.turbo_decode(
                    version, header.shape, colours, scale=scale, strict=False, fastdct=is_fast
                )
                return _without_ink(decoded, is_inverted=header.is_adobe) if is_ink else decoded
    picture = pixels.decode(data, "JPEG", is_fast=is_fast)
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
    for scale in _SCALES:
        if all(-(-side // scale) >= least for side, least in zip(size, cover, strict=True)):
            return scale
    return 1


def _turned(array: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    import numpy as np

    if orientation == exif.UPRIGHT:
        return array
    if orientation >= exif.TURNED:
        array = array.swapaxes(0, 1)
    down = -1 if orientation in (3, 4, 7, 8) else 1
    across = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(array[::down, ::across])
