"""Which units of a class are val and test, told by two places in the order of their rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from imgrec.model import TEST, TRAIN, VAL
from imgrec.options import SplitOptions
from imgrec.plan.split import held_out_counts

Place = tuple[int, int]
"""Bucket, and number among the units of the class in there."""
_BEHIND = (1 << 31, 0)


class Share(NamedTuple):
    """The units of a class before `val_end` are val, those from `test_start` on are test."""

    val_end: Place
    test_start: Place

    def split_of(self, place: Place) -> str:
        """Return the split of the unit at a place."""
        if place < self.val_end:
            return VAL
        return TEST if place >= self.test_start else TRAIN


def shares(counts: Iterable[tuple[int, int, int]], options: SplitOptions) -> dict[int, Share]:
    """Return the shares of each label, given label, bucket and units, sorted by them."""
    found = {}
    for label, group in groupby(counts, key=lambda count: count[0]):
        buckets = [(bucket, units) for _, bucket, units in group]
        total = sum(units for _, units in buckets)
        val, test = held_out_counts(total, options)
        found[label] = Share(_place(buckets, val), _place(buckets, total - test))
    return found


def _place(buckets: Sequence[tuple[int, int]], number: int) -> Place:
    """Return where the unit of a number is."""
    for bucket, units in buckets:
        if number < units:
            return bucket, number
        number -= units
    return _BEHIND
