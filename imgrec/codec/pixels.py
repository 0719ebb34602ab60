"""Decoding any picture with Pillow, and storing its pixels losslessly as PNG."""

from __future__ import annotations

import importlib
import io
import warnings
from typing import TYPE_CHECKING, NamedTuple

from imgrec.errors import BadImage

if TYPE_CHECKING:
    from PIL.Image import Image

_PILLOW_FORMATS = {"JPEG": ("JPEG", "MPO")}
"""Where Pillow has more than one name for what a format's first bytes begin."""


class _Plugin(NamedTuple):
    module: str
    install: str
    register: str


_PLUGINS = {
    "HEIF": _Plugin("pillow_heif", "pillow-heif", "register_heif_opener"),
    "JXL": _Plugin("pillow_jxl", "pillow-jxl-plugin", ""),
}
_AS_IS = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
_CONVERTED = {
    "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB", "RGBX": "RGB",
    "PA": "RGBA", "RGBa": "RGBA", "La": "LA", "I;16B": "I;16", "I;16L": "I;16", "I;16N": "I;16",
}  # fmt: skip


def decode(data: bytes, image_format: str) -> Image:
    """Decode the first picture of a file to its end; raise BadImage with the reason if it fails.

    Only the one format named is tried, so that no other decoder ever sees the bytes.
    """
    from PIL import Image, UnidentifiedImageError

    _register_plugin(image_format)
    formats = _PILLOW_FORMATS.get(image_format, (image_format,))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=formats)
            image.load()
            return image
    except UnidentifiedImageError as error:
        raise BadImage(f"broken {image_format}") from error
    # Pillow's decoders raise whatever their parsing stumbles over; all of it means a bad image.
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise BadImage(f"broken {image_format}: {text}") from error


def _register_plugin(image_format: str) -> None:
    if (plugin := _PLUGINS.get(image_format)) is None:
        return
    try:
        module = importlib.import_module(plugin.module)
    except ImportError as error:
        name = {"HEIF": "HEIC", "JXL": "JPEG XL"}[image_format]
        raise BadImage(f"{name} needs a plugin: pip install {plugin.install}") from error
    if plugin.register:
        getattr(module, plugin.register)()


def to_png(image: Image) -> tuple[bytes, str]:
    """Encode a picture as PNG; return it and, where PNG cannot hold every value, what was lost."""
    loss = ""
    if image.mode in _CONVERTED:
        if image.mode in ("CMYK", "LAB", "HSV", "YCbCr"):
            loss = f"{image.mode} colours converted to RGB"
        image = image.convert(_CONVERTED[image.mode])
    elif image.mode not in _AS_IS:
        image, loss = _to_16_bits(image)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue(), loss


def _to_16_bits(image: Image) -> tuple[Image, str]:
    """Fit 32-bit integers or floats into 16 bits, unchanged if they do fit."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = float(values.min()), float(values.max())
    fits = low >= 0 and high <= 0xFFFF and bool((values == np.floor(values)).all())
    if not fits:
        values = (values - low) * (0xFFFF / (high - low) if high > low else 0)
    loss = "" if fits else "32-bit values rescaled to 16 bits"
    return Image.fromarray(np.round(values).astype(np.uint16)), loss
