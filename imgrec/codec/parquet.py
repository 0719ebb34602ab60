"""Reading Parquet tables of strangers: no more of them than their size lets one expect."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_RATIO = 200
"""As for archives: even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
_BATCH_ROWS = 4096


def read_bounded(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> pa.Table:
    """Read columns of a table; raise ValueError once they unpack to more than they can be worth.

    A few bytes can stand for a value a billion times, and neither the number of rows nor any size
    in the file needs to tell.
    """
    import pyarrow as pa

    size = os.path.getsize(path) if isinstance(path, str) else path.seek(0, os.SEEK_END)
    most = max(_FREE_BYTES, _RATIO * size)
    batches, total = [], 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
        total += batch.num_rows + sum(_spelt_out(column).nbytes for column in batch.columns)
        if total > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes, as only a bomb does")
        batches.append(batch)
    return pa.Table.from_batches(batches) if batches else file.read(list(columns))


def _spelt_out(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a column with every value in its place, where it may only be the number of one."""
    import pyarrow as pa

    kind = column.type
    if isinstance(kind, pa.DictionaryType):
        return column.cast(kind.value_type)
    if isinstance(kind, pa.ListType) and isinstance(kind.value_type, pa.DictionaryType):
        return column.cast(pa.list_(kind.value_type.value_type))
    return column
