"""Parquet files as columns of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.parquet import read_bounded
from imgrec.errors import SourceError
from imgrec.source.manifests.row_limit import RowLimit
from imgrec.storage.paths import seekable

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET_MAGIC = b"PAR1"


class Parquet(NamedTuple):
    """The columns of a Parquet file."""

    names: tuple[str, ...]
    columns: tuple[list[object], ...]
    """The values of each; nothing for each row where they are unusable."""
    unusable: Mapping[str, str]
    """The columns of bytes or structures, and their types."""


def read_parquet(path: str, name: str) -> Parquet:
    """Read the columns of text, numbers and lists of them; raise SourceError if it is damaged.

    Columns of bytes, which may be whole images, are not read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = seekable(Path(path))
        with pq.ParquetFile(opened) as file:
            schema = file.schema_arrow
            kept = [field.name for field in schema if _is_plain(field.type)]
            table = read_bounded(file, opened, kept)
            RowLimit(path, name).take(_count_cells(table), table.num_rows)
            values = {key: table.column(key).to_pylist() for key in dict.fromkeys(kept)}
    # UnicodeDecodeError and out-of-range dates are among the ValueErrors.
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(f"cannot read {name} as Parquet: {reason}", path=path) from error
    count = len(next(iter(values.values()), ()))
    return Parquet(
        names=tuple(schema.names),
        columns=tuple([values.get(key) or [None] * count for key in schema.names]),
        unusable={field.name: str(field.type) for field in schema if field.name not in values},
    )


def _count_cells(table: pa.Table) -> int:
    """Count the values of a table, each of a list on its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = [column for column in table.columns if pa.types.is_nested(column.type)]
    listed = sum(int(pc.sum(pc.list_value_length(column)).as_py() or 0) for column in lists)
    return table.num_rows * table.num_columns + listed


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return not pa.types.is_nested(kind.value_type) and _is_plain(kind.value_type)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return not (is_bytes or pa.types.is_fixed_size_binary(kind) or pa.types.is_nested(kind))
