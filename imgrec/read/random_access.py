"""Records of a dataset by their number, counted through all splits one after another."""

from __future__ import annotations

import errno
import os
import stat
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.files import open_at_once
from imgrec.read.shards import (
    MOST_INDEX_LINE_BYTES,
    index_ends,
    read_shard,
    refuse_miscount,
    refuse_undeclared_compression,
    shard_lengths,
    shard_paths,
    unreadable,
    wrong_index,
)
from imgrec.storage.paths import is_remote

if TYPE_CHECKING:
    from imgrec.storage.remote.read import Span

T = TypeVar("T")

_MOST_OPEN = 256
"""Shards that stay open; others are opened for each record. Processes have few handles."""
_IN_ORDER = "iterate over a whole split, `for record in split`, or pack without --compression"


class Payload(NamedTuple):
    """A record: `data[start:end]`, whose checksums are right. Slicing would copy the image."""

    number: int
    data: bytes
    start: int
    end: int


class RandomAccess(Protocol):
    """All records of a dataset."""

    def read(self, number: int) -> Payload:
        """Return a record.

        Raises DatasetError if its shard is missing, and CorruptRecord if it is damaged.
        """
        ...

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, in this order."""
        ...

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in there."""
        ...


def open_shards(info: DatasetInfo) -> RandomAccess:
    """Open the shards of a dataset, wherever and however they are stored."""
    if info.compression:
        return _CompressedShards(info)
    return _StoreShards(info) if is_remote(info.path) else LocalShards(info)


class _Shards:
    """The shards of a dataset, and the number of the first record of each."""

    def __init__(self, info: DatasetInfo) -> None:
        self._paths = shard_paths(info)
        self._starts = tuple(accumulate(shard_lengths(info), initial=0))

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in there."""
        shard = self._shard(number)
        return self._paths[shard], number - self._starts[shard]

    def _shard(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def _length(self, shard: int) -> int:
        return self._starts[shard + 1] - self._starts[shard]


class _Handle:
    """A file that is open as long as someone holds this."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)  # when Python ends, `os` may be gone before this is


class LocalShards(_Shards):
    """Shards on a disk. Threads and forked processes may share one; a pickled one reopens files."""

    def __init__(self, info: DatasetInfo) -> None:
        super().__init__(info)
        self._reset()

    def __getstate__(self) -> tuple[object, ...]:
        return self._paths, self._starts

    def __setstate__(self, state: tuple[tuple[str, ...], tuple[int, ...]]) -> None:
        self._paths, self._starts = state
        self._reset()

    def _reset(self) -> None:
        self._handles: dict[int, _Handle] = {}
        self._ends: list[array[int] | None] = [None] * len(self._paths)

    def read(self, number: int) -> Payload:
        """Return a record; raise as `RandomAccess` says."""
        shard = bisect_right(self._starts, number) - 1
        ends = self._ends[shard] or self._read_index(shard)
        place = number - self._starts[shard]
        offset = ends[place - 1] if place else 0
        handle = self._handles.get(shard) or self._open(shard, ends[-1])
        try:
            framed = os.pread(handle.fd, ends[place] - offset, offset)
        except OSError as error:
            raise unreadable(self._paths[shard], error) from error
        span = tfrecord.payload_span(framed, path=self._paths[shard], offset=offset)
        return Payload(number, framed, *span)

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, in this order."""
        return map(self.read, numbers)

    def _open(self, shard: int, size: int) -> _Handle:
        path = self._paths[shard]
        try:
            handle = self._with_room(lambda: _Handle(open_at_once(path, os.O_RDONLY)))
            status = os.fstat(handle.fd)
        except OSError as error:
            raise unreadable(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise unreadable(path, OSError(errno.EINVAL, "not a regular file"))
        if status.st_size != size:
            refuse_undeclared_compression(path)
            raise CorruptRecord(
                f"{path}: expected {size} bytes (its index), found {status.st_size}",
                hint="it was changed or cut short since it was packed: pack it again",
                path=path,
                offset=min(status.st_size, size),
            )
        if len(self._handles) < _MOST_OPEN:
            return self._handles.setdefault(shard, handle)
        return handle

    def _read_index(self, shard: int) -> array[int]:
        path, count = self._paths[shard], self._length(shard)
        ends = self._with_room(lambda: _record_ends(path, count))
        self._ends[shard] = ends
        return ends

    def _with_room(self, opening: Callable[[], T]) -> T:
        """Open a file; if the process has too many, close all of ours and try again."""
        try:
            return opening()
        except (OSError, DatasetError) as error:
            if not _is_out_of_files(error) or not self._handles:
                raise
        self._handles.clear()  # those that other threads read from stay open as long as they do
        return opening()


def _is_out_of_files(error: OSError | DatasetError) -> bool:
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EMFILE


def _record_ends(shard_path: str, count: int) -> array[int]:
    """Return where each of the `count` records of a shard ends, by its index if there is one."""
    path = shard_path + layout.INDEX_SUFFIX
    most_bytes = count * MOST_INDEX_LINE_BYTES
    try:
        with open(path, "rb", opener=open_at_once) as file:
            text = file.read(min(most_bytes, os.fstat(file.fileno()).st_size) + 1)
    except FileNotFoundError:
        return _walk(shard_path, count)
    except OSError as error:
        raise wrong_index(path, f"cannot be read: {error.strerror}") from error
    return index_ends(text, count, path)


def _walk(shard_path: str, count: int) -> array[int]:
    """Find the ends of records in a shard without an index, such as those that TFDS writes."""
    try:
        with open(shard_path, "rb", opener=open_at_once) as file:
            ends = array("Q", tfrecord.record_ends(file, path=shard_path))
    except OSError as error:
        raise unreadable(shard_path, error) from error
    except CorruptRecord:
        refuse_undeclared_compression(shard_path)
        raise
    refuse_miscount(shard_path, count, len(ends))
    return ends


class _StoreShards(_Shards):
    """Shards on an object store.

    The index of a shard is read once, and a record is one request. Records that follow each other
    are read in larger parts, the next of which are fetched meanwhile.
    """

    def __init__(self, info: DatasetInfo) -> None:
        super().__init__(info)
        self._ends: list[array[int] | None] = [None] * len(self._paths)

    def read(self, number: int) -> Payload:
        """Return a record; raise as `RandomAccess` says."""
        from imgrec.storage.remote.read import read_span

        span = self._span(number)
        try:
            framed = read_span(span)
        except OSError as error:
            raise unreadable(span.url, error) from error
        return _payload(number, framed, span)

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, in this order."""
        from imgrec.storage.remote.read import read_ahead

        remaining = iter(numbers)
        try:
            with closing(read_ahead(self._parts(numbers))) as parts:
                for part, data in parts:
                    position = part.start
                    while position < part.end:
                        number = next(remaining)
                        span = self._span(number)
                        framed = data[span.start - part.start : span.end - part.start]
                        yield _payload(number, framed, span)
                        position = span.end
        except OSError as error:
            raise unreadable(str(error.filename or self._paths[0]), error) from error

    def _span(self, number: int) -> Span:
        from imgrec.storage.remote.read import Span

        shard = self._shard(number)
        ends = self._ends[shard] or self._read_index(shard)
        place = number - self._starts[shard]
        return Span(self._paths[shard], ends[place - 1] if place else 0, ends[place])

    def _parts(self, numbers: Sequence[int]) -> Iterator[Span]:
        """Yield the parts of shards that hold records which follow each other, in order."""
        from imgrec.storage.remote.read import PART_BYTES

        part: Span | None = None
        for number in numbers:
            span = self._span(number)
            if part and part.url == span.url and part.end == span.start:
                joined = part._replace(end=span.end)
                if joined.end - joined.start <= PART_BYTES:
                    part = joined
                    continue
            if part:
                yield part
            part = span
        if part:
            yield part

    def _read_index(self, shard: int) -> array[int]:
        from imgrec.storage.remote.read import read_object

        url, count = self._paths[shard], self._length(shard)
        path = url + layout.INDEX_SUFFIX
        try:
            ends = index_ends(read_object(path), count, path)
        except FileNotFoundError:
            found = read_shard(url, "")
            ends = array("Q", (at + len(data) + tfrecord.OVERHEAD for at, data in found))
            refuse_miscount(url, count, len(ends))
        except PermissionError as error:
            raise unreadable(path, error) from error
        self._ends[shard] = ends
        return ends


def _payload(number: int, framed: bytes, span: Span) -> Payload:
    return Payload(number, framed, *tfrecord.payload_span(framed, path=span.url, offset=span.start))


class _CompressedShards(_Shards):
    """Compressed shards, whose records can only be read in their order."""

    def __init__(self, info: DatasetInfo) -> None:
        super().__init__(info)
        self._compression = info.compression

    def read(self, number: int) -> Payload:
        """Raise DatasetError: everything before the record would have to be unpacked."""
        path, _ = self.locate(number)
        raise DatasetError(
            f"{path} is compressed as a whole, so its records cannot be read by number",
            hint=_IN_ORDER,
            path=path,
        )

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Yield the records of these numbers, reading past all others.

        Raises DatasetError at once if a shard would have to be read twice.
        """
        self._refuse_turning_back(numbers)
        for shard, wanted in groupby(numbers, self._shard):
            yield from self._stream_shard(shard, wanted)

    def _refuse_turning_back(self, numbers: Sequence[int]) -> None:
        if isinstance(numbers, range) and numbers.step > 0:
            return
        begun: set[int] = set()
        for shard, wanted in groupby(numbers, self._shard):
            if shard in begun or any(a >= b for a, b in pairwise(wanted)):
                path = self._paths[shard]
                raise DatasetError(
                    f"{path} is compressed as a whole, so its records can only be read in the "
                    "order in which they are stored",
                    hint=_IN_ORDER,
                    path=path,
                )
            begun.add(shard)

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
