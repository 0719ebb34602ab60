"""Columns of a dataset to filter records by: each finds, counts and describes values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec.layout import is_extra_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"
Mask: TypeAlias = "NDArray[np.bool_]"
ArrowColumn: TypeAlias = Any
"""An Arrow array, chunked or not: pyarrow's stubs and its functions disagree on the types."""

_MAX_VALUES = 1000
"""A column with more different values, or with mostly different ones, is filtered by text."""
_MAX_NUMBERS = 24
"""A column with more different numbers is filtered by bounds."""


class ColumnFilter(NamedTuple):
    """Which values of a column match. A filter that is not set matches all values."""

    name: str
    values: frozenset[str] = frozenset()
    least: float | None = None
    most: float | None = None
    """Inclusive bounds."""
    text: str = ""
    """A part of the value, in any case."""


class Column(Protocol):
    """A column that can be filtered by."""

    def mask(self, wanted: ColumnFilter) -> Mask:
        """Return which records match."""
        ...

    def counts(self, mask: Mask | None, /) -> list[int]:
        """Count the records of each value among those of a mask; empty without listed values."""
        ...

    def describe(self) -> dict[str, object]:
        """Return what the page needs to offer a filter, as a JSON value."""
        ...


class ValueColumn:
    """A column of few different values, all of which can be listed."""

    def __init__(self, column: ArrowColumn, values: ArrowColumn) -> None:
        texts = ["" if value is None else _text(value) for value in values.to_pylist()]
        self._texts = texts
        self._codes = integers(pc.index_in(column, value_set=values))

    def mask(self, wanted: ColumnFilter) -> Mask:
        """Return which records have one of the wanted values."""
        return are_in(self._texts, wanted.values)[self._codes]

    def counts(self, mask: Mask | None) -> list[int]:
        """Count the records of each value."""
        codes = self._codes if mask is None else self._codes[mask]
        counted: list[int] = np.bincount(codes, minlength=len(self._texts)).tolist()
        return counted

    def describe(self) -> dict[str, object]:
        """List the values."""
        return {"values": self._texts}


class NumberColumn:
    """A column of many different numbers."""

    def __init__(self, column: ArrowColumn) -> None:
        self._numbers = column.to_numpy(zero_copy_only=False)
        self._range = [value.as_py() for value in pc.min_max(_known(column)).values()]

    def mask(self, wanted: ColumnFilter) -> Mask:
        """Return which numbers are within the bounds; a missing one is within none."""
        least = -np.inf if wanted.least is None else wanted.least
        most = np.inf if wanted.most is None else wanted.most
        mask: Mask = (self._numbers >= least) & (self._numbers <= most)
        return mask

    def counts(self, _mask: Mask | None, /) -> list[int]:
        """Return nothing: no value is listed."""
        return []

    def describe(self) -> dict[str, object]:
        """Return the least and the largest number."""
        return {"range": [_text(value) for value in self._range]}


class TextColumn:
    """A column of many different texts."""

    def __init__(self, column: ArrowColumn) -> None:
        self._lower = pc.utf8_lower(column)

    def mask(self, wanted: ColumnFilter) -> Mask:
        """Return which texts contain the wanted one."""
        return contains(self._lower, wanted.text)

    def counts(self, _mask: Mask | None, /) -> list[int]:
        """Return nothing: no value is listed."""
        return []

    def describe(self) -> dict[str, object]:
        """Return nothing but the column's kind."""
        return {"text": True}


def extra_columns(table: pa.Table) -> Iterator[tuple[str, ArrowColumn, Column]]:
    """Yield the columns of groups and of the source's tables, by name, as they are and to filter.

    Missing values are null.
    """
    for name in filter(is_extra_column, table.column_names):
        column: ArrowColumn = table.column(name)
        if pa.types.is_string(column.type):
            column = pc.if_else(pc.equal(column, pa.scalar("")), None, column)
            is_number = False
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            if pa.types.is_floating(column.type):
                column = pc.if_else(pc.is_nan(column), None, column)
            is_number = True
        else:
            continue
        values: ArrowColumn = pc.unique(column)
        most = _MAX_NUMBERS if is_number else min(_MAX_VALUES, len(column) // 2)
        if len(values) <= most:
            yield name, column, ValueColumn(column, values.take(pc.sort_indices(values)))
        else:
            yield name, column, NumberColumn(column) if is_number else TextColumn(column)


def _known(column: ArrowColumn) -> ArrowColumn:
    return pc.drop_null(column)


def _text(value: object) -> str:
    """Return a value as the address of the page holds it; float32 has seven digits.

    >>> _text(0.10000000149011612), _text(123456789), _text("rose")
    ('0.1', '123456789', 'rose')
    """
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def integers(column: ArrowColumn, missing: int = 0) -> Integers:
    """Return an Arrow column as numbers."""
    values: Integers = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return values


def are_in(values: Collection[object], wanted: Collection[object]) -> Mask:
    """Return which values are wanted."""
    return np.array([value in wanted for value in values], dtype=np.bool_)


def contains(lower: ArrowColumn, text: str) -> Mask:
    """Return which lower-case texts contain a text in any case. Null contains nothing."""
    part = pc.utf8_lower(pa.scalar(text)).as_py()
    found: ArrowColumn = pc.match_substring(lower, part)
    mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask
