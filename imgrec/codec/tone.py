"""The tone of a picture, its brightness and contrast, in 2 bytes.

uint8       the mean of its levels, from 0 for black to 255
uint8       twice their standard deviation; 255 if the picture was not decoded
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imgrec.codec import jpeg
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TONE_BYTES = 2
NOT_DECODED = 255
UNKNOWN_TONE = bytes((0, NOT_DECODED))
_TONE_SIDE = 64


def tone(levels: NDArray[np.uint8] | None) -> bytes:
    """Return the tone of a picture decoded at any scale; None was not decoded."""
    if levels is None:
        return UNKNOWN_TONE
    import numpy as np

    flat = levels.reshape(-1).astype(np.float64)  # exact for such sums
    mean = float(np.add.reduce(flat)) / flat.size
    variance = float(flat.dot(flat)) / flat.size - mean * mean
    deviation = math.sqrt(variance) if variance > 0 else 0.0
    return bytes((round(mean), min(round(2 * deviation), NOT_DECODED - 1)))


def levels_of_pixels(data: bytes) -> NDArray[np.uint8]:
    """Return the levels of bare pixels; for colours, all three channels are averaged."""
    import numpy as np

    return np.frombuffer(data, np.uint8)


def join_tones(tones: Sequence[bytes]) -> bytes:
    """Join the tones of pictures; return b"" if none is known."""
    return b"".join(tones) if any(one != UNKNOWN_TONE for one in tones) else b""


def levels_of(data: bytes, filename: str) -> NDArray[np.uint8] | None:
    """Decode an image at a small scale and return its levels; None if that fails."""
    import numpy as np

    from imgrec.codec.decode import thumbnail  # not needed by a worker that writes shards

    try:
        if format_of(data, filename) == "JPEG" and jpeg.read_header(data).is_common:
            grey, fault = jpeg.strict_decode(data)
            if not fault:
                return grey
        return np.asarray(thumbnail(data, filename, _TONE_SIDE).convert("L"))
    except BadImage:
        return None
