"""From the bytes of a packed image to its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imgrec.codec import pixels
from imgrec.codec.sniff import format_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_COLOUR_SPACES = {1: "GRAY", 3: "RGB"}
_SIMPLE = frozenset({"Gray", "YCbCr", "RGB"})
"""What libjpeg-turbo turns into grey or RGB as everyone else does."""


def to_pil(data: bytes) -> Image:
    """Decode with Pillow, in the mode that the image has; raise BadImage if it fails."""
    return pixels.decode(data, format_of(data, ""))


def to_array(data: bytes, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Decode to an array of `shape`, as TensorFlow does; raise BadImage if it fails."""
    import numpy as np

    if data.startswith(b"\xff\xd8") and (decoded := _decoded_jpeg(data, shape)) is not None:
        return decoded
    picture = to_pil(data)
    if picture.mode.startswith("I;16"):  # TensorFlow drops the low byte, and Pillow would clip
        return (np.asarray(picture) >> 8).astype(np.uint8)[:, :, None]
    array = np.asarray(picture.convert(_MODES[shape[2]]))
    return array if array.ndim == 3 else array[:, :, None]


def _decoded_jpeg(data: bytes, shape: tuple[int, int, int]) -> NDArray[np.uint8] | None:
    """Decode a JPEG with libjpeg-turbo; return None for the few that it takes exception to."""
    import simplejpeg  # type: ignore[import-untyped]  # it has no stubs

    try:
        if simplejpeg.decode_jpeg_header(data)[2] not in _SIMPLE:
            return None
        decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, colorspace=_COLOUR_SPACES[shape[2]], strict=False
        )
    except ValueError:
        return None
    return decoded
