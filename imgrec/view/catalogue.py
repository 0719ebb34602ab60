"""Search all records of a dataset: by split, class, format, size and file name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec.model import UNLABELLED
from imgrec.outcome import DatasetInfo
from imgrec.read.samples import read_table, wrong_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"
Mask: TypeAlias = "NDArray[np.bool_]"
ArrowColumn: TypeAlias = Any
"""An Arrow array, chunked or not: pyarrow's stubs and its functions disagree on the types."""

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""The upper bounds of the size groups, by longer side. The last group holds all larger images."""
_CACHED_RESULTS = 16
"""For a million records, one result takes 8 MB."""
_MAX_SIDE = 1 << 31
_TYPES = {
    "labels": pa.list_(pa.int64()),
    "filename": pa.string(),
    "height": pa.int64(),
    "width": pa.int64(),
    "format": pa.string(),
}


class Row(NamedTuple):
    """What the grid shows about one record; the defaults mean that nothing is known."""

    labels: tuple[int, ...] = ()
    filename: str = ""
    """As `text.printable` shows it."""
    height: int = 0
    width: int = 0
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """All records by column, in record order."""

    split_names: tuple[str, ...]
    splits: Integers
    """Indexes into `split_names`."""
    classes: int
    """The number of classes."""
    labels: Integers
    """-1 for an image without a label."""
    owners: Integers | None
    """The record that each label belongs to; None where every record has exactly one label."""
    filenames: ArrowColumn
    heights: Integers
    widths: Integers
    format_names: tuple[str, ...]
    formats: Integers
    """Indexes into `format_names`."""

    def __len__(self) -> int:
        return len(self.splits)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return the rows of some records."""
        places = np.asarray(numbers, dtype=np.int64)
        filenames = self.filenames.take(pa.array(places)).to_pylist()
        sizes = (self.heights[places].tolist(), self.widths[places].tolist())
        formats = [self.format_names[code] for code in self.formats[places]]
        labels = map(self._labels_of, places.tolist())
        return [Row(*row) for row in zip(labels, filenames, *sizes, formats, strict=True)]

    def _labels_of(self, number: int) -> tuple[int, ...]:
        if self.owners is None:
            found = self.labels[number : number + 1]
        else:
            first, last = np.searchsorted(self.owners, [number, number + 1])
            found = self.labels[first:last]
        return tuple(label for label in found.tolist() if label != UNLABELLED)


def read_columns(folder: Path, info: DatasetInfo) -> Columns:
    """Read samples.parquet; raise DatasetError if it is damaged or incomplete."""
    table = read_table(folder, info, ("label", *_TYPES))
    try:
        return _columns(table, info)
    except (KeyError, TypeError, pa.ArrowException) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def columns_of_rows(rows: Sequence[Row], info: DatasetInfo) -> Columns:
    """Return rows as columns."""
    values = {name: [getattr(row, name) for row in rows] for name in _TYPES}
    # A damaged record may claim a side of any length.
    for side in ("height", "width"):
        values[side] = [min(max(length, 0), _MAX_SIDE) for length in values[side]]
    arrays = {name: pa.array(values[name], kind) for name, kind in _TYPES.items()}
    return _columns(pa.table(arrays), info)


def _columns(table: pa.Table, info: DatasetInfo) -> Columns:
    counts = [split.examples for split in info.splits]
    format_names, formats = _dictionary(table.column("format"))
    labels, owners = _labels(table)
    return Columns(
        split_names=tuple(split.name for split in info.splits),
        splits=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        classes=len(info.classes),
        labels=np.where((labels >= 0) & (labels < len(info.classes)), labels, UNLABELLED),
        owners=owners,
        filenames=_texts(table.column("filename")),
        heights=_integers(table.column("height")),
        widths=_integers(table.column("width")),
        format_names=format_names,
        formats=formats,
    )


def _labels(table: pa.Table) -> tuple[Integers, Integers | None]:
    """Return all labels and, in a multi-label dataset, the record of each."""
    if "labels" not in table.column_names:
        return _integers(table.column("label"), UNLABELLED), None
    lists = table.column("labels").combine_chunks()
    counts = _integers(pc.list_value_length(lists))
    values = _integers(pc.list_flatten(lists), UNLABELLED)
    # A record without labels gets one entry, UNLABELLED, so that it can be searched for.
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), np.maximum(counts, 1))
    labels = np.full(len(owners), UNLABELLED, dtype=np.int64)
    labels[np.repeat(counts > 0, np.maximum(counts, 1))] = values
    return labels, owners


def _dictionary(column: ArrowColumn) -> tuple[tuple[str, ...], Integers]:
    """Return the distinct texts of a column, sorted, and the index of each row's text."""
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    found = [*_texts(encoded.dictionary).to_pylist(), *([""] if encoded.null_count else [])]
    names = tuple(sorted(set(found)))
    order = np.array([names.index(name) for name in found], dtype=np.int64)
    return names, order[_integers(encoded.indices, len(found) - 1)]


def _texts(column: ArrowColumn) -> ArrowColumn:
    return column.cast(pa.string()).fill_null("")


def _integers(column: ArrowColumn, missing: int = 0) -> Integers:
    values: Integers = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The filters of a search. An empty filter matches every record."""

    splits: frozenset[str] = frozenset()
    classes: frozenset[int] = frozenset()
    """Labels; -1 matches images without one."""
    formats: frozenset[str] = frozenset()
    min_side: int = 0
    max_side: int = 0
    """Inclusive bounds of the longer side; 0 is no bound."""
    text: str = ""
    """A part of the file name, in any case."""


class Found(NamedTuple):
    """The records that match a query."""

    numbers: Integers
    """In ascending order."""
    counts: Mapping[str, list[int]]
    """The number of matches for every value of a filter, with the other filters unchanged.

    By split, class, format and size group. The first class is "without a label".
    """

    def place_of(self, number: int) -> int | None:
        """Return the position of a record among the matches, or None."""
        at = int(np.searchsorted(self.numbers, number))
        return at if at < len(self.numbers) and self.numbers[at] == number else None


class Catalogue:
    """All records of a dataset, searchable. Threads may share one."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._sides = np.maximum(columns.heights, columns.widths)
        self._facets: tuple[tuple[str, Integers, int], ...] = (
            ("split", columns.splits, len(columns.split_names)),
            ("class", columns.labels - UNLABELLED, columns.classes + 1),
            ("format", columns.formats, len(columns.format_names)),
            ("size", np.searchsorted(np.array(SIZES), self._sides), len(SIZES) + 1),
        )
        self.find = lru_cache(maxsize=_CACHED_RESULTS)(self._find)

    def _find(self, query: Query) -> Found:
        """Return the records that match a query."""
        masks = self._masks(query)
        fitting = _intersection(masks.values())
        counts = {}
        for facet, codes, length in self._facets:
            others = [mask for name, mask in masks.items() if name != facet]
            mask = fitting if facet not in masks else _intersection(others)
            counts[facet] = self._count(facet, codes, length, mask)
        found = np.arange(len(self.columns)) if fitting is None else np.flatnonzero(fitting)
        return Found(found.astype(np.int64, copy=False), counts)

    def _count(self, facet: str, codes: Integers, length: int, mask: Mask | None) -> list[int]:
        if mask is not None:
            owners = self.columns.owners if facet == "class" else None
            codes = codes[mask if owners is None else mask[owners]]
        counted: list[int] = np.bincount(codes, minlength=length).tolist()
        return counted

    def _masks(self, query: Query) -> dict[str, Mask]:
        """Return which records match, for each filter that is set."""
        columns = self.columns
        masks: dict[str, Mask] = {}
        if query.splits:
            masks["split"] = _contained(columns.split_names, query.splits)[columns.splits]
        if query.classes:
            masks["class"] = self._class_mask(query.classes)
        if query.formats:
            masks["format"] = _contained(columns.format_names, query.formats)[columns.formats]
        if query.min_side or query.max_side:
            most = query.max_side or _MAX_SIDE
            masks["size"] = (self._sides >= query.min_side) & (self._sides <= most)
        if query.text:
            part = pc.utf8_lower(pa.scalar(query.text)).as_py()
            matches: ArrowColumn = pc.match_substring(self._lower_filenames, part)
            masks["text"] = matches.to_numpy(zero_copy_only=False)
        return masks

    def _class_mask(self, classes: Set[int]) -> Mask:
        columns = self.columns
        wanted = _contained(range(UNLABELLED, columns.classes), classes)
        fits = wanted[columns.labels - UNLABELLED]
        if columns.owners is None:
            return fits
        mask = np.zeros(len(columns), dtype=np.bool_)
        mask[columns.owners[fits]] = True
        return mask

    @cached_property
    def _lower_filenames(self) -> ArrowColumn:
        # Ignoring case in each search instead takes several times as long.
        return pc.utf8_lower(self.columns.filenames)


def _contained(values: Sequence[object], wanted: Set[object]) -> Mask:
    return np.array([value in wanted for value in values], dtype=np.bool_)


def _intersection(masks: Iterable[Mask]) -> Mask | None:
    """Return where all masks are true; None stands for everywhere."""
    listed = list(masks)
    return reduce(np.logical_and, listed) if listed else None
