"""Reading a packed dataset into a DataFrame, one shard per partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec import layout
from imgrec.engine.spark import active_session, context_of, ship
from imgrec.errors import CorruptRecord, UnknownName, UsageError
from imgrec.options import ColumnKind
from imgrec.options.parsing import parse_text
from imgrec.read.documents import read_documents
from imgrec.read.files import find_dataset
from imgrec.read.record import Record, Value, parse
from imgrec.read.shards import read_shard
from imgrec.read.splits import existing_name
from imgrec.storage.paths import refuse_remote
from imgrec.text import printable, suggestion

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_BATCH_BYTES = 16 << 20
_TYPES = {ColumnKind.INT: "bigint", ColumnKind.FLOAT: "float", ColumnKind.TEXT: "string"}


class _Shard(NamedTuple):
    split: str
    path: str
    records: int


def read(
    dataset: str | os.PathLike[str],
    session: SparkSession | None = None,
    *,
    split: str = "",
    data_dir: str | os.PathLike[str] = "",
) -> DataFrame:
    """Return a packed dataset, or one split of it, as a DataFrame with one partition per shard.

    Its columns are split, label (or labels), class_name (or class_names), filename, height, width,
    channels, image (the encoded bytes) and the extra columns. Checksums are verified.

    Example: `imgrec.spark.read("flowers").groupBy("split", "class_name").count()`.
    """
    what, where = parse_text("dataset", dataset), parse_text("data_dir", data_dir)
    for place in (what, where):
        refuse_remote(place, "imgrec.spark.read")
    session = session or active_session()
    if session is None:
        raise UsageError(
            "imgrec.spark.read needs a Spark session, and none is active",
            hint="start one with SparkSession.builder.getOrCreate()",
        )
    folder = find_dataset(what, where).absolute()
    refuse_remote(os.fspath(folder), "imgrec.spark.read")
    documents = read_documents(folder)
    info, features = documents.info(), documents.imgrec_features()
    documents.refuse_other_files()
    names = [found.name for found in info.splits]
    split = existing_name(split, names)
    if split and split not in names:
        raise UnknownName(f"{info.name} has no split {split!r}", hint=suggestion(names, split))
    shards = tuple(
        _Shard(found.name, str(Path(info.path).absolute() / name), length)
        for found in info.splits
        if split in ("", found.name)
        for name, length in zip(
            layout.shard_filenames(info, found), found.shard_lengths, strict=True
        )
    )
    reader = _Reader(
        shards, info.compression, info.classes, features.columns, features.is_multilabel
    )
    ship(context_of(session))
    numbers = session.range(0, len(shards), 1, len(shards))
    return numbers.mapInArrow(reader, reader.schema())


@dataclass(frozen=True)
class _Reader:
    """Reads shards on an executor, given their numbers."""

    shards: tuple[_Shard, ...]
    compression: str
    classes: tuple[str, ...]
    columns: Mapping[str, ColumnKind]
    is_multilabel: bool

    def schema(self) -> str:
        labels = (
            "labels array<bigint>, class_names array<string>"
            if self.is_multilabel
            else "label bigint, class_name string"
        )
        extras = "".join(
            f", `{name.replace('`', '``')}` {_TYPES[kind]}" for name, kind in self.columns.items()
        )
        own = "filename string, height int, width int, channels int, image binary"
        return f"split string, {labels}, {own}{extras}"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(self.shards[int(str(number))])

    def _read(self, shard: _Shard) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, object]] = []
        waiting = count = 0
        for _, payload in read_shard(shard.path, self.compression):
            record = parse(payload, 0, len(payload), self.classes)
            rows.append(self._row(shard.split, record))
            count += 1
            waiting += len(payload)
            if waiting > _BATCH_BYTES:
                yield self._batch(rows)
                rows, waiting = [], 0
        if rows:
            yield self._batch(rows)
        if count != shard.records:
            raise CorruptRecord(
                f"{shard.path}: expected {shard.records} records ({layout.DATASET_INFO}), "
                f"found {count}",
                path=shard.path,
            )

    def _row(self, split: str, record: Record) -> dict[str, object]:
        height, width, channels = record.shape
        labels: dict[str, object] = (
            {"labels": record.labels, "class_names": record.class_names}
            if self.is_multilabel
            else {"label": record.label, "class_name": record.class_name}
        )
        return {
            "split": split,
            **labels,
            "filename": printable(record.filename),
            "height": height,
            "width": width,
            "channels": channels,
            "image": record.image,
            **{name: _plain(record.columns.get(name)) for name in self.columns},
        }

    def _batch(self, rows: list[dict[str, object]]) -> pa.RecordBatch:
        import pyarrow as pa

        text, whole = pa.string(), pa.int64()
        labels: dict[str, pa.DataType] = {"label": whole, "class_name": text}
        if self.is_multilabel:
            labels = {"labels": pa.list_(whole), "class_names": pa.list_(text)}
        kinds: dict[ColumnKind, pa.DataType] = {
            ColumnKind.INT: whole,
            ColumnKind.FLOAT: pa.float32(),
            ColumnKind.TEXT: text,
        }
        schema: dict[str, pa.DataType] = {
            "split": text,
            **labels,
            "filename": text,
            **dict.fromkeys(("height", "width", "channels"), pa.int32()),
            "image": pa.binary(),
            **{name: kinds[kind] for name, kind in self.columns.items()},
        }
        return pa.RecordBatch.from_pylist(rows, schema=pa.schema(schema))


def _plain(value: Value | tuple[Value, ...] | None) -> Value | None:
    """Convert a feature to one Arrow value."""
    if isinstance(value, tuple):
        return _plain(value[0]) if value else None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
