"""Find similar signatures among up to millions, without comparing all pairs.

Two pictures are near-duplicates if, possibly with one of them mirrored,

- the distance of their waves (1 - correlation, in thousandths) is within the limit;
- at most 5 of the 63 bits of their hashes differ, which hardly ever excludes a small distance;
- their mean colours are at most 16 of 256 levels apart, or one of them is grey.

Each hash consists of three bands of 21 bits. If at most 5 bits differ, then at most one differs in
some band: otherwise there would be 6. So a signature is compared only with those that have the same
bits in a band, except for at most one, and every pair is found.

There is one exception, so that no input takes quadratic time. More than 1,024 signatures with the
same bits in a band are a crowd (frames of a fixed camera). Its members are taken one after another:
one that is similar to a leader follows it, which makes a pair, and is compared with nothing else;
any other becomes a leader itself. Beyond 1,024 leaders, members are not compared in that band.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from imgrec.near.signatures import BAND_BITS, BANDS, MAX_BITS, SignatureTable, popcount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.signatures import Hashes, Numbers

DISTANCE = 4.0
"""The default distance limit of near-duplicates, in thousandths."""
MAX_DISTANCE = 50.0
CROWD = 1024
_CROWD_BLOCK = 512
_MIRRORED = ((False, (False, True)), (True, (False,)))
"""Whether the indexed signature is mirrored, and then the query.

Weak waves have no bit to change, so it may matter which one is mirrored. Within one table every
signature is a query, so mirroring the query is enough.
"""
_CHUNK = 1 << 21
"""Pairs compared at once, which bounds the memory."""


class Pairs(NamedTuple):
    """Pairs of similar signatures by their places, sorted."""

    first: Numbers
    second: Numbers
    distances: NDArray[np.float32]
    """In thousandths."""
    are_mirrored: NDArray[np.bool_]


class Search(NamedTuple):
    """A search task for a worker."""

    signatures: bytes
    distance: float
    others: bytes | None = None
    """Signatures to compare with; None compares the signatures with each other."""


class Edges(NamedTuple):
    """`Pairs` without NumPy, as a worker returns them."""

    first: array[int]
    second: array[int]
    distances: array[float]
    are_mirrored: bytes


def find_edges(search: Search) -> Edges:
    """Run a search. The caller needs no NumPy; the worker does."""
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
    """Return the pairs of similar signatures, the smaller place first.

    Of equal signatures, each is paired with the first, and only the first with others.
    """
    import numpy as np

    table, copies = SignatureTable.of(signatures)
    thinned = _thin(table, distance)
    found = [_copies(copies), _checked(table, table, thinned.followers, distance)]
    found += _near(table, table, thinned, distance)
    pairs = _joined(found)
    low, high = np.minimum(pairs.first, pairs.second), np.maximum(pairs.first, pairs.second)
    return _ordered(pairs._replace(first=low, second=high))


def find_across(signatures: bytes, others: bytes, distance: float = DISTANCE) -> Pairs:
    """Return the similar pairs of one of the signatures and one of the others.

    Of equal others, only the first is paired.
    """
    queries, _ = SignatureTable.of(signatures, keep_copies=True)
    table, copies = SignatureTable.of(others)
    found = [_copies(copies[:, :0]), *_near(queries, table, _thin(table, distance), distance)]
    return _ordered(_joined(found))


def _near(
    queries: SignatureTable, indexed: SignatureTable, thinned: _Thinned, distance: float
) -> Iterator[Pairs]:
    """Yield similar pairs, some more than once."""
    import numpy as np

    is_own = queries is indexed
    for band in range(BANDS):
        places = thinned.places(band)
        rows = places if is_own else np.arange(len(queries))
        for theirs, all_ours in _MIRRORED[:1] if is_own else _MIRRORED:
            index = _Index.of(indexed.mirrored if theirs else indexed.hashes, places, band)
            for ours in all_ours:
                pairs = _candidates(queries.mirrored if ours else queries.hashes, rows, index)
                for some in _once(pairs, is_mirrored=ours) if is_own else pairs:
                    yield _checked(queries, indexed, some, distance, mirrored=ours or theirs)


def _once(found: Iterable[Numbers], *, is_mirrored: bool) -> Iterator[Numbers]:
    """Drop pairs of a row with itself, and the second of two pairs with swapped rows."""
    for pairs in found:
        yield pairs[:, pairs[0] != pairs[1] if is_mirrored else pairs[0] < pairs[1]]


class _Index(NamedTuple):
    """Rows by the bits of one band of their hashes."""

    hashes: Hashes
    """Hashes of all rows of the table."""
    band: int
    rows: Numbers
    """Sorted by the bits, so that rows with the same bits are neighbours."""
    begins: Numbers
    """The first position of each distinct value of the bits, and the end of all."""
    kinds: NDArray[np.int32]
    """For all possible bits: the number of their value in `begins`, from 1; 0 for none."""

    @classmethod
    def of(cls, hashes: Hashes, rows: Numbers, band: int) -> Self:
        """Index some rows."""
        import numpy as np

        keys = SignatureTable.band(hashes[rows], band)
        order = np.argsort(keys)
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        # 8 MB, of which the operating system allocates only the pages that are touched.
        kinds = np.zeros(1 << BAND_BITS, np.int32)
        kinds[keys[starts]] = np.arange(1, len(starts) + 1)
        return cls(hashes, band, rows[order], np.append(starts, len(keys)), kinds)


def _candidates(hashes: Hashes, rows: Numbers, index: _Index) -> Iterator[Numbers]:
    """Yield pairs of a row and an indexed row that differ in few bits, as two lines.

    That is at most 5 bits, and at most one in the band.
    """
    import numpy as np

    keys = SignatureTable.band(hashes[rows], index.band)
    order = np.argsort(keys)  # so that lookups are local
    rows, keys = rows[order], keys[order]
    for flipped in (0, *(1 << bit for bit in range(BAND_BITS))):
        kinds = index.kinds[keys ^ flipped]
        there = np.flatnonzero(kinds > 0)
        ends = index.begins[kinds[there]]
        begins = index.begins[kinds[there] - 1]
        for first, places in _spread(rows[there], begins, ends - begins):
            pairs = np.stack([first, index.rows[places]])
            differing = popcount(hashes[pairs[0]] ^ index.hashes[pairs[1]])
            if (are_near := differing <= MAX_BITS).any():
                yield pairs[:, are_near]


def _spread(rows: Numbers, begins: Numbers, counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield each row with each of its `counts` places from `begins` on, in chunks."""
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
    queries: SignatureTable,
    indexed: SignatureTable,
    pairs: Numbers,
    distance: float,
    *,
    mirrored: bool = False,
) -> Pairs:
    """Return the pairs of rows within the distance, by their places in the input."""
    import numpy as np

    apart = [np.empty(0)]
    kept = [pairs[:, :0]]
    for start in range(0, pairs.shape[1], _CHUNK // 16):
        part = pairs[:, start : start + _CHUNK // 16]
        distances = queries.distances(part[0], indexed, part[1], mirrored=mirrored)
        is_near = (distances <= distance) & queries.have_same_colour(part[0], indexed, part[1])
        kept.append(part[:, is_near])
        apart.append(distances[is_near])
    first, second = np.concatenate(kept, axis=1)
    return Pairs(
        first=queries.places[first],
        second=indexed.places[second],
        distances=np.concatenate(apart).astype(np.float32),
        are_mirrored=np.full(len(first), mirrored),
    )


def _copies(pairs: Numbers) -> Pairs:
    """Return pairs of equal signatures."""
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
    """Sort pairs, and keep the nearest of equal ones."""
    import numpy as np

    order = np.lexsort((pairs.are_mirrored, pairs.distances, pairs.second, pairs.first))
    first, second = pairs.first[order], pairs.second[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    order = order[is_new]
    return Pairs(first[is_new], second[is_new], pairs.distances[order], pairs.are_mirrored[order])


@dataclass(frozen=True, slots=True, eq=False)
class _Thinned:
    """The rows left to compare, and the pairs found in crowds."""

    followers: Numbers
    """Pairs of a leader and its follower, as two lines."""
    are_left: NDArray[np.bool_]
    """By band and row: whether it is to be compared."""

    def places(self, band: int) -> Numbers:
        """Return the rows to compare in a band."""
        import numpy as np

        return np.flatnonzero(self.are_left[band])


def _thin(table: SignatureTable, distance: float) -> _Thinned:
    """Pair the members of crowds with their leaders, in every band."""
    import numpy as np

    are_left = np.ones((BANDS, len(table)), bool)
    followers = [np.empty((2, 0), np.int64)]
    for band in range(BANDS):
        for crowd in _crowds(table, np.flatnonzero(are_left[band]), band):
            pairs, beyond = _led(table, crowd, distance)
            followers.append(pairs)
            are_left[:, pairs[1]] = False
            are_left[band, beyond] = False
    return _Thinned(np.concatenate(followers, axis=1), are_left)


def _crowds(table: SignatureTable, places: Numbers, band: int) -> Iterator[Numbers]:
    import numpy as np

    keys = table.band(table.hashes[places], band)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    for start, size in zip(starts[sizes > CROWD], sizes[sizes > CROWD], strict=True):
        yield places[order[start : start + size]]


def _led(table: SignatureTable, crowd: Numbers, distance: float) -> tuple[Numbers, Numbers]:
    """Return pairs of leaders and followers, and the members beyond the last leader."""
    import numpy as np

    leaders = crowd[:0]
    pairs, beyond = [np.stack([leaders, leaders])], [leaders]
    for start in range(0, len(crowd), _CROWD_BLOCK):
        block = crowd[start : start + _CROWD_BLOCK]
        near = _are_near(table, block, leaders, distance)
        follows = near.any(axis=1)
        if follows.any():
            pairs.append(np.stack([leaders[near[follows].argmax(axis=1)], block[follows]]))
        block = block[~follows]
        if len(leaders) >= CROWD:
            beyond.append(block)
            continue
        leader = _leaders(_are_near(table, block, block, distance))
        leads = leader == np.arange(len(block))
        pairs.append(np.stack([block[leader[~leads]], block[~leads]]))
        leaders = np.concatenate([leaders, block[leads]])
    return np.concatenate(pairs, axis=1), np.concatenate(beyond)


def _leaders(near: NDArray[np.bool_]) -> Numbers:
    """Return the leader of each, given which are similar; leaders follow themselves."""
    import numpy as np

    leader = np.full(len(near), -1)
    for place, alike in enumerate(near):
        if leader[place] < 0:
            leader[alike & (leader < 0)] = place
    return leader


def _are_near(
    table: SignatureTable, block: Numbers, leaders: Numbers, distance: float
) -> NDArray[np.bool_]:
    """Return a matrix: which of the block are similar to which leaders."""
    near = table.all_distances(block, leaders) <= distance
    near &= popcount(table.hashes[block][:, None] ^ table.hashes[leaders]) <= MAX_BITS
    near &= table.have_same_colour(block[:, None], table, leaders)
    return near
