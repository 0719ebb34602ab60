"""Find similar image signatures among up to millions, without comparing all pairs.

A signature (`codec.descriptor`) has 63 waves and two colour levels. Its hash has one bit for each
strong wave. Two pictures are near-duplicates if, possibly with one of them mirrored,

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]
    """Rows of a table or, as two lines, pairs of rows."""
    Hashes: TypeAlias = NDArray[np.uint64]
    Mask: TypeAlias = NDArray[np.bool_]
    Found: TypeAlias = tuple[Numbers, NDArray[np.float64], bool]
    """Pairs by position in the input, their distances, and whether they are mirrored."""

SIGNATURE_BYTES = 65
DISTANCE = 4.0
"""The default distance limit of near-duplicates, in thousandths."""
MAX_DISTANCE = 50.0
CROWD = 1024
_WAVES, _SIDE = 63, 8
_BANDS, _BAND_BITS = 3, 21
_MAX_BITS = 5
_STRONG = 3
"""A bit of a hash is set if its wave is above this, of at most 127.

With 0, chance would decide about the many waves that smooth pictures lack. Among 13,600 pairs of
versions of a picture, 0 changed more than 5 bits of one in 230 pairs, and 3 of one in 450. A higher
value would make hashes too similar to search by.
"""
_MAX_COLOUR = 16
_GREY, _GREYISH = 128, 2
_CROWD_BLOCK = 512
_CHUNK = 1 << 21
"""Pairs compared at once, which bounds the memory."""


class Pair(NamedTuple):
    """Two similar images, by their positions in the input."""

    first: int
    second: int
    distance: float
    """In thousandths."""
    is_mirrored: bool


class Search(NamedTuple):
    """A search task for a worker."""

    signatures: bytes
    distance: float = DISTANCE
    others: bytes | None = None
    """Signatures to compare with; None compares the signatures with each other."""


def find_pairs(search: Search) -> list[Pair]:
    """Return all pairs of similar signatures, sorted.

    Among signatures compared with each other, the first of equal ones is paired with each of its
    copies, and only the first with others. Of equal `others`, only the first is paired.

    The result is a list so that a caller, which may be packing, need not import NumPy.
    """
    import numpy as np

    if search.others is not None:
        queries, _ = _Table.of(search.signatures, keep_copies=True)
        table, _ = _Table.of(search.others)
        _, are_left = _thin(table, search.distance)
        return _sorted(_similar(queries, table, are_left, search.distance))
    table, copies = _Table.of(search.signatures)
    followers, are_left = _thin(table, search.distance)
    found: list[Found] = [
        (copies, np.zeros(copies.shape[1]), False),
        _checked(table, table, followers, search.distance, mirrored=False),
        *_similar(table, table, are_left, search.distance),
    ]
    ordered = [(np.sort(pairs, axis=0), distances, mirror) for pairs, distances, mirror in found]
    return _sorted(ordered)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Signatures by column, without those of flat pictures."""

    positions: Numbers
    """The position of each in the input."""
    waves: NDArray[np.int8]
    norms: NDArray[np.float64]
    """Of the waves."""
    colours: NDArray[np.int16]
    hashes: Hashes
    """The strong waves as bits."""
    mirrored: Hashes
    """The hashes of the mirrored pictures."""

    @classmethod
    def of(cls, signatures: bytes, *, keep_copies: bool = False) -> tuple[_Table, Numbers]:
        """Return a table, and pairs of the first of equal signatures and each of its copies.

        Positions are given for the pairs. The copies are not in the table, unless `keep_copies`.
        """
        import numpy as np

        rows = np.frombuffer(signatures, np.uint8).reshape(-1, SIGNATURE_BYTES)
        positions = np.flatnonzero(rows[:, :_WAVES].any(axis=1))
        copies = np.empty((2, 0), np.int64)
        if len(positions) and not keep_copies:
            whole = np.ascontiguousarray(rows[positions]).view(f"V{SIGNATURE_BYTES}").ravel()
            _, first, group = np.unique(whole, return_index=True, return_inverse=True)
            firsts = positions[first[group]]
            is_copy = firsts != positions
            copies = np.stack([firsts[is_copy], positions[is_copy]])
            positions = positions[~is_copy]
        rows = rows[positions]
        waves = rows[:, :_WAVES].view(np.int8)
        squares = np.einsum("ij,ij->i", waves, waves, dtype=np.int64)
        table = cls(
            positions=positions,
            waves=waves,
            norms=np.sqrt(squares.astype(np.float64)),
            colours=rows[:, _WAVES:].astype(np.int16),
            hashes=_hashes(waves > _STRONG),
            mirrored=_hashes(np.where(_is_odd(), waves < -_STRONG, waves > _STRONG)),
        )
        return table, copies

    def __len__(self) -> int:
        return len(self.positions)


def _hashes(are_set: Mask) -> Hashes:
    import numpy as np

    # Low waves are strong in most pictures, so neighbours are put into different bands.
    order = np.arange(_WAVES).reshape(_BAND_BITS, _BANDS).T.ravel()
    bits = np.zeros((len(are_set), _WAVES + 1), bool)
    bits[:, :_WAVES] = are_set[:, order]
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


def _band_of(hashes: Hashes, band: int) -> Numbers:
    """Return the bits of one band as numbers."""
    import numpy as np

    shifted = hashes >> np.uint64(band * _BAND_BITS)
    return (shifted & np.uint64((1 << _BAND_BITS) - 1)).astype(np.int64)


def _is_odd() -> Mask:
    """Return which waves change sign in a mirrored picture: those with odd half-waves across."""
    import numpy as np

    is_odd: Mask = np.arange(1, _WAVES + 1) % _SIDE % 2 == 1
    return is_odd


def popcount(numbers: Hashes) -> NDArray[np.uint8]:
    """Count the bits of each number."""
    import numpy as np

    counts: NDArray[np.uint8]
    if hasattr(np, "bitwise_count"):  # since NumPy 2
        counts = np.bitwise_count(numbers)
    else:
        bits = np.unpackbits(np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8), axis=1)
        counts = bits.sum(axis=1, dtype=np.uint8).reshape(numbers.shape)
    return counts


def _distances(products: NDArray[np.float32], norms: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    # Rounded, so that equal signatures have distance 0 whatever the errors of the square roots.
    distances: NDArray[np.float64] = np.round(np.maximum(1 - products / norms, 0) * 1000, 6)
    return distances


def _have_same_colour(ours: NDArray[np.int16], theirs: NDArray[np.int16]) -> Mask:
    """Return which pairs have similar colours, or a grey picture."""
    import numpy as np

    is_same = np.abs(ours - theirs).max(axis=-1) <= _MAX_COLOUR
    for colours in (ours, theirs):
        is_same = is_same | (np.abs(colours - _GREY).max(axis=-1) <= _GREYISH)
    same: Mask = is_same
    return same


def _similar(queries: _Table, indexed: _Table, are_left: Mask, distance: float) -> Iterator[Found]:
    """Yield similar pairs, some more than once; `are_left` says which rows to index, by band."""
    import numpy as np

    is_own = queries is indexed
    for band in range(_BANDS):
        places = np.flatnonzero(are_left[band])
        rows = places if is_own else np.arange(len(queries))
        index = _Index.of(indexed.hashes, places, band)
        for pairs in _candidates(queries.hashes, rows, index):
            once = pairs[:, pairs[0] < pairs[1]] if is_own else pairs
            yield _checked(queries, indexed, once, distance, mirrored=False)
        for pairs in _candidates(queries.mirrored, rows, index):
            others = pairs[:, pairs[0] != pairs[1]] if is_own else pairs
            yield _checked(queries, indexed, others, distance, mirrored=True)
        if not is_own:
            # Weak waves have no bit to change, so it may matter which of the two is mirrored.
            # Within one table, every signature is a query, too.
            index = _Index.of(indexed.mirrored, places, band)
            for pairs in _candidates(queries.hashes, rows, index):
                yield _checked(queries, indexed, pairs, distance, mirrored=True)


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
    def of(cls, hashes: Hashes, rows: Numbers, band: int) -> _Index:
        """Index some rows."""
        import numpy as np

        keys = _band_of(hashes[rows], band)
        order = np.argsort(keys)
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        # 8 MB, of which the operating system allocates only the pages that are touched.
        kinds = np.zeros(1 << _BAND_BITS, np.int32)
        kinds[keys[starts]] = np.arange(1, len(starts) + 1)
        return cls(hashes, band, rows[order], np.append(starts, len(keys)), kinds)


def _candidates(hashes: Hashes, rows: Numbers, index: _Index) -> Iterator[Numbers]:
    """Yield pairs of a row and an indexed row with at most one other bit in the band, 5 in all."""
    import numpy as np

    keys = _band_of(hashes[rows], index.band)
    order = np.argsort(keys)  # so that lookups are local
    rows, keys = rows[order], keys[order]
    for flipped in (0, *(1 << bit for bit in range(_BAND_BITS))):
        kinds = index.kinds[keys ^ flipped]
        there = np.flatnonzero(kinds > 0)
        begins = index.begins[kinds[there] - 1]
        counts = index.begins[kinds[there]] - begins
        for first, places in _expand(rows[there], begins, counts):
            pairs = np.stack([first, index.rows[places]])
            differing = popcount(hashes[pairs[0]] ^ index.hashes[pairs[1]])
            if (are_near := differing <= _MAX_BITS).any():
                yield pairs[:, are_near]


def _expand(rows: Numbers, begins: Numbers, counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
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
    queries: _Table, indexed: _Table, pairs: Numbers, distance: float, *, mirrored: bool
) -> Found:
    """Keep the pairs within the distance."""
    import numpy as np

    kept, found = [pairs[:, :0]], [np.empty(0)]
    for start in range(0, pairs.shape[1], _CHUNK // 16):
        part = pairs[:, start : start + _CHUNK // 16]
        own, other = part
        # Sums of whole numbers below 2^24 are exact in float32, in any order.
        waves = queries.waves[own].astype(np.float32)
        if mirrored:
            waves[:, _is_odd()] *= -1
        products = np.einsum("ij,ij->i", waves, indexed.waves[other].astype(np.float32))
        distances = _distances(products, queries.norms[own] * indexed.norms[other])
        is_near = distances <= distance
        is_near &= _have_same_colour(queries.colours[own], indexed.colours[other])
        kept.append(part[:, is_near])
        found.append(distances[is_near])
    first, second = np.concatenate(kept, axis=1)
    positions = np.stack([queries.positions[first], indexed.positions[second]])
    return positions, np.concatenate(found), mirrored


def _sorted(found: Iterable[Found]) -> list[Pair]:
    """Sort pairs, and keep the nearest of equal ones."""
    import numpy as np

    parts = [part for part in found if part[0].size]
    if not parts:
        return []
    first, second = np.concatenate([pairs for pairs, _, _ in parts], axis=1)
    distances = np.concatenate([distances for _, distances, _ in parts]).astype(np.float32)
    are_mirrored = np.repeat([mirrored for *_, mirrored in parts], [len(d) for _, d, _ in parts])
    order = np.lexsort((are_mirrored, distances, second, first))
    first, second = first[order], second[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    order = order[is_new]
    columns = (first[is_new], second[is_new], distances[order], are_mirrored[order])
    return list(map(Pair._make, zip(*(column.tolist() for column in columns), strict=True)))


def _thin(table: _Table, distance: float) -> tuple[Numbers, Mask]:
    """Return pairs of leaders and followers in crowds; by band, which rows are left to compare."""
    import numpy as np

    are_left = np.ones((_BANDS, len(table)), bool)
    followers = [np.empty((2, 0), np.int64)]
    for band in range(_BANDS):
        rows = np.flatnonzero(are_left[band])
        keys = _band_of(table.hashes[rows], band)
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        sizes = np.diff(starts, append=len(order))
        for start, size in zip(starts[sizes > CROWD], sizes[sizes > CROWD], strict=True):
            pairs, beyond = _follow(table, rows[order[start : start + size]], distance)
            followers.append(pairs)
            are_left[:, pairs[1]] = False
            are_left[band, beyond] = False
    return np.concatenate(followers, axis=1), are_left


def _follow(table: _Table, crowd: Numbers, distance: float) -> tuple[Numbers, Numbers]:
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
        leader = np.full(len(block), -1)
        for place, is_near in enumerate(_are_near(table, block, block, distance)):
            if leader[place] < 0:
                leader[is_near & (leader < 0)] = place
        leads = leader == np.arange(len(block))
        pairs.append(np.stack([block[leader[~leads]], block[~leads]]))
        leaders = np.concatenate([leaders, block[leads]])
    return np.concatenate(pairs, axis=1), np.concatenate(beyond)


def _are_near(table: _Table, block: Numbers, leaders: Numbers, distance: float) -> Mask:
    """Return a matrix: which of the block are similar to which leaders."""
    import numpy as np

    products = table.waves[block].astype(np.float32) @ table.waves[leaders].astype(np.float32).T
    near = _distances(products, table.norms[block][:, None] * table.norms[leaders]) <= distance
    near &= popcount(table.hashes[block][:, None] ^ table.hashes[leaders]) <= _MAX_BITS
    near &= _have_same_colour(table.colours[block][:, None], table.colours[leaders])
    return near
