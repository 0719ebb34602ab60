"""The table of all records: samples.parquet."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from imgrec.layout import samples_column
from imgrec.options import ColumnKind
from imgrec.outcome import RecordTable, ShardResult
from imgrec.storage.files import HashingFile
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Cells: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """What the rows of all shards have, which a shard of bad images alone does not tell."""

    classes: tuple[str, ...]
    is_multilabel: bool = False
    has_groups: bool = False


class SamplesTable:
    """A Parquet table with one row a record, which grows shard by shard."""

    def __init__(self, out: IO[bytes] | Sink, form: TableForm) -> None:
        self._form = form
        self._out = out
        self._writer: pq.ParquetWriter | None = None

    def add(self, result: ShardResult) -> None:
        """Append the records of a shard."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        batch = pa.record_batch(_columns(result, self._form))
        if self._writer is None:
            repeated = ["split", "shard", "format", "class_name", "class_names.list.element"]
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

    def __init__(self, file: HashingFile) -> None:
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


def _columns(result: ShardResult, form: TableForm) -> dict[str, Cells]:
    records = result.records
    count = len(records.samples.filenames)
    found = {
        "split": _even_strings(result.split * count, count),
        "shard": _even_strings(result.filename * count, count),
        "offset": _integers(records.offsets),
        "length": _integers(records.lengths),
        **_labels(records, form),
        "filename": _strings(_printable(records.samples.filenames)),
        "xxh3": _even_strings(records.hashes.hex(), count),
        "height": _integers(records.shapes[0::3]),
        "width": _integers(records.shapes[1::3]),
        "channels": _integers(records.shapes[2::3]),
        "format": _strings(records.formats),
        **_class_names(records, form),
    }
    if form.has_groups:
        found["group"] = _strings(_printable(records.samples.groups))
    for column in records.samples.columns:
        found[samples_column(column.name)] = _MAKERS[column.kind](column.values)
    return found


def _printable(names: Sequence[str]) -> Sequence[str]:
    return names if "".join(names).isascii() else [printable(name) for name in names]


def _labels(records: RecordTable, form: TableForm) -> dict[str, Cells]:
    """Return the column `label`, or `labels` where an image may have several."""
    if not form.is_multilabel:
        return {"label": _integers(array("q", records.samples.labels))}
    values = _integers(array("q", itertools.chain.from_iterable(records.samples.label_sets)))
    return {"labels": _lists(values, records.samples.label_sets)}


def _class_names(records: RecordTable, form: TableForm) -> dict[str, Cells]:
    """Return the names of the labels; "" where an image has none."""
    if not form.is_multilabel:
        names = (*form.classes, "")  # of which -1 is the last
        return {"class_name": _strings([names[label] for label in records.samples.labels])}
    labels = itertools.chain.from_iterable(records.samples.label_sets)
    values = _strings([form.classes[label] for label in labels])
    return {"class_names": _lists(values, records.samples.label_sets)}


# pyarrow turns Python lists into arrays too, but imports pandas for it if there is one, which
# takes longer than packing a thousand photos; buffers it takes as they are.


def _lists(values: Cells, sets: Sequence[Sized]) -> Cells:
    """Part values into lists that are as long as `sets`."""
    import pyarrow as pa

    ends = array("i", itertools.accumulate(map(len, sets), initial=0))
    buffers = [None, pa.py_buffer(ends)]
    return pa.Array.from_buffers(pa.list_(values.type), len(sets), buffers, children=[values])


def _integers(values: array[int]) -> Cells:
    import pyarrow as pa

    kind = {"q": pa.int64(), "Q": pa.int64(), "I": pa.int32()}[values.typecode]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _strings(values: Sequence[str]) -> Cells:
    import pyarrow as pa

    text = "".join(values)
    lengths = map(len, values if text.isascii() else [value.encode() for value in values])
    ends = array("i", itertools.accumulate(lengths, initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _even_strings(text: str, count: int) -> Cells:
    """Cut ASCII text into `count` strings of one length."""
    import pyarrow as pa

    length = len(text) // max(count, 1)
    ends = array("i", range(0, len(text) + 1, max(length, 1))[: count + 1])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _floats(values: Sequence[float]) -> Cells:
    """Return numbers as precisely as records hold them."""
    import pyarrow as pa

    cells = array("f", values)
    return pa.Array.from_buffers(pa.float32(), len(cells), [None, pa.py_buffer(cells)])


_MAKERS: Mapping[ColumnKind, Callable[[Any], Cells]] = {  # values are of the kind
    ColumnKind.INT: lambda values: _integers(array("q", values)),
    ColumnKind.FLOAT: _floats,
    ColumnKind.TEXT: _strings,
}
