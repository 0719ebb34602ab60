"""The tables of a DataFrame pack, and conversion to and from Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from imgrec.model import Column, Samples
from imgrec.options import ColumnKind
from imgrec.options.source import ColumnValue

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Fields: TypeAlias = Mapping[str, str]
"""The columns of a table and their Spark SQL types."""
Columns: TypeAlias = dict[str, list[Any]]  # cells are untyped in Arrow
Extras: TypeAlias = tuple[tuple[str, ColumnKind], ...]
"""Name and kind of the extra columns that go into the records."""

_TYPES = {ColumnKind.INT: "bigint", ColumnKind.FLOAT: "double", ColumnKind.TEXT: "string"}
_BATCH = 4096

PROBED: Fields = {
    "filename": "string", "class_name": "string", "split": "string", "grp": "string",
    "size": "bigint", "rank": "bigint", "key": "binary", "whole": "binary", "digest": "binary",
    "blob": "string", "fault": "string",
}  # fmt: skip
"""One row per row of the DataFrame. `rank` is an unsigned number in a signed column.

`digest` hashes all bytes of an image that is in the DataFrame itself. It detects a change between
two reads of the DataFrame.
"""
RANKED: Fields = {
    "bucket": "int", "place": "int", "filename": "string", "label": "int", "split": "string",
    "grp": "string", "size": "bigint", "content": "binary", "draw": "bigint", "digest": "binary",
    "blob": "string",
}  # fmt: skip
"""Good rows, sorted by rank: by bucket, then by place in the bucket.

`draw` is the random number that decides about the split, minus 2 ** 63.
"""
ASSIGNED: Fields = {
    "bucket": "int", "split": "string", "place": "bigint", "filename": "string", "label": "int",
    "grp": "string", "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Rows to pack, with their final split. `place` counts within bucket and split."""
SHARDED: Fields = {
    "shard": "int", "place": "bigint", "filename": "string", "label": "int", "grp": "string",
    "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Rows to pack, with their shard, numbered across splits. `place` counts within the split."""

DEALT = "dealt"
"""The column with the split chosen for a row's group, if there are groups."""


def with_extras(fields: Fields, extras: Extras) -> dict[str, str]:
    """Add the extra columns as c0, c1, ..."""
    return {**fields, **{f"c{at}": _TYPES[kind] for at, (_, kind) in enumerate(extras)}}


def ddl(fields: Fields) -> str:
    """Format fields as a Spark SQL schema."""
    return ", ".join(f"{name} {kind}" for name, kind in fields.items())


def batches_of(columns: Columns, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Convert columns to Arrow batches."""
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
    """Convert an Arrow batch to lists."""
    return {name: batch.column(name).to_pylist() for name in batch.schema.names}


def by_key(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[tuple[int, Columns]]:
    """Yield each value of the sort column `key` with all of its rows."""
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
    """Return the extra columns of the records, with defaults for missing cells."""
    return tuple(
        Column(name, kind, tuple([default if cell is None else cell for cell in columns[f"c{at}"]]))
        for at, ((name, kind), default) in enumerate(zip(extras, defaults, strict=True))
    )


def samples_of(rows: Columns) -> Samples:
    """Convert the rows of a bucket for the functions of `plan`."""
    count = len(rows["filename"])
    return Samples(
        filenames=tuple(rows["filename"]),
        class_names=("",) * count,
        splits=tuple(rows["split"]),
        sizes=tuple(rows["size"]),
        contents=tuple(rows["content"]),
        blobs=("",) * count,
    )


def together(rows: DataFrame, key: str, count: int, *order: str) -> DataFrame:
    """Put the rows of each value of `key` into one partition, sorted by `key` and `order`."""
    context = rows.sparkSession.sparkContext
    partitions = min(count, max(context.defaultParallelism * 4, count // 4))
    return rows.repartition(partitions, key).sortWithinPartitions(key, *order)
