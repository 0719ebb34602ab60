"""The table of all records: samples.parquet."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from imgrec.layout import SAMPLES, samples_column
from imgrec.model import Samples
from imgrec.options import ColumnKind
from imgrec.outcome import ShardResult
from imgrec.storage.files import HashingFile, create
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Cells: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_DICTIONARY_COLUMNS = ["split", "shard", "format", "class_name", "class_names.list.element"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """The columns of all shards. A shard with bad images only does not show them."""

    classes: Sequence[str]
    is_multilabel: bool = False
    has_groups: bool = False


class SamplesTable:
    """A Parquet table with one row per record, which grows shard by shard."""

    def __init__(self, out: IO[bytes] | _Sink, form: TableForm) -> None:
        self._form = form
        self._out = out
        self._writer: pq.ParquetWriter | None = None

    def add(self, result: ShardResult) -> None:
        """Append the records of a shard."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        batch = pa.record_batch(_columns(result, self._form))
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._out,  # type: ignore[arg-type]  # pyarrow only writes to it
                batch.schema,
                compression="zstd",
                use_dictionary=_DICTIONARY_COLUMNS,  # type: ignore[arg-type]  # wrong stubs
            )
        self._writer.write_batch(batch)

    def finish(self) -> None:
        """Write the footer of the table."""
        if self._writer:
            self._writer.close()


@contextmanager
def create_samples(folder: Path, form: TableForm) -> Iterator[tuple[SamplesTable, HashingFile]]:
    """Write samples.parquet directly to its file: it may be larger than memory."""
    with create(str(folder / SAMPLES)) as file:
        sink = _Sink(file)
        table = SamplesTable(sink, form)
        try:
            yield table, file
            table.finish()
        finally:
            # A ParquetWriter writes its footer when it is deleted, and by then the descriptor may
            # be that of another file.
            sink.is_abandoned = True


@dataclass(slots=True)
class _Sink:
    """A file as pyarrow writes to it."""

    file: HashingFile
    closed: bool = False
    is_abandoned: bool = False

    def write(self, data: bytes) -> int:
        if not self.is_abandoned:
            self.file.write(data)
        return len(data)

    def tell(self) -> int:
        return self.file.position

    def flush(self) -> None:
        """Do nothing: the file has no buffer."""


def _columns(result: ShardResult, form: TableForm) -> dict[str, Cells]:
    records, samples = result.records, result.records.samples
    count, hashes = len(samples), records.hashes.hex()
    labels, class_names = _label_columns(samples, form)
    columns = {
        "split": _strings([result.split] * count),
        "shard": _strings([result.filename] * count),
        "offset": _numbers(records.offsets),
        "length": _numbers(records.lengths),
        **labels,
        "filename": _strings(map(printable, samples.filenames)),
        "xxh3": _strings([hashes[at : at + 32] for at in range(0, len(hashes), 32)]),
        "height": _numbers(records.shapes[0::3]),
        "width": _numbers(records.shapes[1::3]),
        "channels": _numbers(records.shapes[2::3]),
        "format": _strings(records.formats),
        **class_names,
    }
    if form.has_groups:
        columns["group"] = _strings(map(printable, samples.groups))
    for column in samples.columns:
        values: Any = column.values  # of the column's kind
        columns[samples_column(column.name)] = (
            _strings(values)
            if column.kind is ColumnKind.TEXT
            else _numbers(array("q" if column.kind is ColumnKind.INT else "f", values))
        )
    return columns


def _label_columns(samples: Samples, form: TableForm) -> tuple[dict[str, Cells], dict[str, Cells]]:
    """Return the labels and their names; an image without a label has the name ""."""
    if not form.is_multilabel:
        names = (*form.classes, "")  # label -1 is the last of them
        class_names = _strings([names[label] for label in samples.labels])
        return {"label": _numbers(array("q", samples.labels))}, {"class_name": class_names}
    sets = samples.label_sets
    labels = array("q", chain.from_iterable(sets))
    class_names = _strings([form.classes[label] for label in labels])
    return {"labels": _lists(_numbers(labels), sets)}, {"class_names": _lists(class_names, sets)}


# Arrays are made from buffers: from lists, pyarrow makes them too, but first imports pandas if it
# is installed, which takes longer than packing a thousand photographs.


def _lists(values: Cells, sets: Sequence[Sized]) -> Cells:
    """Cut values into lists as long as `sets`."""
    import pyarrow as pa

    ends = array("i", accumulate(map(len, sets), initial=0))
    buffers = [None, pa.py_buffer(ends)]
    return pa.Array.from_buffers(pa.list_(values.type), len(sets), buffers, children=[values])


def _numbers(values: array[int] | array[float]) -> Cells:
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "q": pa.int64(),
        "Q": pa.int64(),
        "I": pa.int32(),
        "f": pa.float32(),
    }
    kind = types[values.typecode]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _strings(values: Iterable[str]) -> Cells:
    import pyarrow as pa

    encoded = [value.encode() for value in values]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)
