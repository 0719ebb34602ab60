"""The files that take the records of a shard: TFRecord, plain or compressed, and twins of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.codec import tfrecord
from imgrec.layout import INDEX_SUFFIX, twin_filename
from imgrec.options import AlsoFormat
from imgrec.storage.files import HashingFile, create

if TYPE_CHECKING:
    from imgrec.write.twins import Twin


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
    from imgrec.write.twins import create_twin  # most shards have none

    return [
        stack.enter_context(create_twin(twin, also))
        for twin, also in zip(record_format.twin_paths(path), record_format.also, strict=True)
    ]
