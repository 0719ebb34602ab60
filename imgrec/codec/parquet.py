"""Reading Parquet tables of strangers: no more of them than their size lets one expect."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_RATIO = 200
"""As for archives: even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
_BATCH_ROWS, _BATCH_BYTES = 4096, 64 << 20


def read_bounded(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> pa.Table:
    """Read columns of a table as a whole; raise as `iter_bounded`."""
    import pyarrow as pa

    batches = list(iter_bounded(file, path, columns))
    return pa.Table.from_batches(batches) if batches else file.read(list(columns))


def iter_bounded(
    file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table; raise ValueError once they unpack to more than they can be worth.

    A few bytes can stand for a value a billion times, and neither the number of rows nor any size
    in the file needs to tell.
    """
    size = os.path.getsize(path) if isinstance(path, str) else path.seek(0, os.SEEK_END)
    most = max(_FREE_BYTES, _RATIO * size)
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    if sum(group.total_byte_size for group in groups) > most:
        raise _bomb(most)
    total = 0
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // _longest_text(file, path, columns)))
    for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
        total += batch.num_rows + sum(map(_spelt_out_bytes, batch.columns))
        if total > most:
            raise _bomb(most)
        batch.validate(full=True)  # or texts that are none would be found much later
        yield batch


def _longest_text(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> int:
    """Return how long the longest is of the texts that are stored once, to be repeated; 1 of none.

    They come with the first row of each group, as long as they are not put where they belong.
    """
    import pyarrow.parquet as pq

    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    texts = sorted({leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"})
    longest = 1
    with pq.ParquetFile(path, read_dictionary=texts) as stored:
        for group in range(stored.num_row_groups):
            first = stored.iter_batches(batch_size=1, row_groups=[group], columns=list(columns))
            for batch in islice(first, 1):
                longest = max(longest, *map(_longest, batch.columns), 1)
    return longest


def _longest(column: pa.Array[Any]) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ListArray):
        return _longest(column.flatten())
    if not isinstance(column, pa.DictionaryArray) or not _is_text(column.type.value_type):
        return 0
    lengths = pc.binary_length(column.dictionary)  # type: ignore[call-overload]  # it is text
    return int(pc.max(lengths).as_py() or 0)


def _bomb(most: int) -> ValueError:
    return ValueError(f"it unpacks to more than {most:,} bytes, as only a bomb does")


def _spelt_out_bytes(column: pa.Array[Any]) -> int:
    """Count the bytes of a column with every value in its place, where it may be but a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.DictionaryArray):
        if not _is_text(column.type.value_type):
            return column.nbytes + len(column) * 8
        lengths = pc.binary_length(column.dictionary)  # type: ignore[call-overload]  # it is text
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0) + column.indices.nbytes
    if isinstance(column, pa.ListArray):
        return column.nbytes + _spelt_out_bytes(column.flatten())
    return column.nbytes


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    is_string = types.is_string(kind) or types.is_large_string(kind)
    return is_string or types.is_binary(kind) or types.is_large_binary(kind)
