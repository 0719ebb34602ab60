"""Finding the signatures that are alike among up to millions, without comparing all of them.

Two pictures are alike if, as they are or with one of them mirrored,

- the distance of their waves is at most as asked: 1 less their correlation, in thousandths;
- at most 5 of the 63 bits of their hashes differ (see `near.table`), which a small distance hardly
  ever leaves otherwise;
- their mean colours are at most 16 levels of 256 apart, or one of them is grey.

The hashes are cut into three bands of 21 bits. If at most 5 bits differ, then at most one does in
one of the bands, or there would be 6. So a signature is compared only with those that have the
same bits in a band, but for one at most, and every pair is found.

There is one exception, so that no input takes time by the square of its size. Of more than 1,024
signatures with the same bits in a band (frames of a camera that stands still), each is compared
with the first of its kind, and only the first ones with others. See `near.crowds`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

from imgrec.near.crowds import Thinned, thin
from imgrec.near.table import BAND_BITS, BANDS, MOST_BITS, Table, popcount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.table import Hashes, Numbers

DISTANCE = 4.0
"""The greatest distance of near-duplicates, in thousandths, unless another is asked for."""
MOST_DISTANCE = 50.0
_MIRRORED = ((False, (False, True)), (True, (False,)))
"""Whether the one asked for is mirrored, and then the one that asks.

Weak waves have no bit to change, so it may matter which. But among themselves, each asks all.
"""
_CHUNK = 1 << 21
"""How many pairs are looked at at once, which bounds the memory."""


class Pairs(NamedTuple):
    """Places of signatures that are alike, in order."""

    first: Numbers
    second: Numbers
    distances: NDArray[np.float32]
    """In thousandths."""
    are_mirrored: NDArray[np.bool_]


class Search(NamedTuple):
    """Signatures to be searched, as a worker gets them."""

    signatures: bytes
    distance: float
    others: bytes | None = None
    """What they are compared with; None for each other."""


class Edges(NamedTuple):
    """Pairs as a worker returns them."""

    first: array[int]
    second: array[int]
    distances: array[float]
    are_mirrored: bytes


def find_edges(search: Search) -> Edges:
    """Do a search, where there is NumPy for it."""
    if search.others is None:
        pairs = find_pairs(search.signatures, search.distance)
    else:
        pairs = find_across(search.signatures, search.others, search.distance)
    return Edges(
        array("q", pairs.first.tobytes()),
        array("q", pairs.second.tobytes()),
        array("f", pairs.distances.tobytes()),
        pairs.are_mirrored.tobytes(),
    )


def find_pairs(signatures: bytes, distance: float = DISTANCE) -> Pairs:
    """Return the pairs of signatures that are alike, the smaller place first.

    Of signatures that are the same, each is paired with the first, and only that with others.
    """
    import numpy as np

    table, copies = Table.of(signatures)
    thinned = thin(table, distance)
    found = [_same(copies), _checked(table, table, thinned.followers, distance)]
    found += _near(table, table, thinned, distance)
    pairs = _joined(found)
    low, high = np.minimum(pairs.first, pairs.second), np.maximum(pairs.first, pairs.second)
    return _ordered(pairs._replace(first=low, second=high))


def find_across(signatures: bytes, others: bytes, distance: float = DISTANCE) -> Pairs:
    """Return the pairs of one of the signatures with one of the others that are alike.

    Others that are the same count once.
    """
    asking, _ = Table.of(signatures, keep_copies=True)
    table, copies = Table.of(others)
    found = [_same(copies[:, :0]), *_near(asking, table, thin(table, distance), distance)]
    return _ordered(_joined(found))


def _near(asking: Table, asked: Table, thinned: Thinned, distance: float) -> Iterator[Pairs]:
    """Yield what is alike, some of it more than once."""
    import numpy as np

    is_own = asking is asked
    for band in range(BANDS):
        places = thinned.places(band)
        queries = places if is_own else np.arange(len(asking))
        for theirs, all_ours in _MIRRORED[:1] if is_own else _MIRRORED:
            index = _Index.of(asked.mirrored if theirs else asked.hashes, places, band)
            for ours in all_ours:
                pairs = _candidates(asking.mirrored if ours else asking.hashes, queries, index)
                for some in _once(pairs, is_mirrored=ours) if is_own else pairs:
                    yield _checked(asking, asked, some, distance, mirrored=ours or theirs)


def _once(found: Iterable[Numbers], *, is_mirrored: bool) -> Iterator[Numbers]:
    """Leave out what is asking for itself, and what comes again the other way round."""
    for pairs in found:
        yield pairs[:, pairs[0] != pairs[1] if is_mirrored else pairs[0] < pairs[1]]


class _Index(NamedTuple):
    """Rows by the bits of their hashes in one band."""

    hashes: Hashes
    """Of all rows of the table."""
    band: int
    rows: Numbers
    """Those with the same bits follow each other."""
    begins: Numbers
    """Where those of each kind begin; and in the end, where they end."""
    kinds: NDArray[np.int32]
    """By bits: which kind has them, counted from 1, or 0 for none."""

    @classmethod
    def of(cls, hashes: Hashes, rows: Numbers, band: int) -> Self:
        """Make an index of some rows."""
        import numpy as np

        keys = Table.band(hashes[rows], band)
        order = np.argsort(keys)
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        # Of zeros that no one has asked for, the operating system makes no memory.
        kinds = np.zeros(1 << BAND_BITS, np.int32)
        kinds[keys[starts]] = np.arange(1, len(starts) + 1)
        return cls(hashes, band, rows[order], np.append(starts, len(keys)), kinds)


def _candidates(hashes: Hashes, rows: Numbers, index: _Index) -> Iterator[Numbers]:
    """Yield pairs, as two lines, of a row and one of an index that differ by few enough bits.

    These are 5 at the most, and one in the band.
    """
    import numpy as np

    keys = Table.band(hashes[rows], index.band)
    order = np.argsort(keys)  # so that neighbours are looked up together
    rows, keys = rows[order], keys[order]
    for flipped in (0, *(1 << bit for bit in range(BAND_BITS))):
        kinds = index.kinds[keys ^ flipped]
        there = np.flatnonzero(kinds > 0)
        ends = index.begins[kinds[there]]
        begins = index.begins[kinds[there] - 1]
        for first, places in _spread(rows[there], begins, ends - begins):
            pairs = np.stack([first, index.rows[places]])
            differing = popcount(hashes[pairs[0]] ^ index.hashes[pairs[1]])
            if (are_near := differing <= MOST_BITS).any():
                yield pairs[:, are_near]


def _spread(rows: Numbers, begins: Numbers, counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield each row with each of its `counts` places from `begins` on, not too many at once."""
    import numpy as np

    ends = np.cumsum(counts)
    start = 0
    while start < len(rows):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _CHUNK, "right")))
        part = slice(start, stop)
        offsets = np.repeat(begins[part] - (ends[part] - counts[part] - done), counts[part])
        yield np.repeat(rows[part], counts[part]), offsets + np.arange(len(offsets))
        start = stop


def _checked(
    asking: Table, asked: Table, pairs: Numbers, distance: float, *, mirrored: bool = False
) -> Pairs:
    """Keep the pairs of rows that are near enough, by their places in the input."""
    import numpy as np

    apart = [np.empty(0)]
    kept = [pairs[:, :0]]
    for start in range(0, pairs.shape[1], _CHUNK // 16):
        part = pairs[:, start : start + _CHUNK // 16]
        distances = asking.distances(part[0], asked, part[1], mirrored=mirrored)
        is_near = (distances <= distance) & asking.are_of_one_colour(part[0], asked, part[1])
        kept.append(part[:, is_near])
        apart.append(distances[is_near])
    first, second = np.concatenate(kept, axis=1)
    return Pairs(
        first=asking.places[first],
        second=asked.places[second],
        distances=np.concatenate(apart).astype(np.float32),
        are_mirrored=np.full(len(first), mirrored),
    )


def _same(pairs: Numbers) -> Pairs:
    """Return pairs of what is the same."""
    import numpy as np

    count = pairs.shape[1]
    return Pairs(pairs[0], pairs[1], np.zeros(count, np.float32), np.zeros(count, bool))


def _joined(found: list[Pairs]) -> Pairs:
    import numpy as np

    return Pairs(
        first=np.concatenate([pairs.first for pairs in found]),
        second=np.concatenate([pairs.second for pairs in found]),
        distances=np.concatenate([pairs.distances for pairs in found]),
        are_mirrored=np.concatenate([pairs.are_mirrored for pairs in found]),
    )


def _ordered(pairs: Pairs) -> Pairs:
    """Sort pairs, each once and as it is nearest."""
    import numpy as np

    order = np.lexsort((pairs.are_mirrored, pairs.distances, pairs.second, pairs.first))
    first, second = pairs.first[order], pairs.second[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    order = order[is_new]
    return Pairs(first[is_new], second[is_new], pairs.distances[order], pairs.are_mirrored[order])
