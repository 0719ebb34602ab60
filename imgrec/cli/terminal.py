"""What the terminal can show: its width, its letters and its colours."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

_PIPED_WIDTH = 80
_LEAST_WIDTH = 40
_GAP = 2
_LEAST_LAST = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_ZERO_WIDTH = ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff")
_VARIATIONS = range(0xFE00, 0xFE10)
_COLOURS = {"bold": "1", "dim": "2", "blue": "34", "green": "32", "yellow": "33", "magenta": "35"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where text goes."""

    width: int = _PIPED_WIDTH
    """Of a line, in cells."""
    has_unicode: bool = True
    has_colour: bool = False
    is_screen: bool = False
    """Whether people see it at once: then a line must not be longer than it is wide."""

    @property
    def more(self) -> str:
        """Return what stands for text that is left out."""
        return "…" if self.has_unicode else "..."

    def bar(self, fraction: float, cells: int) -> str:
        """Return a bar of that part of some cells; what is not nothing shows.

        >>> Terminal().bar(0.3, 5), Terminal(has_unicode=False).bar(0.3, 5)
        ('█▌', '##')
        """
        if not self.has_unicode:
            return "#" * max(round(fraction * cells), fraction > 0)
        eighths = max(round(fraction * cells * 8), fraction > 0)
        return (_EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()

    def paint(self, text: str, colour: str) -> str:
        """Return text in a colour, where there are colours."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.has_colour and text else text

    def fit(self, text: str, cells: int) -> str:
        """Return text of just so many cells: filled up, or without its middle.

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
    """Return what standard output can show; a pipe is 80 cells wide, or as COLUMNS says."""
    stream = sys.stdout if stream is None else stream
    is_terminal = stream is not None and stream.isatty()
    told = environment.get("COLUMNS", "")
    width = int(told) if told.isdecimal() and int(told) else 0
    if not width and is_terminal:
        width = shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns
    is_dumb = environment.get("TERM") == "dumb"
    return Terminal(
        width=max(width or _PIPED_WIDTH, _LEAST_WIDTH),
        has_unicode=_can_show("█▏…", getattr(stream, "encoding", None) or "ascii"),
        # https://no-color.org: whatever its value is, unless it is empty.
        is_screen=is_terminal,
        has_colour=is_terminal and not environment.get("NO_COLOR") and not is_dumb,
    )


def table(rows: Sequence[Sequence[str]], terminal: Terminal, *, right: Collection[int] = ()) -> str:
    """Align the cells of rows; those in the columns `right` at their ends.

    On a screen the last column is shortened where the line would be longer than that is wide.

    >>> print(table([("1", "rose"), ("20", "a")], Terminal(), right={0}))
     1  rose
    20  a
    """
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    room = max(terminal.width - sum(widths[:-1]) - _GAP * (len(widths) - 1), _LEAST_LAST)
    if terminal.is_screen:
        widths[-1] = min(widths[-1], room)
    lines = (
        (" " * _GAP).join(
            " " * (width - cells_of(cell)) + cell if place in right else terminal.fit(cell, width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _can_show(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def cells_of(text: str) -> int:
    """Return how many cells of a terminal text takes: two for most of Chinese, and emoji.

    >>> cells_of("rose"), cells_of("天竺葵"), cells_of("é"), cells_of("🌹")
    (4, 6, 1, 2)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or letter in _ZERO_WIDTH or ord(letter) in _VARIATIONS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _first_cells(text: str, cells: int) -> str:
    """Return as much of the beginning of a text as fits."""
    taken = 0
    for end, letter in enumerate(text):
        taken += _cells(letter)
        if taken > cells:
            return text[:end]
    return text


def _last_cells(text: str, cells: int) -> str:
    """Return as much of the end of a text as fits, without marks that belong to what is cut."""
    for start in range(len(text)):
        if cells_of(text[start:]) <= cells and _cells(text[start]):
            return text[start:]
    return ""
