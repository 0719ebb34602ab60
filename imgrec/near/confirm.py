"""Tell how much two pictures are alike, by their pixels.

One picture is laid over the other, as a grid of gradients: how much the level changes, across and
down, at each pixel. Strong changes count less than in proportion, so that one bright edge does not
outweigh all others. The correlation is that of the inner 24 x 24 pixels of one with the other, the
best of several views (smaller, narrower, lower, turned by 5 degrees) and of shifts of up to 4
pixels. Its sign does not matter: a negative is alike, too.

Where there is next to nothing to see, as in plain gradients of light, a high correlation is no
proof. The evidence is the number of gradients that could differ independently: 1 for a gradient of
light, 5 to 40 for most photographs. With too little of it, pictures are not alike.

The views are first compared at half the size, and only the best one at full size. Every step that
adds up numbers adds whole numbers that a float holds exactly, so the result does not depend on the
machine.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.near.descriptor import SIDE, gradients

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Doubles: TypeAlias = NDArray[np.float64]
    Numbers: TypeAlias = NDArray[np.int64]

_REACH = 4
"""The largest shift."""
_SHIFTS = 2 * _REACH + 1
_INNER = SIDE - 2 * _REACH
_MARGIN = 2
"""Pixels around a view that its gradients depend on."""
_VIEWS = (
    (1.0, 1.0, 0), (0.95, 0.95, 0), (0.9, 0.9, 0), (0.82, 0.82, 0), (0.75, 0.75, 0),
    (1.0, 0.88, 0), (0.88, 1.0, 0), (1.0, 0.75, 0), (0.75, 1.0, 0), (1.0, 1.0, 5), (1.0, 1.0, -5),
)  # fmt: skip
"""Scales of height and width, and the angle in degrees, at which a picture is laid over another.

The first is the picture as it is."""
_STEPS = 16
"""Positions in a picture are rounded to this fraction of a pixel."""
_MOST = 100
"""The limit of eased gradients. With it, sums of products are exact: 1152 x 100 x 100 < 2^24."""
_STRENGTH = 30
_PROMISING = 0.5
"""The correlation at half the size that makes a pair worth comparing at full size."""
_LEAST_EVIDENCE = 1.1
"""A plain gradient has 1, two plain halves have 1.2, and a disc has 5."""
_CHUNK = 512
"""Pairs compared at once, which bounds the memory."""


class Confirm(NamedTuple):
    """A task for a worker: pairs of pictures to compare."""

    start: int
    """The number of the first pair among all."""
    pairs: NDArray[np.int32]
    """Columns: the numbers of two looks, and 1 if the first is to be mirrored."""
    looks: bytes
    """1,024 bytes each: see `codec.look`."""


def confirm(task: Confirm) -> tuple[int, NDArray[np.uint8]]:
    """Return the start of a task, and how much the pictures of each pair are alike, in per cent."""
    import numpy as np

    greys = np.frombuffer(task.looks, np.uint8).reshape(-1, SIDE, SIDE)
    number, other, mirror = task.pairs.T.astype(np.int64)
    # Mirrored pictures follow the others.
    flipped, place = np.unique(number[mirror == 1], return_inverse=True)
    first = number.copy()
    first[mirror == 1] = len(greys) + place
    greys = np.concatenate([greys, greys[flipped][:, :, ::-1]])
    fields = ease(greys)
    halves = _halved(fields)
    views, energies = _half_views(halves), _energies(halves, _REACH // 2)
    alike = np.zeros(len(first))
    for start in range(0, len(first), _CHUNK):
        part = slice(start, start + _CHUNK)
        laid, under, view = _best_views(halves, views, energies, first[part], other[part])
        for which in np.unique(view[view >= 0]).tolist():
            rows = np.flatnonzero(view == which)
            own, theirs = laid[rows], under[rows]
            if which == 0:
                inner = fields[own][:, :, _REACH:-_REACH, _REACH:-_REACH]
            else:
                inner = ease(_viewed(greys[own], which))[:, :, _MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
            alike[start + rows] = _correlation(inner, fields[theirs])
    likely = np.flatnonzero(alike >= _PROMISING)
    evidence = [measure_evidence(fields[side[likely]]) for side in (first, other)]
    alike[likely[np.minimum(*evidence) < _LEAST_EVIDENCE]] = 0
    # The smallest part lets 100 % be reached in spite of rounding.
    return task.start, np.floor(np.clip(alike, 0, 1) * 100 + 1e-6).astype(np.uint8)


def ease(greys: NDArray[np.uint8]) -> Floats:
    """Return the gradients of pictures, strong ones reduced, as whole numbers."""
    import numpy as np

    across, down = gradients(greys)
    strength = np.sqrt(across * across + down * down)
    usual = np.floor(strength).sum(axis=(1, 2), dtype=np.float64) / strength[0].size
    usual = usual.astype(np.float32)[:, None, None]
    scale = _STRENGTH / np.sqrt((strength + usual / 2 + 64) * (usual + 32))
    eased: Floats = np.stack([across * scale, down * scale], axis=1)
    return np.clip(np.rint(eased), -_MOST, _MOST)


def measure_evidence(fields: Floats) -> Doubles:
    """Return how many gradients of each picture could differ independently."""
    import numpy as np

    squares = np.square(fields, dtype=np.float64).sum(axis=1).reshape(-1, SIDE * SIDE)
    total = np.maximum(squares.sum(axis=1), 1)
    spread = total * total / np.maximum((squares * squares).sum(axis=1), 1)
    # The correlation of a picture with itself, shifted by each number of pixels.
    powers = np.square(np.abs(np.fft.rfft2(fields.astype(np.float64)))).sum(axis=1)
    own = np.rint(np.fft.irfft2(powers, s=(SIDE, SIDE))).reshape(-1, SIDE * SIDE)
    own = np.rint(own / 1024)  # so that sums of squares are exact
    peak = np.maximum(own[:, 0], 1)
    variety = peak * peak / np.maximum((own * own).sum(axis=1), 1)
    evidence: Doubles = np.maximum(spread * variety, 1e-3)
    return evidence


def _halved(fields: Floats) -> Floats:
    """Return gradients at half the size, as whole numbers."""
    import numpy as np

    sums = fields[:, :, ::2] + fields[:, :, 1::2]
    return np.floor((sums[..., ::2] + sums[..., 1::2] + 2) / 4)


def _half_views(halves: Floats) -> Floats:
    """Return all views at half the size, as vectors."""
    import numpy as np

    side = _INNER // 2
    flat = halves.reshape(len(halves), 2, -1)
    seen = np.floor((flat @ _half_weights() + _STEPS * _STEPS // 2) / (_STEPS * _STEPS))
    seen = seen.reshape(len(halves), 2, len(_VIEWS), side * side).swapaxes(1, 2)
    return np.ascontiguousarray(seen).reshape(len(halves), len(_VIEWS), -1)


def _best_views(
    halves: Floats, views: Floats, energies: Doubles, first: Numbers, second: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Compare pairs at half the size.

    Returns for each which picture to lay over which, and in which view; -1 if none is promising.
    """
    import numpy as np

    found = []
    for laid, under in ((first, second), (second, first)):
        windows = _windows(halves[under], _INNER // 2)
        dots = (windows @ views[laid].swapaxes(1, 2)).astype(np.float64)
        own = np.square(views[laid], dtype=np.float64).sum(axis=2)[:, None, :]
        ratios = dots * dots / np.maximum(energies[under][:, :, None] * own, 1)
        found.append(ratios.max(axis=1))
    every = np.concatenate(found, axis=1)
    best = every.argmax(axis=1)
    is_back = best >= len(_VIEWS)
    view = np.where(every.max(axis=1) >= _PROMISING * _PROMISING, best % len(_VIEWS), -1)
    return np.where(is_back, second, first), np.where(is_back, first, second), view


def _windows(fields: Floats, side: int) -> Floats:
    """Return all windows of a size in each picture, as vectors."""
    import numpy as np
    from numpy.lib.stride_tricks import sliding_window_view

    windows = sliding_window_view(fields, (side, side), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    count = fields.shape[2] - side + 1
    return np.ascontiguousarray(windows).reshape(len(fields), count * count, -1)


def _energies(fields: Floats, reach: int) -> Doubles:
    """Return the sum of squares in each window of pictures, row by row."""
    import numpy as np

    side = fields.shape[2] - 2 * reach
    sums = np.zeros((len(fields), fields.shape[2] + 1, fields.shape[3] + 1))
    sums[:, 1:, 1:] = np.square(fields, dtype=np.float64).sum(axis=1).cumsum(1).cumsum(2)
    below = sums[:, side:, side:] - sums[:, side:, :-side]
    above = sums[:, :-side, side:] - sums[:, :-side, :-side]
    energies: Doubles = (below - above).reshape(len(fields), -1)
    return energies


def _correlation(inner: Floats, fields: Floats) -> Doubles:
    """Return the best correlation of each inner picture with a window of the other."""
    import numpy as np

    # NumPy 2 transforms float32 in single precision, which is not enough.
    own_spectra = np.fft.rfft2(inner.astype(np.float64), s=(SIDE, SIDE))
    spectra = np.conj(own_spectra) * np.fft.rfft2(fields.astype(np.float64))
    # Sums of whole numbers, so rounding removes every error of the transforms.
    every = np.rint(np.fft.irfft2(spectra.sum(axis=1), s=(SIDE, SIDE)))
    dots = every[:, :_SHIFTS, :_SHIFTS].reshape(len(inner), -1)
    own = np.square(inner, dtype=np.float64).sum(axis=(1, 2, 3))[:, None]
    ratios = dots * dots / np.maximum(_energies(fields, _REACH) * own, 1)
    best: Doubles = np.sqrt(ratios.max(axis=1))
    return best


def _viewed(greys: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    """Return a view of pictures with the margin that its gradients need."""
    import numpy as np

    corners, weights = _taps(number, _INNER + 2 * _MARGIN, SIDE)
    flat = greys.reshape(len(greys), -1)
    sums = sum(flat[:, at] * weight for at, weight in zip(corners, weights, strict=True))
    side = _INNER + 2 * _MARGIN
    levels = (np.asarray(sums) + _STEPS * _STEPS // 2) // (_STEPS * _STEPS)
    return levels.astype(np.uint8).reshape(-1, side, side)


@lru_cache(maxsize=1)
def _half_weights() -> Floats:
    """Return how much each pixel at half the size counts in each pixel of each view."""
    import numpy as np

    side = _INNER // 2
    weights = np.zeros((SIDE * SIDE // 4, len(_VIEWS) * side * side), np.float32)
    for number in range(len(_VIEWS)):
        columns = np.arange(number * side * side, (number + 1) * side * side)
        for corner, weight in zip(*_taps(number, side, SIDE // 2), strict=True):
            np.add.at(weights, (corner, columns), weight)
    return weights


@lru_cache(maxsize=64)
def _taps(number: int, side: int, whole: int) -> tuple[list[Numbers], list[Numbers]]:
    """Return the four pixels, and their weights, that make each pixel of a view.

    The view has `side` x `side` pixels, and the picture `whole` x `whole`.
    """
    import numpy as np

    high, wide, angle = _VIEWS[number]
    offsets = np.arange(side) - (side - 1) / 2
    down, across = np.meshgrid(offsets / high, offsets / wide, indexing="ij")
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    middle = (whole - 1) / 2
    spots = (middle + cosine * down + sine * across, middle + cosine * across - sine * down)
    limit = (whole - 1) * _STEPS
    # The offset keeps halves from being rounded one way here and another way there.
    places = [np.clip(np.floor(spot * _STEPS + 0.500001), 0, limit).astype(int) for spot in spots]
    (top, below), (left, beside) = (np.divmod(place.ravel(), _STEPS) for place in places)
    corners, weights = [], []
    for row, tall in ((top, _STEPS - below), (top + 1, below)):
        for column, broad in ((left, _STEPS - beside), (left + 1, beside)):
            corners.append(np.minimum(row, whole - 1) * whole + np.minimum(column, whole - 1))
            weights.append(tall * broad)
    return corners, weights
