"""The columns of a table of pixels: where a row has its image, its label and its split."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from imgrec.errors import SourceError, UsageError
from imgrec.options import SourceOptions
from imgrec.source.manifests.columns import Header, is_label_column, is_split_column, squashed
from imgrec.source.raw_pixels import Raster

_FEWEST_NAMED = 4
_FEWEST_BARE = 64
"""So many numbers in a row without a header are taken for an image: a manifest has fewer."""
_VALUES = {str(value): value for value in range(256)}


class PixelColumns(NamedTuple):
    """Which columns of a table hold pixels, labels and splits."""

    header: Header
    pixels: slice
    """The columns with one pixel each, or the one with all."""
    is_one_cell: bool
    label: int | None
    split: int | None

    def values(self, cells: Sequence[str]) -> Sequence[str]:
        """Return the numbers of an image."""
        return cells[self.pixels.start].split() if self.is_one_cell else cells[self.pixels]


def raster_of(count: int) -> Raster | None:
    """Return the shape of that many values: a grey square or an RGB one; None if neither fits.

    >>> [(one.height, one.channels) for one in map(raster_of, (784, 2352)) if one]
    [(28, 1), (28, 3)]
    >>> raster_of(785) is None
    True
    """
    for channels in (1, 3):
        side = isqrt(count // channels)
        if side and side * side * channels == count:
            return Raster(side, side, channels)
    return None


def is_pixel_row(first: Sequence[str]) -> bool:
    """Tell whether the first row of a table names columns of pixels, or is an image itself."""
    named = sum(bool(_pixel_place(name)) for name in first)
    return named >= _FEWEST_NAMED or "pixels" in map(squashed, first) or _is_bare(first)


def _is_bare(first: Sequence[str]) -> bool:
    count = len(first)
    if count < _FEWEST_BARE or not (raster_of(count) or raster_of(count - 1)):
        return False
    return all(cell.strip().isdecimal() for cell in first)


def _pixel_place(name: str) -> tuple[int, ...]:
    """Return the place in a column's name: `pixel7`, or `2x3` for row and column."""
    text = squashed(name)
    parts = [text.removeprefix("pixel")] if text.startswith("pixel") else text.split("x")
    if len(parts) > 2 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        return ()
    is_bare_number = len(parts) == 1 and not text.startswith("pixel")
    return () if is_bare_number else tuple(map(int, parts))


def columns_of(first: Sequence[str], where: str, options: SourceOptions) -> PixelColumns:
    """Understand the first row of a table of pixels; raise SourceError if it is ambiguous."""
    if _is_bare(first):
        names = tuple(map(str, range(1, len(first) + 1)))
        return _bare_columns(Header(where=where, names=names, is_told=False), options)
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
    return PixelColumns(
        header=header,
        pixels=pixels,
        is_one_cell=bool(cells),
        label=_only(header, "label", options.label_col),
        split=_only(header, "split", options.split_col),
    )


def _bare_columns(header: Header, options: SourceOptions) -> PixelColumns:
    count = len(header.names)
    label = None
    if options.label_col:
        label = header.find(options.label_col, "--label-col")
    elif raster_of(count) is None:
        label = 0
    if label not in (None, 0, count - 1):
        raise UsageError(
            f"--label-col {options.label_col}: the label is among the pixels",
            hint="give the first column or the last",
        )
    ends = {None: (0, count), 0: (1, count)}.get(label, (0, count - 1))
    return PixelColumns(header, slice(*ends), is_one_cell=False, label=label, split=None)


def _only(header: Header, what: str, given: str) -> int | None:
    """Return the column of labels or of splits, if any; raise SourceError if several fit."""
    if given:
        return header.find(given, f"--{what}-col")
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
