"""Bars in plain text: how many images the classes have in each split, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from imgrec.cli.render import line, number, safe
from imgrec.cli.terminal import Terminal, cells_of

_MOST_ROWS = 30
_ENDS = 10
"""How many of the largest, and of the smallest, classes are shown where there are more."""
_LEAST_BAR, _MOST_BAR = 6, 32
_GAP = 2
_COLOURS = ("blue", "green", "yellow", "magenta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One split: its name, and how many images it has of each class."""

    name: str
    counts: tuple[int, ...]
    colour: str = _COLOURS[0]

    @property
    def number_cells(self) -> int:
        """Return how wide its numbers are."""
        return max(cells_of(self.name), len(f"{max(self.counts, default=0):,}"))

    def cell(self, label: int, terminal: Terminal, bar_cells: int) -> str:
        """Return a number and its bar, of which the largest of the split is full."""
        count = self.counts[label]
        bar = terminal.bar(count / max(max(self.counts), 1), bar_cells)
        filled = terminal.paint(bar, self.colour) + " " * (bar_cells - len(bar))
        return f"{count:>{self.number_cells},} {filled}"


def class_lines(
    classes: Sequence[str], counts: Mapping[str, Sequence[int]], terminal: Terminal, *, all_: bool
) -> Iterator[str]:
    """Draw how many images each class has in each split, of many classes the ends only."""
    totals = [sum(column) for column in zip(*counts.values(), strict=True)]
    yield line("classes", _summary(totals))
    rows: list[int | None] = list(range(len(totals)))
    if len(rows) > _MOST_ROWS and not all_:
        ranked = sorted(range(len(totals)), key=lambda label: -totals[label])
        rows = [*ranked[:_ENDS], None, *ranked[-_ENDS:]]
    columns = [
        Column(name=safe(name), counts=tuple(split), colour=_COLOURS[place % len(_COLOURS)])
        for place, (name, split) in enumerate(counts.items())
    ]
    names = [safe(name) for name in classes]
    left = _Left(names, rows, terminal)
    each = max(column.number_cells for column in columns) + 1 + _LEAST_BAR + _GAP
    fitting = min(max((terminal.width - left.cells) // each, 1), len(columns))
    room = (terminal.width - left.cells) // fitting - _GAP - 1
    for first in range(0, len(columns), fitting):
        yield from _block_lines(left, columns[first : first + fitting], room)


class _Left:
    """The left of each row: label and name."""

    def __init__(
        self, names: Sequence[str], rows: Sequence[int | None], terminal: Terminal
    ) -> None:
        self.rows, self.terminal, self._names = rows, terminal, names
        shown = [row for row in rows if row is not None]
        self._label_cells = max(len(str(row)) for row in shown)
        widest = max(cells_of(names[row]) for row in shown)
        self._name_cells = min(widest, max(terminal.width // 3, 12))
        self.cells = _GAP + self._label_cells + 1 + self._name_cells + _GAP

    def of(self, row: int) -> str:
        label = self.terminal.paint(f"{row:>{self._label_cells}}", "dim")
        name = self.terminal.fit(self._names[row], self._name_cells)
        return f"{' ' * _GAP}{label} {name}{' ' * _GAP}"

    def left_out(self) -> str:
        hidden = len(self._names) - len(self.rows) + 1
        text = f"{self.terminal.more} {number(hidden, 'more class', 'more classes')}: --all"
        return " " * (_GAP + self._label_cells + 1) + self.terminal.paint(text, "dim")


def _block_lines(left: _Left, columns: Sequence[Column], room: int) -> Iterator[str]:
    terminal = left.terminal
    bars = [min(max(room - column.number_cells, 1), _MOST_BAR) for column in columns]
    yield _row(
        " " * left.cells,
        [
            terminal.paint(f"{column.name:>{column.number_cells}}", "bold") + " " * (bar + 1)
            for column, bar in zip(columns, bars, strict=True)
        ],
    )
    for row in left.rows:
        if row is None:
            yield left.left_out()
            continue
        cells = [c.cell(row, terminal, bar) for c, bar in zip(columns, bars, strict=True)]
        yield _row(left.of(row), cells)


def _row(left: str, cells: Sequence[str]) -> str:
    return (left + (" " * _GAP).join(cells)).rstrip()


def _summary(totals: Sequence[int]) -> str:
    text = number(len(totals), "class", "classes")
    if not totals:
        return text
    ordered = sorted(totals)
    empty = ordered.count(0)
    middle = ordered[len(ordered) // 2]
    if ordered[0] == ordered[-1]:
        return f"{text} of {number(middle, 'image')} each"
    text += f" of {ordered[0]:,} to {number(ordered[-1], 'image')}, median {middle:,}"
    return text + (f"; {empty:,} without any" if empty else "")


def side_lines(long_sides: Mapping[int, int], terminal: Terminal) -> Iterator[str]:
    """Draw how many images have a longer side between one power of two and the next."""
    if len(long_sides) < 2:
        return
    most = max(long_sides.values())
    for place, (side, count) in enumerate(long_sides.items()):
        bar = terminal.paint(terminal.bar(count / most, _MOST_BAR // 2), _COLOURS[0])
        span = f"{side:,} to {side * 2 - 1:,}"
        yield f"{line('' if place else 'long side', f'{span:<16}{count:>10,}')} {bar}".rstrip()
