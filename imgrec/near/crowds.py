"""Thinning out crowds: signatures of which too many have the same bits to compare all of them.

The members of a crowd are taken one after another. One that is like a leader follows it: the two
are a pair, and the follower is compared with nothing else. Any other becomes a leader itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.near.table import BANDS, MOST_BITS, Table, popcount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.table import Numbers

CROWD = 1024
"""More than so many are a crowd. If it has more leaders, the rest is not compared in that band."""
_BLOCK = 512


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """What is left to compare, and what was found on the way."""

    followers: Numbers
    """Pairs, as two rows, of a leader and one that follows it."""
    are_left: NDArray[np.bool_]
    """By band and row: whether it is to be compared there."""

    def places(self, band: int) -> Numbers:
        """Return the rows that are to be compared in a band."""
        import numpy as np

        return np.flatnonzero(self.are_left[band])


def thin(table: Table, distance: float) -> Thinned:
    """Let followers follow in every band that has a crowd."""
    import numpy as np

    are_left = np.ones((BANDS, len(table)), bool)
    followers = [np.empty((2, 0), np.int64)]
    for band in range(BANDS):
        for crowd in _crowds(table, np.flatnonzero(are_left[band]), band):
            pairs, beyond = _led(table, crowd, distance)
            followers.append(pairs)
            are_left[:, pairs[1]] = False
            are_left[band, beyond] = False
    return Thinned(np.concatenate(followers, axis=1), are_left)


def _crowds(table: Table, places: Numbers, band: int) -> Iterator[Numbers]:
    import numpy as np

    keys = table.band(table.hashes[places], band)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    for start, size in zip(starts[sizes > CROWD], sizes[sizes > CROWD], strict=True):
        yield places[order[start : start + size]]


def _led(table: Table, crowd: Numbers, distance: float) -> tuple[Numbers, Numbers]:
    """Return pairs of leaders and followers, and those that are beyond the last leader."""
    import numpy as np

    leaders = crowd[:0]
    pairs, beyond = [np.stack([leaders, leaders])], [leaders]
    for start in range(0, len(crowd), _BLOCK):
        block = crowd[start : start + _BLOCK]
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
    """Return whom each follows, given who is like whom; leaders follow themselves."""
    import numpy as np

    leader = np.full(len(near), -1)
    for place, alike in enumerate(near):
        if leader[place] < 0:
            leader[alike & (leader < 0)] = place
    return leader


def _are_near(table: Table, block: Numbers, leaders: Numbers, distance: float) -> NDArray[np.bool_]:
    """Return a matrix of which are like which."""
    near = table.all_distances(block, leaders) <= distance
    near &= popcount(table.hashes[block][:, None] ^ table.hashes[leaders]) <= MOST_BITS
    near &= table.are_of_one_colour(block[:, None], table, leaders)
    return near
