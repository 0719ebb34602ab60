"""Choose the split of each sample: stratified, exact, without leaks, and stable as a set grows.

Samples have two orders, both random by content and seed. They are written in one and drawn for
splits in the other. If val took the first images of each class in the order of writing, train would
begin with images of the classes that gave the least.

Units (`plan.groups`) are drawn class by class. The first `round(n * val_split)` units of a class
are val, the last `round(n * test_split)` are test, the rest train. One more image moves at most one
other across each boundary, and a renamed image stays. Groups of images are dealt out instead
(`plan.groups`). Where images have several labels, `plan.balance` brings missing labels to splits.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from imgrec.errors import PlanError
from imgrec.model import FOLD, TEST, TRAIN, VAL, Samples, split_order
from imgrec.options import PackOptions
from imgrec.planning.balance import Unit, cut_folds, even_out_folds, spread_labels
from imgrec.planning.groups import deal, find_units

_KEY_BYTES = 8
_MAX_RANK = (1 << 64) - 1


def write_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order of writing; copies come together, by name."""
    return _sorted(samples, ranks_of(samples.contents, seed))


def draw_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order of drawing; copies come together, by name."""
    return _sorted(samples, draws_of(samples.contents, seed))


def ranks_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, which orders writing."""
    # A content is a hash already. Multiplying it by a random odd number shuffles the order. Only
    # the part of a content that never changes is used: see `source.probe.contents`.
    noise = _noise(f"imgrec {seed}")
    factor = int.from_bytes(noise[:8], "big") | 1
    mask = int.from_bytes(noise[8:], "big")
    heads = b"".join([content[:_KEY_BYTES] for content in contents])
    keys = struct.unpack(f"<{len(contents)}Q", heads)
    return [(key ^ mask) * factor & _MAX_RANK for key in keys]


def draws_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, which orders drawing.

    Two contents have the same number if and only if they have the same rank.
    """
    # The upper bits of a rank decide what is written first. Folding them onto the lower bits,
    # which are noise, and multiplying again makes the two orders independent.
    factor = int.from_bytes(_noise(f"imgrec draw {seed}")[:8], "big") | 1
    return [(rank ^ rank >> 32) * factor & _MAX_RANK for rank in ranks_of(contents, seed)]


def _noise(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _sorted(samples: Samples, numbers: Sequence[int]) -> list[int]:
    """Sort places by number; equal numbers by content and name."""
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


def assign_splits(
    samples: Samples,
    labels: Sequence[int],
    options: PackOptions,
    label_sets: Sequence[Sequence[int]] = (),
) -> list[str]:
    """Return the split of each sample, given the label by which it is drawn, and all its labels.

    A sample keeps the split that the source gives it or that it is pinned to. Val, test and folds
    are taken out of the source's train. Raises PlanError if the source has them already.
    """
    refuse_unfit(set(samples.splits), options)
    splits = [split or TRAIN for split in samples.splits]
    is_divided = options.val_split or options.test_split or options.folds
    if not splits or not (is_divided or samples.pinned):
        return splits
    units = find_units(samples)
    order = draw_order(samples, options.seed)
    free = find_free_units(samples, labels, units, order, folds=bool(options.folds))
    what = "groups" if samples.groups else "images"
    if options.folds > len(free.labels):
        # Too few even before any goes to test. Count with 2 folds, since thousands take long.
        _refuse_few(free, _divide(free, replace(options, folds=2)), options.folds, what)
    _refuse_other_pins(samples, splits, options)
    homes = _divide(free, options)
    if options.folds:
        _refuse_few(free, homes, options.folds, what)
    if label_sets:
        spread_labels(homes, _with_all_labels(free, units, label_sets), free.pins, options)
    for place, split in enumerate(splits):
        if split == TRAIN:
            splits[place] = homes.get(units[place], TRAIN)
    if not samples.pinned:
        return splits
    return [pin or split for pin, split in zip(samples.pinned, splits, strict=True)]


def _divide(free: FreeUnits, options: PackOptions) -> dict[int, str]:
    if free.sizes:
        return deal(free.sizes, free.pins, options)
    return _held_out(free.labels, free.pins, options)


def _refuse_few(free: FreeUnits, homes: Mapping[int, str], folds: int, what: str) -> None:
    """Raise PlanError if there are fewer units than folds."""
    count = sum(homes[unit] != TEST for unit in free.labels)
    if count < folds:
        raise PlanError(
            f"{folds} folds cannot be made of {count} different {what}",
            hint=f"give --folds {count} or less" if count > 1 else "leave out --folds",
        )


def _refuse_other_pins(samples: Samples, splits: Sequence[str], options: PackOptions) -> None:
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


def refuse_unfit(given: Collection[str], options: PackOptions) -> None:
    """Raise PlanError if the splits of the source leave no room for those asked for."""
    wanted = (
        (VAL, options.val_split, "--val-split"),
        (TEST, options.test_split, "--test-split"),
        (VAL, options.folds, "--folds"),
    )
    for split, value, option in wanted:
        if value and split in given:
            raise PlanError(
                f"the source has a {split} split of its own, so {option} cannot make another",
                hint=f"leave out {option}, or move the images of {split} into train",
            )
    is_divided = any(value for _, value, _ in wanted)
    if given and is_divided and not {"", TRAIN}.intersection(given):
        raise PlanError("the source has no train images to take a split from")


class FreeUnits(NamedTuple):
    """The units that may leave train, in the order of drawing."""

    labels: dict[int, int]
    """The smallest label of each unit."""
    sizes: dict[int, Counter[int]]
    """How many images of each label a unit has; empty unless there are groups."""
    pins: dict[int, str]
    """The split that a unit must be in, because one of its images must."""


def find_free_units(
    samples: Samples,
    labels: Sequence[int],
    units: Sequence[int],
    order: Sequence[int],
    *,
    folds: bool,
) -> FreeUnits:
    """Return the units that may leave train, given label, unit and order of samples."""
    splits = [split or TRAIN for split in samples.splits]
    if {*splits} != {TRAIN}:
        elsewhere = {units[place] for place, split in enumerate(splits) if split != TRAIN}
        # A unit that the source also has in val or test stays in train: in another val it would
        # be a new leak. With folds there is no train to stay in.
        taken = set() if folds else elsewhere
        order = [place for place in order if splits[place] == TRAIN and units[place] not in taken]
    free = FreeUnits({}, defaultdict(Counter), {})
    if isinstance(units, range):  # each sample is a unit of its own
        free.labels.update(zip(order, map(labels.__getitem__, order), strict=True))
    else:
        for place in order:
            unit, label = units[place], labels[place]
            if free.labels.setdefault(unit, label) > label:
                free.labels[unit] = label
    # Near-duplicates form groups, too: drawn by the first of their images, large groups would all
    # come early. Copies have one place in the order, so they count once.
    if samples.groups or any(samples.near):
        for place in order:
            free.sizes[units[place]][labels[place]] += 1
    for place, pin in enumerate(samples.pinned):
        if pin:
            known = free.pins.get(units[place], pin)
            free.pins[units[place]] = max(known, pin, key=split_order)
    return free


def _with_all_labels(
    free: FreeUnits, units: Sequence[int], label_sets: Sequence[Sequence[int]]
) -> dict[int, Unit]:
    labels: dict[int, set[int]] = defaultdict(set)
    for unit, own in zip(units, label_sets, strict=True):
        labels[unit].update(own)
    return {
        unit: Unit(frozenset(labels[unit]), stratum, free.sizes[unit].total() if free.sizes else 1)
        for unit, stratum in free.labels.items()
    }


def _held_out(
    labels: Mapping[int, int], pins: Mapping[int, str], options: PackOptions
) -> dict[int, str]:
    """Return the split of each unit, exact for each class; units not named stay in train."""
    by_class: dict[int, list[int]] = defaultdict(list)
    for unit, label in labels.items():  # in the order of drawing
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
            splits |= cut_folds(rest, label, known, options.folds)
    if options.folds:
        even_out_folds(splits, labels, pins, options.folds)
    return splits


def held_out_counts(images: int, options: PackOptions) -> tuple[int, int]:
    """Return how many of a class's `images` go to val and to test.

    Each gets at least one, and train keeps at least one, if there are enough.

    >>> held_out_counts(20, PackOptions(val_split=0.1))
    (2, 0)
    """

    def count(fraction: float, kept: int) -> int:
        return max(min(max(round(images * fraction), 1), images - kept), 0) if fraction else 0

    val = count(options.val_split, 1)
    return val, count(options.test_split, 1 + val)
