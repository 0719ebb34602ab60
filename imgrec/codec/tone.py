"""The brightness and contrast of a picture, in two bytes.

uint8   the mean of its levels, from 0 for black to 255
uint8   twice their standard deviation; 255 if the picture was not decoded
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imgrec.errors import BadImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TONE_BYTES = 2
NOT_SEEN = 255
UNKNOWN = bytes((0, NOT_SEEN))
_BATCH, _BATCH_PIXELS = 128, 1 << 14
"""Pictures, and pixels, that are summed up at once: as many as fit into a CPU cache."""
_SIDE = 64


class Tones:
    """Collects the tones of pictures."""

    def __init__(self) -> None:
        self._waiting: list[NDArray[np.uint8] | None] = []
        self._pixels = 0
        """The pixels of those waiting."""
        self._encoded: list[bytes] = []
        self._is_known = False

    def add(self, levels: NDArray[np.uint8] | None) -> None:
        """Add the levels of a picture decoded at any scale; None if it was not decoded."""
        self._waiting.append(levels)
        if levels is not None:
            self._is_known = True
            self._pixels += levels.size
        if len(self._waiting) == _BATCH or self._pixels > _BATCH_PIXELS:
            self._encode()

    def encode(self) -> bytes:
        """Return two bytes for each picture; empty if none is known."""
        self._encode()
        return b"".join(self._encoded) if self._is_known else b""

    def _encode(self) -> None:
        seen = [levels.reshape(-1) for levels in self._waiting if levels is not None]
        tones = iter(_sum_up(seen))
        self._encoded += [UNKNOWN if levels is None else next(tones) for levels in self._waiting]
        self._waiting.clear()
        self._pixels = 0


def _sum_up(pictures: list[NDArray[np.uint8]]) -> list[bytes]:
    if not pictures:
        return []
    import numpy as np

    counts = np.array([len(levels) for levels in pictures])
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    levels = np.concatenate(pictures).astype(np.float64)  # exact for such sums
    means = np.add.reduceat(levels, starts) / counts
    squares = np.add.reduceat(levels * levels, starts) / counts
    spreads = np.sqrt(np.maximum(squares - means * means, 0))
    tones = np.stack([np.round(means), np.minimum(np.round(spreads * 2), NOT_SEEN - 1)], axis=1)
    return [tone.tobytes() for tone in tones.astype(np.uint8)]


def levels_of(data: bytes, filename: str) -> NDArray[np.uint8] | None:
    """Decode an image at a small scale and return its levels; None if that fails."""
    import numpy as np

    from imgrec.codec import jpeg  # not needed by a worker that writes shards
    from imgrec.codec.sniff import format_of
    from imgrec.codec.thumbnail import thumbnail

    try:
        if format_of(data, filename) == "JPEG" and jpeg.read_header(data).is_common:
            grey, fault = jpeg.strict_decode(data)
            if not fault:
                return grey
        return np.asarray(thumbnail(data, filename, _SIDE).convert("L"))
    except BadImage:
        return None


def levels_of_pixels(data: bytes) -> NDArray[np.uint8]:
    """Return the levels of bare pixels; for colours, all three channels are averaged."""
    import numpy as np

    return np.frombuffer(data, np.uint8)
