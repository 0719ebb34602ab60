"""From the bytes of a file to the bytes that are packed: unchanged if TensorFlow decodes them.

JPEG, PNG and the colour BMPs that TensorFlow decodes correctly stay unchanged. Everything else that
Pillow opens becomes a PNG of the same pixels. Images are checked as `Check` demands. The shape is
the one that `tf.io.decode_image(image, expand_animations=False)` gives.

An image larger than `ShrinkOptions` allow is always decoded, and stored smaller. Photos (JPEG, and
the formats that phones and the web use instead) become JPEG. Everything else becomes PNG, and so do
photos with alpha or 16 bits, which JPEG lacks. Grey stays grey, and a palette becomes RGB. The EXIF
orientation is applied to the pixels. Of the metadata, only a colour profile that fits the pixels is
kept: without it the colours would change.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import bmp, exif, jpeg, pillow, png
from imgrec.codec.sniff import HEAD_BYTES, describe, format_of
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.options import Check, ShrinkOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Shape = tuple[int, int, int]
Size = tuple[int, int]
"""Height and width."""
Box = tuple[float, float, float, float]
"""Left, upper, right and lower side."""

_STRANGE_BMP = "BMP of a kind TensorFlow does not read"
_PNG_MODES = {2: "LA", 3: "RGB", 4: "RGBA"}
_PHOTOS = frozenset({"JPEG", "HEIF", "AVIF", "WEBP", "JPEG2000", "JXL"})
_JPEG_MODES = frozenset({"L", "RGB"})
_REDUCING_GAP = 2
"""Cheap steps (a scaled decode, averaging) leave this many times the size to the filter.

That was measured to take less than half the time of filtering every pixel, and to differ from it by
0.7 in 255; encoding a JPEG at quality 90 changes several times as much.
"""
_FULL_COLOUR_QUALITY = 90
"""Above this quality a JPEG keeps its full colour resolution, and takes up to half more to store
and to decode; otherwise a quarter of it, as most JPEGs do."""
_PROFILES = {"L": b"GRAY", "LA": b"GRAY", "I;16": b"GRAY", "RGB": b"RGB ", "RGBA": b"RGB "}
"""The colour space in bytes 16 to 19 of a fitting profile, by the mode of the picture."""


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


class _Request(NamedTuple):
    """The check and size limit for an image."""

    check: Check
    shrink_to: ShrinkOptions | None

    def smaller(self, height: int, width: int) -> Size | None:
        """Return the size to shrink an image to, or None."""
        return smaller_size(height, width, self.shrink_to) if self.shrink_to else None


def prepare(
    data: bytes, filename: str, check: Check, shrink_to: ShrinkOptions | None = None
) -> Packable:
    """Make an image packable, or raise BadImage with the reason.

    Example: `prepare(Path("a.gif").read_bytes(), "a.gif", Check.DECODE).format == "PNG"`.
    """
    image_format = known_format(data, filename)
    prepare_format = _PREPARERS.get(image_format, _transcode)
    return prepare_format(data, image_format, _Request(check, shrink_to))


def known_format(data: bytes, filename: str) -> str:
    """Return the format of an image; raise BadImage if it is not known."""
    if image_format := format_of(data, filename):
        return image_format
    raise BadImage(describe(data[:HEAD_BYTES]))


def shape_of(data: bytes, filename: str) -> Shape:
    """Return the shape in the header of an image, or raise BadImage."""
    image_format = known_format(data, filename)
    if image_format in _HEADERS:
        return _HEADERS[image_format](data).shape
    return pillow.shape_of(data, image_format)


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
    return _store(pillow.picture_of(data, blob), "", _Request(Check.DECODE, shrink_to))


def _prepare_jpeg(data: bytes, image_format: str, request: _Request) -> Packable:
    header = jpeg.read_header(data)
    height, width, _ = header.shape
    pillow.refuse_bomb(height, width)
    if not header.is_common:
        return _transcode(data, image_format, request, "JPEG of a kind TensorFlow does not read")
    packable = Packable(data, header.shape, image_format, orientation=header.orientation)
    size = request.smaller(height, width)
    if request.check is Check.HEADER and size is None:
        return packable
    if not jpeg.reaches_end(data, header):
        fault = "JPEG without its end marker"
        return _transcode_if_possible(data, image_format, request, fault, "truncated JPEG")
    if size is not None:
        return _shrink_jpeg(data, header, size, request)
    if request.check is Check.STRUCTURE:
        return packable
    grey, fault = jpeg.strict_decode(data)
    if not fault:
        return packable._replace(grey=grey)
    pillow.decode(data, image_format)
    if not jpeg.is_well_formed(data, header):
        return _transcode(data, image_format, request, f"damaged JPEG: {fault}")
    return packable._replace(damaged=jpeg.damage_in(fault))


def _shrink_jpeg(data: bytes, header: jpeg.JpegHeader, size: Size, request: _Request) -> Packable:
    """Store a JPEG smaller; the decode for that also checks it."""
    picture, fault = decode_smaller(data, header, size)
    reasons = []
    if picture is None:
        picture, loss = pillow.decode_to_fit(data, "JPEG")
        reasons.append(loss)
    is_sound = not fault or jpeg.is_well_formed(data, header)
    if not is_sound:
        reasons.insert(0, f"damaged JPEG: {fault}")
    small = _store(picture, "JPEG", request, header.shape)
    return small._replace(
        transcoded=", ".join(filter(None, reasons)),
        damaged=jpeg.damage_in(fault) if is_sound else "",
    )


def _prepare_png(data: bytes, image_format: str, request: _Request) -> Packable:
    try:
        header = png.read_header(data)
    except BadImage as error:  # Pillow checks headers less strictly than libpng
        return _transcode_if_possible(data, image_format, request, str(error))
    height, width, channels = header.shape
    pillow.refuse_bomb(height, width)
    is_larger = request.smaller(height, width) is not None
    fault = ""
    if is_larger or request.check is Check.DECODE:
        fault = png.pixel_fault(data, header)
    elif request.check is Check.STRUCTURE:
        fault = png.structure_fault(data, header)
    if fault:
        return _transcode_if_possible(data, image_format, request, fault)
    if not is_larger:
        return Packable(data, header.shape, image_format)
    picture = pillow.to_pil(data)
    mode = _PNG_MODES.get(channels, picture.mode)  # the channels that TensorFlow finds in it
    if picture.mode != mode:
        with pillow.bad_images("PNG"):
            picture = picture.convert(mode)
    loss = "16-bit colours reduced to 8 bits" if header.is_deep else ""
    return _store(picture, "PNG", request)._replace(transcoded=loss)


def _prepare_bmp(data: bytes, image_format: str, request: _Request) -> Packable:
    header = bmp.read_header(data)
    height, width, channels = header.shape
    pillow.refuse_bomb(height, width)
    is_larger = request.smaller(height, width) is not None
    is_trusted = request.check is Check.HEADER and not is_larger
    if not header.is_plain or not (is_trusted or bmp.is_whole(data, header)):
        return _transcode(data, image_format, request, _STRANGE_BMP)
    # A dataset of grey images only is declared to have one channel, and then TFDS refuses BMPs.
    if channels == 1:
        reason = "grey BMP, which TensorFlow does not decode to one channel"
        return _transcode(data, image_format, request, reason)
    if is_larger:
        picture, loss = pillow.decode_to_fit(data, image_format)
        return _store(picture, image_format, request)._replace(transcoded=loss)
    return Packable(data, header.shape, image_format)


def _transcode(data: bytes, image_format: str, request: _Request, reason: str = "") -> Packable:
    """Store the pixels of the first picture, because TensorFlow does not decode the file."""
    picture, loss = pillow.decode_to_fit(data, image_format)
    why = ", ".join(filter(None, (reason or image_format, loss)))
    return _store(picture, image_format, request)._replace(transcoded=why)


def _transcode_if_possible(
    data: bytes, image_format: str, request: _Request, fault: str, failure: str = ""
) -> Packable:
    """Transcode an image with a fault; if Pillow fails too, raise BadImage with the fault.

    `failure` is its message then, if it is not the fault.
    """
    try:
        return _transcode(data, image_format, request, fault)
    except BadImage as error:
        raise BadImage(failure or fault) from error


def _store(
    picture: Image, image_format: str, request: _Request, shape: tuple[int, ...] = ()
) -> Packable:
    """Store a decoded picture as PNG, or shrunk if it exceeds the size limit.

    `image_format` is the format of the source, and `shape` its shape if it was decoded smaller.
    """
    height, width, *_ = shape or (picture.height, picture.width)
    size = request.smaller(height, width)
    with pillow.bad_images(image_format):
        if size is None or request.shrink_to is None:
            encoded = pillow.to_png(picture)
            return Packable(encoded, png.read_header(encoded).shape, "PNG")
        turn = exif.orientation_in(picture.info.get("exif"))
        small = exif.upright(_resize(_to_channels(picture), size), turn)
        profile = picture.info.get("icc_profile")
        fits = isinstance(profile, bytes) and profile[16:20] == _PROFILES.get(small.mode)
        small.info = {"icc_profile": profile} if fits else {}
        is_jpeg = image_format in _PHOTOS and small.mode in _JPEG_MODES
        quality = request.shrink_to.quality
        encoded = _to_jpeg(small, quality) if is_jpeg else pillow.to_png(small)
    change = f"{width}x{height} to {small.width}x{small.height}"
    change += "" if turn == exif.UPRIGHT else ", turned upright"
    small_shape = small.height, small.width, len(small.getbands())
    return Packable(encoded, small_shape, "JPEG" if is_jpeg else "PNG", resized=change)


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
        side, limit = min(height, width), options.short_side
    else:
        side, limit = max(height, width), options.max_side or 0
    if side <= limit:
        return None

    def scaled(length: int) -> int:  # rounded half up
        return max(1, (2 * length * limit + side) // (2 * side))

    return scaled(height), scaled(width)


def decode_smaller(data: bytes, header: jpeg.JpegHeader, size: Size) -> tuple[Image | None, str]:
    """Decode a common JPEG, strictly and to its end, and shrink it to `size`.

    Returns the picture, with the metadata of the file, and the first complaint of the decoder or
    "". The picture is None if there is a complaint, or if its colours need Pillow.
    """
    from PIL import Image

    height, width, _ = header.shape
    if header.colours not in jpeg.SIMPLE_COLOURS:
        return None, jpeg.strict_decode(data)[1]
    space = "GRAY" if header.colours == "Gray" else "RGB"
    sides = ((height, size[0]), (width, size[1]))
    scale = next(
        (s for s in jpeg.SCALES if all(old >= s * _REDUCING_GAP * new for old, new in sides)), 1
    )
    try:
        decoded = jpeg.turbo_decode(data, header.shape, space, scale=scale, strict=True)
    except BadImage as error:
        return None, str(error)
    picture = Image.fromarray(decoded[:, :, 0] if space == "GRAY" else decoded)
    # The size is rounded up, so the last column and row may be covered only in part.
    small = _resize(picture, size, (0, 0, width / scale, height / scale))
    small.info = pillow.tags_of(data, "JPEG")
    return small, ""


def _to_channels(picture: Image) -> Image:
    """Return a picture whose values can be averaged, with the channels that TensorFlow decodes."""
    if picture.mode == "P":
        return picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    return picture.convert("L") if picture.mode == "1" else picture


def _resize(picture: Image, size: Size, box: Box | None = None) -> Image:
    """Resize a picture, or the part in a box."""
    from PIL import Image

    height, width = size
    if picture.mode in ("LA", "RGBA"):
        # Band by band: Pillow would make transparent pixels black, while TensorFlow, asked for
        # three channels, shows their colours.
        return Image.merge(picture.mode, [_resize(band, size, box) for band in picture.split()])
    gap = None if picture.mode == "I;16" else _REDUCING_GAP  # Pillow cannot average 16 bits
    return picture.resize((width, height), Image.Resampling.LANCZOS, box, reducing_gap=gap)


def _to_jpeg(picture: Image, quality: int) -> bytes:
    out = io.BytesIO()
    picture.save(
        out,
        "JPEG",
        quality=quality,
        subsampling="4:4:4" if quality > _FULL_COLOUR_QUALITY else "4:2:0",
        icc_profile=picture.info.get("icc_profile"),
    )
    return out.getvalue()


_PREPARERS: Mapping[str, Callable[[bytes, str, _Request], Packable]] = {
    "JPEG": _prepare_jpeg,
    "PNG": _prepare_png,
    "BMP": _prepare_bmp,
}
_HEADERS: Mapping[str, Callable[[bytes], jpeg.JpegHeader | png.PngHeader | bmp.BmpHeader]] = {
    "JPEG": jpeg.read_header,
    "PNG": png.read_header,
    "BMP": bmp.read_header,
}
