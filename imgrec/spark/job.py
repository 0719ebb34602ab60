"""One pack of a DataFrame: its tables, its Spark jobs, and the files in which tasks leave results.

Results that would be too much for the driver's memory go into files in the staging folder, which
all executors see, or on the store of the dataset, from where the driver copies them. They are never
published. A task that runs twice writes the same files.
"""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, overload

from imgrec import errors
from imgrec.engine.spark import cancelling, reason_of
from imgrec.errors import ExecutionError, ImgrecError
from imgrec.model import Column, Samples
from imgrec.notes import Note, NoteKind
from imgrec.options import ColumnKind, PackOptions
from imgrec.options.source import ColumnValue
from imgrec.storage.blobs import read_blob
from imgrec.storage.files import make_folders, write_file
from imgrec.storage.urls import is_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Fields: TypeAlias = Mapping[str, str]
"""The columns of a table and their Spark SQL types."""
Columns: TypeAlias = dict[str, list[Any]]  # cells are untyped in Arrow

SQL_TYPES = {ColumnKind.INT: "bigint", ColumnKind.FLOAT: "double", ColumnKind.TEXT: "string"}
_BATCH = 4096

PROBED: Fields = {
    "filename": "string", "class_name": "string", "split": "string", "grp": "string",
    "size": "bigint", "rank": "bigint", "key": "binary", "whole": "binary", "digest": "binary",
    "blob": "string", "fault": "string",
}  # fmt: skip
"""One row per row of the DataFrame. `rank` is an unsigned number in a signed column.

`digest` hashes all bytes of an image that is in the DataFrame itself. It detects a change between
two reads of the DataFrame.
"""
RANKED: Fields = {
    "bucket": "int", "place": "int", "filename": "string", "label": "int", "split": "string",
    "grp": "string", "pin": "string", "near": "string", "size": "bigint", "content": "binary",
    "draw": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Good rows, sorted by rank: by bucket, then by place in the bucket.

`draw` is the random number that decides about the split, minus 2 ** 63. `pin` is the split that
another dataset has the image in, and `near` its group of near-duplicates.
"""
ASSIGNED: Fields = {
    "bucket": "int", "split": "string", "place": "bigint", "filename": "string", "label": "int",
    "grp": "string", "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Rows to pack, with their final split. `place` counts within bucket and split."""
SHARDED: Fields = {
    "shard": "int", "place": "bigint", "filename": "string", "label": "int", "grp": "string",
    "size": "bigint", "digest": "binary", "blob": "string",
}  # fmt: skip
"""Rows to pack, with their shard, numbered across splits. `place` counts within the split."""

BatchFunction: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
_ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_IMAGES_PER_BATCH = 64
"""A task holds two batches of images in memory."""
_NUMBER_BYTES = 8
_PIECE_BYTES = 1 << 20
_ERROR = "error.json"


class Form(NamedTuple):
    """What the rows of a DataFrame have, beyond what all have."""

    extras: tuple[tuple[str, ColumnKind], ...] = ()
    """Name and kind of the extra columns that go into the records."""
    defaults: tuple[ColumnValue, ...] = ()
    """The value of a missing cell in each of these."""
    is_multilabel: bool = False

    def fields(self, base: Fields) -> dict[str, str]:
        """Add the extra columns as c0, c1, ..., and all labels of a row beside the first."""
        labels = {"labels": "array<int>"} if self.is_multilabel and "label" in base else {}
        extras = {f"c{at}": SQL_TYPES[kind] for at, (_, kind) in enumerate(self.extras)}
        return {**base, **labels, **extras}

    def columns(self, rows: Columns) -> tuple[Column, ...]:
        """Return the extra columns of the records, with defaults for missing cells."""
        return tuple(
            Column(
                name, kind, tuple([default if cell is None else cell for cell in rows[f"c{at}"]])
            )
            for at, ((name, kind), default) in enumerate(
                zip(self.extras, self.defaults, strict=True)
            )
        )

    def label_sets(self, rows: Columns) -> tuple[tuple[int, ...], ...]:
        """Return all labels of each row; () if each has one."""
        return tuple(map(tuple, rows["labels"])) if self.is_multilabel else ()


def ddl(fields: Fields) -> str:
    """Format fields as a Spark SQL schema."""
    quoted = {name.replace("`", "``"): kind for name, kind in fields.items()}
    return ", ".join(f"`{name}` {kind}" for name, kind in quoted.items())


def batches_of(columns: Columns, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Convert columns to Arrow batches."""
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "binary": pa.binary(),
        "double": pa.float64(),
        "float": pa.float32(),
        "array<int>": pa.list_(pa.int32()),
        "array<bigint>": pa.list_(pa.int64()),
        "array<string>": pa.list_(pa.string()),
    }
    schema = pa.schema({name: kinds[kind] for name, kind in fields.items()})
    count = len(next(iter(columns.values())))
    for start in range(0, count, _BATCH):
        part = {name: columns[name][start : start + _BATCH] for name in fields}
        yield pa.RecordBatch.from_pydict(part, schema=schema)


def columns_of(batch: pa.RecordBatch) -> Columns:
    """Convert an Arrow batch to lists."""
    return {name: batch.column(name).to_pylist() for name in batch.schema.names}


def by_key(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[tuple[int, Columns]]:
    """Yield each value of the sort column `key` with all of its rows."""
    value, waiting = -1, Columns()
    for batch in batches:
        columns = columns_of(batch)
        for start, end in _runs(columns[key]):
            part = {name: cells[start:end] for name, cells in columns.items()}
            if waiting and part[key][0] == value:
                for name, cells in part.items():
                    waiting[name] += cells
                continue
            if waiting:
                yield value, waiting
            value, waiting = part[key][0], part
    if waiting:
        yield value, waiting


def _runs(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[start]:
            yield start, at
            start = at


def picked(columns: Columns, places: Sequence[int]) -> Columns:
    """Return the rows at `places`, in that order."""
    return {name: [cells[place] for place in places] for name, cells in columns.items()}


def samples_of(rows: Columns) -> Samples:
    """Convert the rows of a bucket for the functions of `plan`."""
    count = len(rows["filename"])
    return Samples(
        filenames=tuple(rows["filename"]),
        class_names=("",) * count,
        splits=tuple(rows["split"]),
        sizes=tuple(rows["size"]),
        contents=tuple(rows["content"]),
        blobs=("",) * count,
    )


def together(rows: DataFrame, key: str, count: int, *order: str) -> DataFrame:
    """Put the rows of each value of `key` into one partition, sorted by `key` and `order`."""
    context = rows.sparkSession.sparkContext
    partitions = min(count, max(context.defaultParallelism * 4, count // 4))
    return rows.repartition(partitions, key).sortWithinPartitions(key, *order)


class Earlier(NamedTuple):
    """The dataset whose splits and labels are kept."""

    folder: str = ""
    """Its path or URL; "" if there is none."""
    classes: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where tasks leave their results."""

    results: str
    """The folder or URL to which executors write."""
    spool: Path
    """The folder in which the driver reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The session, the options and the place for results of one pack."""

    session: SparkSession
    place: Place
    options: PackOptions
    earlier: Earlier = field(default_factory=Earlier)
    _persisted: list[DataFrame] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The folder, or the URL, for the results of tasks."""
        return self.place.results

    @property
    def here(self) -> str:
        """The folder in which the driver reads results."""
        return str(self.place.spool)

    def fetch(self, folder: str = "") -> str:
        """Return where the results of tasks that have ended are: on a disk of the driver.

        Those on a store are copied to it. `folder` is that of results, unless it is given.
        """
        folder = folder or self.folder
        if not is_url(folder):
            return folder
        from imgrec.storage.remote.read import objects
        from imgrec.storage.remote.transfer import download_all

        there = {found.path: found.stat for found in objects(folder)}
        missing = [name for name in there if not os.path.exists(os.path.join(self.here, name))]
        download_all({name: f"{folder}/{name}" for name in missing}, self.here, there)
        return self.here

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the Spark jobs of a pack; cancel them on an error, and raise that of the task."""
        make_folders(self.here)
        context = self.session.sparkContext
        try:
            with cancelling(context) as group:
                context.setJobGroup(group, "imgrec", interruptOnCancel=False)
                yield self
        except ImgrecError:
            raise
        except Exception as error:
            self.fetch()
            raise _task_error(self.here) or ExecutionError(
                f"Spark could not run a task: {reason_of(error)}",
                hint="look at the logs of the executors",
            ) from error
        finally:
            for rows in self._persisted:
                rows.unpersist()

    @contextmanager
    def small_batches(self) -> Iterator[None]:
        """Make Spark send rows with images in batches that fit into memory."""
        conf = self.session.conf
        before = conf.get(_ROWS_PER_BATCH)
        conf.set(_ROWS_PER_BATCH, str(_IMAGES_PER_BATCH))
        try:
            yield
        finally:
            conf.set(_ROWS_PER_BATCH, before or "10000")

    def map_batches(self, rows: DataFrame, function: BatchFunction, fields: Fields) -> DataFrame:
        """Apply `function` to the rows on the executors."""
        return rows.mapInArrow(_ErrorWriter(function, self.folder), ddl(fields))

    def persist(self, rows: DataFrame) -> DataFrame:
        """Keep rows on the executors' disks until the job ends."""
        from pyspark import StorageLevel

        persisted = rows.persist(StorageLevel.DISK_ONLY)
        self._persisted.append(persisted)
        return persisted


@dataclass(frozen=True)
class _ErrorWriter:
    """Calls a function, and writes an ImgrecError to a file: Spark passes on only its text."""

    function: BatchFunction
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.function(batches)
        except ImgrecError as error:
            value = [type(error).__name__, error.message, error.hint, error.path]
            write_result(self.folder, _ERROR, json.dumps(value).encode())
            raise


def _task_error(folder: str) -> ImgrecError | None:
    try:
        name, message, hint, path = json.loads(read_result(folder, _ERROR))
    except ExecutionError:
        return None
    kind: type[ImgrecError] = getattr(errors, name, ExecutionError)
    return kind(message, hint=hint, path=path)


def write_result(folder: str, name: str, data: bytes) -> None:
    """Write a result file of a task."""
    if is_url(folder):
        from imgrec.storage.remote.transfer import put_bytes

        put_bytes(f"{folder}/{name}", data)
    else:
        write_file(os.path.join(folder, name), data)


def result_names(folder: str) -> set[str]:
    """Return the names of all result files in a folder."""
    if is_url(folder):
        from imgrec.storage.remote.read import objects

        return {found.path for found in objects(folder)}
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()


def read_result(folder: str, name: str) -> bytes:
    """Read a result file; raise ExecutionError if it is missing."""
    return b"".join(result_pieces(folder, name))


def result_pieces(folder: str, name: str) -> Iterator[bytes]:
    """Yield a result file piece by piece, as it may be large."""
    path = os.path.join(folder, name)
    try:
        if is_url(folder):
            from imgrec.storage.remote.read import read_object

            yield read_object(path)
            return
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise ExecutionError(
            f"cannot read a task's result in {path}: {error.strerror or error}",
            hint="--data-dir must be on a disk that the driver and all executors see",
            path=path,
        ) from error


def as_note(row: Sequence[Any]) -> Note:
    """Return a note that was written as JSON."""
    filename, reason, kind, other, unlisted = row
    return Note(filename, reason, NoteKind(kind), other, unlisted)


def write_ends(folder: str, name: str, sizes: Iterable[int]) -> int:
    """Write where each record ends, counted from the first; return the last end."""
    ends = array("q", accumulate(sizes))
    write_result(folder, name, ends.tobytes())
    return ends[-1] if ends else 0


class Part(NamedTuple):
    """Consecutive records."""

    path: str
    """The file written by `write_ends`."""
    records: int
    total_bytes: int


class Ends(Sequence[int]):
    """Where each record of a split ends, read from the files of `write_ends` on demand."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._starts = list(accumulate((part.records for part in parts), initial=0))
        self._bases = list(accumulate((part.total_bytes for part in parts), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        part = bisect_right(self._starts, at) - 1
        offset = (at - self._starts[part]) * _NUMBER_BYTES
        data = read_blob((self._parts[part].path, offset), _NUMBER_BYTES)
        return self._bases[part] + array("q", data)[0]
