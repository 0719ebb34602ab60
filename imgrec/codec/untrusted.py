"""Reading JSON and Parquet files of unknown origin, within bounds of memory and of known types."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MOST_VALUES = 1 << 23
"""A report with a million skipped files has 2 million values. An empty list takes 3 bytes in a file
and 64 in memory."""
_MOST_COUNT = 1 << 63
_RATIO = 200
"""As for archives: even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
_BATCH_ROWS, _BATCH_BYTES = 4096, 64 << 20


def parse_json(data: bytes | str) -> Any:  # JSON has no types until its values are checked
    """Parse JSON; raise ValueError if it is invalid, too deeply nested, or has too many values."""
    commas = data.count(",") if isinstance(data, str) else data.count(b",")
    if commas > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES:,} values")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def text_of(value: object) -> str:
    """Return a text, without lone surrogates; raise TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return printable(value)


def texts_of(value: object) -> tuple[str, ...]:
    """Return a list of texts; raise TypeError for anything else."""
    return tuple(map(text_of, list_of(value)))


def count_of(value: object) -> int:
    """Return a count; raise TypeError for anything else."""
    if type(value) is not int or not 0 <= value < _MOST_COUNT:
        raise TypeError("not a count")
    return value


def counts_of(value: object) -> tuple[int, ...]:
    """Return a list of counts; raise TypeError for anything else."""
    return tuple(map(count_of, list_of(value)))


def list_of(value: object) -> list[Any]:
    """Return a list; raise TypeError for anything else."""
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def option_of(value: object) -> object:
    """Return the value of an option: a scalar, a list of scalars, or a map of texts."""
    if isinstance(value, dict):
        return {text_of(key): text_of(item) for key, item in value.items()}
    items = value if isinstance(value, list) else [value]
    if not all(item is None or isinstance(item, str | bool | int | float) for item in items):
        raise TypeError("not the value of an option")
    items = [printable(item) if isinstance(item, str) else item for item in items]
    return items if isinstance(value, list) else items[0]


def read_bounded(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> pa.Table:
    """Read columns of a table as a whole; raise as `iter_bounded`."""
    import pyarrow as pa

    batches = list(iter_bounded(file, path, columns))
    return pa.Table.from_batches(batches) if batches else file.read(list(columns))


def iter_bounded(
    file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a table; raise ValueError if they unpack to far more than the file's size.

    A few bytes can stand for a value a billion times, and neither the number of rows nor any size
    in the file needs to show it.
    """
    size = os.path.getsize(path) if isinstance(path, str) else path.seek(0, os.SEEK_END)
    most = max(_FREE_BYTES, _RATIO * size)
    bomb = ValueError(f"it unpacks to more than {most:,} bytes: it is a decompression bomb")
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    if sum(group.total_byte_size for group in groups) > most:
        raise bomb
    total = 0
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // _longest_text(file, path, columns)))
    for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
        total += batch.num_rows + sum(map(_unpacked_bytes, batch.columns))
        if total > most:
            raise bomb
        batch.validate(full=True)  # or invalid UTF-8 would be found much later
        yield batch


def _longest_text(file: pq.ParquetFile, path: str | BinaryIO, columns: Sequence[str]) -> int:
    """Return the length of the longest text in a dictionary, at least 1.

    Dictionaries come with the first row of each group, if they are not expanded.
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


def _unpacked_bytes(column: pa.Array[Any]) -> int:
    """Count the bytes of a column with its dictionaries expanded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.DictionaryArray):
        if not _is_text(column.type.value_type):
            return column.nbytes + len(column) * 8
        lengths = pc.binary_length(column.dictionary)  # type: ignore[call-overload]  # it is text
        return int(pc.sum(pc.take(lengths, column.indices)).as_py() or 0) + column.indices.nbytes
    if isinstance(column, pa.ListArray):
        return column.nbytes + _unpacked_bytes(column.flatten())
    return column.nbytes


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    is_string = types.is_string(kind) or types.is_large_string(kind)
    return is_string or types.is_binary(kind) or types.is_large_binary(kind)
