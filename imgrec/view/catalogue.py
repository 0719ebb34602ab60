"""Search all records of a dataset: by split, class, format, size and file name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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


class Matches(NamedTuple):
    """The records that match a query."""

    numbers: Integers
    """In ascending order."""
    counts: Mapping[str, list[int]]
    """The number of matches for every value of a filter, with the other filters unchanged.

    By split, class, format and size group. The first class is "without a label".
    """

    def position_of(self, number: int) -> int | None:
        """Return the position of a record among the matches, or None."""
        at = int(np.searchsorted(self.numbers, number))
        return at if at < len(self.numbers) and self.numbers[at] == number else None


class Catalogue:
    """All records of a dataset by column, searchable. Threads may share one."""

    def __init__(self, table: pa.Table, info: DatasetInfo) -> None:
        """Take over a table with the columns of samples.parquet, in the order of records."""
        self.split_names = tuple(split.name for split in info.splits)
        counts = [split.examples for split in info.splits]
        self.splits: Integers = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        labels, self._owners = _labels(table)
        is_known = (labels >= 0) & (labels < len(info.classes))
        self._labels: Integers = np.where(is_known, labels, UNLABELLED)
        self._filenames = _texts(table.column("filename"))
        self._heights = _integers(table.column("height"))
        self._widths = _integers(table.column("width"))
        formats = _texts(table.column("format"))
        self.format_names: tuple[str, ...] = tuple(sorted(formats.unique().to_pylist()))
        known = pa.array(self.format_names, pa.string())
        self._formats = _integers(pc.index_in(formats, value_set=known))
        self._sides = np.maximum(self._heights, self._widths)
        self._facets: Mapping[str, tuple[Integers, int]] = {
            "split": (self.splits, len(self.split_names)),
            "class": (self._labels - UNLABELLED, len(info.classes) + 1),
            "format": (self._formats, len(self.format_names)),
            "size": (np.searchsorted(np.array(SIZES), self._sides), len(SIZES) + 1),
        }
        self.find = lru_cache(maxsize=_CACHED_RESULTS)(self._find)

    def __len__(self) -> int:
        return len(self.splits)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return the rows of some records."""
        places = np.asarray(numbers, dtype=np.int64)
        filenames = self._filenames.take(pa.array(places)).to_pylist()
        sizes = (self._heights[places].tolist(), self._widths[places].tolist())
        formats = [self.format_names[code] for code in self._formats[places]]
        labels = map(self._labels_of, places.tolist())
        return [Row(*row) for row in zip(labels, filenames, *sizes, formats, strict=True)]

    def _labels_of(self, number: int) -> tuple[int, ...]:
        first, last = np.searchsorted(self._owners, [number, number + 1])
        return tuple(label for label in self._labels[first:last].tolist() if label != UNLABELLED)

    def _find(self, query: Query) -> Matches:
        masks = self._masks(query)
        counts = {}
        for facet, (codes, length) in self._facets.items():
            mask = _intersection(mask for name, mask in masks.items() if name != facet)
            if mask is not None:
                codes = codes[mask[self._owners] if facet == "class" else mask]
            counts[facet] = np.bincount(codes, minlength=length).tolist()
        mask = _intersection(masks.values())
        numbers = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        return Matches(numbers.astype(np.int64, copy=False), counts)

    def _masks(self, query: Query) -> dict[str, Mask]:
        """Return which records match, for each filter that is set."""
        masks: dict[str, Mask] = {}
        if query.splits:
            masks["split"] = _are_in(self.split_names, query.splits)[self.splits]
        if query.classes:
            labels = range(UNLABELLED, self._facets["class"][1] + UNLABELLED)
            fits = _are_in(labels, query.classes)[self._labels - UNLABELLED]
            masks["class"] = np.zeros(len(self), dtype=np.bool_)
            masks["class"][self._owners[fits]] = True
        if query.formats:
            masks["format"] = _are_in(self.format_names, query.formats)[self._formats]
        if query.min_side or query.max_side:
            most = query.max_side or _MAX_SIDE
            masks["size"] = (self._sides >= query.min_side) & (self._sides <= most)
        if query.text:
            part = pc.utf8_lower(pa.scalar(query.text)).as_py()
            matches: ArrowColumn = pc.match_substring(self._lower_filenames, part)
            masks["text"] = matches.to_numpy(zero_copy_only=False)
        return masks

    @cached_property
    def _lower_filenames(self) -> ArrowColumn:
        # Ignoring case in each search instead takes several times as long.
        return pc.utf8_lower(self._filenames)


def read_catalogue(folder: Path, info: DatasetInfo) -> Catalogue:
    """Read samples.parquet; raise DatasetError if it is damaged or incomplete."""
    table = read_table(folder, info, ("label", *_TYPES))
    try:
        return Catalogue(table, info)
    except (KeyError, TypeError, pa.ArrowException) as error:
        raise wrong_table(folder) from error


def catalogue_of_rows(rows: Sequence[Row], info: DatasetInfo) -> Catalogue:
    """Return a catalogue of records that are known otherwise."""
    values = {name: [getattr(row, name) for row in rows] for name in _TYPES}
    # A damaged record may claim a side of any length.
    for side in ("height", "width"):
        values[side] = [min(max(length, 0), _MAX_SIDE) for length in values[side]]
    arrays = {name: pa.array(values[name], kind) for name, kind in _TYPES.items()}
    return Catalogue(pa.table(arrays), info)


def _labels(table: pa.Table) -> tuple[Integers, Integers]:
    """Return all labels, and the record that each belongs to."""
    if "labels" not in table.column_names:
        return _integers(table.column("label"), UNLABELLED), np.arange(table.num_rows)
    lists = table.column("labels").combine_chunks()
    counts = _integers(pc.list_value_length(lists))
    # A record without labels gets one entry, UNLABELLED, so that it can be searched for.
    entries = np.maximum(counts, 1)
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), entries)
    labels = np.full(len(owners), UNLABELLED, dtype=np.int64)
    labels[np.repeat(counts > 0, entries)] = _integers(pc.list_flatten(lists), UNLABELLED)
    return labels, owners


def _texts(column: ArrowColumn) -> ArrowColumn:
    return column.cast(pa.string()).fill_null("")


def _integers(column: ArrowColumn, missing: int = 0) -> Integers:
    values: Integers = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return values


def _are_in(values: Sequence[object], wanted: Collection[object]) -> Mask:
    return np.array([value in wanted for value in values], dtype=np.bool_)


def _intersection(masks: Iterable[Mask]) -> Mask | None:
    """Return where all masks are true; None, for no masks, is everywhere and saves time."""
    listed = list(masks)
    return reduce(np.logical_and, listed) if listed else None
