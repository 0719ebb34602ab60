"""The files that take the records of a shard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from imgrec.codec import tfrecord
from imgrec.errors import ExecutionError
from imgrec.extras import needed
from imgrec.layout import INDEX_SUFFIX, twin_filename
from imgrec.options import AlsoFormat
from imgrec.storage.files import HashingFile, create, renamed_when_complete
from imgrec.text import name_of

_ARRAY_RECORD = "array_record.python.array_record_module"
_EXTRAS: Mapping[AlsoFormat, str] = {AlsoFormat.ARRAY_RECORD: "arrayrecord"}
"""The extra that installs what writes a format. A format is called as its package is."""
_ARRAY_RECORD_OPTIONS = "group_size:1,uncompressed"
"""One record a chunk, as TFDS has it, so that one is read at a time. Uncompressed, as images are
compressed already: that is twice as fast, and the same bytes for every version of zstd."""


class Twin(Protocol):
    """A file that takes records one after the other."""

    def write(self, record: bytes) -> None:
        """Append a record."""
        ...

    def close(self) -> None:
        """Complete the file."""
        ...


class _ArrayRecordFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._writer = import_module(_ARRAY_RECORD).ArrayRecordWriter(
            name_of(path), _ARRAY_RECORD_OPTIONS
        )

    def write(self, record: bytes) -> None:
        self._do(self._writer.write, record)

    def close(self) -> None:
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


_OPENERS: Mapping[AlsoFormat, Callable[[str], Twin]] = {AlsoFormat.ARRAY_RECORD: _ArrayRecordFile}


@contextmanager
def create_twin(path: str, also: AlsoFormat) -> Iterator[Twin]:
    """Write a file that takes records, and gets its name only when it is whole."""
    with renamed_when_complete(path) as part:
        twin = _OPENERS[also](part)
        yield twin
        twin.close()


def require(also: Iterable[AlsoFormat]) -> None:
    """Raise MissingExtra unless what writes these formats is installed."""
    for wanted in also:
        needed(str(wanted), extra=_EXTRAS[wanted], what=f"--also {wanted}")


_BUFFER_BYTES = 1 << 18
"""Records are written in blocks of this size: few calls, and each block is still in the CPU cache
while it is hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """In what the records of a shard are written."""

    compression: str = ""
    """As in `DatasetInfo`."""
    also: tuple[AlsoFormat, ...] = ()

    def filenames(self, shard: str) -> tuple[str, ...]:
        """Name all files of a shard, which is the first of them."""
        # Of a compressed one, no one finds records by their offsets.
        index = () if self.compression else (shard + INDEX_SUFFIX,)
        return shard, *index, *self.twin_paths(shard)

    def twin_paths(self, path: str) -> tuple[str, ...]:
        """Return the paths of the files beside the shard at `path` that hold its records too."""
        folder, shard = os.path.split(path)
        return tuple(os.path.join(folder, twin_filename(shard, also)) for also in self.also)


PLAIN = RecordFormat()


class RecordFiles:
    """Takes records, one after the other, into every file of a shard."""

    def __init__(self, write: Callable[[bytes], object], twins: Sequence[Twin]) -> None:
        self._write = write
        self._twins = twins
        self._buffer: list[bytes] = []
        self._written = 0
        self.position = 0
        """Where the next record begins, before compression."""

    def add(self, before: bytes, data: bytes, after: bytes) -> int:
        """Append a record that is given in three pieces; return where it ends."""
        head, foot = tfrecord.frame(before, data, after)
        self._buffer += (head, before, data, after, foot)
        self.position += tfrecord.OVERHEAD + len(before) + len(data) + len(after)
        if self.position - self._written > _BUFFER_BYTES:
            self.flush()
        for twin in self._twins:
            twin.write(before + data + after)
        return self.position

    def flush(self) -> None:
        """Write the buffered records."""
        self._write(b"".join(self._buffer))
        self._buffer.clear()
        self._written = self.position


@contextmanager
def create_records(
    path: str, record_format: RecordFormat, *, expected_bytes: int
) -> Iterator[tuple[RecordFiles, HashingFile]]:
    """Write the files of a shard, which get their names only when they are whole.

    Yields what takes the records, and the file of the shard itself.
    """
    with ExitStack() as stack:
        if record_format.compression:
            # How much it will take is not known, and a disk may have room for just that.
            file = stack.enter_context(create(path))
            write: Callable[[bytes], None] = stack.enter_context(
                _compressed(file, record_format.compression)
            )
        else:
            file = stack.enter_context(create(path, expected_bytes=expected_bytes))
            write = file.write
        records = RecordFiles(write, _create_twins(path, record_format, stack))
        yield records, file
        records.flush()


@contextmanager
def _compressed(file: HashingFile, compression: str) -> Iterator[Callable[[bytes], None]]:
    from imgrec.codec.compression import compressor

    stream = compressor(compression)

    def write(data: bytes) -> None:
        file.write(stream.compress(data))

    yield write
    file.write(stream.flush())


def _create_twins(path: str, record_format: RecordFormat, stack: ExitStack) -> list[Twin]:
    if not record_format.also:
        return []
    return [
        stack.enter_context(create_twin(twin, also))
        for twin, also in zip(record_format.twin_paths(path), record_format.also, strict=True)
    ]
