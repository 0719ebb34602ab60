"""Find the pictures with the most similar descriptors, among up to millions.

Each picture is searched for among all others, as it is and mirrored. Its candidates are the most
similar ones of those with a large cosine; `confirm` decides about them. All products are whole
numbers that float32 holds exactly, and ties go to the lower position. So the result does not depend
on threads, workers or machines. (The indexes of usearch and hnswlib do, as soon as several threads
build them.)

Up to 100,000 pictures, all are compared with all. Beyond that, pictures are sorted into cells of
about 1,000: each goes to the nearest of some pictures that a hash chooses. A picture is then
searched for only in the 8 cells nearest to it. A quick search has smaller cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from xxhash import xxh3_64_intdigest

from imgrec.near.descriptor import CELLS, DESCRIPTOR_BYTES, DIRECTIONS, LENGTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int32]
    Rows: TypeAlias = NDArray[np.int8]
    Products: TypeAlias = NDArray[np.float32]

Run: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Calls a function on each of some tasks, perhaps in other processes, in any order."""

_LARGEST_CELL = 20_000
"""Of more pictures in a cell, the first ones are compared; a crowd so large looks alike anyway."""
_TASK = 4096
"""Pictures that one task searches for."""
_TILE = 512, 2048
"""Rows and columns of products that are made at once: they fit into the caches of a processor."""
_MOST_WAITING = 1 << 23
"""Candidates that are kept until the nearest of them are chosen, which bounds the memory."""


class Effort(NamedTuple):
    """How far to search."""

    neighbours: int
    """How many candidates each picture has at most."""
    least_cosine: float
    exhaustive: int
    """More pictures than this are sorted into cells."""
    cell: int = 1000
    """The pictures in a cell."""
    cells_searched: int = 8


THOROUGH = Effort(4, 0.35, 100_000)
QUICK = Effort(3, 0.8, 3000, 128, 3)
"""Takes 9 us for each of 12,000 photographs instead of 85. It finds 98 % of the pairs with a cosine
of 0.95, which come first, and 86 % of all."""


class Candidates(NamedTuple):
    """Pairs of pictures that may be alike, by column."""

    first: Numbers
    second: Numbers
    score: Numbers
    """Twice the product of their descriptors."""
    is_mirrored: Numbers


class _Search(NamedTuple):
    """A task for a worker: search for pictures among others."""

    wanted: Numbers
    """Positions of the pictures to search for."""
    descriptors: bytes
    among: Numbers
    """Positions of the pictures to search among."""
    others: bytes
    is_same: bool
    """Whether both are of one set, in which no picture is its own neighbour."""
    mirrors: bool
    """Whether pictures are also searched for mirrored."""
    neighbours: int
    least_cosine: float


def find_candidates(
    descriptors: bytes, others: bytes | None, run: Run, effort: Effort = THOROUGH
) -> Candidates:
    """Return pairs that may be alike, each pair once, sorted.

    Pictures are compared with each other, the lower position first; or with `others`.
    """
    rows = _rows(descriptors, DESCRIPTOR_BYTES)
    among = None if others is None else _rows(others, DESCRIPTOR_BYTES)
    return search_rows(rows, among, run, effort)


def search_rows(
    rows: Rows, others: Rows | None, run: Run, effort: Effort, *, mirrors: bool = True
) -> Candidates:
    """Return the candidates among descriptors, one in each row, or between them and `others`.

    Without `mirrors`, they may be vectors of any kind and width, all of one length or 0; their
    cosines are then relative to `LENGTH`.
    """
    among = rows if others is None else others
    sides = _Sides(rows, _not_flat(rows), among, _not_flat(among), others is None, mirrors)
    is_small = len(sides.known) <= effort.exhaustive
    searches = _searches(sides, effort) if is_small else _in_cells(sides, effort, run)
    parts, waiting = [_none()], 0
    for found in run(_search, searches):
        parts.append(found)
        waiting += len(found.first)
        if waiting > _MOST_WAITING:
            parts, waiting = [_nearest(_joined(parts), effort.neighbours)], 0
    found = _nearest(_joined(parts), effort.neighbours)
    return _each_once(found) if others is None else found


class _Sides(NamedTuple):
    """The pictures to search for, and those to search among: descriptors and positions."""

    rows: Rows
    wanted: Numbers
    among: Rows
    known: Numbers
    is_same: bool
    mirrors: bool


def _rows(descriptors: bytes, width: int) -> Rows:
    import numpy as np

    return np.frombuffer(descriptors, np.int8).reshape(-1, width)


def _not_flat(rows: Rows) -> Numbers:
    import numpy as np

    return np.flatnonzero(rows.any(axis=1)).astype(np.int32)


def _searches(sides: _Sides, effort: Effort) -> Iterator[_Search]:
    rows, wanted, among, known, is_same, mirrors = sides
    others = among[known].tobytes()
    for start in range(0, len(wanted), _TASK):
        part = wanted[start : start + _TASK]
        yield _Search(
            part,
            rows[part].tobytes(),
            known,
            others,
            is_same,
            mirrors,
            effort.neighbours,
            effort.least_cosine,
        )


def _in_cells(sides: _Sides, effort: Effort, run: Run) -> Iterator[_Search]:
    """Yield the searches in each cell, one after another, which saves memory."""
    import numpy as np

    rows, wanted, among, known, is_same, mirrors = sides
    # Chosen by content, so that neither the order nor a new picture changes many of them.
    hashes = [xxh3_64_intdigest(row.tobytes()) for row in among[known]]
    order = np.lexsort((known, np.array(hashes, np.uint64)))
    centres = among[np.sort(known[order[: len(known) // effort.cell]])]
    to_cells = _Sides(
        rows, wanted, centres, np.arange(len(centres), dtype=np.int32), False, mirrors
    )
    visits = _nearest_cells(to_cells, effort.cells_searched, run)
    others = to_cells._replace(rows=among, wanted=known)
    homes = (visits if is_same else _nearest_cells(others, 1, run))[:, 0]
    by_home = np.argsort(homes, kind="stable")
    by_visit = np.argsort(visits.ravel(), kind="stable")
    cells = range(len(centres) + 1)
    home_bounds = np.searchsorted(homes[by_home], cells)
    visit_bounds = np.searchsorted(visits.ravel()[by_visit], cells)
    for cell in range(len(centres)):
        members = known[by_home[home_bounds[cell] : home_bounds[cell + 1]]][:_LARGEST_CELL]
        visiting = by_visit[visit_bounds[cell] : visit_bounds[cell + 1]] // visits.shape[1]
        part = sides._replace(wanted=wanted[visiting], known=members)
        yield from _searches(part, effort)


def _nearest_cells(sides: _Sides, count: int, run: Run) -> Numbers:
    """Return the numbers of the nearest cells of each picture, the nearest first."""
    count = min(count, len(sides.known))
    searches = _searches(sides, Effort(count, -1.0, 0))
    found = _nearest(_joined(list(run(_search, searches))), count)
    return found.second.reshape(len(sides.wanted), count)


def _search(task: _Search) -> Candidates:
    """Return the nearest of the others for each picture, sorted."""
    import numpy as np

    width = len(task.descriptors) // len(task.wanted)
    others, wanted = _rows(task.others, width), _rows(task.descriptors, width)
    pairs = (_folded(wanted), _folded(others)) if task.mirrors else _plain(wanted, others)
    parts = [_none()]
    for start in range(0, len(task.wanted), _TILE[0]):
        rows = slice(start, start + _TILE[0])
        found, least = [_none()], np.float32(2 * task.least_cosine * LENGTH * LENGTH)
        limits = np.full(len(task.wanted[rows]), least)
        for first in range(0, len(task.among), _TILE[1]):
            columns = slice(first, first + _TILE[1])
            own, theirs = task.wanted[rows], task.among[columns]
            kept, turned = (one[rows] @ other[columns].T for one, other in zip(*pairs, strict=True))
            found.append(_in_tile(task, (own, theirs), kept, turned, limits))
        parts.append(_nearest(_joined(found), task.neighbours))
    return _joined(parts)


def _in_tile(
    task: _Search,
    places: tuple[Numbers, Numbers],
    kept: Products,
    turned: Products,
    limits: Products,
) -> Candidates:
    """Return the nearest in a part of all products.

    Twice the product of two descriptors is the sum of what mirroring keeps and of what it turns
    around; with one of them mirrored, it is the difference. `limits` are the least scores that
    matter in each row, and rise with each part: without that, a search takes 14 % longer.
    """
    import numpy as np

    own, theirs = places
    kept += np.abs(turned)
    is_near = kept >= limits[:, None]
    most = task.neighbours + task.is_same  # a picture is also nearest to itself
    if np.count_nonzero(is_near) > most * len(own):
        crowded = np.flatnonzero(np.count_nonzero(is_near, axis=1) > most)
        limits[crowded] = np.partition(kept[crowded], -most)[:, -most]
        is_near[crowded] = kept[crowded] >= limits[crowded, None]
    row, column = np.nonzero(is_near)
    if task.is_same:
        is_other = own[row] != theirs[column]
        row, column = row[is_other], column[is_other]
    return Candidates(
        own[row],
        theirs[column],
        kept[row, column].astype(np.int32),
        (turned[row, column] < 0).astype(np.int32),
    )


def _folded(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the parts of descriptors that mirroring keeps, and that it turns around.

    The products of the parts add up to twice the product of the descriptors.
    """
    import numpy as np

    ours, theirs, fixed = _pairs()
    one, other = rows[:, ours].astype(np.float32), rows[:, theirs].astype(np.float32)
    alone = rows[:, fixed].astype(np.float32)
    # Both halves of what stands for itself count, so that sums of whole numbers stay whole.
    return np.hstack([one + other, alone, alone]), one - other


def _plain(rows: Rows, others: Rows) -> tuple[tuple[Products, Products], ...]:
    """Return factors as `_folded` does, of descriptors without a mirrored form."""
    import numpy as np

    one, other = 2 * rows.astype(np.float32), others.astype(np.float32)
    return (one, one[:, :0]), (other, other[:, :0])


@lru_cache(maxsize=1)
def _pairs() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers that mirroring swaps, and those that it leaves in their place."""
    import numpy as np

    places = np.arange(CELLS * CELLS * DIRECTIONS)
    cells, direction = np.divmod(places, DIRECTIONS)
    row, column = np.divmod(cells, CELLS)
    swapped = (row * CELLS + CELLS - 1 - column) * DIRECTIONS + -direction % DIRECTIONS
    ours = places[places < swapped]
    return ours, swapped[ours], places[places == swapped]


def numbered(places: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the different places, sorted, and for each place the number of it among those.

    `np.unique` does the same, but its import of `numpy.ma` takes 40 ms in each process.
    """
    import numpy as np

    known = np.flatnonzero(np.bincount(places.ravel()))
    return known, np.searchsorted(known, places)


def _none() -> Candidates:
    import numpy as np

    return Candidates(*(np.empty(0, np.int32),) * 4)


def _joined(parts: Sequence[Candidates]) -> Candidates:
    import numpy as np

    return Candidates(*map(np.concatenate, zip(*parts, strict=True)))


def _nearest(found: Candidates, count: int) -> Candidates:
    """Return the nearest `count` of each first picture, sorted; equal ones once."""
    import numpy as np

    order = np.lexsort((found.is_mirrored, found.second, -found.score, found.first))
    found = Candidates(*(column[order] for column in found))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(found.first) != 0) | (np.diff(found.second) != 0)
    found = Candidates(*(column[is_new] for column in found))
    starts = np.flatnonzero(np.diff(found.first, prepend=-1))
    sizes = np.diff(starts, append=len(found.first))
    ranks = np.arange(len(found.first)) - np.repeat(starts, sizes)
    return Candidates(*(column[ranks < count] for column in found))


def _each_once(found: Candidates) -> Candidates:
    """Return each pair once, the lower position first, sorted."""
    import numpy as np

    low, high = np.minimum(found.first, found.second), np.maximum(found.first, found.second)
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(low) != 0) | (np.diff(high) != 0)
    rest = (column[order][is_new] for column in (found.score, found.is_mirrored))
    return Candidates(low[is_new], high[is_new], *rest)
