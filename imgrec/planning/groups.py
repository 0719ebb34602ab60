"""Images that belong together: copies, groups and near-duplicates.

A unit is a set of samples that no split may separate. Units of several images are dealt out to
splits here: each goes to the split that it brings nearest to what that split should have, of every
label and in all. The distance is squared and relative, so all splits fill at the same pace and get
units of all sizes. Large units go first, so that small ones even out what remains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from imgrec.errors import PlanError
from imgrec.model import FOLD, TEST, TRAIN, VAL, Label, Samples, known_label, split_order
from imgrec.notes import Note, NoteKind, Notes, SameImage, copies
from imgrec.options import PackOptions
from imgrec.text import are, number, printable

Group = tuple[int, ...]
"""Places of two or more samples with the same bytes, in order of their file names."""

_SHOWN = 5
_LABELS_PER_TOTAL = 3
"""For this many labels, the number of all images counts as much as that of one label.

Otherwise each of many classes could be as little below the fraction as its groups allow, and all
of them together far below. Tried with 1,000 random sets of groups: with this, no split misses its
fraction by much more than the largest group, and classes are spread hardly less evenly.
"""


def find_groups(samples: Samples) -> tuple[Group, ...]:
    """Return the groups of samples with identical bytes."""
    if len(set(samples.contents)) == len(samples.contents):
        return ()  # the usual case
    members: dict[bytes, list[int]] = defaultdict(list)
    for place, content in enumerate(samples.contents):
        members[content].append(place)
    by_name = samples.filenames.__getitem__
    groups = [tuple(sorted(own, key=by_name)) for own in members.values() if len(own) > 1]
    return tuple(sorted(groups, key=lambda group: by_name(group[0])))


def find_near_groups(samples: Samples) -> tuple[Group, ...]:
    """Return the groups of near-duplicates, if these are to be grouped or dropped."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(samples.near):
        members[group].append(place)
    by_name = samples.filenames.__getitem__
    return tuple(tuple(sorted(members[group], key=by_name)) for group in sorted(members) if group)


def note_copies(
    samples: Samples, groups: Sequence[Group], labels: Sequence[Label], splits: Sequence[str]
) -> Notes:
    """Note which groups are duplicates, leaks and conflicts, given the label and split of samples.

    A leak is in more than one split. A conflict has more than one label; a copy without a label
    contradicts none.
    """

    def noted(kind: NoteKind, chosen: Iterable[Group]) -> Notes:
        return copies(kind, [[samples.filenames[place] for place in group] for group in chosen])

    def known_labels(group: Group) -> set[Label | None]:
        return {known_label(labels[place], splits[place]) for place in group} - {None}

    leaks = [group for group in groups if len({splits[place] for place in group}) > 1]
    conflicts = [group for group in groups if len(known_labels(group)) > 1]
    return (
        *noted(NoteKind.DUPLICATE, groups),
        *noted(NoteKind.LEAK, leaks),
        *noted(NoteKind.CONFLICT, conflicts),
    )


def leaked_copies(
    samples: Samples,
    groups: Sequence[Group],
    splits: Sequence[str],
    what: str = "the same image as",
) -> dict[int, Note]:
    """Return the copies to leave out so that no image is in two splits, by place.

    The copy furthest from training is kept: test before val before train. `what` says how copies
    relate to it.
    """
    dropped: dict[int, Note] = {}
    for group in groups:
        kept = max((splits[place] for place in group), key=split_order)
        twin = next(samples.filenames[place] for place in group if splits[place] == kept)
        for place in group:
            if splits[place] != kept:
                reason = f"leak: {what} {twin} in {kept}"
                dropped[place] = Note(samples.filenames[place], reason, NoteKind.LEFT_OUT, twin)
    return dropped


def refuse_near_leaks(samples: Samples, groups: Sequence[Group], splits: Sequence[str]) -> None:
    """Raise PlanError if a group of near-duplicates is in several splits."""
    divided = [group for group in groups if len({splits[place] for place in group}) > 1]
    if divided:
        names = samples.filenames
        shown = "; ".join(
            " ~ ".join(printable(names[place]) for place in group[:_SHOWN])
            for group in divided[:_SHOWN]
        )
        raise PlanError(
            f"{number(len(divided), 'group')} of near-duplicates {are(len(divided))} in more than "
            f"one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )


def refuse_leaks(leaks: Sequence[SameImage], total: int) -> None:
    """Raise PlanError if there are leaks, `total` in all."""
    if leaks:
        shown = "; ".join(" = ".join(map(printable, leak.filenames)) for leak in leaks[:_SHOWN])
        raise PlanError(
            f"{number(total, 'image')} {are(total)} in more than one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )


def find_units(samples: Samples) -> Sequence[int]:
    """Return the unit of each sample: the place of the unit's first sample.

    Samples with identical bytes, of one group, or that look alike are in one unit. If every sample
    is a unit of its own, the result is a `range`.
    """
    places = range(len(samples))
    parents = list(places)

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    is_linked = False
    keyed: tuple[Sequence[Hashable], ...] = (samples.contents, samples.groups, samples.near)
    for keys in keyed:
        if len(set(keys)) == len(keys):
            continue
        first: dict[Hashable, int] = {}
        for place, key in enumerate(keys):
            if key != "" and first.setdefault(key, place) != place:
                low, high = sorted((root(first[key]), root(place)))
                parents[high] = low
                is_linked = True
    return [root(place) for place in places] if is_linked else places


def divided_groups(samples: Samples, splits: Sequence[str]) -> list[str]:
    """Return the groups that the source itself has in more than one split."""
    homes: dict[str, str] = {}
    rows = zip(samples.groups, splits, strict=bool(samples.groups))
    return sorted(
        {group for group, split in rows if group and homes.setdefault(group, split) != split}
    )


def deal(
    units: Mapping[int, Counter[int]], pins: Mapping[int, str], options: PackOptions
) -> dict[int, str]:
    """Return the split of each unit, given how many images of which label it has.

    `units` come in the order of drawing, which decides between units of about the same size. A
    unit with all images of its classes goes to train: a class must be learned to be validated.
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
    """Return when a unit is dealt: lower is sooner.

    Sizes with the same power of two count as equal, so that the seed decides among them.
    """
    return -labels.total().bit_length()


class Dealer:
    """Chooses a split for one unit after the other.

    `totals` are the images of each label, and `uses` the units that have images of it.
    """

    def __init__(self, totals: Counter[int], uses: Mapping[int, int], options: PackOptions) -> None:
        self.fractions = _fractions(options)
        self._uses = uses
        self._quotas = {
            split: _Quota(totals, uses, fraction) for split, fraction in self.fractions.items()
        }

    def is_alone(self, labels: Iterable[int]) -> bool:
        """Return whether a unit has all images of its classes, and so must be train."""
        return TRAIN in self.fractions and all(self._uses[label] == 1 for label in labels)

    def seat(self, labels: Counter[int], split: str) -> None:
        """Count a unit whose split is known."""
        if split in self._quotas:
            self._quotas[split].take(labels)

    def place(self, labels: Counter[int]) -> str:
        """Choose the split of a unit, and count it."""
        split = max(self._quotas, key=lambda split: self._quotas[split].gain(labels))
        self._quotas[split].take(labels)
        return split


def _fractions(options: PackOptions) -> dict[str, float]:
    """Return the fraction of images for each split; of equals the first is chosen."""
    if options.folds:
        rest = 1 - options.test_split
        wanted = {f"{FOLD}{fold}": rest / options.folds for fold in range(options.folds)}
    else:
        rest = 1 - options.val_split - options.test_split
        wanted = {TRAIN: rest, VAL: options.val_split}
    wanted[TEST] = options.test_split
    return {split: fraction for split, fraction in wanted.items() if fraction}


class _Quota:
    """How many images a split should have, and still lacks, of each label and in all."""

    def __init__(self, totals: Counter[int], uses: Mapping[int, int], fraction: float) -> None:
        # A split should have an image of a class even if the class is too rare for its fraction.
        self._wanted = {
            label: max(total * fraction, 1 if uses[label] > 1 else 0)
            for label, total in totals.items()
        }
        self._lacking = dict(self._wanted)
        self._wanted_in_all = self._lacking_in_all = totals.total() * fraction
        self._weight_in_all = len(totals) / _LABELS_PER_TOTAL

    def gain(self, labels: Counter[int]) -> float:
        """Return how much nearer a unit brings the split to its quota."""
        in_all = _gain(labels.total(), self._lacking_in_all, self._wanted_in_all)
        return self._weight_in_all * in_all + sum(
            _gain(count, self._lacking[label], self._wanted[label])
            for label, count in labels.items()
        )

    def take(self, labels: Counter[int]) -> None:
        """Count a unit."""
        self._lacking_in_all -= labels.total()
        for label, count in labels.items():
            self._lacking[label] -= count


def _gain(count: int, lacking: float, wanted: float) -> float:
    """Return by how much `count` images reduce the squared, relative distance to the quota."""
    return count * (2 * lacking - count) / wanted


def fill_empty(
    splits: dict[int, str],
    units: Mapping[int, Counter[int]],
    pins: Mapping[int, str],
    fractions: Mapping[str, float],
) -> None:
    """Give each empty split the smallest unit of a split that has more than one.

    Train gets one even if it is the only one of its split.
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
