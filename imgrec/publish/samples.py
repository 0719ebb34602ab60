"""The table of all records: samples.parquet."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from imgrec.outcome import RecordTable, ShardResult
from imgrec.storage.files import OutFile
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class SamplesTable:
    """A Parquet table with one row a record, which grows shard by shard."""

    def __init__(self, out: IO[bytes] | Sink, *, is_multilabel: bool) -> None:
        self._is_multilabel = is_multilabel
        self._out = out
        self._writer: pq.ParquetWriter | None = None

    def add(self, result: ShardResult) -> None:
        """Append the records of a shard."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        batch = pa.record_batch(_columns(result, is_multilabel=self._is_multilabel))
        if self._writer is None:
            repeated = ["split", "shard", "format"]
            self._writer = pq.ParquetWriter(
                self._out,  # type: ignore[arg-type]  # it writes, and that is all it has to
                batch.schema,
                compression="zstd",
                use_dictionary=repeated,  # type: ignore[arg-type]  # the stubs know all or none
            )
        self._writer.write_batch(batch)

    def finish(self) -> None:
        """Write what completes the table."""
        if self._writer:
            self._writer.close()


class Sink:
    """A file of a dataset in the making, as pyarrow writes to it."""

    closed = False

    def __init__(self, file: OutFile) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        """Return how many were written."""
        return self._file.position

    def flush(self) -> None:
        """Do nothing: who owns the file does that."""


def _columns(
    result: ShardResult, *, is_multilabel: bool
) -> dict[str, pa.Array[pa.Scalar[pa.DataType]]]:
    records = result.records
    count = len(records.filenames)
    return {
        "split": _even_strings(result.split * count, count),
        "shard": _even_strings(result.filename * count, count),
        "offset": _integers(records.offsets),
        "length": _integers(records.lengths),
        **_labels(records, is_multilabel=is_multilabel),
        "filename": _strings(_printable(records.filenames)),
        "xxh3": _even_strings(records.hashes.hex(), count),
        "height": _integers(records.shapes[0::3]),
        "width": _integers(records.shapes[1::3]),
        "channels": _integers(records.shapes[2::3]),
        "format": _strings(records.formats),
    }


def _printable(names: Sequence[str]) -> Sequence[str]:
    return names if "".join(names).isascii() else [printable(name) for name in names]


def _labels(
    records: RecordTable, *, is_multilabel: bool
) -> dict[str, pa.Array[pa.Scalar[pa.DataType]]]:
    """Return the column `label`, or `labels` where an image may have several."""
    import pyarrow as pa

    if not is_multilabel:
        return {"label": _integers(records.labels)}
    ends = array("i", itertools.accumulate(map(len, records.label_sets), initial=0))
    values = _integers(array("q", itertools.chain.from_iterable(records.label_sets)))
    kind = pa.list_(pa.int64())
    buffers = [None, pa.py_buffer(ends)]
    return {"labels": pa.Array.from_buffers(kind, len(ends) - 1, buffers, children=[values])}


# pyarrow turns Python lists into arrays too, but imports pandas for it if there is one, which
# takes longer than packing a thousand photos; buffers it takes as they are.


def _integers(values: array[int]) -> pa.Array[pa.Scalar[pa.DataType]]:
    import pyarrow as pa

    kind = {"q": pa.int64(), "Q": pa.int64(), "I": pa.int32()}[values.typecode]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _strings(values: Sequence[str]) -> pa.Array[pa.Scalar[pa.DataType]]:
    import pyarrow as pa

    text = "".join(values)
    lengths = map(len, values if text.isascii() else [value.encode() for value in values])
    ends = array("i", itertools.accumulate(lengths, initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _even_strings(text: str, count: int) -> pa.Array[pa.Scalar[pa.DataType]]:
    """Cut ASCII text into `count` strings of one length."""
    import pyarrow as pa

    length = len(text) // max(count, 1)
    ends = array("i", range(0, len(text) + 1, max(length, 1))[: count + 1])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string(), count, buffers)
