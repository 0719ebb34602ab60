"""Dealing groups of images out to splits: none is parted, and every class is spread as asked.

The largest units go first, each to the split that still lacks most of what the unit has; so the
small ones at the end even out what the large ones left uneven.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import SplitOptions


def deal(
    units: Mapping[int, Counter[int]], pins: Mapping[int, str], options: SplitOptions
) -> dict[int, str]:
    """Return the split of each unit, given how many images of which label it has.

    `units` come in the order of their rank, which decides between units of one size.
    """
    fractions = _fractions(options)
    totals: Counter[int] = Counter()
    for labels in units.values():
        totals.update(labels)
    lacking = {
        split: {label: total * fraction for label, total in totals.items()}
        for split, fraction in fractions.items()
    }
    splits: dict[int, str] = {}
    for unit, labels in units.items():
        if unit in pins:
            splits[unit] = pins[unit]
            _take(lacking.get(pins[unit], {}), labels)
    free = [unit for unit in units if unit not in pins]
    for unit in sorted(free, key=lambda unit: -units[unit].total()):
        labels = units[unit]
        splits[unit] = max(fractions, key=lambda split: _need(lacking[split], labels, totals))
        _take(lacking[splits[unit]], labels)
    _fill_empty(splits, units, pins, fractions)
    return splits


def _fractions(options: SplitOptions) -> dict[str, float]:
    """Return the part of the images that each split is to have, the smallest splits first."""
    if options.folds:
        rest = 1 - options.test_fraction
        wanted = {f"{FOLD}{fold}": rest / options.folds for fold in range(options.folds)}
    else:
        rest = 1 - options.val_fraction - options.test_fraction
        wanted = {VAL: options.val_fraction, TRAIN: rest}
    wanted = {TEST: options.test_fraction, **wanted}
    return {split: fraction for split, fraction in wanted.items() if fraction}


def _need(lacking: Mapping[int, float], labels: Counter[int], totals: Counter[int]) -> float:
    """Return how much a split lacks what a unit has, rare classes counting as much as common."""
    return sum(count * lacking[label] / totals[label] for label, count in labels.items())


def _take(lacking: dict[int, float], labels: Counter[int]) -> None:
    for label, count in labels.items():
        if label in lacking:
            lacking[label] -= count


def _fill_empty(
    splits: dict[int, str],
    units: Mapping[int, Counter[int]],
    pins: Mapping[int, str],
    fractions: Mapping[str, float],
) -> None:
    """Give each split that got nothing the smallest unit of one that has more than one."""
    members: dict[str, list[int]] = defaultdict(list)
    for unit, split in splits.items():
        members[split].append(unit)
    for split in fractions:
        if members[split]:
            continue
        giving = [unit for unit in splits if unit not in pins and len(members[splits[unit]]) > 1]
        if giving:
            chosen = min(giving, key=lambda unit: units[unit].total())
            members[splits[chosen]].remove(chosen)
            members[split].append(chosen)
            splits[chosen] = split
