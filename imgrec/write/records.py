"""The formats of a shard's records: the names of its files, TFRecord, and ArrayRecord."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from imgrec.codec.tfrecord import RecordWriter, compressor
from imgrec.errors import ExecutionError, import_extra
from imgrec.layout import INDEX_SUFFIX, twin_filename
from imgrec.options import AlsoFormat
from imgrec.storage.files import HashingFile, OnWritten, create, renamed_when_complete
from imgrec.text import name_of

_ARRAY_RECORD_OPTIONS = "group_size:1,uncompressed"
"""One record per chunk, as TFDS writes it, so that one is read at a time. Images are compressed
already; leaving out zstd is twice as fast and gives the same bytes with every version of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """The formats in which the records of a shard are written."""

    compression: str = ""
    """See `DatasetInfo`."""
    also: tuple[AlsoFormat, ...] = ()

    def filenames(self, shard: str) -> tuple[str, ...]:
        """Name all files of a shard, the shard itself first."""
        # Offsets are of no use in a compressed shard.
        index = () if self.compression else (shard + INDEX_SUFFIX,)
        return shard, *index, *self.twin_paths(shard)

    def twin_paths(self, path: str) -> tuple[str, ...]:
        """Return the paths of the other files that hold the records of the shard at `path`."""
        folder, shard = os.path.split(path)
        return tuple(os.path.join(folder, twin_filename(shard, also)) for also in self.also)


PLAIN = RecordFormat()


class RecordFiles(NamedTuple):
    """The open files of a shard."""

    records: RecordWriter
    """Takes the records for `file`."""
    file: HashingFile
    """The shard itself."""
    twins: tuple[ArrayRecordFile, ...]
    """Take the same records."""


@contextmanager
def create_records(
    path: str,
    record_format: RecordFormat,
    *,
    expected_bytes: int,
    on_written: OnWritten | None = None,
) -> Iterator[RecordFiles]:
    """Write the files of a shard, which get their names only when they are complete.

    `on_written` is about the shard itself.
    """
    # The size of a compressed shard is unknown, so nothing is reserved: the disk may have room for
    # just that.
    expected_bytes = 0 if record_format.compression else expected_bytes
    with ExitStack() as stack:
        file = stack.enter_context(
            create(path, expected_bytes=expected_bytes, on_written=on_written)
        )
        stream = compressor(record_format.compression) if record_format.compression else None
        twins = [
            stack.enter_context(create_array_record(twin))
            for twin in record_format.twin_paths(path)
        ]
        write = (lambda data: file.write(stream.compress(data))) if stream else file.write
        records = RecordWriter(write)
        yield RecordFiles(records, file, tuple(twins))
        records.flush()
        if stream:
            file.write(stream.flush())


class ArrayRecordFile:
    """A file of the same records in ArrayRecord, which TFDS reads in random order."""

    def __init__(self, path: str) -> None:
        self._path = path
        module = import_module("array_record.python.array_record_module")
        self._writer: Any = module.ArrayRecordWriter(name_of(path), _ARRAY_RECORD_OPTIONS)

    def write(self, record: bytes) -> None:
        """Append a record."""
        self._do(self._writer.write, record)

    def close(self) -> None:
        """Complete the file."""
        self._do(self._writer.close)

    def _do(self, action: Callable[..., object], *arguments: bytes) -> None:
        try:
            action(*arguments)
        except RuntimeError as error:
            raise ExecutionError(
                f"cannot write {self._path}: {error}",
                hint="check --data-dir, and how much space is left there",
                path=self._path,
            ) from error


@contextmanager
def create_array_record(path: str) -> Iterator[ArrayRecordFile]:
    """Write an ArrayRecord file, which gets its name only when it is complete."""
    with renamed_when_complete(path) as part:
        twin = ArrayRecordFile(part)
        yield twin
        twin.close()


def require_array_record() -> None:
    """Raise MissingExtra unless ArrayRecord files can be written."""
    import_extra("array_record", extra="arrayrecord", what=f"--also {AlsoFormat.ARRAY_RECORD}")
