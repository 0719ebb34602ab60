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
_PLAIN = frozenset({"PLAIN", "RLE", "BIT_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})
"""The encodings of texts in which each stands where it belongs."""


def open_table(path: str | BinaryIO) -> pq.ParquetFile:
    """Open a table so that values which are stored once, and repeated, are read once, too."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    repeated = {
        column.path_in_schema
        for group in (file.metadata.row_group(at) for at in range(file.num_row_groups))
        for column in (group.column(at) for at in range(group.num_columns))
        if column.physical_type == "BYTE_ARRAY" and not _PLAIN.issuperset(column.encodings)
    }
    if not repeated:
        return file
    file.close()
    return pq.ParquetFile(path, read_dictionary=sorted(repeated))


def read_bounded(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> pa.Table:
    """Read columns of a table; raise ValueError once they unpack to more than they can be worth.

    A few bytes can stand for a value a billion times, and neither the number of rows nor any size
    in the file needs to tell. The file is one that `open_table` opened.
    """
    import pyarrow as pa

    size = os.path.getsize(path) if isinstance(path, str) else path.seek(0, os.SEEK_END)
    most = max(_FREE_BYTES, _RATIO * size)
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    if sum(group.total_byte_size for group in groups) > most:
        raise _bomb(most)
    batches, total = [], 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
        total += batch.num_rows + sum(map(_spelt_out_bytes, batch.columns))
        if total > most:
            raise _bomb(most)
        batch.validate(full=True)  # or texts that are none would be found much later
        batches.append(batch)
    return pa.Table.from_batches(batches) if batches else file.read(list(columns))


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
