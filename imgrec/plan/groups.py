"""Images that belong together: copies, groups and near-duplicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from imgrec.errors import PlanError
from imgrec.model import FOLD, TEST, TRAIN, VAL, Label, Samples, known_label, split_order
from imgrec.notes import Note, NoteKind, Notes, SameImage, copies
from imgrec.options import SplitOptions
from imgrec.text import printable

Group = tuple[int, ...]
"""Places of the samples of one image, two or more, in order of their file names."""


def find_groups(samples: Samples) -> tuple[Group, ...]:
    """Return the groups of samples whose bytes are identical."""
    if len(set(samples.contents)) == len(samples.contents):
        return ()  # as it mostly is, and counting takes twice as long
    repeated = {content for content, count in Counter(samples.contents).items() if count > 1}
    members: dict[bytes, list[int]] = defaultdict(list)
    for place, content in enumerate(samples.contents):
        if content in repeated:
            members[content].append(place)
    by_name = samples.filenames.__getitem__
    ordered = (tuple(sorted(places, key=by_name)) for places in members.values())
    return tuple(sorted(ordered, key=lambda group: by_name(group[0])))


def note_copies(
    samples: Samples,
    groups: Sequence[Group],
    labels: Sequence[Label],
    splits: Sequence[str],
) -> Notes:
    """Note which groups are duplicates, leaks and conflicts, given label and split of each sample.

    A leak is in more than one split, and a conflict under more than one label; a copy without a
    label contradicts none.
    """

    def noted(kind: NoteKind, chosen: Sequence[Group]) -> Notes:
        return copies(kind, [[samples.filenames[place] for place in group] for group in chosen])

    leaks = [group for group in groups if len({splits[place] for place in group}) > 1]
    conflicts = [
        group
        for group in groups
        if len({known_label(labels[place], splits[place]) for place in group} - {None}) > 1
    ]
    return (
        *noted(NoteKind.DUPLICATE, groups),
        *noted(NoteKind.LEAK, leaks),
        *noted(NoteKind.CONFLICT, conflicts),
    )


def leaked_copies(
    samples: Samples, groups: Sequence[Group], splits: Sequence[str]
) -> dict[int, Note]:
    """Return the copies to leave out so that no image is in two splits.

    The copy that is kept is the one furthest from training: test before val before train.
    """
    dropped: dict[int, Note] = {}
    for group in groups:
        kept = max((splits[place] for place in group), key=split_order)
        twin = next(samples.filenames[place] for place in group if splits[place] == kept)
        for place in group:
            if splits[place] != kept:
                reason = f"leak: the same image as {twin} in {kept}"
                dropped[place] = Note(samples.filenames[place], reason, NoteKind.LEFT_OUT, twin)
    return dropped


def refuse_leaks(leaks: Sequence[SameImage], total: int) -> None:
    """Raise PlanError if there are leaks, `total` in all."""
    if leaks:
        shown = "; ".join(" = ".join(map(printable, leak.filenames)) for leak in leaks[:5])
        raise PlanError(
            f"{total} images are in more than one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )


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
