"""Which split each sample goes to: stratified, exact, without leaks, and steady as a set grows."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from imgrec.errors import PlanError
from imgrec.model import FOLD, TEST, TRAIN, VAL, Samples, split_order
from imgrec.options import SplitOptions
from imgrec.plan.balance import Unit, cut, level, repair
from imgrec.plan.groups import deal, find_units

_KEY_BYTES = 8
_MOST = (1 << 64) - 1


def write_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order in which they are written.

    Copies of one image stand together, in order of their names.
    """
    return _sorted(samples, ranks_of(samples.contents, seed))


def draw_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order in which splits and limits draw them.

    Copies of one image stand together, in order of their names.
    """
    return _sorted(samples, draws_of(samples.contents, seed))


def ranks_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, by which they are written."""
    # A content is a hash already; multiplying it by a random odd number shuffles what it orders.
    # Only the part of a content that never changes ranks: see `source.probe.contents`.
    noise = _noise(f"imgrec {seed}")
    factor = int.from_bytes(noise[:8], "big") | 1
    mask = int.from_bytes(noise[8:], "big")
    heads = b"".join([content[:_KEY_BYTES] for content in contents])
    keys = struct.unpack(f"<{len(contents)}Q", heads)
    return [(key ^ mask) * factor & _MOST for key in keys]


def draws_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, by which they are drawn.

    Two contents have one number if and only if they have one rank.
    """
    # What is first by rank is known by the upper half of its bits. Folding that onto the lower
    # half, which is noise, before multiplying anew spreads it over all numbers.
    factor = int.from_bytes(_noise(f"imgrec draw {seed}")[:8], "big") | 1
    return [(rank ^ rank >> 32) * factor & _MOST for rank in ranks_of(contents, seed)]


def _noise(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _sorted(samples: Samples, numbers: Sequence[int]) -> list[int]:
    """Sort places by number, and those of one number by content and name."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    if len(set(numbers)) == len(numbers):
        return order

    def full(place: int) -> tuple[bytes, str]:
        return samples.contents[place], samples.filenames[place]

    steps = enumerate(pairwise(map(numbers.__getitem__, order)), 1)
    starts = [0, *(at for at, (one, other) in steps if one != other), len(order)]
    for start, end in pairwise(starts):
        if end - start > 1:
            order[start:end] = sorted(order[start:end], key=full)
    return order


class Drawn(NamedTuple):
    """Samples in the order in which they are drawn, with what is known of each."""

    samples: Samples
    labels: Sequence[int]
    units: Sequence[int]
    order: Sequence[int]


def assign_splits(
    samples: Samples,
    labels: Sequence[int],
    options: SplitOptions,
    label_sets: Sequence[Sequence[int]] = (),
) -> list[str]:
    """Return the split of each sample, given the label by which it is drawn, and all of them.

    A sample keeps the split that the source gives it or that it is pinned to, except that val and
    test, or folds, where the source has none, are taken out of its train. Raises PlanError if it
    has them already.
    """
    refuse_unfit(set(samples.splits), options)
    splits = [split or TRAIN for split in samples.splits]
    is_divided = options.val_split or options.test_split or options.folds
    if not splits or not (is_divided or samples.pinned):
        return splits
    units = find_units(samples)
    drawn = Drawn(samples, labels, units, draw_order(samples, options.seed))
    homes = find_homes(drawn, splits, folds=bool(options.folds))
    what = "groups" if samples.groups else "images"
    if options.folds > len(homes.labels):
        # They are too few before any goes to test: only count, with folds that take no time.
        places = _divide(homes, replace(options, folds=2))
        _refuse_few(homes, places, options.folds, what)
    _refuse_other_pins(samples, splits, options)
    places = _divide(homes, options)
    if options.folds:
        _refuse_few(homes, places, options.folds, what)
    if label_sets:
        repair(places, _several_labels(homes, units, label_sets), homes.pins, options)
    for place, split in enumerate(splits):
        if split == TRAIN:
            splits[place] = places.get(units[place], TRAIN)
    return _pinned(samples, splits)


def _divide(homes: Homes, options: SplitOptions) -> dict[int, str]:
    if homes.sizes:
        return deal(homes.sizes, homes.pins, options)
    return _held_out(homes.labels, homes.pins, options)


def _refuse_few(homes: Homes, splits: Mapping[int, str], folds: int, what: str) -> None:
    """Raise PlanError if there are fewer units than folds to put them into."""
    count = sum(splits[unit] != TEST for unit in homes.labels)
    if count < folds:
        raise PlanError(
            f"{folds} folds cannot be made of {count} different {what}",
            hint=f"give --folds {count} or less" if count > 1 else "leave out --folds",
        )


def _pinned(samples: Samples, splits: list[str]) -> list[str]:
    if not samples.pinned:
        return splits
    return [pin or split for pin, split in zip(samples.pinned, splits, strict=True)]


def _refuse_other_pins(samples: Samples, splits: Sequence[str], options: SplitOptions) -> None:
    """Raise PlanError if images are pinned to folds, but others go to train; or the reverse."""
    made = {f"{FOLD}{fold}" for fold in range(options.folds)} or {TRAIN, VAL}
    pins = {pin for pin in samples.pinned if pin in (TRAIN, VAL) or pin.startswith(FOLD)}
    rows = zip(samples.pinned, splits, strict=bool(samples.pinned))
    are_more = any(not pin and split == TRAIN for pin, split in rows)
    if (odd := pins - made) and (options.folds or are_more):
        raise PlanError(
            f"images that stay in {', '.join(sorted(odd, key=split_order))} do not go together "
            f"with others in {f'{options.folds} folds' if options.folds else TRAIN}",
            hint="give --folds as that dataset had it, or leave out --split-from and --split-file",
        )


def refuse_unfit(given: Collection[str], options: SplitOptions) -> None:
    """Raise PlanError if the splits that the source has leave no room for those asked for."""
    _refuse_second_split(given, VAL, options.val_split, "--val-split")
    _refuse_second_split(given, TEST, options.test_split, "--test-split")
    _refuse_second_split(given, VAL, options.folds, "--folds")
    is_divided = options.val_split or options.test_split or options.folds
    if given and is_divided and not {"", TRAIN}.intersection(given):
        raise PlanError("the source has no train images to take a split from")


def _refuse_second_split(given: Iterable[str], split: str, wanted: float, option: str) -> None:
    if wanted and split in given:
        raise PlanError(
            f"the source has a {split} split of its own, so {option} cannot make another",
            hint=f"leave out {option}, or move the images of {split} into train",
        )


class Homes(NamedTuple):
    """The units that may leave train, in the order in which they are drawn."""

    labels: dict[int, int]
    """Of each unit: one of several labels is the smallest."""
    sizes: dict[int, Counter[int]]
    """How many images of which label each unit has; only known for groups."""
    pins: dict[int, str]
    """The split that a unit must be in, because one of its images must."""


def find_homes(drawn: Drawn, splits: Sequence[str], *, folds: bool) -> Homes:
    """Return the units of which some may leave train, given the split that each sample is in."""
    samples, labels, units, order = drawn
    if {*splits} != {TRAIN}:
        elsewhere = {units[place] for place, split in enumerate(splits) if split != TRAIN}
        # What the source also has in val or test stays in train: in another val it would leak
        # anew. But there is no train beside folds.
        taken = set() if folds else elsewhere
        order = [place for place in order if splits[place] == TRAIN and units[place] not in taken]
    homes = Homes({}, defaultdict(Counter), {})
    if isinstance(units, range):  # each sample is a unit of its own
        homes.labels.update(zip(order, map(labels.__getitem__, order), strict=True))
    else:
        for place in order:
            unit, label = units[place], labels[place]
            if homes.labels.setdefault(unit, label) > label:
                homes.labels[unit] = label
    # What looks alike is a group, too: drawn by the first of its images, large ones would all come
    # early. Copies, which have one place in the order, count once.
    if samples.groups or any(samples.near):
        for place in order:
            homes.sizes[units[place]][labels[place]] += 1
    for place, pin in enumerate(samples.pinned):
        if pin:
            known = homes.pins.get(units[place], pin)
            homes.pins[units[place]] = max(known, pin, key=split_order)
    return homes


def _several_labels(
    homes: Homes, units: Sequence[int], label_sets: Sequence[Sequence[int]]
) -> dict[int, Unit]:
    """Return the units that may leave train, with all labels of their images."""
    labels: dict[int, set[int]] = defaultdict(set)
    for unit, own in zip(units, label_sets, strict=True):
        labels[unit].update(own)
    sized = bool(homes.sizes)
    return {
        unit: Unit(frozenset(labels[unit]), stratum, homes.sizes[unit].total() if sized else 1)
        for unit, stratum in homes.labels.items()
    }


def _held_out(
    labels: Mapping[int, int], pins: Mapping[int, str], options: SplitOptions
) -> dict[int, str]:
    """Return the split of each unit, exact by class; those not named stay in train."""
    by_class: dict[int, list[int]] = defaultdict(list)
    for unit, label in labels.items():  # as they are drawn
        by_class[label].append(unit)
    splits = dict(pins)
    for label, units in by_class.items():
        known = Counter(pins[unit] for unit in units if unit in pins) if pins else Counter()
        free = [unit for unit in units if unit not in pins] if known else units
        val, test = held_out_counts(len(units), options)
        is_train_known = bool(known.keys() - {VAL, TEST})
        can_give = max(len(free) - (not is_train_known), 0)
        val = min(max(val - known[VAL], 0), can_give)
        test = min(max(test - known[TEST], 0), can_give - val)
        rest = free[val : len(free) - test]
        splits |= dict.fromkeys(free[:val], VAL)
        splits |= dict.fromkeys(free[val + len(rest) :], TEST)
        if options.folds:
            splits |= cut(rest, label, known, options.folds)
    if options.folds:
        level(splits, labels, pins, options.folds)
    return splits


def held_out_counts(images: int, options: SplitOptions) -> tuple[int, int]:
    """Return how many of a class's `images` go to val and to test.

    Each gets at least one, and train keeps at least one, as far as there are enough.

    >>> held_out_counts(20, SplitOptions(val_split=0.1))
    (2, 0)
    """
    val = _share(images, options.val_split, kept=1)
    test = _share(images, options.test_split, kept=1 + val)
    return val, test


def _share(images: int, fraction: float, *, kept: int) -> int:
    if not fraction:
        return 0
    return max(min(max(round(images * fraction), 1), images - kept), 0)
