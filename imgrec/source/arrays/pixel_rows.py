"""Rows of a table that hold an image as numbers: where in them what is, and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from imgrec.errors import SourceError, UsageError
from imgrec.options import SourceOptions
from imgrec.source.manifests.columns import Header, is_label_column, is_split_column, squashed

_FEWEST_NAMED = 4
_FEWEST_BARE = 64
"""How many numbers in a row without names are taken for an image: a manifest has fewer."""
_VALUES = {str(value): value for value in range(256)}


class PixelForm(NamedTuple):
    """Where in the rows of a table their pixels, labels and splits are."""

    header: Header
    pixels: slice
    """The columns with one pixel each, or the one with all."""
    is_one_cell: bool
    label: int | None
    split: int | None

    def values(self, cells: Sequence[str]) -> Sequence[str]:
        """Return the numbers of an image."""
        return cells[self.pixels.start].split() if self.is_one_cell else cells[self.pixels]


class Shape(NamedTuple):
    """Height, width and channels of an image."""

    height: int
    width: int
    channels: int


def shape_of(count: int) -> Shape | None:
    """Return the shape of so many values: a grey square or an RGB one; None if neither fits.

    >>> shape_of(784), shape_of(2352), shape_of(785)
    (Shape(height=28, width=28, channels=1), Shape(height=28, width=28, channels=3), None)
    """
    for channels in (1, 3):
        side = isqrt(count // channels)
        if side and side * side * channels == count:
            return Shape(side, side, channels)
    return None


def is_pixel_row(first: Sequence[str]) -> bool:
    """Tell whether the first row of a table names columns of pixels, or is an image itself."""
    named = sum(bool(_pixel_place(name)) for name in first)
    return named >= _FEWEST_NAMED or "pixels" in map(squashed, first) or _is_bare(first)


def _is_bare(first: Sequence[str]) -> bool:
    count = len(first)
    is_image = shape_of(count) is not None or shape_of(count - 1) is not None
    return count >= _FEWEST_BARE and is_image and all(cell.strip().isdecimal() for cell in first)


def _pixel_place(name: str) -> tuple[int, ...]:
    """Return the place that a column's name tells: `pixel7`, or `2x3` for row and column."""
    text = squashed(name)
    parts = [text.removeprefix("pixel")] if text.startswith("pixel") else text.split("x")
    if len(parts) > 2 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        return ()
    is_bare_number = len(parts) == 1 and not text.startswith("pixel")
    return () if is_bare_number else tuple(map(int, parts))


def form_of(first: Sequence[str], where: str, options: SourceOptions) -> PixelForm:
    """Find out what is where from the first row of a table of pixels.

    Raises SourceError if that is not clear.
    """
    if _is_bare(first):
        names = tuple(map(str, range(1, len(first) + 1)))
        return _bare_form(Header(where=where, names=names, is_told=False), options)
    header = Header(where=where, names=tuple(map(str.strip, first)), is_told=True)
    cells = [at for at, name in enumerate(header.names) if squashed(name) == "pixels"]
    if cells:
        pixels = slice(cells[0], cells[0] + 1)
    else:
        places = [_pixel_place(name) for name in header.names]
        named = [at for at, place in enumerate(places) if place]
        pixels = slice(named[0], named[-1] + 1)
        if len(named) != pixels.stop - pixels.start or sorted(places[pixels]) != places[pixels]:
            raise SourceError(
                f"{where}: the columns of pixels are not one after another, in their order",
                hint="sort the columns",
            )
    return PixelForm(
        header=header,
        pixels=pixels,
        is_one_cell=bool(cells),
        label=_only(header, "label", options.label_col),
        split=_only(header, "split", options.split_col),
    )


def _bare_form(header: Header, options: SourceOptions) -> PixelForm:
    count = len(header.names)
    label = None
    if options.label_col:
        label = header.find(options.label_col, "--label-col")
    elif shape_of(count) is None:
        label = 0
    if label not in (None, 0, count - 1):
        raise UsageError(
            f"--label-col {options.label_col}: the label is among the pixels",
            hint="give the first column or the last",
        )
    ends = {None: (0, count), 0: (1, count)}.get(label, (0, count - 1))
    return PixelForm(header, slice(*ends), is_one_cell=False, label=label, split=None)


def _only(header: Header, what: str, said: str) -> int | None:
    """Return the column of labels or of splits, or None; raise SourceError if it is not clear."""
    if said:
        return header.find(said, f"--{what}-col")
    is_usual = {"label": is_label_column, "split": is_split_column}[what]
    found = [at for at, name in enumerate(header.names) if is_usual(name)]
    if len(found) > 1:
        names = " and ".join(header.names[at] for at in found)
        raise SourceError(
            f"{header.where}: the columns {names} may both hold the {what}s",
            hint=f"say which with --{what}-col",
        )
    return found[0] if found else None


def pixel_bytes(values: Sequence[str]) -> bytes:
    r"""Return numbers from 0 to 255 as bytes; raise ValueError, naming the first, for others.

    >>> pixel_bytes(["0", "16", "255"])
    b'\x00\x10\xff'
    """
    try:
        return bytes(map(_VALUES.__getitem__, values))
    except KeyError:
        return bytes(map(_value, values))


def _value(text: str) -> int:
    bare = text.strip()
    value = _VALUES.get(bare.lstrip("0") or bare[:1])
    if value is None:
        raise ValueError(f"{text[:20]!r} is not a whole number from 0 to 255")
    return value
