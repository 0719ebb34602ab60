"""Cutting classes into folds that are even, of each class and in all."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple

from imgrec.model import FOLD


def cut(units: Sequence[int], label: int, known: Counter[str], count: int) -> dict[int, str]:
    """Cut the units of a class into folds that are even, along with the units known in each.

    The odd ones go to other folds for other classes.
    """
    folds = [f"{FOLD}{(fold + label) % count}" for fold in range(count)]
    smallest = [(known[fold], place) for place, fold in enumerate(folds)]
    heapify(smallest)
    more = [0] * count
    for _ in units:
        size, place = smallest[0]
        heapreplace(smallest, (size + 1, place))
        more[place] += 1
    names = chain.from_iterable(map(repeat, folds, more))
    return dict(zip(units, names, strict=True))


def level(
    splits: dict[int, str], labels: Mapping[int, int], pins: Mapping[int, str], count: int
) -> None:
    """If a fold has nothing, move units until none has two more than another.

    Each class stays as even as it is: a fold that has two more than another has more of some class
    as well, and one of that class goes. Where some class reaches all folds, nothing is moved, so
    that one image more moves few others.
    """
    counts: dict[str, Counter[int]] = {f"{FOLD}{fold}": Counter() for fold in range(count)}
    free: dict[tuple[str, int], list[int]] = defaultdict(list)
    for unit, label in sorted(labels.items(), key=itemgetter(1)):  # by class, as they are drawn
        if (fold := splits.get(unit, "")) in counts:
            counts[fold][label] += 1
            if unit not in pins:
                free[fold, label].append(unit)
    sizes = [(found.total(), place) for place, found in enumerate(counts.values())]
    if min(sizes)[0] > 0:
        return
    folds = _Folds(tuple(counts), tuple(counts.values()), free, sorted(sizes))
    while move := folds.find_move():
        splits[folds.move(move)] = folds.names[move.taker]


class _Move(NamedTuple):
    """One unit of a label that goes from a fold to another, both by number."""

    giver: int
    taker: int
    label: int


class _Folds(NamedTuple):
    """What is in each fold."""

    names: Sequence[str]
    counts: Sequence[Counter[int]]
    """How many units of which label it has."""
    free: dict[tuple[str, int], list[int]]
    """The units of a fold and a label that may be moved."""
    by_size: list[tuple[int, int]]
    """How many units it has, and its number; sorted."""

    def find_move(self) -> _Move | None:
        """Return a fold that can give another, which has at least two less, one of a label."""
        for taken, taker in self.by_size:
            for given, giver in reversed(self.by_size):
                if given < taken + 2:
                    break
                for label in self.counts[giver] - self.counts[taker]:
                    if self.free[self.names[giver], label]:
                        return _Move(giver, taker, label)
        return None

    def move(self, move: _Move) -> int:
        """Move one unit, and return it."""
        giver, taker, label = move
        unit = self.free[self.names[giver], label].pop()
        self.free[self.names[taker], label].append(unit)
        for fold, change in ((giver, -1), (taker, 1)):
            size = self.counts[fold].total()
            del self.by_size[bisect_left(self.by_size, (size, fold))]
            insort(self.by_size, (size + change, fold))
            self.counts[fold][label] += change
        return unit
