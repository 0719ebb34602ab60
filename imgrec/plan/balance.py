"""Even out splits: folds of equal size, and every label in every split."""

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
from imgrec.options import SplitOptions


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


_MOST_TRIED = 64
"""How many images are tried in one place; a label with more images is hardly ever missing."""
_MOST_FOLLOWED = 8
"""How many are tried where others follow."""
_MOST_IN_ALL = 50_000
"""How many exchanges are tried in all, which takes a few seconds."""

Wanted: TypeAlias = frozenset[str]
"""Splits, one of which every label should be in."""


class Unit(NamedTuple):
    """Images that stay together."""

    labels: frozenset[int]
    """All labels that one of them has."""
    stratum: int
    """The label by which they were divided."""
    size: int


def repair(
    splits: dict[int, str], units: Mapping[int, Unit], pins: Collection[int], options: SplitOptions
) -> None:
    """Exchange units between splits where that brings a label to a split without it.

    `units` come in the order in which they are drawn; those in `pins` stay. A label should be in
    train first of all, then in val, then in test; of folds, in each.
    """
    for unit in units:
        splits.setdefault(unit, TRAIN)
    board = _Board(splits, units, pins, _tiers(options))
    for depth in (0, 2):
        while sum(_bring(board, lack, depth) for lack in board.lacks()):
            pass


def _tiers(options: SplitOptions) -> Sequence[Sequence[Wanted]]:
    """Return where every label should be, the most important first."""
    folds = [f"{FOLD}{fold}" for fold in range(options.folds)]
    held_out = [VAL] * bool(options.val_split) + [TEST] * bool(options.test_split)
    each = [[frozenset([fold]) for fold in folds]] if folds else []
    return [[frozenset(folds or [TRAIN])], *([frozenset([split])] for split in held_out), *each]


class _Lack(NamedTuple):
    """A label that is in none of some splits."""

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
    """Bring a label to where it is missing, if fewer are missing then; tell whether it did.

    With a `depth`, labels that are missing because of an exchange are brought back by others,
    which leave what was `moved` before where it is.
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
    """Which units are in which split, and how many labels are missing."""

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
        """All moves, as units and the splits that they were in."""
        self.missing = [0] * len(tiers)
        """How many labels are missing, by tier."""
        for lack in self.lacks():
            self.missing[lack.tier] += 1

    @cached_property
    def _of_label(self) -> Mapping[int, list[int]]:
        """The units of each label that may be moved; not needed if no label is missing."""
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
        return list(filter(self.is_lacking, self._places(labels)))

    def is_lacking(self, lack: _Lack) -> bool:
        """Tell whether a label is still missing."""
        counts = self._counts[lack.label]
        return not any(counts[split] for split in lack.wanted)

    def _places(self, labels: Iterable[int]) -> Iterator[_Lack]:
        for at, tier in enumerate(self._tiers):
            yield from (_Lack(label, wanted, at) for label in labels for wanted in tier)

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

    def caused_by(self, exchange: _Exchange) -> list[_Lack]:
        """Return what is missing of the labels in an exchange that was made."""
        labels = frozenset[int]().union(*(self._units[unit].labels for unit in exchange.units))
        return list(filter(self.is_lacking, self._places(sorted(labels))))

    def undo(self, moves: int) -> None:
        """Undo all but the first moves."""
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
