"""Tell how much two pictures are alike, by their pixels.

`sift` lays pictures over each other at 32 x 32 pixels, and keeps the pairs that agree roughly.
`confirm` compares those closely, at 64 x 64 pixels, and decides. How much two pictures are alike is
the correlation of their gradients where one lies on the other (`near.align`): in grey, or in the
levels that stay as they are when the hue is turned, whichever is more.

Where there is next to nothing to see, as in plain gradients of light, a high correlation is no
proof. The evidence is the number of gradients that could differ independently: 1 for a gradient of
light, 5 to 40 for most photographs. With too little of it, pictures are not alike. Line drawings
must be more alike than photographs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.near.align import Maps, align, are_nearly_straight, doubled, ease, straight
from imgrec.near.descriptor import CLOSE_SIDE, SIDE, gradients, halve
from imgrec.near.search import numbered
from imgrec.near.views import halved, place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Floats: TypeAlias = NDArray[np.float32]
    Doubles: TypeAlias = NDArray[np.float64]
    Numbers: TypeAlias = NDArray[np.int64]

_PROMISING = 0.6
"""The correlation at half the size that makes a pair worth aligning: 15 % of the candidates of
CIFAR-10, with all but 0.3 % of the pairs that are confirmed."""
_LIKELY = 0.23
"""How much less than what is wanted pairs may correlate at 32 x 32 pixels to get a close look."""
_ROUGH_GAINS = (0.63, 0.38, 0.33, 0.28)
"""How much less they may correlate before each of four steps there. That is enough for copies that
are turned by 5 degrees: their correlation no longer grows."""
_ROUGHLY_ENOUGH = 0.95
_GAINS = (0.36, 0.12, 0.04)
"""What three steps of a close look add to the correlation at most, then two, then one. Of 9,500
copies of photographs that are found, 0.3 % need more, and without these limits a pair of different
hand signs takes twice as long."""
_LIGHT_GAINS = (0.25, 0.12, 0.04)
"""The same for pairs that are first aligned in grey."""
_LIGHT_MORE = 0.4
"""How much more pictures of another hue correlate if the hue is left out, nearly always."""
_ENOUGH = 0.93
"""The correlation of pictures that need no better map, unless more is wanted."""
_LEAST_EVIDENCE = 2
"""A plain gradient has 1, two plain halves have 1.2, and a disc has 5. Of 60 wrong pairs among 864
pieces of wallpapers, 44 had less than 2: skies, and drawings of one or two edges."""
_FEW_PIXELS, _MORE_FOR_DRAWINGS = 200, 4
"""Letters that two people drew agree by up to 99 %. If the edges of a picture are on fewer pixels
of 32 x 32, it must be alike by so many per cent more: that leaves out 139 of 186 such pairs of
Omniglot, and next to no copies of photographs, whose edges are on 250 to 600."""
_FAINT = 3
"""The mean difference between neighbouring pixels of 32 x 32, in levels, below which a JPEG of
quality 20 changes the details of 64 x 64. Photographs have 5 to 20."""
_ROUNDING = 1e-8
"""What lets 100 % be reached in spite of rounding."""
_CHUNK = 32
"""Pairs compared at once, so that they fit into the caches of a processor: 128 take a quarter
longer."""


class Sifted(NamedTuple):
    """Pairs that are worth a close look, by column."""

    rows: Numbers
    """Their positions among all pairs."""
    is_back: NDArray[np.bool_]
    """Whether the second picture is laid on the first instead."""
    maps: Maps

    def part(self, start: int, count: int) -> Sifted:
        """Return some pairs."""
        part = slice(start, start + count)
        maps = Maps(self.maps.matrix[part], self.maps.shift[part])
        return Sifted(self.rows[part], self.is_back[part], maps)


class Sift(NamedTuple):
    """A task for a worker: pairs of pictures to compare roughly."""

    start: int
    """The position of the first pair among all."""
    pairs: NDArray[np.int32]
    """Columns: the numbers of two looks, and 1 if the first is to be mirrored."""
    looks: bytes
    """1,024 bytes each: see `codec.look`."""
    alike: int
    """How much pictures must be alike, in per cent."""


class Confirm(NamedTuple):
    """A task for a worker: pairs of pictures to compare closely."""

    start: int
    pairs: NDArray[np.int32]
    """As in `Sift`."""
    looks: bytes
    """8,192 bytes each: see `codec.look`."""
    alike: int
    sifted: Sifted | None
    """How the pictures lie on each other; None to lay them as they are."""


def sift(task: Sift) -> Sifted:
    """Return the pairs of a task that are worth a close look."""
    import numpy as np

    greys, first, second = _flipped(_pictures(task.looks, 1, SIDE)[:, 0], task.pairs)
    fields = _eased(greys)
    halves = halved(fields)
    least = task.alike / 100
    worthwhile = [least - gain for gain in _ROUGH_GAINS]
    parts = []
    for start in range(0, len(first), _CHUNK):
        own, other = first[start : start + _CHUNK], second[start : start + _CHUNK]
        laid = place(halves, own, other)
        rows = np.flatnonzero(laid.scores >= _PROMISING * _PROMISING)
        is_back = laid.is_back[rows]
        frame = np.where(is_back, other[rows], own[rows])
        under = np.where(is_back, own[rows], other[rows])
        maps = laid.maps.pick(rows)
        alike, maps = align(fields[frame], greys[under], maps, worthwhile, _ROUGHLY_ENOUGH)
        kept = np.flatnonzero(alike >= least - _LIKELY)
        parts.append(Sifted(rows[kept] + (task.start + start), is_back[kept], maps.pick(kept)))
    return join_sifted(parts)


def join_sifted(parts: Sequence[Sifted]) -> Sifted:
    """Join what tasks have found, in the order of the pairs."""
    import numpy as np

    parts = sorted((part for part in parts if len(part.rows)), key=lambda part: part.rows[0])
    nothing = Sifted(np.zeros(0, np.int64), np.zeros(0, bool), straight(0))
    rows, is_back, maps = zip(nothing, *parts, strict=True)
    matrices, shifts = zip(*maps, strict=True)
    return Sifted(
        np.concatenate(rows),
        np.concatenate(is_back),
        Maps(np.concatenate(matrices), np.concatenate(shifts)),
    )


class _Laid(NamedTuple):
    """Pairs of pictures that lie on each other, by column."""

    frame: Numbers
    other: Numbers
    maps: Maps

    def pick(self, rows: Numbers) -> _Laid:
        """Return some pairs."""
        return _Laid(self.frame[rows], self.other[rows], self.maps.pick(rows))

    def align(
        self, fields: Floats, greys: Bytes, least: Sequence[float], enough: Doubles | float = 1
    ) -> tuple[Doubles, _Laid]:
        """Align the pairs, some at a time; return their correlations, and how they lie then."""
        import numpy as np

        each = np.broadcast_to(enough, len(self.frame))
        found, matrices, shifts = [np.zeros(0)], [self.maps.matrix[:0]], [self.maps.shift[:0]]
        for start in range(0, len(self.frame), _CHUNK):
            part = np.arange(start, min(start + _CHUNK, len(self.frame)))
            frame, other, maps = self.pick(part)
            alike, better = align(fields[frame], greys[other], maps, least, each[part])
            found.append(alike)
            matrices.append(better.matrix)
            shifts.append(better.shift)
        maps = Maps(np.concatenate(matrices), np.concatenate(shifts))
        return np.concatenate(found), self._replace(maps=maps)


def confirm(task: Confirm) -> tuple[int, NDArray[np.uint8]]:
    """Return the start of a task, and how much the pictures of each pair are alike, in per cent.

    Pairs that are alike enough are not aligned any better, so they may be even more alike.
    """
    import numpy as np

    looks, first, second = _flipped(_pictures(task.looks, 2, CLOSE_SIDE), task.pairs)
    grey, light = looks[:, 0], looks[:, 1]
    halves, fields = halve(grey), _eased(grey)
    coarse = _eased(halves)
    least = task.alike / 100
    wanted = _wanted(coarse, first, second, task.alike)
    enough = np.maximum(wanted, _ENOUGH)
    as_is = _Laid(first, second, straight(len(first)))
    alike = np.full(len(first), -1.0)
    if task.sifted:
        _, is_back, maps = task.sifted
        frames, others = np.where(is_back, second, first), np.where(is_back, first, second)
        laid, plain = _Laid(frames, others, maps), np.flatnonzero(are_nearly_straight(maps))
    else:
        laid, plain = as_is, np.arange(len(first))
    # Most copies are only encoded or sized differently. They need no map.
    alike[plain], _ = as_is.pick(plain).align(fields, grey, ())
    rows = np.flatnonzero(alike < enough)
    laid = laid.pick(rows)
    if not task.sifted:
        worthwhile = [_PROMISING, *(least - gain for gain in _ROUGH_GAINS[1:])]
        found, laid = laid.align(coarse, halves, worthwhile, _ROUGHLY_ENOUGH)
        kept = np.flatnonzero(found >= least - _LIKELY)
        rows, laid = rows[kept], laid.pick(kept)
    faint = np.flatnonzero(_are_faint(halves, laid))
    found, _ = laid.pick(faint).align(coarse, halves, (0,))
    alike[rows[faint]] = np.maximum(alike[rows[faint]], found)
    laid = laid._replace(maps=doubled(laid.maps))
    worthwhile = [least - gain for gain in _GAINS]
    found, laid = laid.align(fields, grey, worthwhile, enough[rows])
    alike[rows] = np.maximum(alike[rows], found)
    rest = np.flatnonzero((found < enough[rows]) & (found >= least - _LIGHT_MORE))
    if len(rest):
        worthwhile, own = [least - gain for gain in _LIGHT_GAINS], rows[rest]
        found, _ = laid.pick(rest).align(_eased(light), light, worthwhile, enough[own])
        alike[own] = np.maximum(alike[own], found)
    alike[alike < wanted] = 0
    likely = np.flatnonzero(alike)
    shown, ends = numbered(np.stack([first[likely], second[likely]]))
    evidence = measure_evidence(coarse[shown])[ends]
    alike[likely[evidence.min(axis=0) < _LEAST_EVIDENCE]] = 0
    return task.start, np.floor((np.clip(alike, 0, 1) + _ROUNDING) * 100).astype(np.uint8)


def _wanted(coarse: Floats, first: Numbers, second: Numbers, alike: int) -> Doubles:
    """Return the correlation from which the pictures of each pair are alike."""
    import numpy as np

    is_drawing = measure_spread(coarse) < _FEW_PIXELS
    more = _MORE_FOR_DRAWINGS * (is_drawing[first] | is_drawing[second])
    wanted: Doubles = np.minimum(alike + more, 100) / 100 - _ROUNDING
    return wanted


def _eased(greys: Bytes) -> Floats:
    """Return the eased gradients of pictures, made from some at a time as in `_CHUNK`."""
    import numpy as np

    eased = np.empty((len(greys), 2, *greys.shape[1:]), np.float32)
    for start in range(0, len(greys), _CHUNK):
        eased[start : start + _CHUNK] = ease(greys[start : start + _CHUNK])
    return eased


def _are_faint(halves: Bytes, laid: _Laid) -> NDArray[np.bool_]:
    """Return which pairs have a picture with so little contrast that encoders change its details.

    Those are compared at half the size, too.
    """
    import numpy as np

    across, down = gradients(halves)
    strength = np.floor(np.sqrt(across * across + down * down)).sum(axis=(1, 2), dtype=np.float64)
    is_faint = strength < _FAINT * 32 * SIDE * SIDE
    either: NDArray[np.bool_] = is_faint[laid.frame] | is_faint[laid.other]
    return either


def _pictures(looks: bytes, planes: int, side: int) -> Bytes:
    import numpy as np

    return np.frombuffer(looks, np.uint8).reshape(-1, planes, side, side)


def _flipped(pictures: Bytes, pairs: NDArray[np.int32]) -> tuple[Bytes, Numbers, Numbers]:
    """Return pictures, followed by the mirrored ones that pairs need, and the numbers of pairs."""
    import numpy as np

    first, second, mirror = pairs.T.astype(np.int64)
    flipped, at = numbered(first[mirror == 1])
    first = first.copy()
    first[mirror == 1] = len(pictures) + at
    return np.concatenate([pictures, pictures[flipped][..., ::-1]]), first, second


def measure_spread(fields: Floats) -> Doubles:
    """Return on how many pixels of each picture its gradients are."""
    import numpy as np

    squares = np.square(fields, dtype=np.float64).sum(axis=1).reshape(-1, SIDE * SIDE)
    total = np.maximum(squares.sum(axis=1), 1)
    spread: Doubles = total * total / np.maximum((squares * squares).sum(axis=1), 1)
    return spread


def measure_evidence(fields: Floats) -> Doubles:
    """Return how many gradients of each picture could differ independently."""
    import numpy as np

    # The correlation of a picture with itself, shifted by each number of pixels.
    powers = np.square(np.abs(np.fft.rfft2(fields.astype(np.float64)))).sum(axis=1)
    own = np.rint(np.fft.irfft2(powers, s=(SIDE, SIDE))).reshape(-1, SIDE * SIDE)
    own = np.rint(own / 1024)  # so that sums of squares are exact
    peak = np.maximum(own[:, 0], 1)
    variety = peak * peak / np.maximum((own * own).sum(axis=1), 1)
    evidence: Doubles = np.maximum(measure_spread(fields) * variety, 1e-3)
    return evidence
