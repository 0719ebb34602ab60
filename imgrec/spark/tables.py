"""The tables that flow through a pack of a DataFrame, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from imgrec.model import Column
from imgrec.options import ColumnKind
from imgrec.options.source import ColumnValue

if TYPE_CHECKING:
    import pyarrow as pa

Fields: TypeAlias = Mapping[str, str]
"""The columns of a table, with their types in the words of Spark SQL."""
Columns: TypeAlias = dict[str, list[Any]]  # cells are untyped in Arrow
Extras: TypeAlias = tuple[tuple[str, ColumnKind], ...]
"""Name and kind of the columns that travel into the records."""

_TYPES = {ColumnKind.INT: "bigint", ColumnKind.FLOAT: "double", ColumnKind.TEXT: "string"}
_BATCH = 4096

SEEN: Fields = {
    "filename": "string", "class_name": "string", "split": "string", "grp": "string",
    "size": "bigint", "rank": "bigint", "key": "binary", "whole": "binary", "digest": "binary",
    "blob": "string", "fault": "string",
}  # fmt: skip
"""What a first look at each row shows; `rank` is unsigned, in the bits of a signed integer.

`digest` is of all bytes of an image in the DataFrame itself, by which it is known again.
"""
SETTLED: Fields = {
    "bucket": "int", "place": "int", "filename": "string", "label": "int", "split": "string",
    "grp": "string", "size": "bigint", "content": "binary", "draw": "bigint", "digest": "binary",
    "blob": "string",
}  # fmt: skip
"""Good rows in the order of their rank: by bucket, and by place in there.

`draw` is less by 2 ** 63 than the number by which a row is drawn for a split.
"""
PLACED: Fields = {
    "bucket": "int", "split": "string", "place": "bigint", "filename": "string", "label": "int",
    "grp": "string", "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Rows that are packed, with their final split; `place` counts in bucket and split."""
SHARDED: Fields = {
    "shard": "int", "place": "bigint", "filename": "string", "label": "int", "grp": "string",
    "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""The same by shard, counted through all splits; `place` counts in the split."""


def with_extras(fields: Fields, extras: Extras) -> dict[str, str]:
    """Return fields with those of the columns that travel along: c0, c1 and so on."""
    return {**fields, **{f"c{at}": _TYPES[kind] for at, (_, kind) in enumerate(extras)}}


def ddl(fields: Fields) -> str:
    """Return fields as Spark takes them."""
    return ", ".join(f"{name} {kind}" for name, kind in fields.items())


def batches_of(columns: Columns, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Yield columns as batches of Arrow."""
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "binary": pa.binary(),
        "double": pa.float64(),
    }
    schema = pa.schema({name: kinds[kind] for name, kind in fields.items()})
    count = len(next(iter(columns.values())))
    for start in range(0, count, _BATCH):
        part = {name: columns[name][start : start + _BATCH] for name in fields}
        yield pa.RecordBatch.from_pydict(part, schema=schema)


def columns_of(batch: pa.RecordBatch) -> Columns:
    """Return the columns of a batch as lists."""
    return {name: batch.column(name).to_pylist() for name in batch.schema.names}


def by_key(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[tuple[int, Columns]]:
    """Yield the rows of each value of a column by which they are sorted, all at once."""
    value, waiting = -1, Columns()
    for batch in batches:
        columns = columns_of(batch)
        for start, end in _runs(columns[key]):
            part = {name: cells[start:end] for name, cells in columns.items()}
            if waiting and part[key][0] == value:
                for name, cells in part.items():
                    waiting[name] += cells
                continue
            if waiting:
                yield value, waiting
            value, waiting = part[key][0], part
    if waiting:
        yield value, waiting


def _runs(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[start]:
            yield start, at
            start = at


def picked(columns: Columns, places: Sequence[int]) -> Columns:
    """Return the rows at `places`, in that order."""
    return {name: [cells[place] for place in places] for name, cells in columns.items()}


def extra_columns(
    columns: Columns, extras: Extras, defaults: Sequence[ColumnValue]
) -> tuple[Column, ...]:
    """Return the columns that travel into the records; missing values get their defaults."""
    return tuple(
        Column(name, kind, tuple([default if cell is None else cell for cell in columns[f"c{at}"]]))
        for at, ((name, kind), default) in enumerate(zip(extras, defaults, strict=True))
    )
