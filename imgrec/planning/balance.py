"""Even out splits: folds of about equal size, and every label in every split.

Images of several labels are divided by the rarest label of each (`plan.split`), so a label whose
images all have a rarer one may be missing from val. `spread_labels` then exchanges an image of
train that has the label for an image of val that is not needed there. It prefers exchanges that
keep the sizes of splits, and among these exchanges of two images with the same rarest label.

The best division is hard to find (it is set splitting), so this is a local search. It makes every
exchange that helps, and every one that helps together with those that follow from it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heapreplace
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import PackOptions

_MOST_TRIED = 64
"""How many images are tried in one place; a label with more images is hardly ever missing."""
_MOST_FOLLOWED = 8
"""How many are tried where others follow."""
_MOST_IN_ALL = 50_000
"""How many exchanges are tried in all, which takes a few seconds."""

Wanted: TypeAlias = frozenset[str]
"""Splits that are alternatives: a label should be in at least one of them."""


def cut_folds(units: Sequence[int], label: int, known: Counter[str], count: int) -> dict[int, str]:
    """Cut the units of a class into even folds, given how many units are known in each."""
    sizes = fold_sizes(len(units), label, known, count)
    names = chain.from_iterable(map(repeat, sizes, sizes.values()))
    return dict(zip(units, names, strict=True))


def fold_sizes(units: int, label: int, known: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many more units of a class each fold gets, fold by fold in the order of drawing.

    The odd units go to other folds for other classes.

    >>> fold_sizes(7, 1, {"fold_2": 2}, 3)
    {'fold_1': 3, 'fold_2': 1, 'fold_0': 3}
    """
    folds = [f"{FOLD}{(fold + label) % count}" for fold in range(count)]
    before = [known.get(fold, 0) for fold in folds]
    # Once all are even, each gets the same; only the units before and after that are dealt out.
    to_even = sum(max(before) - size for size in before)
    rounds = max(units - to_even, 0) // count
    smallest = [(size, place) for place, size in enumerate(before)]
    heapify(smallest)
    more = [rounds] * count
    for _ in range(units - rounds * count):
        size, place = smallest[0]
        heapreplace(smallest, (size + 1, place))
        more[place] += 1
    return dict(zip(folds, more, strict=True))


def even_out_folds(
    splits: dict[int, str], labels: Mapping[int, int], pins: Mapping[int, str], count: int
) -> None:
    """If a fold is empty, move units until no fold has two more than another.

    Each class stays even: a fold that has two more than another has more of some class
    as well, and one of that class moves. If no fold is empty, nothing moves, so that one more image
    moves few others.
    """
    names = [f"{FOLD}{fold}" for fold in range(count)]
    counts: dict[str, Counter[int]] = {name: Counter() for name in names}
    free: dict[tuple[str, int], list[int]] = defaultdict(list)
    for unit, label in sorted(labels.items(), key=itemgetter(1)):  # by class, in drawing order
        if (fold := splits.get(unit, "")) in counts:
            counts[fold][label] += 1
            if unit not in pins:
                free[fold, label].append(unit)
    by_size = sorted((counts[name].total(), place) for place, name in enumerate(names))
    if by_size[0][0] > 0:
        return

    def find_move() -> tuple[int, int, int] | None:
        """Return a fold that can give a unit, a fold that takes it, and its label."""
        for taken, taker in by_size:
            for given, giver in reversed(by_size):
                if given < taken + 2:
                    break
                for label in counts[names[giver]] - counts[names[taker]]:
                    if free[names[giver], label]:
                        return giver, taker, label
        return None

    while move := find_move():
        giver, taker, label = move
        unit = free[names[giver], label].pop()
        free[names[taker], label].append(unit)
        splits[unit] = names[taker]
        for place, change in ((giver, -1), (taker, 1)):
            size = counts[names[place]].total()
            del by_size[bisect_left(by_size, (size, place))]
            insort(by_size, (size + change, place))
            counts[names[place]][label] += change


class Unit(NamedTuple):
    """Images that stay together."""

    labels: frozenset[int]
    """All labels that one of them has."""
    stratum: int
    """The label by which they were divided."""
    size: int


def spread_labels(
    splits: dict[int, str], units: Mapping[int, Unit], pins: Collection[int], options: PackOptions
) -> None:
    """Exchange units between splits where that brings a label to a split without it.

    `units` come in the order of drawing; those in `pins` stay. A label should be in train first of
    all, then in val, then in test; with folds, in each of them.
    """
    for unit in units:
        splits.setdefault(unit, TRAIN)
    folds = [f"{FOLD}{fold}" for fold in range(options.folds)]
    tiers = [[frozenset(folds or [TRAIN])]]
    tiers += [[frozenset([VAL])]] if options.val_split else []
    tiers += [[frozenset([TEST])]] if options.test_split else []
    tiers += [[frozenset([fold]) for fold in folds]] if folds else []
    board = _Board(splits, units, pins, tiers)
    for depth in (0, 2):
        while sum(_bring(board, lack, depth) for lack in board.lacks()):
            pass


class _Lack(NamedTuple):
    """A label that none of some splits has."""

    label: int
    wanted: Wanted
    tier: int


class _Exchange(NamedTuple):
    """A unit that goes to another split, and one that comes back for it, if any."""

    unit: int
    to: str
    back: int | None

    @property
    def units(self) -> frozenset[int]:
        return frozenset([self.unit] if self.back is None else [self.unit, self.back])


def _bring(board: _Board, lack: _Lack, depth: int, moved: frozenset[int] = frozenset()) -> bool:
    """Bring a label to where it is missing, if fewer labels are missing then; return whether so.

    With a `depth`, labels that go missing in the exchange are brought back by further exchanges,
    which leave units that were already `moved` in place.
    """
    if not board.is_lacking(lack):
        return False
    exchanges = board.exchanges(lack, _MOST_FOLLOWED if depth else _MOST_TRIED)
    for exchange in sorted(exchanges, key=board.disturbance):
        if board.tried >= _MOST_IN_ALL:
            return False
        if exchange.units & moved:
            continue
        moves, before = len(board.moves), list(board.missing)
        board.make(exchange)
        if depth:
            for other in board.caused_by(exchange):
                _bring(board, other, depth - 1, moved | exchange.units)
        if board.missing < before:
            return True
        board.undo(moves)
    return False


class _Board:
    """Which units are in which split, and how many labels are missing.

    `tiers` are the splits that every label should be in, the most important first.
    """

    def __init__(
        self,
        splits: dict[int, str],
        units: Mapping[int, Unit],
        pins: Collection[int],
        tiers: Sequence[Sequence[Wanted]],
    ) -> None:
        self._splits, self._units, self._tiers = splits, units, tiers
        self._wanted_in: dict[str, set[tuple[int, Wanted]]] = defaultdict(set)
        for at, tier in enumerate(tiers):
            for wanted in tier:
                for split in wanted:
                    self._wanted_in[split].add((at, wanted))
        self._ranks = {split: max(sets)[0] for split, sets in self._wanted_in.items()}
        self._free = [unit for unit in units if unit not in pins]
        self._counts: dict[int, Counter[str]] = defaultdict(Counter)
        for unit, (labels, _, _) in units.items():
            for label in labels:
                self._counts[label][splits[unit]] += 1
        self.tried = 0
        """How many exchanges were made, undone ones included."""
        self.moves: list[tuple[int, str]] = []
        """All moves, as units and the splits that they left."""
        self.missing = [0] * len(tiers)
        """How many labels are missing, by tier."""
        for lack in self.lacks():
            self.missing[lack.tier] += 1

    # Both are needed only if a label is missing.

    @cached_property
    def _of_label(self) -> Mapping[int, list[int]]:
        found = defaultdict(list)
        for unit in self._free:
            for label in self._units[unit].labels:
                found[label].append(unit)
        return found

    @cached_property
    def _of_stratum(self) -> Mapping[int, list[int]]:
        found = defaultdict(list)
        for unit in self._free:
            found[self._units[unit].stratum].append(unit)
        return found

    def lacks(self) -> list[_Lack]:
        """Return all labels that are missing, the rarest of the most important tier first."""
        labels = sorted(self._counts, key=lambda label: (self._counts[label].total(), label))
        return self._lacking(labels)

    def caused_by(self, exchange: _Exchange) -> list[_Lack]:
        """Return the labels of an exchange that are missing somewhere."""
        labels = frozenset[int]().union(*(self._units[unit].labels for unit in exchange.units))
        return self._lacking(sorted(labels))

    def _lacking(self, labels: Iterable[int]) -> list[_Lack]:
        lacks = (
            _Lack(label, wanted, at)
            for at, tier in enumerate(self._tiers)
            for label in labels
            for wanted in tier
        )
        return list(filter(self.is_lacking, lacks))

    def is_lacking(self, lack: _Lack) -> bool:
        """Return whether a label is still missing."""
        counts = self._counts[lack.label]
        return not any(counts[split] for split in lack.wanted)

    def exchanges(self, lack: _Lack, most: int) -> Iterator[_Exchange]:
        """Yield exchanges that bring a label, at most so many of each kind."""
        counts = self._counts[lack.label]
        can_go = (
            unit
            for unit in self._of_label[lack.label]
            if (at := self._splits[unit]) and (counts[at] > 1 or self._ranks[at] > lack.tier)
        )
        for unit in islice(can_go, most):
            for to in sorted(lack.wanted):
                yield _Exchange(unit, to, None)
                for others in self._fit_to_return(unit, lack):
                    there = (other for other in reversed(others) if self._splits[other] == to)
                    for other in islice(there, most):
                        yield _Exchange(unit, to, other)

    def _fit_to_return(self, unit: int, lack: _Lack) -> tuple[list[int], ...]:
        at = self._splits[unit]
        last = [label for label in self._units[unit].labels if self._counts[label][at] == 1]
        if last and self._ranks[at] < lack.tier:  # only another unit with it can make up for it
            return (min((self._of_label[label] for label in sorted(last)), key=len),)
        return self._of_stratum[self._units[unit].stratum], self._free

    def disturbance(self, exchange: _Exchange) -> tuple[int, bool]:
        """Return how much an exchange changes the sizes of splits, and of strata in them."""
        unit = self._units[exchange.unit]
        if exchange.back is None:
            return unit.size, False
        back = self._units[exchange.back]
        return abs(unit.size - back.size), unit.stratum != back.stratum

    def make(self, exchange: _Exchange) -> None:
        """Make an exchange."""
        unit, to, back = exchange
        at = self._splits[unit]
        self.tried += 1
        self._move(unit, to)
        if back is not None:
            self._move(back, at)

    def undo(self, moves: int) -> None:
        """Undo all but the first `moves`."""
        while len(self.moves) > moves:
            self._move(*self.moves.pop())
            self.moves.pop()

    def _move(self, unit: int, to: str) -> None:
        at = self._splits[unit]
        left, entered = self._wanted_in[at], self._wanted_in[to]
        for label in self._units[unit].labels:
            counts = self._counts[label]
            for tier, wanted in left - entered:
                self.missing[tier] += sum(counts[split] for split in wanted) == 1
            for tier, wanted in entered - left:
                self.missing[tier] -= not any(counts[split] for split in wanted)
            counts[at] -= 1
            counts[to] += 1
        self._splits[unit] = to
        self.moves.append((unit, at))
