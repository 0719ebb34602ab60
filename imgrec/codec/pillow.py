"""Decoding any picture with Pillow, and storing its pixels losslessly as PNG."""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec.codec import jpeg, png
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage
from imgrec.model import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 89_478_485
"""Pillow's limit against decompression bombs; a larger picture is refused, unread."""
MAX_SIDE = 1_000_000
"""libpng's limit, and so TensorFlow's, for the width and height of a PNG."""

_TILE_WIDTH, _TILE_HEIGHT = 322, 323


class _Plugin(NamedTuple):
    name: str
    module: str
    package: str
    register: str


_PLUGINS = {
    "HEIF": _Plugin("HEIC", "pillow_heif", "pillow-heif", "register_heif_opener"),
    "JXL": _Plugin("JPEG XL", "pillow_jxl", "pillow-jxl-plugin", ""),
}
CODERS = {
    "PIL": "pillow", "simplejpeg": "simplejpeg",
    **{plugin.module: plugin.package for plugin in _PLUGINS.values()},
}  # fmt: skip
"""Modules, and their packages, that decide which images decode, and to which bytes."""
_AS_IS = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
_CONVERTED = {
    "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB", "RGBX": "RGB",
    "PA": "RGBA", "RGBa": "RGBA", "La": "LA",
}  # fmt: skip


def refuse_bomb(height: int, width: int) -> None:
    """Raise BadImage if a picture is too large to decode."""
    if height * width > MAX_PIXELS or height > MAX_SIDE or width > MAX_SIDE:
        raise BadImage(f"{width}x{height} pixels: more than the limit of {MAX_PIXELS:,}")


def decode(data: bytes, image_format: str, *, is_fast: bool = False) -> Image:
    """Decode the first picture of a file to its end; raise BadImage with the reason if it fails.

    Only the one format named is tried, so that no other decoder ever sees the bytes. `is_fast`
    decodes a JPEG with the less exact arithmetic that is TensorFlow's default.
    """
    with bad_images(image_format):
        return _decode(data, image_format, is_fast=is_fast)


def to_pil(data: bytes) -> Image:
    """Decode an image in its own mode, a PNG as its still image; raise BadImage if it fails."""
    image_format = format_of(data, "")
    if image_format != "PNG":
        return decode(data, image_format)
    data = png.still(data)
    try:
        return decode(data, image_format)
    except BadImage:
        # Pillow rejects faulty chunks that other decoders, and so the packer, ignore.
        return decode(png.without_extras(data), image_format)


def shape_of(data: bytes, image_format: str) -> tuple[int, int, int]:
    """Return the shape of the first picture of a file, without decoding it; or raise BadImage."""
    with bad_images(image_format):
        image = _open(data, image_format)
        return image.height, image.width, len(image.getbands())


def tags_of(data: bytes, image_format: str) -> dict[str | tuple[int, int], Any]:
    """Return the metadata that Pillow finds in a file; nothing if it is broken."""
    try:
        with bad_images(image_format):
            return _open(data, image_format).info
    except BadImage:
        return {}


def decode_to_fit(data: bytes, image_format: str) -> tuple[Image, str]:
    """Decode as `decode` does, to a mode that PNG supports, or raise BadImage.

    Returns the picture and, if PNG cannot hold every value, what was lost.
    """
    with bad_images(image_format):
        image = _decode(data, image_format)
        if image.mode in _CONVERTED:
            is_lossy = image.mode in ("CMYK", "LAB", "HSV", "YCbCr")
            loss = f"{image.mode} colours converted to RGB" if is_lossy else ""
            converted = image.convert(_CONVERTED[image.mode])
            if image.mode == "LAB":  # Pillow adds an sRGB profile with the current time in it
                converted.info.pop("icc_profile", None)
            return converted, loss
        return (image, "") if image.mode in _AS_IS else _to_16_bits(image)


def to_png(image: Image) -> bytes:
    """Encode a picture, in a mode that PNG supports, as PNG."""
    profile = image.info.get("icc_profile")
    out = io.BytesIO()
    image.save(out, "PNG", icc_profile=profile if isinstance(profile, bytes) else None)
    return out.getvalue()


def picture_of(data: bytes, blob: Pixels) -> Image:
    """Return uncompressed pixels, grey or RGB, as a picture."""
    from PIL import Image

    size = blob.width, blob.height
    if blob.channels == 1:
        return Image.frombytes("L", size, data)
    if not blob.is_planar:
        return Image.frombytes("RGB", size, data)
    plane = blob.width * blob.height
    bands = [data[at : at + plane] for at in range(0, len(data), plane)]
    return Image.merge("RGB", [Image.frombytes("L", size, band) for band in bands])


@contextmanager
def bad_images(image_format: str) -> Iterator[None]:
    """Turn any exception of Pillow into BadImage with the reason."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BadImage:
        raise
    except UnidentifiedImageError as error:
        raise BadImage(f"broken {image_format}") from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"more pixels than the limit of {MAX_PIXELS:,}") from error
    # Pillow's decoders raise any kind of exception; all of them mean a bad image.
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise BadImage(f"broken {image_format}: {text}") from error


def opened(data: bytes, image_format: str) -> Image:
    """Open the first picture of a file without decoding it; raise BadImage if that fails.

    Decode it within `bad_images`.
    """
    with bad_images(image_format):
        image = _open(data, image_format)
        refuse_bomb(image.height, image.width)
        tags = getattr(image, "tag_v2", {})  # tiles of a TIFF may be larger than the picture
        refuse_bomb(int(tags.get(_TILE_HEIGHT, 1)), int(tags.get(_TILE_WIDTH, 1)))
    return image


def _decode(data: bytes, image_format: str, *, is_fast: bool = False) -> Image:
    image = opened(data, image_format)
    if is_fast and jpeg.has_plain_upsampling(data):
        # Scale and draft mode, which also turns off smooth upsampling of colours.
        setattr(image, "decoderconfig", (1, 1))  # noqa: B010  # the type has no such attribute
    image.load()
    for key in [key for key, value in image.info.items() if isinstance(value, str)]:
        del image.info[key]  # a text chunk may have the name of an entry that Pillow uses
    return image


def _open(data: bytes, image_format: str) -> Image:
    from PIL import Image

    if image_format != "JPEG":
        _register_plugin(image_format)
        return Image.open(io.BytesIO(data), formats=(image_format,))
    # `Image.open` would also parse the list of pictures in an MPO, and fail if it is broken.
    from PIL.JpegImagePlugin import JpegImageFile

    image = JpegImageFile(io.BytesIO(jpeg.without_gaps(data)))
    # All at once: given a long marker in pieces, libjpeg begins again with each.
    image.decodermaxblock = len(data)
    return image


def _register_plugin(image_format: str) -> None:
    if (plugin := _PLUGINS.get(image_format)) is None:
        return
    try:
        module = importlib.import_module(plugin.module)
    except ImportError as error:
        raise BadImage(f"{plugin.name} needs a plugin: pip install {plugin.package}") from error
    if plugin.register:
        getattr(module, plugin.register)()


def _to_16_bits(image: Image) -> tuple[Image, str]:
    """Convert other integers or floats to 16 bits, unchanged if they fit."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image).astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    fits = low >= 0 and high <= 0xFFFF and np.array_equal(values, np.floor(values))
    if not fits:
        values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
        values = (values - low) * (0xFFFF / (high - low) if high > low else 0)
    loss = "" if fits else "32-bit values rescaled to 16 bits"
    return Image.fromarray(np.round(values).astype(np.uint16)), loss
