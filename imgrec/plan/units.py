"""Which samples must not be parted: copies of one image, images of one group, near-duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from imgrec.model import Samples


def find_units(samples: Samples) -> Sequence[int]:
    """Return for each sample the number of its unit: the place of the unit's first sample.

    Samples of identical bytes are in one unit, and so are those of one group, or that look alike.
    """
    parents = range(len(samples))
    linked = _linked(samples.contents)
    for groups in (samples.groups, samples.near):
        linked += _linked(groups, apart="")
    return _united(list(parents), linked) if linked else parents


def _linked(values: Sequence[Hashable], apart: Hashable = None) -> list[tuple[int, int]]:
    """Return pairs of places that have one value, enough of them to connect all that have it."""
    if len(set(values)) == len(values):
        return []
    repeated = {value for value, count in Counter(values).items() if count > 1 and value != apart}
    first: dict[Hashable, int] = {}
    return [
        (first.setdefault(value, place), place)
        for place, value in enumerate(values)
        if value in repeated
    ]


def _united(parents: list[int], pairs: Sequence[tuple[int, int]]) -> list[int]:
    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        parents[high] = low
    return [root(place) for place in range(len(parents))]
