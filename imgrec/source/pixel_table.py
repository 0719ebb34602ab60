"""Pixels in CSV: one image per row, as in Kaggle's digits and faces."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import accumulate, chain, repeat
from math import isqrt
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.errors import SourceError, UsageError
from imgrec.model import TEST, Catalog, Column, Pixels, Slice, SourceLayout
from imgrec.notes import Note, warnings_of
from imgrec.options import ColumnKind, SourceKind, SourceOptions
from imgrec.source.cells import read_labels
from imgrec.source.columns import Header, is_label_column, is_split_column, squashed
from imgrec.source.pixels import PixelSamples, Raster, spool
from imgrec.source.tables import Fault, TableKind, delimited_rows, kind_of
from imgrec.source.text_lines import with_fallback
from imgrec.source.tree import Context, Tally
from imgrec.source.words import read_splits, split_of_name
from imgrec.stamp import NO_STAMP, stamp_of
from imgrec.text import folder_name, name_of

_FEWEST_NAMED = 4
_FEWEST_BARE = 64
"""So many numbers in a row without a header are taken for an image: a manifest has fewer."""
_VALUES = {str(value): value for value in range(256)}
_KINDS = (TableKind.CSV, TableKind.TSV, TableKind.TEXT)
_CHUNK_BYTES = 8 << 20


# Finding tables of pixels.


def is_pixel_table(path: str) -> bool:
    """Return whether a file, or one directly in a folder, is a table of pixels."""
    try:
        if os.path.isdir(path):
            return any(map(is_pixel_table, _tables_in(path)))
        if kind_of(path) not in _KINDS:
            return False
        first, _ = with_fallback(partial(_first_row, path), path, "")
    except SourceError:
        return False
    return _is_pixel_row(first)


def _first_row(path: str, encoding: str = "") -> list[str]:
    return next((cells for _, cells in delimited_rows(path, path, [], encoding)), [])


def _tables_in(folder: str) -> list[str]:
    """Return the files directly in a folder that are tables by their suffix."""
    names = [name for name in _listing(folder) if name[0] not in "._" and "." in name]
    paths = [os.path.join(folder, name) for name in names]
    return [path for path in paths if kind_of(path) in (TableKind.CSV, TableKind.TSV)]


def _listing(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise SourceError(f"cannot read {folder}: {error.strerror}", path=folder) from error


class PixelFile(NamedTuple):
    """A table of pixels, and the split of its rows unless a column has it: "" for none."""

    path: str
    split: str = ""

    @property
    def name(self) -> str:
        """Return its name for messages."""
        return name_of(os.path.basename(self.path))


def choose_tables(tables: Sequence[str], path: str) -> tuple[list[PixelFile], tuple[str, ...]]:
    """Choose the tables of pixels to read; return them, and a warning about the others.

    Several tables are splits by their names. But a table with a column of splits that is about as
    large as all others together is complete. Several such tables differ only in their columns, so
    the first of them is read.
    """
    if len(tables) == 1:
        return [PixelFile(tables[0])], ()
    files = [PixelFile(table, split_of_name(table)) for table in tables]
    with_splits = sorted(
        (file for file in files if any(map(is_split_column, _first_row(file.path)))),
        key=lambda file: file.name,
    )
    sizes = [os.path.getsize(file.path) for file in with_splits]
    parts = sum(os.path.getsize(file.path) for file in files if file not in with_splits)
    are_alike = bool(sizes) and min(sizes) * 100 >= 99 * max(sizes)
    if are_alike and min(sizes) * 10 >= 9 * parts:
        whole = with_splits[0]
        others = ", ".join(file.name for file in files if file != whole)
        return [PixelFile(whole.path)], (
            f"{whole.name} holds all splits, so {others} are not read",
        )
    splits = {file.split for file in files}
    if "" in splits or len(splits) < len(files):
        raise SourceError(
            f"{path} holds tables that are not one for each split: "
            + ", ".join(file.name for file in files),
            hint="call them train.csv, val.csv and test.csv, or give one of them",
            path=path,
        )
    return files, ()


# Understanding the first row.


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


def _is_pixel_row(first: Sequence[str]) -> bool:
    """Return whether the first row of a table names columns of pixels, or is an image itself."""
    named = sum(bool(_pixel_number(name)) for name in first)
    return named >= _FEWEST_NAMED or "pixels" in map(squashed, first) or _is_bare(first)


def _is_bare(first: Sequence[str]) -> bool:
    count = len(first)
    if count < _FEWEST_BARE or not (raster_of(count) or raster_of(count - 1)):
        return False
    return all(cell.strip().isdecimal() for cell in first)


def _pixel_number(name: str) -> tuple[int, ...]:
    """Return the numbers in a column's name: `pixel7`, or `2x3` for row and column."""
    text = squashed(name)
    is_named = text.startswith("pixel")
    parts = [text.removeprefix("pixel")] if is_named else text.split("x")
    if len(parts) != 2 - is_named or not all(part.isdecimal() and len(part) < 10 for part in parts):
        return ()
    return tuple(map(int, parts))


class _Columns(NamedTuple):
    """Which columns of a table hold pixels, labels and splits."""

    header: Header
    pixels: slice
    """The columns with one pixel each, or the one with all."""
    is_one_cell: bool = False
    label: int | None = None
    split: int | None = None


def _columns_of(first: Sequence[str], where: str, options: SourceOptions) -> _Columns:
    """Understand the first row of a table of pixels; raise SourceError if it is ambiguous."""
    if _is_bare(first):
        names = tuple(map(str, range(1, len(first) + 1)))
        return _bare_columns(Header(where=where, names=names, is_named=False), options)
    header = Header(where=where, names=tuple(map(str.strip, first)), is_named=True)
    cells = [at for at, name in enumerate(header.names) if squashed(name) == "pixels"]
    if cells:
        pixels = slice(cells[0], cells[0] + 1)
    else:
        numbers = [_pixel_number(name) for name in header.names]
        named = [at for at, number in enumerate(numbers) if number]
        pixels = slice(named[0], named[-1] + 1)
        if len(named) != pixels.stop - pixels.start or sorted(numbers[pixels]) != numbers[pixels]:
            raise SourceError(
                f"{where}: the columns of pixels are not one after another, in their order",
                hint="sort the columns",
            )
    label = _find_column(header, "label", options.label_col)
    split = _find_column(header, "split", options.split_col)
    return _Columns(header, pixels, bool(cells), label, split)


def _bare_columns(header: Header, options: SourceOptions) -> _Columns:
    """Return the columns of a table without header: the label is the first or the last."""
    last = len(header.names) - 1
    label = None
    if options.label_col:
        label = header.find(options.label_col, "--label-col")
    elif raster_of(len(header.names)) is None:
        label = 0
    if label not in (None, 0, last):
        raise UsageError(
            f"--label-col {options.label_col}: the label is among the pixels",
            hint="give the first column or the last",
        )
    return _Columns(header, slice(int(label == 0), last + (label != last)), label=label)


def _find_column(header: Header, what: str, given: str) -> int | None:
    """Return the column of labels or of splits, if any; raise SourceError if several fit."""
    if given:
        return header.find(given, f"--{what}-col")
    is_usual = {"label": is_label_column, "split": is_split_column}[what]
    found = [at for at, name in enumerate(header.names) if is_usual(name)]
    if len(found) > 1:
        names = " and ".join(header.names[at] for at in found)
        raise SourceError(
            f"{header.where}: the columns {names} may both hold the {what}s",
            hint=f"choose one with --{what}-col",
        )
    return found[0] if found else None


# Reading the rows.


@dataclass(slots=True)
class _Rows(PixelSamples):
    """Rows by column; splits and class names become known when all are read."""

    wheres: list[str] = field(default_factory=list)
    """The file and line of each."""
    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    """Why rows cannot be packed."""

    def extend(self, other: _Rows) -> None:
        """Add the rows of another table."""
        start = len(self.wheres)
        for column in fields(self):
            if column.name != "faults":
                getattr(self, column.name).extend(getattr(other, column.name))
        self.faults |= {start + row: fault for row, fault in other.faults.items()}


class _Table(NamedTuple):
    columns: _Columns
    raster: Raster
    rows: _Rows
    bad: list[Note]
    """Lines that could not be parsed."""


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


def _read_table(file: PixelFile, encoding: str, context: Context, id_column: str) -> _Table:
    """Read a table, copying its pixels to the spool."""
    name = file.name
    faults: list[Fault] = []
    lines = delimited_rows(file.path, name, faults, encoding)
    first = next(lines, None)
    if first is None or not _is_pixel_row(first[1]):
        raise SourceError(f"{name} is not a table of pixels", path=file.path)
    columns = _columns_of(first[1], name, context.options)
    if not columns.header.is_named:
        lines = chain([first], lines)
    rows = _Rows()
    slices: list[Slice] = []
    while chunk := list(_parse(lines, columns, squashed(id_column), rows)):
        path, offset = spool(b"".join(chunk), context)
        slices += zip(repeat(path), accumulate(map(len, chunk[:-1]), initial=offset), strict=False)
        context.on_progress(len(chunk))
    if not slices:
        raise SourceError(f"{name} has no rows", path=file.path)
    raster = _find_raster(rows, name)
    rows.blobs = [Pixels(path, offset, *raster) for path, offset in slices]
    for row, size in enumerate(rows.sizes):
        if size != raster.size:
            rows.faults.setdefault(row, f"{size} values instead of {raster.size}")
    _set_splits(rows, columns, file)
    bad = [Note(f"{name}:{line}", reason) for line, _, reason in faults]
    return _Table(columns, raster, rows, bad)


def _parse(
    lines: Iterator[tuple[int, list[str]]], columns: _Columns, id_column: str, rows: _Rows
) -> Iterator[bytes]:
    """Add rows, and yield the pixels of each, until they are enough for one write."""
    header, chunk_bytes = columns.header, 0
    names = [squashed(name) for name in header.names]
    id_at = names.index(id_column) if id_column in names else None
    for line, cells in lines:
        pixels = b""
        values = (
            cells[columns.pixels.start].split() if columns.is_one_cell else cells[columns.pixels]
        )
        try:
            pixels = pixel_bytes(values)
        except ValueError as error:
            rows.faults[len(rows.wheres)] = str(error)
        rows.wheres.append(f"{header.where}:{line}")
        rows.numbers.append(line - header.is_named)  # blank and damaged rows count too
        rows.ids.append("" if id_at is None else cells[id_at].strip())
        rows.labels.append("" if columns.label is None else cells[columns.label])
        rows.splits.append("" if columns.split is None else cells[columns.split])
        rows.sizes.append(len(pixels))
        rows.contents.append(xxh3_128_digest(pixels))
        yield pixels
        chunk_bytes += len(pixels)
        if chunk_bytes >= _CHUNK_BYTES:
            return


def _find_raster(rows: _Rows, name: str) -> Raster:
    """Return the shape of most images."""
    sizes = Counter(size for row, size in enumerate(rows.sizes) if row not in rows.faults)
    count = sizes.most_common(1)[0][0] if sizes else 1
    raster = raster_of(count)
    if raster is None:
        raise SourceError(
            f"{name}: {count} values an image make neither a grey square nor an RGB one",
            hint="imgrec reads square images only",
        )
    return raster


def _set_splits(rows: _Rows, columns: _Columns, file: PixelFile) -> None:
    """Set the splits by a column or the file's name; images without labels must be for testing."""
    if columns.split is not None:
        column = columns.header.names[columns.split]
        rows.splits, faults = read_splits(rows.splits, column, file.name)
        rows.faults = faults | rows.faults
        return
    split = file.split if columns.label is not None else split_of_name(file.path)
    if columns.label is None and split != TEST:
        raise SourceError(
            f"{file.name} has no column that is known to hold the labels",
            hint="name it with --label-col; if these are images for testing, call it test.csv",
            path=file.path,
        )
    rows.splits = [split] * len(rows.wheres)


# From tables to a catalog.


def scan(path: str, context: Context) -> Catalog:
    """Read tables of pixels: one file, or all in a folder.

    Raises SourceError if they cannot be understood, and ExecutionError if the disk is full.
    """
    tally = Tally()
    if not os.path.isdir(path):
        return scan_tables([path], path, tally, context)
    tables = list(filter(is_pixel_table, _tables_in(path)))
    names = list(map(os.path.basename, tables))
    for name in _listing(path):
        if name not in names:
            tally.add("not a table of pixels", name_of(name))
    if not tables:
        raise SourceError(f"{path} holds no table of pixels", path=path)
    return scan_tables(tables, path, tally, context)


class AskedIds(NamedTuple):
    """The ids of the images to predict, as in a sample submission."""

    column: str
    ids: Sequence[str]

    def first(self) -> int | None:
        """Return the number of the first row, if ids are the numbers of rows; else None."""
        start = min((int(one) for one in self.ids if one.isdecimal()), default=-1)
        numbers = [str(start + row) for row in range(len(self.ids))]
        return start if start in (0, 1) and sorted(numbers) == sorted(self.ids) else None


def scan_tables(
    paths: Sequence[str], root: str, tally: Tally, context: Context, asked: AskedIds | None = None
) -> Catalog:
    """Read tables of pixels, called `root` in messages; images get the ids that are asked for.

    Ids are in a column named as in the sample, or the numbers of the rows, as the sample counts.
    """
    files, notes = choose_tables(paths, root)
    rows = _Rows()
    bad: list[Note] = []
    layouts, warnings = [], []
    for file in files:
        id_column = asked.column if asked else ""
        read = partial(_read_table, file, context=context, id_column=id_column)
        table, warning = with_fallback(read, file.name, context.options.encoding)
        rows.extend(table.rows)
        bad += table.bad
        layouts.append(_describe(table, file.name))
        warnings += [warning] if warning else []
    labels = read_labels(rows.labels, root, context.options)
    rows.class_names = ["".join(names) for names in labels.sets]
    for row, (name, split) in enumerate(zip(rows.class_names, rows.splits, strict=True)):
        is_unlabelled = not name and split != TEST and row not in labels.faults
        reasons = (rows.faults.get(row), labels.faults.get(row), "no label" * is_unlabelled)
        if fault := "; ".join(filter(None, reasons)):
            rows.faults[row] = fault
    ids: tuple[Column, ...] = ()
    if asked is not None and _set_ids(rows, asked):
        ids = (Column("id", ColumnKind.TEXT, tuple(rows.ids)),)
    bad += [Note(rows.wheres[row], fault) for row, fault in rows.faults.items()]
    good = [row for row in range(len(rows.wheres)) if row not in rows.faults]
    folder = root if os.path.isdir(root) else os.path.dirname(root)
    return Catalog(
        name=folder_name(folder),
        layout=SourceLayout(
            kind=SourceKind.PIXELS, sentence=f"pixels in CSV: {'; '.join(layouts)}"
        ),
        samples=rows.samples(ids).pick(good),
        class_folders={name: (rows.wheres[at],) for name, at in labels.first_rows().items()},
        class_order=labels.order,
        notes=(*sorted(bad), *tally.ignored(), *warnings_of((*warnings, *notes))),
        stamp=NO_STAMP.merged(*(stamp_of(file.path) for file in files)),
    )


def _describe(table: _Table, name: str) -> str:
    columns, raster = table.columns, table.raster
    names = columns.header.names
    if not columns.header.is_named:
        names = tuple(f"column {name}" for name in names)
    split = table.rows.splits[0] if columns.split is None else ""
    colour = "grey" if raster.channels == 1 else "RGB"
    parts = [f"{name}{f' -> {split}' * bool(split)}: {raster.width}x{raster.height} {colour}"]
    if columns.label is not None:
        parts.append(f"{names[columns.label]} -> label")
    if columns.split is not None:
        parts.append(f"{names[columns.split]} -> split")
    return ", ".join(parts)


def _set_ids(rows: _Rows, asked: AskedIds) -> bool:
    """Use row numbers as ids unless a column has ids; return whether there are any."""
    if any(rows.ids):
        return True
    first = asked.first()
    if first is None:
        return False
    numbered = zip(rows.numbers, rows.splits, strict=True)
    rows.ids = [str(number - 1 + first) if split == TEST else "" for number, split in numbered]
    return True
