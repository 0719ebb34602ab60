"""What is said of near-duplicates: the pairs there are, and how many of them matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_EXAMPLES = 100


class NearPair(NamedTuple):
    """Two files whose pictures look alike and are not the same to the byte."""

    first: str
    second: str
    distance: float
    """In thousandths: 0 is the same picture, if perhaps encoded otherwise."""
    is_mirrored: bool


class NearDuplicates(NamedTuple):
    """Near-duplicates summed up; there may be too many to name them all."""

    looked_at: int
    """How many images were compared."""
    pairs: int
    across_splits: int
    """Pairs with one image in another split than the other: leaks."""
    across_classes: int
    """Pairs with other labels."""
    examples: tuple[NearPair, ...]
    """The first of the pairs that matter most."""


class Found(NamedTuple):
    """All near-duplicates among some images."""

    looked_at: int
    """How many images were compared."""
    pairs: tuple[NearPair, ...]

    def sum_up(self, splits: Mapping[str, str], labels: Mapping[str, object]) -> NearDuplicates:
        """Count the pairs of files that have a split, by their names; the label None is none."""
        leaks: list[NearPair] = []
        conflicts: list[NearPair] = []
        within: list[NearPair] = []
        across_classes = 0
        for pair in self.pairs:
            first, second = pair.first, pair.second
            if first not in splits or second not in splits:
                continue
            known = {labels[first], labels[second]} - {None}
            is_conflict = len(known) > 1
            across_classes += is_conflict
            is_leak = splits[first] != splits[second]
            (leaks if is_leak else conflicts if is_conflict else within).append(pair)
        ranked = [*_nearest_first(leaks), *_nearest_first(conflicts), *_nearest_first(within)]
        return NearDuplicates(
            looked_at=self.looked_at,
            pairs=len(ranked),
            across_splits=len(leaks),
            across_classes=across_classes,
            examples=tuple(ranked[:_EXAMPLES]),
        )


def _nearest_first(pairs: list[NearPair]) -> list[NearPair]:
    return sorted(pairs, key=lambda pair: (pair.distance, pair.first, pair.second))
