"""Reading a packed dataset into a DataFrame, one shard per partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from imgrec.spark.job import Fields, batches_of, ddl
from imgrec.storage.paths import to_path
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
    channels, image (the encoded bytes) and the extra columns, with a `_` behind a name that is
    taken. Checksums are verified.

    Example: `imgrec.spark.read("flowers").groupBy("split", "class_name").count()`.
    """
    what, where = parse_text("dataset", dataset), parse_text("data_dir", data_dir)
    session = session or active_session()
    if session is None:
        raise UsageError(
            "imgrec.spark.read needs a Spark session, and none is active",
            hint="start one with SparkSession.builder.getOrCreate()",
        )
    folder = find_dataset(what, where).absolute()
    documents = read_documents(folder)
    info, features = documents.info(), documents.imgrec_features()
    documents.refuse_other_files()
    names = [found.name for found in info.splits]
    split = existing_name(split, names)
    if split and split not in names:
        raise UnknownName(f"{info.name} has no split {split!r}", hint=suggestion(names, split))
    shards = tuple(
        _Shard(found.name, str(to_path(info.path).absolute() / name), length)
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
    return numbers.mapInArrow(reader, ddl(reader.fields()))


@dataclass(frozen=True)
class _Reader:
    """Reads shards on an executor, given their numbers."""

    shards: tuple[_Shard, ...]
    compression: str
    classes: tuple[str, ...]
    columns: Mapping[str, ColumnKind]
    is_multilabel: bool

    def fields(self) -> Fields:
        """Return the columns of the DataFrame."""
        labels = {"label": "bigint", "class_name": "string"}
        if self.is_multilabel:
            labels = {"labels": "array<bigint>", "class_names": "array<string>"}
        fields = {
            "split": "string",
            **labels,
            "filename": "string",
            **dict.fromkeys(("height", "width", "channels"), "int"),
            "image": "binary",
        }
        for name, kind in self.columns.items():
            while name in fields:  # a column of the source may be called height, for example
                name += "_"
            fields[name] = _TYPES[kind]
        return fields

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(self.shards[int(str(number))])

    def _read(self, shard: _Shard) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[object, ...]] = []
        waiting = count = 0
        for _, payload in read_shard(shard.path, self.compression):
            record = parse(payload, 0, len(payload), self.classes)
            rows.append(self._row(shard.split, record))
            count += 1
            waiting += len(payload)
            if waiting > _BATCH_BYTES:
                yield from self._batches(rows)
                rows, waiting = [], 0
        if rows:
            yield from self._batches(rows)
        if count != shard.records:
            raise CorruptRecord(
                f"{shard.path}: expected {shard.records} records ({layout.DATASET_INFO}), "
                f"found {count}",
                path=shard.path,
            )

    def _row(self, split: str, record: Record) -> tuple[object, ...]:
        """Return the cells of a record, in the order of `fields`."""
        labels = record.label, record.class_name
        extras = [_plain(record.columns.get(name)) for name in self.columns]
        return (
            split,
            *((record.labels, record.class_names) if self.is_multilabel else labels),
            printable(record.filename),
            *record.shape,
            record.image,
            *extras,
        )

    def _batches(self, rows: list[tuple[object, ...]]) -> Iterator[pa.RecordBatch]:
        fields = self.fields()
        columns = map(list, zip(*rows, strict=True))
        yield from batches_of(dict(zip(fields, columns, strict=True)), fields)


def _plain(value: Value | tuple[Value, ...] | None) -> Value | None:
    """Convert a feature to one Arrow value."""
    if isinstance(value, tuple):
        return _plain(value[0]) if value else None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
