"""Dealing groups of images out to splits: none is parted, and every class is spread as asked.

Each unit goes to the split that it brings nearest to what that split is to have, of every label
and in all. The distance is squared and relative, so all splits fill at one pace and each gets
units of all sizes. Large units go first, so that small ones even out what they leave uneven.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import SplitOptions

_LABELS_PER_TOTAL = 3
"""For every so many labels, the number of all images counts as much as that of one label.

Otherwise each of many classes could be as little below the fraction as its groups allow, and all
of them together far below. Tried with 1,000 random sets of groups: with this, no split misses its
fraction by much more than the largest group, and classes are spread hardly less evenly.
"""


def deal(
    units: Mapping[int, Counter[int]], pins: Mapping[int, str], options: SplitOptions
) -> dict[int, str]:
    """Return the split of each unit, given how many images of which label it has.

    `units` come in the order in which they are drawn, which decides between units of about one
    size. One with all that there is of its classes is train: to validate them, they must be
    learned first.
    """
    totals: Counter[int] = Counter()
    uses: Counter[int] = Counter()
    for labels in units.values():
        totals.update(labels)
        uses.update(labels.keys())
    dealer = Dealer(totals, uses, options)
    alone = [unit for unit in units if dealer.is_alone(units[unit])]
    pins = {**dict.fromkeys(alone, TRAIN), **pins}
    splits = dict(pins)
    for unit, split in pins.items():
        if unit in units:
            dealer.seat(units[unit], split)
    free = [unit for unit in units if unit not in pins]
    for unit in sorted(free, key=lambda unit: turn_of(units[unit])):
        splits[unit] = dealer.place(units[unit])
    fill_empty(splits, units, pins, dealer.fractions)
    return splits


def turn_of(labels: Counter[int]) -> int:
    """Return when a unit is dealt: the lower, the sooner.

    Sizes of one power of two count as one, so that the seed has a say among all of them.
    """
    return -labels.total().bit_length()


class Dealer:
    """Chooses a split for one unit after the other, given how many images each label has in all.

    `uses` are the numbers of units that have images of a label.
    """

    def __init__(
        self, totals: Counter[int], uses: Mapping[int, int], options: SplitOptions
    ) -> None:
        self.fractions = _fractions(options)
        self._uses = uses
        self._lacks = {
            split: _Lack(totals, uses, fraction) for split, fraction in self.fractions.items()
        }

    def is_alone(self, labels: Iterable[int]) -> bool:
        """Tell whether a unit has all that there is of its classes, and so must be train."""
        return TRAIN in self.fractions and all(self._uses[label] == 1 for label in labels)

    def seat(self, labels: Counter[int], split: str) -> None:
        """Count in a unit whose split is known."""
        if split in self._lacks:
            self._lacks[split].take(labels)

    def place(self, labels: Counter[int]) -> str:
        """Choose the split of a unit, and count it in."""
        split = max(self._lacks, key=lambda split: self._lacks[split].gain(labels))
        self._lacks[split].take(labels)
        return split


def _fractions(options: SplitOptions) -> dict[str, float]:
    """Return the part of the images that each split is to have; of equals the first is chosen."""
    if options.folds:
        rest = 1 - options.test_split
        wanted = {f"{FOLD}{fold}": rest / options.folds for fold in range(options.folds)}
    else:
        rest = 1 - options.val_split - options.test_split
        wanted = {TRAIN: rest, VAL: options.val_split}
    wanted[TEST] = options.test_split
    return {split: fraction for split, fraction in wanted.items() if fraction}


class _Lack:
    """What a split is to have, and what it still lacks, of each label and in all."""

    def __init__(self, totals: Counter[int], uses: Mapping[int, int], fraction: float) -> None:
        # If it can be, a split is to have something of a class that is too rare for its fraction.
        self._wanted = {
            label: max(total * fraction, 1 if uses[label] > 1 else 0)
            for label, total in totals.items()
        }
        self._lacking = dict(self._wanted)
        self._wanted_in_all = self._lacking_in_all = totals.total() * fraction
        self._weight_in_all = len(totals) / _LABELS_PER_TOTAL

    def gain(self, labels: Counter[int]) -> float:
        """Return how much nearer a unit brings the split to what it is to have."""
        in_all = _gain(labels.total(), self._lacking_in_all, self._wanted_in_all)
        return self._weight_in_all * in_all + sum(
            _gain(count, self._lacking[label], self._wanted[label])
            for label, count in labels.items()
        )

    def take(self, labels: Counter[int]) -> None:
        """Count a unit in."""
        self._lacking_in_all -= labels.total()
        for label, count in labels.items():
            self._lacking[label] -= count


def _gain(count: int, lacking: float, wanted: float) -> float:
    """Return by how much `count` images shorten the way to what is wanted, as squares."""
    return count * (2 * lacking - count) / wanted


def fill_empty(
    splits: dict[int, str],
    units: Mapping[int, Counter[int]],
    pins: Mapping[int, str],
    fractions: Mapping[str, float],
) -> None:
    """Give each split that got nothing the smallest unit of one that has more than one.

    Train gets one even if that was another's only one.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for unit, split in splits.items():
        members[split].append(unit)
    for split in fractions:
        if members[split]:
            continue
        least = 0 if split == TRAIN else 1
        giving = [u for u in splits if u not in pins and len(members[splits[u]]) > least]
        if giving:
            chosen = min(giving, key=lambda unit: units[unit].total())
            members[splits[chosen]].remove(chosen)
            members[split].append(chosen)
            splits[chosen] = split
