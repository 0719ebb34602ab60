"""Cutting classes into folds that are even, of each class and in all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from imgrec.model import FOLD, split_order


def cut(units: Sequence[int], label: int, known: Counter[str], count: int) -> dict[int, str]:
    """Cut the units of a class into folds that are even, along with the units known in each.

    The odd ones go to other folds for other classes.
    """
    folds = [f"{FOLD}{(fold + label) % count}" for fold in range(count)]
    sizes = [known[fold] for fold in folds]
    for _ in units:
        sizes[sizes.index(min(sizes))] += 1
    splits: dict[int, str] = {}
    for fold, size in zip(folds, sizes, strict=True):
        more = size - known[fold]
        splits |= dict.fromkeys(units[len(splits) : len(splits) + more], fold)
    return splits


def level(
    splits: dict[int, str], labels: Mapping[int, int], pins: Mapping[int, str], count: int
) -> None:
    """If a fold has nothing, move units until none has two more than another.

    Each class stays as even as it is: a fold that has two more than another has more of some class
    as well, and one of that class goes. Where some class reaches all folds, nothing is moved, so
    that one image more moves few others.
    """
    folds = _Folds({f"{FOLD}{fold}": Counter() for fold in range(count)}, defaultdict(list))
    for unit, label in sorted(labels.items(), key=itemgetter(1)):  # by class, as they are drawn
        if (fold := splits.get(unit, "")) in folds.counts:
            folds.counts[fold][label] += 1
            if unit not in pins:
                folds.free[fold, label].append(unit)
    if all(counts.total() for counts in folds.counts.values()):
        return
    while move := folds.find_move():
        giver, taker, label = move
        unit = folds.free[giver, label].pop()
        folds.free[taker, label].append(unit)
        folds.counts[giver][label] -= 1
        folds.counts[taker][label] += 1
        splits[unit] = taker


class _Folds(NamedTuple):
    """What is in each fold."""

    counts: dict[str, Counter[int]]
    """How many units of which label it has."""
    free: dict[tuple[str, int], list[int]]
    """The units of a fold and a label that may be moved."""

    def find_move(self) -> tuple[str, str, int] | None:
        """Return a fold that can give another, which has at least two less, one of a label."""
        sizes = {fold: counts.total() for fold, counts in self.counts.items()}
        by_size = sorted(sizes, key=lambda fold: (sizes[fold], split_order(fold)))
        for taker in by_size:
            for giver in reversed(by_size):
                if sizes[giver] < sizes[taker] + 2:
                    break
                for label in self.counts[giver] - self.counts[taker]:
                    if self.free[giver, label]:
                        return giver, taker, label
        return None
