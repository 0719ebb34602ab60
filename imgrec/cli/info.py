"""`imgrec info`: show what a packed dataset holds, with charts of its classes and image sizes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from imgrec.cli.arguments import DATASET_ARGUMENTS
from imgrec.cli.parser import switch, verb
from imgrec.cli.render import (
    Terminal,
    cells_of,
    class_names,
    dataset_value,
    emit,
    line,
    lines,
    pick,
    split_lines,
    split_rows,
    split_values,
    storage_lines,
    this_terminal,
)
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.inspect.image_stats import ImageStats, Spread
    from imgrec.outcome import DatasetInfo

_MOST_ROWS = 30
_ENDS = 10
"""How many of the largest and of the smallest classes are shown if there are more."""
_LEAST_BAR, _MOST_BAR = 6, 32
_GAP = "  "
_COLOURS = ("blue", "green", "yellow", "magenta")


@verb(
    (
        "imgrec info flowers",
        "imgrec info flowers:1.0.0 --all",
        "imgrec info ./datasets/flowers --json",
    ),
    (
        *DATASET_ARGUMENTS,
        switch("--all", "show every class, not only the largest and smallest"),
    ),
)
def info(parsed: Namespace) -> int:
    """Show splits, classes, image sizes, formats, shards, bytes and fingerprint of a dataset."""
    from imgrec import api
    from imgrec.inspect.image_stats import read_image_stats

    found = api.info(parsed.dataset, data_dir=parsed.data_dir)
    stats = read_image_stats(found)
    emit(parsed, _value(found, stats), _lines(found, stats, this_terminal(), all_=parsed.all))
    return 0


def _value(found: DatasetInfo, stats: ImageStats | None) -> dict[str, object]:
    splits = split_values(split_rows(found))
    for split in found.splits:
        splits[split.name]["class_counts"] = split.class_counts
    return {
        **dataset_value(found),
        **found.about._asdict(),
        "classes": found.classes,
        "splits": splits,
        "images": stats and _stats_value(stats),
    }


def _stats_value(stats: ImageStats) -> dict[str, object]:
    spreads = {"width": stats.widths, "height": stats.heights, "record_bytes": stats.record_bytes}
    return {
        **pick(stats, "formats channels"),
        **{
            name: {"min": spread.least, "median": spread.median, "max": spread.most}
            for name, spread in spreads.items()
        },
        "long_side": {f"{side}-{side * 2 - 1}": n for side, n in stats.long_sides.items()},
    }


def _lines(
    found: DatasetInfo, stats: ImageStats | None, terminal: Terminal, *, all_: bool
) -> Iterator[str]:
    images = sum(split.examples for split in found.splits)
    title = visible(f"{found.name} {found.version}: {number(images, 'image')}")
    yield terminal.paint(title, "bold")
    yield from split_lines(split_rows(found))
    if counts := _class_counts(found):
        yield from class_lines(found.classes, counts, terminal, all_=all_)
    else:
        classes = number(len(found.classes), "class", "classes")
        shown = class_names(found.classes, len(found.classes) if all_ else 8)
        yield line("classes", f"{classes}: {shown}" if found.classes else classes)
    if stats:
        yield from _stats_lines(stats, terminal)
    yield from storage_lines(found)
    for name, text in found.about.given().items():
        yield from lines(name, text.splitlines())
    yield line("fingerprint", found.fingerprint or "none: not made by imgrec")
    yield line("path", found.path)
    yield line("load", found.load)


def _class_counts(found: DatasetInfo) -> dict[str, tuple[int, ...]]:
    """Return the number of images of each class, by split; empty unless all are known."""
    counts = {s.name: s.class_counts for s in found.splits if s.class_counts is not None}
    is_known = found.classes and all(
        len(split) == len(found.classes) and all(type(count) is int for count in split)
        for split in counts.values()
    )
    return counts if is_known and len(counts) == len(found.splits) else {}


def _stats_lines(stats: ImageStats, terminal: Terminal) -> Iterator[str]:
    yield line("formats", _counted(stats.formats, "{1:,} {0}"))
    yield line("channels", _counted(stats.channels, "{1:,} with {0}"))
    yield line("width", _pixels(stats.widths))
    yield line("height", _pixels(stats.heights))
    yield from _side_lines(stats.long_sides, terminal)
    least, median, most = map(size, stats.record_bytes)
    yield line("record", f"{least} to {most}, median {median}")


def _counted(counts: Mapping[str, int], form: str) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(form.format(name, count) for name, count in counts.items())


def _pixels(spread: Spread) -> str:
    if spread.least == spread.most:
        return f"{spread.most:,}"
    return f"{spread.least:,} to {spread.most:,}, median {spread.median:,}"


def _side_lines(long_sides: Mapping[int, int], terminal: Terminal) -> Iterator[str]:
    """Draw how many images have a long side between one power of two and the next."""
    if len(long_sides) < 2:
        return
    most = max(long_sides.values())
    for place, (side, count) in enumerate(long_sides.items()):
        bar = terminal.paint(terminal.bar(count / most, _MOST_BAR // 2), _COLOURS[0])
        span = f"{side:,} to {side * 2 - 1:,}"
        yield f"{line('' if place else 'long side', f'{span:<16}{count:>10,}')} {bar}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """A column of the chart: how many images a split has of each class."""

    name: str
    counts: Sequence[int]
    colour: str
    terminal: Terminal

    @property
    def number_cells(self) -> int:
        return max(cells_of(self.name), len(f"{max(self.counts, default=0):,}"))

    def title(self, bar_cells: int) -> str:
        name = self.terminal.paint(f"{self.name:>{self.number_cells}}", "bold")
        return name + " " * (bar_cells + 1)

    def cell(self, label: int, bar_cells: int) -> str:
        """Return a count and its bar, which is full for the largest class of the split."""
        count = self.counts[label]
        bar = self.terminal.bar(count / max(*self.counts, 1), bar_cells)
        filled = self.terminal.paint(bar, self.colour) + " " * (bar_cells - len(bar))
        return f"{count:>{self.number_cells},} {filled}"


def class_lines(
    classes: Sequence[str], counts: Mapping[str, Sequence[int]], terminal: Terminal, *, all_: bool
) -> Iterator[str]:
    """Draw how many images each class has in each split; of many classes, only the ends."""
    totals = [sum(column) for column in zip(*counts.values(), strict=True)]
    yield line("classes", _summary(totals))
    rows = list(range(len(totals)))
    if len(rows) > _MOST_ROWS and not all_:
        rows.sort(key=lambda label: -totals[label])
        rows = rows[:_ENDS] + rows[-_ENDS:]
    shown = {row: visible(classes[row]) for row in rows}
    label_cells = max(len(str(row)) for row in rows)
    name_cells = min(max(map(cells_of, shown.values())), max(terminal.width // 3, 12))
    indent = " " * (len(_GAP) + label_cells + 1)
    left_cells = len(indent) + name_cells + len(_GAP)
    splits = [
        _Split(name=visible(name), counts=column, colour=colour, terminal=terminal)
        for (name, column), colour in zip(counts.items(), cycle(_COLOURS), strict=False)
    ]
    # As many splits side by side as fit with short bars; the bars share the room that is left.
    least = max(split.number_cells for split in splits) + 1 + _LEAST_BAR + len(_GAP)
    fitting = min(max((terminal.width - left_cells) // least, 1), len(splits))
    room = (terminal.width - left_cells) // fitting - len(_GAP) - 1
    for first in range(0, len(splits), fitting):
        block = [
            (split, min(max(room - split.number_cells, 1), _MOST_BAR))
            for split in splits[first : first + fitting]
        ]
        yield _row(" " * left_cells, (split.title(bar) for split, bar in block))
        for place, row in enumerate(rows):
            if place == _ENDS and len(rows) < len(totals):
                hidden = number(len(totals) - len(rows), "more class", "more classes")
                yield indent + terminal.paint(f"{terminal.more} {hidden}: --all", "dim")
            label = terminal.paint(f"{row:>{label_cells}}", "dim")
            left = f"{_GAP}{label} {terminal.fit(shown[row], name_cells)}{_GAP}"
            yield _row(left, (split.cell(row, bar) for split, bar in block))


def _row(left: str, cells: Iterable[str]) -> str:
    return (left + _GAP.join(cells)).rstrip()


def _summary(totals: Sequence[int]) -> str:
    text = number(len(totals), "class", "classes")
    if not totals:
        return text
    ordered = sorted(totals)
    middle = ordered[len(ordered) // 2]
    if ordered[0] == ordered[-1]:
        return f"{text} of {number(middle, 'image')} each"
    empty = f"; {ordered.count(0):,} without any" if ordered[0] == 0 else ""
    largest = number(ordered[-1], "image")
    return f"{text} of {ordered[0]:,} to {largest}, median {middle:,}{empty}"
