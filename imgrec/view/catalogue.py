"""Search and sort all records of a dataset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec.errors import UsageError
from imgrec.model import UNLABELLED
from imgrec.outcome import DatasetInfo
from imgrec.read.samples import read_table, wrong_table
from imgrec.text import suggestion
from imgrec.view.decided import Decided
from imgrec.view.facets import (
    ArrowColumn,
    Column,
    ColumnFilter,
    Integers,
    Mask,
    are_in,
    contains,
    extra_columns,
    integers,
)
from imgrec.view.findings import Named, by_sides, find, read_findings

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""The upper bounds of the size groups, by longer side. The last group holds all larger images."""
_CACHED_RESULTS, _CACHED_ORDERS = 16, 4
"""For a million records, one result or order takes 8 MB."""
_MAX_SIDE = 1 << 31
_TYPES = {
    "labels": pa.list_(pa.int64()),
    "filename": pa.string(),
    "height": pa.int64(),
    "width": pa.int64(),
    "format": pa.string(),
    "length": pa.int64(),
}


class Row(NamedTuple):
    """What the grid shows about one record; the defaults mean that nothing is known."""

    labels: tuple[int, ...] = ()
    filename: str = ""
    """As `text.printable` shows it."""
    height: int = 0
    width: int = 0
    format: str = ""
    length: int = 0
    """Bytes of the record."""


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
    findings: frozenset[str] = frozenset()
    """The keys of findings; records with any of them match."""
    columns: frozenset[ColumnFilter] = frozenset()
    decisions: frozenset[str] = frozenset()
    """Kinds of decisions; records with any of them match."""
    decided: Decided | None = None
    """What is decided at this moment; None if nothing can be."""
    sort: str = ""
    """One of `Catalogue.sorts`; empty for the order of the dataset."""
    is_descending: bool = False


class Matches(NamedTuple):
    """The records that match a query."""

    numbers: Integers
    """In the wanted order."""
    counts: Mapping[str, list[int]]
    """The number of matches for every value of a filter, with the other filters unchanged.

    By split, class, format, size group, finding, kind of decision, and "column NAME". The first
    class is "without a label".
    """

    def position_of(self, number: int) -> int | None:
        """Return the position of a record among the matches, or None."""
        found = np.flatnonzero(self.numbers == number)
        return int(found[0]) if len(found) else None


class Catalogue:
    """All records of a dataset by column, searchable. Threads may share one."""

    def __init__(self, table: pa.Table, info: DatasetInfo, named: Sequence[Named] = ()) -> None:
        """Take over a table with the columns of samples.parquet, in the order of records.

        `named` are findings about files.
        """
        self.split_names = tuple(split.name for split in info.splits)
        counts = [split.examples for split in info.splits]
        self.splits: Integers = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        labels, self._owners = _labels(table)
        is_known = (labels >= 0) & (labels < len(info.classes))
        self._labels: Integers = np.where(is_known, labels, UNLABELLED)
        self.is_multilabel = "labels" in table.column_names
        self.filenames = _texts(table.column("filename"))
        self._heights = integers(table.column("height"))
        self._widths = integers(table.column("width"))
        formats = _texts(table.column("format"))
        self.format_names: tuple[str, ...] = tuple(sorted(formats.unique().to_pylist()))
        known = pa.array(self.format_names, pa.string())
        self._formats = integers(pc.index_in(formats, value_set=known))
        self._sides = np.maximum(self._heights, self._widths)
        self._facets: Mapping[str, tuple[Integers, int]] = {
            "split": (self.splits, len(self.split_names)),
            "class": (self._labels - UNLABELLED, len(info.classes) + 1),
            "format": (self._formats, len(self.format_names)),
            "size": (np.searchsorted(np.array(SIZES), self._sides), len(SIZES) + 1),
        }
        named = list(by_sides(named, self.filenames, self._side_of))
        self.findings = find(named, self.filenames, (self._widths, self._heights))
        self.columns: dict[str, Column] = {}
        firsts = self._labels[np.searchsorted(self._owners, np.arange(len(self)))]
        self._sort_keys: dict[str, ArrowColumn] = {
            "name": self.filenames,
            "class": pa.array(firsts, mask=firsts < 0),
            "size": pa.array(self._widths * self._heights),
            "bytes": table.column("length"),
            "copies": self.findings.ranks,
        }
        for name, values, column in extra_columns(table):
            self.columns[name] = column
            self._sort_keys[f"column {name}"] = values
        self._open_caches()

    def __len__(self) -> int:
        return len(self.splits)

    @property
    def has_copies(self) -> bool:
        """Return whether some records are copies of each other, to be sorted by."""
        return bool((self.findings.cases >= 0).any())

    def groups_of(self, numbers: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return the group of copies of each record, and its size; None for no group."""
        groups = self.findings.cases[list(numbers)].tolist()
        return [None if group < 0 else (group, self._group_sizes[group]) for group in groups]

    def group_with(self, number: int) -> list[int]:
        """Return the copies of a record and itself, the one that represents them first."""
        case = self.findings.cases[number]
        members = np.flatnonzero(self.findings.cases == case) if case >= 0 else np.empty(0, int)
        ranks = integers(self.findings.ranks.take(pa.array(members)))
        together: list[int] = members[np.argsort(ranks, kind="stable")].tolist()
        return together

    def findings_of(self, number: int) -> list[str]:
        """Return the titles of the findings about a record."""
        masks = self.findings.masks
        return [title for key, title in self.findings.titles.items() if masks[key][number]]

    @cached_property
    def _group_sizes(self) -> list[int]:
        cases = self.findings.cases
        sizes: list[int] = np.bincount(cases[cases >= 0]).tolist()
        return sizes

    def with_tones(self, tones: bytes) -> Catalogue:
        """Return it with findings about brightness and contrast: see `codec.tone`."""
        more = copy(self)
        more.findings = self.findings.with_tones(tones)
        more._open_caches()
        return more

    def _open_caches(self) -> None:
        self.find = lru_cache(maxsize=_CACHED_RESULTS)(self._find)
        self._select = lru_cache(maxsize=_CACHED_RESULTS)(self._select_unsorted)
        self._order = lru_cache(maxsize=_CACHED_ORDERS)(self._order_by)

    def _side_of(self, number: int) -> tuple[object, object]:
        return int(self.splits[number]), self.labels_of(number)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return the rows of some records."""
        places = np.asarray(numbers, dtype=np.int64)
        filenames = self.filenames_of(places)
        sizes = (self._heights[places].tolist(), self._widths[places].tolist())
        formats = [self.format_names[code] for code in self._formats[places]]
        lengths = self._sort_keys["bytes"].take(pa.array(places)).to_pylist()
        labels = map(self.labels_of, places.tolist())
        return [Row(*row) for row in zip(labels, filenames, *sizes, formats, lengths, strict=True)]

    def filenames_of(self, numbers: Sequence[int] | Integers) -> list[str]:
        """Return the file names of some records, as `text.printable` shows them."""
        names: list[str] = self.filenames.take(pa.array(numbers, pa.int64())).to_pylist()
        return names

    def labels_of(self, number: int) -> tuple[int, ...]:
        """Return the known labels of a record."""
        first, last = np.searchsorted(self._owners, [number, number + 1])
        return tuple(label for label in self._labels[first:last].tolist() if label != UNLABELLED)

    def _find(self, query: Query) -> Matches:
        selected = self._select(replace(query, sort="", is_descending=False))
        if not query.sort and not query.is_descending:
            return selected
        order = self._order(query.sort, query.is_descending)
        if len(selected.numbers) < len(self):
            is_selected = np.zeros(len(self), dtype=np.bool_)
            is_selected[selected.numbers] = True
            order = order[is_selected[order]]
        return selected._replace(numbers=order)

    def _order_by(self, sort: str, is_descending: bool) -> Integers:
        """Return all records in an order; ties are in the order of the dataset."""
        if not sort:
            return np.arange(len(self))[::-1]
        if sort not in self._sort_keys:
            hint = suggestion(list(self._sort_keys), sort)
            raise UsageError(f"cannot sort by {sort!r}", hint=hint)
        direction: Literal["ascending", "descending"]
        direction = "descending" if is_descending else "ascending"
        keys = self._sort_keys[sort]
        return integers(pc.array_sort_indices(keys, order=direction, null_placement="at_end"))

    def _select_unsorted(self, query: Query) -> Matches:
        masks = self._masks(query)
        counts = {}
        for facet, (codes, length) in self._facets.items():
            mask = _intersection(mask for name, mask in masks.items() if name != facet)
            if mask is not None:
                codes = codes[mask[self._owners] if facet == "class" else mask]
            counts[facet] = np.bincount(codes, minlength=length).tolist()
        findings = map(self.findings.masks.__getitem__, self.findings.titles)
        decisions = query.decided.masks.values() if query.decided else ()
        for facet, kinds in (("finding", findings), ("decision", decisions)):
            mask = _intersection(mask for name, mask in masks.items() if name != facet)
            counts[facet] = [
                int(np.count_nonzero(found if mask is None else found & mask)) for found in kinds
            ]
        for column, values in self.columns.items():
            facet = f"column {column}"
            mask = _intersection(mask for name, mask in masks.items() if name != facet)
            counts[facet] = values.counts(mask)
        mask = _intersection(masks.values())
        numbers = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        return Matches(numbers.astype(np.int64, copy=False), counts)

    def _masks(self, query: Query) -> dict[str, Mask]:
        """Return which records match, for each filter that is set."""
        masks: dict[str, Mask] = {}
        if query.splits:
            masks["split"] = are_in(self.split_names, query.splits)[self.splits]
        if query.classes:
            labels = range(UNLABELLED, self._facets["class"][1] + UNLABELLED)
            fits = are_in(labels, query.classes)[self._labels - UNLABELLED]
            masks["class"] = np.zeros(len(self), dtype=np.bool_)
            masks["class"][self._owners[fits]] = True
        if query.formats:
            masks["format"] = are_in(self.format_names, query.formats)[self._formats]
        if query.min_side or query.max_side:
            most = query.max_side or _MAX_SIDE
            masks["size"] = (self._sides >= query.min_side) & (self._sides <= most)
        if query.text:
            masks["text"] = contains(self._lower_filenames, query.text)
        if query.findings:
            masks["finding"] = self._union(self.findings.masks, query.findings)
        if query.decisions and query.decided:
            masks["decision"] = self._union(query.decided.masks, query.decisions)
        for wanted in query.columns:
            if wanted.name not in self.columns:
                hint = suggestion(list(self.columns), wanted.name)
                raise UsageError(f"there is no column {wanted.name!r} to filter by", hint=hint)
            masks[f"column {wanted.name}"] = self.columns[wanted.name].mask(wanted)
        return masks

    def _union(self, masks: Mapping[str, Mask], wanted: Collection[str]) -> Mask:
        found = [mask for key, mask in masks.items() if key in wanted]
        return reduce(np.logical_or, found, np.zeros(len(self), dtype=np.bool_))

    @cached_property
    def _lower_filenames(self) -> ArrowColumn:
        # Ignoring case in each search instead takes several times as long.
        return pc.utf8_lower(self.filenames)


def read_catalogue(folder: Path, info: DatasetInfo) -> Catalogue:
    """Read samples.parquet; raise DatasetError if it is damaged or incomplete."""
    table = read_table(folder, info, ("label", *_TYPES), with_extra=True)
    try:
        return Catalogue(table, info, read_findings(folder))
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
        return integers(table.column("label"), UNLABELLED), np.arange(table.num_rows)
    lists = table.column("labels").combine_chunks()
    counts = integers(pc.list_value_length(lists))
    # A record without labels gets one entry, UNLABELLED, so that it can be searched for.
    entries = np.maximum(counts, 1)
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), entries)
    labels = np.full(len(owners), UNLABELLED, dtype=np.int64)
    labels[np.repeat(counts > 0, entries)] = integers(pc.list_flatten(lists), UNLABELLED)
    return labels, owners


def _texts(column: ArrowColumn) -> ArrowColumn:
    return column.cast(pa.string()).fill_null("")


def _intersection(masks: Iterable[Mask]) -> Mask | None:
    """Return where all masks are true; None, for no masks, is everywhere and saves time."""
    listed = list(masks)
    return reduce(np.logical_and, listed) if listed else None
