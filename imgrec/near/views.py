"""Find roughly how one picture may lie on another.

The inner pixels of one, in several views (smaller, larger, narrower, turned by 5 degrees), are
compared with the other at all shifts of up to 4 pixels of 32. This is done at half the size, on
eased gradients (`near.align`). All sums are of whole numbers that a float holds exactly, so the
result does not depend on the machine.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.near.align import Maps
from imgrec.near.descriptor import SIDE
from imgrec.near.search import numbered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Doubles: TypeAlias = NDArray[np.float64]
    Numbers: TypeAlias = NDArray[np.int64]

_HALF = SIDE // 2
_REACH = 2
"""The largest shift, at half the size."""
_SHIFTS = 2 * _REACH + 1
_INNER = _HALF - 2 * _REACH
_VIEWS = (
    (1.0, 1.0, 0), (0.88, 0.88, 0), (0.76, 0.76, 0), (1.0, 0.82, 0), (0.82, 1.0, 0),
    (1.0, 1.0, 5), (1.0, 1.0, -5),
    (1.14, 1.14, 0), (1.32, 1.32, 0), (1.0, 1.22, 0), (1.22, 1.0, 0),
)  # fmt: skip
"""Scales of height and width, and the angle in degrees, at which a picture is laid over another."""
_FIRST_LARGER = 7
"""The first view in which a picture is larger than the other, which may be a part of it."""
_STEPS = 16
"""Positions in a picture are rounded to this fraction of a pixel."""


class Placed(NamedTuple):
    """Pairs of pictures, and roughly how they lie on each other, by column."""

    is_back: NDArray[np.bool_]
    """Whether the second is laid on the first, as it may be a part of it."""
    maps: Maps
    """Where the pixels of the first belong in the second, or the other way round."""
    scores: Doubles
    """The square of the correlation."""


def place(halves: Floats, first: Numbers, second: Numbers) -> Placed:
    """Find roughly how the pictures of pairs lie on each other, given their halved gradients."""
    import numpy as np

    laid, at = numbered(first)
    views = _half_views(halves[laid])[at]
    windows = _windows(halves[second])
    dots = (windows @ views.swapaxes(1, 2)).astype(np.float64)
    own = np.square(views, dtype=np.float64).sum(axis=2)[:, None, :]
    ratios = dots * dots / np.maximum(_energies(halves[second])[:, :, None] * own, 1)
    ratios = ratios.reshape(len(first), -1)
    best = ratios.argmax(axis=1)
    window, view = np.divmod(best, len(_VIEWS))
    shift = 2.0 * (np.stack(np.divmod(window, _SHIFTS), axis=1) - _REACH)  # at full size
    straight, inverse = (matrices[view] for matrices in _matrices())
    is_back = view >= _FIRST_LARGER
    back = -(inverse[:, :, 0] * shift[:, :1] + inverse[:, :, 1] * shift[:, 1:])
    maps = Maps(
        np.where(is_back[:, None, None], inverse, straight),
        np.where(is_back[:, None], back, shift),
    )
    return Placed(is_back, maps, ratios[np.arange(len(first)), best])


def halved(fields: Floats) -> Floats:
    """Return gradients at half the size, as whole numbers."""
    import numpy as np

    sums = fields[:, :, ::2] + fields[:, :, 1::2]
    return np.floor((sums[..., ::2] + sums[..., 1::2] + 2) / 4)


def _half_views(halves: Floats) -> Floats:
    """Return all views as vectors."""
    import numpy as np

    places, weights = _taps()
    flat = np.ascontiguousarray(halves.reshape(len(halves), 2, -1).swapaxes(0, 2))
    seen = flat.take(places[0], axis=0) * weights[0]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        seen += flat.take(place, axis=0) * weight
    seen = np.floor((seen + _STEPS * _STEPS // 2) / (_STEPS * _STEPS))
    seen = seen.reshape(len(_VIEWS), -1, 2, len(halves)).transpose(3, 0, 2, 1)
    return np.ascontiguousarray(seen).reshape(len(halves), len(_VIEWS), -1)


def _windows(halves: Floats) -> Floats:
    """Return all windows of the size of a view in each picture, as vectors."""
    import numpy as np
    from numpy.lib.stride_tricks import sliding_window_view

    windows = sliding_window_view(halves, (_INNER, _INNER), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    return np.ascontiguousarray(windows).reshape(len(halves), _SHIFTS * _SHIFTS, -1)


def _energies(halves: Floats) -> Doubles:
    """Return the sum of squares in each window of pictures, row by row."""
    import numpy as np

    sums = np.zeros((len(halves), _HALF + 1, _HALF + 1))
    sums[:, 1:, 1:] = np.square(halves, dtype=np.float64).sum(axis=1).cumsum(1).cumsum(2)
    below = sums[:, _INNER:, _INNER:] - sums[:, _INNER:, :-_INNER]
    above = sums[:, :-_INNER, _INNER:] - sums[:, :-_INNER, :-_INNER]
    energies: Doubles = (below - above).reshape(len(halves), -1)
    return energies


def _turn(angle: float) -> tuple[float, float]:
    """Return the cosine and the sine, rounded: they may differ in the last place elsewhere."""
    return round(math.cos(math.radians(angle)), 9), round(math.sin(math.radians(angle)), 9)


def _matrices() -> tuple[Doubles, Doubles]:
    """Return where the pixels of a picture in each view belong in the other, and the inverse."""
    import numpy as np

    straight, inverse = [], []
    for high, wide, angle in _VIEWS:
        cosine, sine = _turn(angle)
        straight.append([[high * cosine, -high * sine], [wide * sine, wide * cosine]])
        inverse.append([[cosine / high, sine / wide], [-sine / high, cosine / wide]])
    return np.array(straight), np.array(inverse)


@lru_cache(maxsize=1)
def _taps() -> tuple[Numbers, Floats]:
    """Return the four pixels that make each pixel of all views, and their weights: 4 x n."""
    import numpy as np

    taps = [_taps_of(view) for view in _VIEWS]
    places, weights = (np.concatenate(parts, axis=1) for parts in zip(*taps, strict=True))
    return places, weights[:, :, None, None].astype(np.float32)


def _taps_of(view: tuple[float, float, int]) -> tuple[Numbers, Numbers]:
    import numpy as np

    high, wide, angle = view
    offsets = np.arange(_INNER) - (_INNER - 1) / 2
    down, across = np.meshgrid(offsets / high, offsets / wide, indexing="ij")
    cosine, sine = _turn(angle)
    middle = (_HALF - 1) / 2
    spots = (middle + cosine * down + sine * across, middle + cosine * across - sine * down)
    limit = (_HALF - 1) * _STEPS
    # The offset keeps halves from being rounded one way here and another way there.
    places = [np.clip(np.floor(spot * _STEPS + 0.500001), 0, limit).astype(int) for spot in spots]
    (top, below), (left, beside) = (np.divmod(place.ravel(), _STEPS) for place in places)
    corners, weights = [], []
    for row, tall in ((top, _STEPS - below), (top + 1, below)):
        for column, broad in ((left, _STEPS - beside), (left + 1, beside)):
            corners.append(np.minimum(row, _HALF - 1) * _HALF + np.minimum(column, _HALF - 1))
            weights.append(tall * broad)
    return np.stack(corners), np.stack(weights)
