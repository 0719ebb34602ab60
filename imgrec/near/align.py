"""Lay one picture over another, so that their edges agree as well as they can.

Each pixel of a picture, the frame, belongs to a place in another one. Which place is an affine map:
shifted, scaled, turned. `align` improves such maps by Gauss-Newton steps: from how the gradients of
the other picture change with its place, it computes the map that would agree best.

A picture is compared as its eased gradients: how much the level changes, across and down, at each
pixel, with strong changes reduced, so that one bright edge does not outweigh all others. The
correlation of the two is what counts. Its sign does not matter: a negative is alike, too.

Every machine gets the same maps and correlations: whatever is summed up is a whole number that a
double holds exactly, and all other steps are single operations that IEEE 754 defines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.near.descriptor import gradients

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Floats: TypeAlias = NDArray[np.float32]
    Doubles: TypeAlias = NDArray[np.float64]
    Numbers: TypeAlias = NDArray[np.int64]

_STEPS = 64
"""Places in a picture are rounded to this fraction of a pixel."""
_MOST = 100
"""The limit of eased gradients, which are whole numbers."""
_STRENGTH = 30
_MARGIN = 2
"""Pixels around a place that its gradients depend on."""
_LEAST_COMMON = 0.35
"""The part of the frame that the other picture must cover."""
_SAMPLES = 20
"""About as many rows and columns of the frame are used to improve a map."""
_MOST_SHIFT, _MOST_CHANGE = 1.5, 0.08
"""How far one step may shift a map, in pixels, and change its scales and angles."""


class Maps(NamedTuple):
    """For pairs of pictures, the places in the second of them that pixels of the first belong to.

    Places are counted from the middle, down and across: place = matrix * pixel + shift.
    """

    matrix: Doubles
    """n x 2 x 2."""
    shift: Doubles
    """n x 2, in pixels."""

    def pick(self, rows: Numbers) -> Maps:
        """Return the maps of some pairs."""
        return Maps(self.matrix[rows], self.shift[rows])


def straight(count: int) -> Maps:
    """Return maps that lay pictures over others as they are."""
    import numpy as np

    return Maps(np.tile(np.eye(2), (count, 1, 1)), np.zeros((count, 2)))


def are_nearly_straight(maps: Maps) -> NDArray[np.bool_]:
    """Return which maps of 32 x 32 pixels lay pictures nearly as they are."""
    import numpy as np

    turned = np.abs(maps.matrix - np.eye(2)).max(axis=(1, 2))
    are_nearly: NDArray[np.bool_] = (turned < 0.06) & (np.abs(maps.shift).max(axis=1) < 1)
    return are_nearly


def doubled(maps: Maps) -> Maps:
    """Return the maps of the same pictures at twice the size."""
    return maps._replace(shift=maps.shift * 2)


def ease(greys: NDArray[np.uint8] | Floats) -> Floats:
    """Return the gradients of pictures, strong ones reduced, as whole numbers: n x 2 x side x side.

    The first are those down, the second those across.
    """
    import numpy as np

    across, down = gradients(greys)
    strength = np.sqrt(across * across + down * down)
    usual = np.floor(strength).sum(axis=(1, 2), dtype=np.float64) / (
        greys.shape[1] * greys.shape[2]
    )
    usual = usual.astype(np.float32)[:, None, None]
    scale = _STRENGTH / np.sqrt((strength + usual / 2 + 64) * (usual + 32))
    eased: Floats = np.stack([down * scale, across * scale], axis=1)
    return np.clip(np.rint(eased), -_MOST, _MOST)


def align(
    frames: Floats, greys: Bytes, maps: Maps, least: Sequence[float], enough: Doubles | float
) -> tuple[Doubles, Maps]:
    """Improve maps between pairs step by step; return the best correlations and their maps.

    `frames` are the eased gradients of the first pictures, `greys` the levels of the second. A pair
    takes a step for each number in `least` while its correlation is that or more, grew with the
    step before, and is not `enough` yet.
    """
    import numpy as np

    each_enough = np.broadcast_to(enough, len(greys))
    every = max(1, greys.shape[-1] // _SAMPLES)
    best, best_maps = np.full(len(greys), -1.0), Maps(maps.matrix.copy(), maps.shift.copy())
    rows = np.arange(len(greys))
    for at_least in (*least, None):
        fields, is_common = _laid(greys[rows], maps)
        found = _correlation(frames[rows], fields, is_common)
        is_better = found > best[rows]
        better = rows[is_better]
        best[better] = found[is_better]
        best_maps.matrix[better] = maps.matrix[is_better]
        best_maps.shift[better] = maps.shift[is_better]
        if at_least is None:
            break
        going = np.flatnonzero(is_better & (found >= at_least) & (found < each_enough[rows]))
        if not len(going):
            break
        rows, maps = rows[going], maps.pick(going)
        maps = _improved(maps, _products(frames[rows], fields[going], is_common[going], every))
    return best, best_maps


def _laid(greys: Bytes, maps: Maps) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the eased gradients of pictures laid over frames, and which pixels they cover."""
    import numpy as np

    count, side = greys.shape[:2]
    middle = (side - 1) / 2
    offsets = (np.arange(side) - middle).astype(np.float32)
    whole, part, is_common = [], [], np.ones(greys.shape, bool)
    for axis in range(2):
        down, across = (maps.matrix[:, axis, by, None].astype(np.float32) for by in range(2))
        start = (maps.shift[:, axis, None] + middle).astype(np.float32)
        places = (down * offsets + start)[:, :, None] + (across * offsets)[:, None, :]
        is_common &= (places >= _MARGIN) & (places <= side - 1 - _MARGIN)
        limited = np.minimum(np.maximum(np.rint(places * _STEPS), 0), (side - 1) * _STEPS)
        rounded = limited.astype(np.int32)
        whole.append(np.minimum(rounded // _STEPS, side - 2))
        part.append(rounded - whole[-1] * _STEPS)
    (top, left), (below, beside) = whole, part
    corner = top * side + left
    corner += (np.arange(count, dtype=np.int32) * (side * side))[:, None, None]
    flat = greys.reshape(-1).astype(np.int32)
    left_part = _STEPS - beside
    upper = flat.take(corner) * left_part + flat.take(corner + 1) * beside
    corner += side
    lower = flat.take(corner) * left_part + flat.take(corner + 1) * beside
    levels = upper * (_STEPS - below) + lower * below
    # In 1/16 of a level, so that sums of a few are exact.
    laid = ((levels + 128) >> 8).astype(np.float32) * np.float32(1 / 16)
    is_common[:, :_MARGIN] = is_common[:, -_MARGIN:] = False
    is_common[:, :, :_MARGIN] = is_common[:, :, -_MARGIN:] = False
    return ease(laid), is_common


def _correlation(frames: Floats, fields: Floats, is_common: NDArray[np.bool_]) -> Doubles:
    """Return how strongly gradients correlate where pictures cover frames; -1 if they hardly do."""
    import numpy as np

    used = is_common[:, None].astype(np.float32)
    size = len(frames), 1, 2 * is_common.shape[1] * is_common.shape[2]
    ours, theirs = ((each * used).reshape(size).astype(np.float64) for each in (frames, fields))
    dots, own, other = (
        (one @ two.swapaxes(1, 2))[:, 0, 0]
        for one, two in ((ours, theirs), (ours, ours), (theirs, theirs))
    )
    found = np.abs(dots) / np.sqrt(np.maximum(own * other, 1))
    is_enough = is_common.sum(axis=(1, 2)) >= _LEAST_COMMON * size[2] / 2
    return np.where(is_enough, found, -1.0)


def _products(frames: Floats, fields: Floats, is_common: NDArray[np.bool_], every: int) -> Doubles:
    """Return the sums of products that a Gauss-Newton step needs: n x 8 x 8.

    Rows: how the gradients change with the shift (2) and with the matrix (4), both four times as
    much, then the gradients themselves, and those of the frame.
    """
    import numpy as np

    count, side = len(fields), fields.shape[-1]
    inner = slice(1, -1, every)
    ends, starts = slice(2, None, every), slice(0, -2, every)
    used = is_common[:, None, inner, inner].astype(np.float32)
    down = (fields[:, :, ends, inner] - fields[:, :, starts, inner]) * used
    across = (fields[:, :, inner, ends] - fields[:, :, inner, starts]) * used
    place = (2 * np.arange(side, dtype=np.float32) - (side - 1))[inner]
    low, beside = place[:, None], place[None, :]
    rows = np.empty((count, 8, *used.shape[2:], 2), np.float64)
    values = (
        2 * down, 2 * across, down * low, down * beside, across * low, across * beside,
        fields[:, :, inner, inner] * used, frames[:, :, inner, inner] * used,
    )  # fmt: skip
    for row, value in enumerate(values):
        rows[:, row] = np.moveaxis(value, 1, -1)
    rows = rows.reshape(count, 8, 2 * used.shape[2] * used.shape[3])
    sums: Doubles = rows @ rows.swapaxes(1, 2)
    return sums


def _improved(maps: Maps, sums: Doubles) -> Maps:
    """Return maps after a Gauss-Newton step, given the sums of `_products`."""
    import numpy as np

    dots, own = sums[:, 6, 7], np.maximum(sums[:, 6, 6], 1)
    # How much stronger the gradients of the frame are.
    gain = np.maximum(np.abs(dots) / own, 1e-3)
    sign = np.where(dots < 0, -1.0, 1.0)
    wanted = (sums[:, :6, 7] * sign[:, None] - sums[:, :6, 6] * gain[:, None]) / gain[:, None]
    system = sums[:, :6, :6].copy()
    diagonal = np.arange(6)
    system[:, diagonal, diagonal] += system[:, diagonal, diagonal] / 64 + 1
    change = 4 * _solved(system, wanted)
    shift = np.clip(change[:, :2], -_MOST_SHIFT, _MOST_SHIFT)
    turn = np.clip(change[:, 2:], -_MOST_CHANGE, _MOST_CHANGE).reshape(-1, 2, 2) + np.eye(2)
    matrix = maps.matrix
    return Maps(
        matrix[:, :, :1] * turn[:, :1] + matrix[:, :, 1:] * turn[:, 1:],
        maps.shift + (matrix[:, :, 0] * shift[:, :1] + matrix[:, :, 1] * shift[:, 1:]),
    )


def _solved(system: Doubles, wanted: Doubles) -> Doubles:
    """Solve positive definite systems of equations, in the same steps on every machine."""
    import numpy as np

    both = np.concatenate([system, wanted[:, :, None]], axis=2)
    for at in range(system.shape[1]):
        row = both[:, at] / both[:, at, at, None]
        both = both - both[:, :, at, None] * row[:, None]
        both[:, at] = row
    solved: Doubles = both[:, :, -1]
    return solved
