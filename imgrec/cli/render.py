"""Output of the command line: text that fits the terminal, or JSON."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import sys
import unicodedata
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TextIO, TypeAlias

from imgrec.text import number, printable, size, visible

if TYPE_CHECKING:
    from imgrec.outcome import DatasetInfo

_TITLE_CELLS = 12
_PIECES = 10_000
"""Pieces of JSON, such as a key or a number, that are written at once."""
_CLASS_CELLS = 40
"""The most cells that a class name takes in a list."""
_PIPED_WIDTH = 80
_LEAST_WIDTH = 40
_GAP = 2
_LEAST_LAST = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_ZERO_WIDTH = ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff")
_VARIATIONS = range(0xFE00, 0xFE10)
_COLOURS = {"bold": "1", "dim": "2", "blue": "34", "green": "32", "yellow": "33", "magenta": "35"}

SplitRow: TypeAlias = tuple[str, int, int, int]
"""Name, images, shards and bytes of a split."""


def emit(parsed: Namespace, value: Mapping[str, object], lines: Iterable[str]) -> None:
    """Print the outcome of a verb: one JSON object with --json, otherwise lines of text."""
    if parsed.json:
        pieces = json.JSONEncoder(indent=2).iterencode(plain({"schema": parsed.schema, **value}))
        # The text may be large, and stdout unbuffered: one write a piece took 5 of 9 s for a
        # difference of 100,000 images.
        while part := "".join(islice(pieces, _PIECES)):
            sys.stdout.write(part)
        print(flush=True)
    else:
        print("\n".join(lines), flush=True)


def plain(value: object) -> object:
    """Return a value as JSON holds it: valid text, bytes as base64, "NaN" as protobuf writes it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if hasattr(value, "_asdict"):  # a NamedTuple
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def pick(value: object, names: str) -> dict[str, object]:
    """Return attributes of a value, named in one string with spaces."""
    return {name: getattr(value, name) for name in names.split()}


def line(title: str, text: str) -> str:
    """Return one line of a summary, with its title in the left column."""
    return visible(f"{title:<{_TITLE_CELLS}}{text}")


def lines(title: str, texts: Iterable[str]) -> list[str]:
    """Return lines of a summary, the first with a title in the left column."""
    return [line("" if place else title, text) for place, text in enumerate(texts)]


def names(values: Sequence[str], most: int = 8) -> str:
    """Return a list of names, shortened after `most` of them."""
    rest = f", … {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(values[:most]) + rest


def class_names(classes: Sequence[str], most: int = 8) -> str:
    """Return a list of classes, long names without their middle."""
    shown = [Terminal().fit(visible(name), _CLASS_CELLS).rstrip() for name in classes[:most]]
    return names([*shown, *classes[most:]], most)


def split_rows(info: DatasetInfo) -> list[SplitRow]:
    """Return the splits of a dataset."""
    return [(s.name, s.examples, len(s.shard_lengths), s.num_bytes) for s in info.splits]


def split_lines(rows: Sequence[SplitRow]) -> list[str]:
    """Return a table of splits: name, images, their fraction of all, shards, bytes."""
    total = max(sum(images for _, images, _, _ in rows), 1)
    return [
        line(
            name,
            f"{number(images, 'image'):>14}  {images / total:>6.1%}"
            f"  {number(shards, 'shard'):>10}  {size(num_bytes):>10}",
        )
        for name, images, shards, num_bytes in rows
    ]


def split_values(rows: Sequence[SplitRow]) -> dict[str, dict[str, object]]:
    """Return splits for JSON."""
    return {
        name: {"examples": images, "bytes": num_bytes, "shards": shards}
        for name, images, shards, num_bytes in rows
    }


def storage_lines(info: DatasetInfo) -> list[str]:
    """Return the compression and the other formats of a dataset, if it has any."""
    shown = []
    if info.compression:
        stored = sum(split.num_bytes for split in info.splits)
        saved = 1 - stored / max(info.uncompressed_bytes, 1)
        change = f"{saved:.1%} smaller" if saved >= 0 else f"{-saved:.1%} larger"
        shown.append(
            line("compression", f"{info.compression}: {change}; TFDS cannot read such shards")
        )
    if info.also:
        formats = ", ".join(info.also)
        shown.append(line("also", ": ".join(filter(None, (formats, info.data_source)))))
    return shown


def dataset_value(info: DatasetInfo) -> dict[str, object]:
    """Return what a dataset is called, and what `storage_lines` shows, for JSON."""
    value = pick(info, "name version path load fingerprint")
    value |= pick(info, "compression uncompressed_bytes") if info.compression else {}
    return value | (pick(info, "also data_source") if info.also else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What the output can show."""

    width: int = _PIPED_WIDTH
    """Cells in a line."""
    has_unicode: bool = True
    has_colour: bool = False
    is_screen: bool = False
    """Whether it is a screen, where lines must not be longer than its width."""

    @property
    def more(self) -> str:
        """Return the sign for text that is left out."""
        return "…" if self.has_unicode else "..."

    def bar(self, fraction: float, cells: int) -> str:
        """Return a bar that fills a fraction of some cells; it is empty only for 0.

        >>> Terminal().bar(0.3, 5), Terminal(has_unicode=False).bar(0.3, 5)
        ('█▌', '##')
        """
        if not self.has_unicode:
            return "#" * max(round(fraction * cells), fraction > 0)
        eighths = max(round(fraction * cells * 8), fraction > 0)
        return (_EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()

    def paint(self, text: str, colour: str) -> str:
        """Return text in a colour, if the terminal has colours."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.has_colour and text else text

    def fit(self, text: str, cells: int) -> str:
        """Return text of exactly `cells` cells: padded, or without its middle.

        >>> Terminal().fit("天竺葵", 7), Terminal().fit("dandelion", 6)
        ('天竺葵 ', 'dan…on')
        """
        if cells_of(text) > cells:
            room = max(cells - len(self.more), 0)
            tail = _last_cells(text, room // 2)
            text = _first_cells(text, room - cells_of(tail)) + self.more[:cells] + tail
        return text + " " * (cells - cells_of(text))


def this_terminal(
    stream: TextIO | None = None, environment: Mapping[str, str] = os.environ
) -> Terminal:
    """Return what standard output can show; a pipe is 80 cells wide unless COLUMNS is set."""
    stream = sys.stdout if stream is None else stream
    is_terminal = stream is not None and stream.isatty()
    columns = environment.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if not width and is_terminal:
        width = shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns
    is_dumb = environment.get("TERM") == "dumb"
    return Terminal(
        width=max(width or _PIPED_WIDTH, _LEAST_WIDTH),
        has_unicode=_can_show("█▏…", getattr(stream, "encoding", None) or "ascii"),
        is_screen=is_terminal,
        # https://no-color.org: any value but an empty one
        has_colour=is_terminal and not environment.get("NO_COLOR") and not is_dumb,
    )


def table(
    rows: Sequence[Sequence[str]], terminal: Terminal, *, right: Collection[int] = ()
) -> list[str]:
    """Align the cells of rows, to the right in the columns `right`.

    On a screen, the last column is shortened so that lines fit.

    >>> table([("1", "rose"), ("20", "a")], Terminal(), right={0})
    [' 1  rose', '20  a']
    """
    rows = [tuple(map(visible, row)) for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    room = max(terminal.width - sum(widths[:-1]) - _GAP * (len(widths) - 1), _LEAST_LAST)
    if terminal.is_screen:
        widths[-1] = min(widths[-1], room)
    aligned = (
        (" " * _GAP).join(
            " " * (width - cells_of(cell)) + cell if place in right else terminal.fit(cell, width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return [row.rstrip() for row in aligned]


def _can_show(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def cells_of(text: str) -> int:
    """Return how many cells text takes on a terminal: Chinese characters and emoji take two.

    >>> cells_of("rose"), cells_of("天竺葵"), cells_of("é"), cells_of("🌹")
    (4, 6, 1, 2)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or letter in _ZERO_WIDTH or ord(letter) in _VARIATIONS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _first_cells(text: str, cells: int) -> str:
    """Return the beginning of a text that fits."""
    taken = 0
    for end, letter in enumerate(text):
        taken += _cells(letter)
        if taken > cells:
            return text[:end]
    return text


def _last_cells(text: str, cells: int) -> str:
    """Return the end of a text that fits, without accents of a letter that was cut off."""
    for start in range(len(text)):
        if cells_of(text[start:]) <= cells and _cells(text[start]):
            return text[start:]
    return ""
