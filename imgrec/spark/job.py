"""One pack of a DataFrame: its Spark jobs, and the files in which tasks leave results.

Results that would be too much for the driver's memory go into files in the staging folder, which
all executors see. They are never published. A task that runs twice writes the same files.
"""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, overload

from imgrec import errors
from imgrec.engine.spark import cancelling, reason_of
from imgrec.errors import ExecutionError, ImgrecError
from imgrec.options import PackOptions
from imgrec.spark.tables import Fields, ddl
from imgrec.storage.blobs import read_blob
from imgrec.storage.files import make_folders, write_file
from imgrec.storage.staging import Staging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BatchFunction: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"

_ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_IMAGES_PER_BATCH = 64
"""A task holds two batches of images in memory."""
_NUMBER_BYTES = 8
_PIECE_BYTES = 1 << 20
_ERROR = "error.json"


class Job:
    """The session, the staging folder and the options of one pack. Use it in a `with` block."""

    def __init__(self, session: SparkSession, staging: Staging, options: PackOptions) -> None:
        self.session, self.staging, self.options = session, staging, options
        self.folder = str(staging.spool)
        self._stack = ExitStack()
        self._persisted: list[DataFrame] = []

    def __enter__(self) -> Self:
        make_folders(self.folder)
        context = self.session.sparkContext
        group = self._stack.enter_context(cancelling(context))
        context.setJobGroup(group, "imgrec", interruptOnCancel=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for rows in self._persisted:
            rows.unpersist()
        self._stack.__exit__(kind, error, trace)
        if isinstance(error, Exception) and not isinstance(error, ImgrecError):
            raise _task_error(self.folder) or ExecutionError(
                f"Spark could not run a task: {reason_of(error)}",
                hint="look at the logs of the executors",
            ) from error

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
    write_file(os.path.join(folder, name), data)


def read_result(folder: str, name: str) -> bytes:
    """Read a result file; raise ExecutionError if it is missing."""
    return b"".join(result_pieces(folder, name))


def result_pieces(folder: str, name: str) -> Iterator[bytes]:
    """Yield a result file piece by piece, as it may be large."""
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise ExecutionError(
            f"cannot read a task's result in {path}: {error.strerror}",
            hint="--data-dir must be on a disk that the driver and all executors see",
            path=path,
        ) from error


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
