"""From the bytes of a file to the bytes that are packed: unchanged if TensorFlow decodes them.

JPEG, PNG and the colour BMPs that TensorFlow decodes correctly stay unchanged. Everything else that
Pillow opens becomes a PNG of the same pixels. Images are checked as `Check` demands. The shape is
the one that `tf.io.decode_image(image, expand_animations=False)` gives.

An image larger than `ShrinkOptions` allow is always decoded, and stored smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.blob import Pixels
from imgrec.codec import bmp, jpeg, pixels, png
from imgrec.codec.sniff import HEAD_BYTES, describe, format_of
from imgrec.errors import BadImage
from imgrec.options import Check, ShrinkOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from imgrec.codec.shrink import Size

Shape = tuple[int, int, int]
_DEEP_COLOURS = "16-bit colours reduced to 8 bits"
_STRANGE_BMP = "BMP of a kind TensorFlow does not read"
_GREY_BMP = "grey BMP, which TensorFlow does not decode to one channel"


class Packable(NamedTuple):
    """An image as it goes into a record."""

    data: bytes
    shape: Shape
    format: str
    transcoded: str = ""
    """Why and from what it was re-encoded; empty for the file's own bytes."""
    damaged: str = ""
    """The message of a strict decoder, although all others decode it."""
    resized: str = ""
    """From what size to what size it was shrunk; empty if it was not."""
    grey: NDArray[np.uint8] | None = None
    """The result of `jpeg.strict_decode`, if it was checked that way."""
    orientation: int = 0
    """As `exif.orientation` returns it, if it is known already; else 0."""


class _Wanted(NamedTuple):
    """The check and size limit for every image."""

    check: Check
    shrink_to: ShrinkOptions | None

    def smaller(self, shape: tuple[int, ...]) -> Size | None:
        """Return the size to shrink an image of this shape to, or None."""
        if self.shrink_to is None:
            return None
        from imgrec.codec.shrink import smaller_size

        return smaller_size(shape[0], shape[1], self.shrink_to)


_wanted = lru_cache(maxsize=8)(_Wanted)


def prepare(
    data: bytes, filename: str, check: Check, shrink_to: ShrinkOptions | None = None
) -> Packable:
    """Make an image packable, or raise BadImage with the reason.

    Example: `prepare(Path("a.gif").read_bytes(), "a.gif", Check.DECODE).format == "PNG"`.
    """
    image_format = format_of(data, filename)
    if not image_format:
        raise BadImage(describe(data[:HEAD_BYTES]))
    prepare_format = _PREPARERS.get(image_format, _transcode)
    return prepare_format(data, image_format, _wanted(check, shrink_to))


def shape_of(data: bytes, filename: str) -> Shape:
    """Return the shape in the header of an image, or raise BadImage."""
    image_format = format_of(data, filename)
    if image_format in _HEADERS:
        return _HEADERS[image_format](data)
    if not image_format:
        raise BadImage(describe(data[:HEAD_BYTES]))
    return pixels.shape_of(data, image_format)


def tensorflow_fault(data: bytes) -> str:
    """Return why TensorFlow does not decode an image correctly, or ""; raise BadImage if none does.

    The image is decoded. A format that TensorFlow decodes to some channel counts only is no fault.
    """
    if format_of(data, "") != "BMP":
        return prepare(data, "", Check.DECODE).transcoded
    header = bmp.read_header(data)
    return "" if header.is_plain and bmp.is_whole(data, header) else _STRANGE_BMP


def pack_pixels(data: bytes, blob: Pixels, shrink_to: ShrinkOptions | None = None) -> Packable:
    """Store uncompressed pixels as PNG."""
    return _stored(pixels.picture_of(data, blob), "", _Wanted(Check.DECODE, shrink_to))


def _prepare_jpeg(data: bytes, image_format: str, wanted: _Wanted) -> Packable:
    header = jpeg.read_header(data)
    shape, turn = header.shape, header.orientation
    pixels.refuse_bomb(shape[0], shape[1])
    if not header.is_common:
        return _transcode(data, image_format, wanted, "JPEG of a kind TensorFlow does not read")
    packable = Packable(data, shape, image_format, "", "", "", None, turn)
    size = wanted.smaller(shape) if wanted.shrink_to else None
    if wanted.check is Check.HEADER and size is None:
        return packable
    if not jpeg.reaches_end(data, header):
        return _transcode_cut_jpeg(data, wanted)
    if size is not None:
        return _shrink_jpeg(data, header, size, wanted)
    if wanted.check is Check.STRUCTURE:
        return packable
    grey, fault = jpeg.strict_decode(data)
    if not fault:
        return Packable(data, shape, image_format, "", "", "", grey, turn)
    pixels.decode(data, image_format)
    if not jpeg.is_well_formed(data, header):
        return _transcode(data, image_format, wanted, _damaged_jpeg(fault))
    return packable._replace(damaged=jpeg.damage_in(fault))


def _shrink_jpeg(data: bytes, header: jpeg.JpegHeader, size: Size, wanted: _Wanted) -> Packable:
    """Store a JPEG smaller; the decode for that also checks it."""
    from imgrec.codec.shrink import decode_smaller

    picture, fault = decode_smaller(data, header, size)
    loss = ""
    if picture is None:
        picture, loss = pixels.decode_to_fit(data, "JPEG")
    small = _stored(picture, "JPEG", wanted, header.shape)
    if fault and jpeg.is_well_formed(data, header):
        return small._replace(transcoded=loss, damaged=jpeg.damage_in(fault))
    reasons = (_damaged_jpeg(fault) if fault else "", loss)
    return small._replace(transcoded=", ".join(filter(None, reasons)))


def _damaged_jpeg(fault: str) -> str:
    return f"damaged JPEG: {fault}"


def _transcode_cut_jpeg(data: bytes, wanted: _Wanted) -> Packable:
    try:
        return _transcode(data, "JPEG", wanted, "JPEG without its end marker")
    except BadImage as error:
        raise BadImage("truncated JPEG") from error


def _transcode_if_possible(data: bytes, image_format: str, wanted: _Wanted, fault: str) -> Packable:
    """Transcode an image because of a fault; raise BadImage with the fault if Pillow fails too."""
    try:
        return _transcode(data, image_format, wanted, fault)
    except BadImage as error:
        raise BadImage(fault) from error


def _prepare_png(data: bytes, image_format: str, wanted: _Wanted) -> Packable:
    try:
        header = png.read_header(data)
    except BadImage as error:  # Pillow checks headers less strictly than libpng
        return _transcode_if_possible(data, image_format, wanted, str(error))
    pixels.refuse_bomb(*header.shape[:2])
    is_larger = wanted.smaller(header.shape) is not None
    check = Check.DECODE if is_larger else wanted.check
    if fault := _PNG_CHECKS[check](data, header):
        return _transcode_if_possible(data, image_format, wanted, fault)
    if is_larger:
        return _shrink_png(data, header, wanted)
    return Packable(data, header.shape, image_format)


_PNG_MODES = {2: "LA", 3: "RGB", 4: "RGBA"}
_PNG_CHECKS: Mapping[Check, Callable[[bytes, png.PngHeader], str]] = {
    Check.DECODE: png.pixel_fault,
    Check.STRUCTURE: png.structure_fault,
    Check.HEADER: lambda _data, _header: "",
}


def _shrink_png(data: bytes, header: png.PngHeader, wanted: _Wanted) -> Packable:
    """Store a PNG smaller, with the channels that TensorFlow finds in it."""
    from imgrec.codec.decode import to_pil

    picture = to_pil(data)
    mode = _PNG_MODES.get(header.shape[2], picture.mode)
    if picture.mode != mode:
        with pixels.bad_images("PNG"):
            picture = picture.convert(mode)
    loss = _DEEP_COLOURS if header.is_deep else ""
    return _stored(picture, "PNG", wanted)._replace(transcoded=loss)


def _prepare_bmp(data: bytes, image_format: str, wanted: _Wanted) -> Packable:
    header = bmp.read_header(data)
    pixels.refuse_bomb(*header.shape[:2])
    is_larger = wanted.smaller(header.shape) is not None
    is_trusted = wanted.check is Check.HEADER and not is_larger
    if not header.is_plain or not (is_trusted or bmp.is_whole(data, header)):
        return _transcode(data, image_format, wanted, _STRANGE_BMP)
    # A dataset of grey images only is declared to have one channel, and then TFDS refuses BMPs.
    if header.shape[2] == 1:
        return _transcode(data, image_format, wanted, _GREY_BMP)
    if is_larger:
        return _re_encode(data, image_format, wanted, "")
    return Packable(data, header.shape, image_format)


def _transcode(data: bytes, image_format: str, wanted: _Wanted, reason: str = "") -> Packable:
    """Store the pixels of the first picture, because TensorFlow does not decode the file."""
    return _re_encode(data, image_format, wanted, reason or image_format)


def _re_encode(data: bytes, image_format: str, wanted: _Wanted, reason: str) -> Packable:
    """Store the pixels of the first picture, with the reason and any loss."""
    picture, loss = pixels.decode_to_fit(data, image_format)
    why = ", ".join(filter(None, (reason, loss)))
    return _stored(picture, image_format, wanted)._replace(transcoded=why)


def _stored(
    picture: Image, image_format: str, wanted: _Wanted, shape: tuple[int, ...] = ()
) -> Packable:
    """Store a decoded picture as PNG, or shrunk if it exceeds the size limit.

    `shape` is its original shape, if it was decoded smaller.
    """
    height, width, *_ = shape or (picture.height, picture.width)
    size = wanted.smaller((height, width))
    with pixels.bad_images(image_format):
        if size is None or wanted.shrink_to is None:
            encoded = pixels.to_png(picture)
            return Packable(encoded, png.read_header(encoded).shape, "PNG")
        from imgrec.codec.shrink import shrink

        small = shrink(picture, size, image_format, wanted.shrink_to.quality)
    change = f"{width}x{height} to {small.shape[1]}x{small.shape[0]}"
    change += ", turned upright" if small.is_turned else ""
    return Packable(small.data, small.shape, small.format, resized=change)


_PREPARERS: Mapping[str, Callable[[bytes, str, _Wanted], Packable]] = {
    "JPEG": _prepare_jpeg,
    "PNG": _prepare_png,
    "BMP": _prepare_bmp,
}
_HEADERS: Mapping[str, Callable[[bytes], Shape]] = {
    "JPEG": lambda data: jpeg.read_header(data).shape,
    "PNG": lambda data: png.read_header(data).shape,
    "BMP": lambda data: bmp.read_header(data).shape,
}
