"""From a file's bytes to the bytes that are packed: raw wherever TensorFlow decodes them.

Raw are JPEG, PNG and the BMPs that TensorFlow reads right. Everything else that Pillow opens
becomes a PNG of the same pixels. What is packed has been checked as far as `Check` asks; the
shape is what `tf.io.decode_image(image, expand_animations=False)` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from imgrec.blob import Pixels
from imgrec.codec import bmp, jpeg, pixels, png
from imgrec.codec.sniff import HEAD_BYTES, describe, format_of
from imgrec.errors import BadImage
from imgrec.options import Check

Shape = tuple[int, int, int]


class Packable(NamedTuple):
    """An image as it goes into a record."""

    data: bytes
    shape: Shape
    format: str
    transcoded: str = ""
    """Why and from what it was re-encoded; empty for the file's own bytes."""
    damaged: str = ""
    """What a strict decoder says against it, though every other decodes it."""


def prepare(data: bytes, filename: str, check: Check) -> Packable:
    """Make an image packable, or raise BadImage with the reason.

    Example: `prepare(Path("a.gif").read_bytes(), "a.gif", Check.DECODE).format == "PNG"`.
    """
    image_format = format_of(data, filename)
    if not image_format:
        raise BadImage(describe(data[:HEAD_BYTES]))
    return _PREPARERS.get(image_format, _transcode)(data, image_format, check)


def shape_of(data: bytes, filename: str) -> Shape:
    """Return the shape that an image's header tells, or raise BadImage."""
    image_format = format_of(data, filename)
    if image_format in _HEADERS:
        return _HEADERS[image_format](data)
    if not image_format:
        raise BadImage(describe(data[:HEAD_BYTES]))
    return pixels.shape_of(data, image_format)


def pack_pixels(data: bytes, blob: Pixels) -> Packable:
    """Store uncompressed pixels as PNG."""
    return Packable(pixels.encode(data, blob), (blob.height, blob.width, blob.channels), "PNG")


def _prepare_jpeg(data: bytes, image_format: str, check: Check) -> Packable:
    header = jpeg.read_header(data)
    pixels.refuse_bomb(*header.shape[:2])
    if not header.is_common:
        return _transcode(data, image_format, check, "JPEG of a kind TensorFlow does not read")
    packable = Packable(data, header.shape, image_format)
    if check is Check.HEADER:
        return packable
    if not jpeg.reaches_end(data, header):
        return _transcode_cut_jpeg(data, check)
    if check is Check.STRUCTURE or not (fault := jpeg.strict_fault(data)):
        return packable
    pixels.decode(data, image_format)
    if not jpeg.is_well_formed(data, header):
        return _transcode(data, image_format, check, f"damaged JPEG: {fault}")
    return packable._replace(damaged=fault)


def _transcode_cut_jpeg(data: bytes, check: Check) -> Packable:
    try:
        return _transcode(data, "JPEG", check, "JPEG without its end marker")
    except BadImage as error:
        raise BadImage("truncated JPEG") from error


def _prepare_png(data: bytes, image_format: str, check: Check) -> Packable:
    header = png.read_header(data)
    pixels.refuse_bomb(*header.shape[:2])
    if fault := _PNG_CHECKS[check](data, header):
        try:
            return _transcode(data, image_format, check, fault)
        except BadImage as error:
            raise BadImage(fault) from error
    return Packable(data, header.shape, image_format)


_PNG_CHECKS: Mapping[Check, Callable[[bytes, png.PngHeader], str]] = {
    Check.DECODE: png.pixel_fault,
    Check.STRUCTURE: png.structure_fault,
    Check.HEADER: lambda _data, _header: "",
}


def _prepare_bmp(data: bytes, image_format: str, check: Check) -> Packable:
    header = bmp.read_header(data)
    pixels.refuse_bomb(*header.shape[:2])
    if header.is_plain and (check is Check.HEADER or bmp.is_whole(data, header)):
        return Packable(data, header.shape, image_format)
    return _transcode(data, image_format, check, "BMP of a kind TensorFlow does not read")


def _transcode(data: bytes, image_format: str, _check: Check, reason: str = "") -> Packable:
    """Store the first picture's pixels as PNG."""
    encoded, loss = pixels.to_png(data, image_format)
    why = ", ".join(filter(None, (reason or image_format, loss)))
    return Packable(encoded, png.read_header(encoded).shape, "PNG", transcoded=why)


_PREPARERS: Mapping[str, Callable[[bytes, str, Check], Packable]] = {
    "JPEG": _prepare_jpeg,
    "PNG": _prepare_png,
    "BMP": _prepare_bmp,
}
_HEADERS: Mapping[str, Callable[[bytes], Shape]] = {
    "JPEG": lambda data: jpeg.read_header(data).shape,
    "PNG": lambda data: png.read_header(data).shape,
    "BMP": lambda data: bmp.read_header(data).shape,
}
