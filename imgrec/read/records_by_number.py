"""Read any record of a dataset by its number, from shards on a disk.

Records are numbered through all splits.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.files import open_regular, read_document
from imgrec.read.shards import (
    AGAIN,
    MAX_INDEX_LINE_BYTES,
    index_ends,
    read_shard,
    refuse_miscount,
    refuse_undeclared_compression,
    shard_lengths,
    shard_paths,
    unreadable,
    wrong_index,
)
from imgrec.storage.blobs import OpenFile

T = TypeVar("T")

MAX_OPEN = 256
"""Shards that stay open; others are opened for each record. A process has few descriptors."""
_IN_ORDER = "iterate over a whole split, `for record in split`, or pack without --compression"


class Payload(NamedTuple):
    """A record, `data[start:end]`, with correct checksums. A slice would copy the image."""

    number: int
    data: bytes
    start: int
    end: int


class Shards(ABC):
    """All records of a dataset, by number."""

    def __init__(self, info: DatasetInfo) -> None:
        self._paths = shard_paths(info)
        self._starts = tuple(accumulate(shard_lengths(info), initial=0))
        self._ends: list[array[int] | None] = [None] * len(self._paths)
        """Where each record of a shard ends, from its index when it is first needed."""

    @abstractmethod
    def read(self, number: int) -> Payload:
        """Return a record; raise DatasetError if its shard is missing, CorruptRecord if damaged."""

    @abstractmethod
    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, in this order."""

    def gather(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Start to read all of these records, in large ranges, and yield them in this order."""
        return self.stream(numbers)

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in that shard."""
        shard = self._shard(number)
        return self._paths[shard], number - self._starts[shard]

    def _shard(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def _length(self, shard: int) -> int:
        return self._starts[shard + 1] - self._starts[shard]


if hasattr(os, "pread"):
    read_at = os.pread
else:  # Windows
    _SEEKING = Lock()

    def read_at(descriptor: int, size: int, offset: int, /) -> bytes:
        """Read a part of a file."""
        with _SEEKING:  # threads share the position in a file
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, size)


class LocalShards(Shards):
    """Shards on a disk. Threads and forked processes may share one; a pickled one reopens files."""

    def __init__(self, info: DatasetInfo) -> None:
        super().__init__(info)
        self._handles: dict[int, OpenFile] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_paths": self._paths, "_starts": self._starts}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _handles={})
        self._ends = [None] * len(self._paths)

    def read(self, number: int) -> Payload:
        """Return a record, after checking both checksums."""
        shard = bisect_right(self._starts, number) - 1
        ends = self._ends[shard] or self._read_ends(shard)
        place = number - self._starts[shard]
        offset = ends[place - 1] if place else 0
        handle = self._handles.get(shard) or self._open(shard, ends[-1])
        try:
            framed = read_at(handle.descriptor, ends[place] - offset, offset)
        except OSError as error:
            raise unreadable(self._paths[shard], error) from error
        span = tfrecord.payload_span(framed, path=self._paths[shard], offset=offset)
        return Payload(number, framed, *span)

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield records one by one."""
        return map(self.read, numbers)

    def _open(self, shard: int, expected_bytes: int) -> OpenFile:
        path = self._paths[shard]
        try:
            descriptor, size = self._retry(lambda: open_regular(path))
        except OSError as error:
            raise unreadable(path, error) from error
        handle = OpenFile(descriptor)
        if size != expected_bytes:
            refuse_undeclared_compression(path)
            raise CorruptRecord(
                f"{path}: expected {expected_bytes} bytes (its index), found {size}",
                hint=f"it was changed or truncated after it was packed: {AGAIN}",
                path=path,
                offset=min(size, expected_bytes),
            )
        if len(self._handles) < MAX_OPEN:
            return self._handles.setdefault(shard, handle)
        return handle

    def _read_ends(self, shard: int) -> array[int]:
        path, count = self._paths[shard], self._length(shard)
        index = path + layout.INDEX_SUFFIX
        limit = count * MAX_INDEX_LINE_BYTES
        try:
            ends = index_ends(self._retry(lambda: read_document(Path(index), limit)), count, index)
        except FileNotFoundError:
            ends = self._scan_ends(path, count)
        except OSError as error:
            raise wrong_index(index, f"cannot be read: {error.strerror}") from error
        self._ends[shard] = ends
        return ends

    def _scan_ends(self, path: str, count: int) -> array[int]:
        """Find the ends of records in a shard without an index, such as those that TFDS writes."""
        try:
            with os.fdopen(self._retry(lambda: open_regular(path))[0], "rb") as file:
                ends = array("Q", tfrecord.record_ends(file, path=path))
        except OSError as error:
            raise unreadable(path, error) from error
        except CorruptRecord:
            refuse_undeclared_compression(path)
            raise
        refuse_miscount(path, count, len(ends))
        return ends

    def _retry(self, opening: Callable[[], T]) -> T:
        """Open a file; if the process has too many open files, close all of ours and try again."""
        try:
            return opening()
        except OSError as error:
            if error.errno != errno.EMFILE or not self._handles:
                raise
        self._handles.clear()  # threads that are reading hold on to theirs
        return opening()


class CompressedShards(Shards):
    """Compressed shards, whose records can only be read in order."""

    def __init__(self, info: DatasetInfo) -> None:
        super().__init__(info)
        self._compression = info.compression

    def read(self, number: int) -> Payload:
        """Raise DatasetError: everything before the record would have to be decompressed."""
        raise self._refusal(self._shard(number), "cannot be read by number")

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, and skip all others.

        Raises DatasetError, before the first, if a shard would have to be read twice.
        """
        if not (isinstance(numbers, range) and numbers.step > 0):
            begun: set[int] = set()
            for shard, wanted in groupby(numbers, self._shard):
                if shard in begun or any(a >= b for a, b in pairwise(wanted)):
                    raise self._refusal(
                        shard, "can only be read in the order in which they are stored"
                    )
                begun.add(shard)
        for shard, wanted in groupby(numbers, self._shard):
            yield from self._stream_shard(shard, wanted)

    def _refusal(self, shard: int, what: str) -> DatasetError:
        path = self._paths[shard]
        message = f"{path} is compressed as a whole, so its records {what}"
        return DatasetError(message, hint=_IN_ORDER, path=path)

    def _stream_shard(self, shard: int, wanted: Iterator[int]) -> Iterator[Payload]:
        first, path, count = self._starts[shard], self._paths[shard], self._length(shard)
        with closing(read_shard(path, self._compression)) as records:
            read = 0
            for number in wanted:
                for _, payload in records:
                    read += 1
                    if first + read > number:
                        yield Payload(number, payload, 0, len(payload))
                        break
                else:
                    refuse_miscount(path, count, f"only {read}")
            if read == count and next(records, None):
                refuse_miscount(path, count, "more")
