"""Reading records of shard files at random, by their number."""

from __future__ import annotations

import errno
import os
import stat
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.stream import refuse_compressed

T = TypeVar("T")

_MOST_OPEN = 256
"""Of more shards than this, the rest are opened for each record: processes have few handles."""
_MOST_LINE_BYTES = 42
"""Of an index: two numbers of twenty digits, a blank and a line's end."""
_MOST_SHARD_BYTES = (1 << 63) - 1


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe waits for its writer


class _Handle:
    """A file that is open as long as someone holds this."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)  # when Python ends, `os` may be gone before this is


class Shards:
    """The records of all shards of a dataset, numbered through in the order of its splits.

    Threads and forked processes may share one: nothing in it moves. A pickled one opens its files
    again.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._folder = info.path
        self._names = tuple(
            name for split in info.splits for name in layout.shard_filenames(info, split)
        )
        lengths = [length for split in info.splits for length in split.shard_lengths]
        self._starts = tuple(accumulate(lengths, initial=0))
        self._forget()

    def __len__(self) -> int:
        return self._starts[-1]

    def __getstate__(self) -> tuple[object, ...]:
        return self._folder, self._names, self._starts

    def __setstate__(self, state: tuple[str, tuple[str, ...], tuple[int, ...]]) -> None:
        self._folder, self._names, self._starts = state
        self._forget()

    def _forget(self) -> None:
        self._paths = [os.path.join(self._folder, name) for name in self._names]
        self._handles: dict[int, _Handle] = {}
        self._ends: list[array[int] | None] = [None] * len(self._names)

    def path(self, shard: int) -> str:
        """Return the path of a shard."""
        return self._paths[shard]

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in there."""
        shard = bisect_right(self._starts, number) - 1
        return self.path(shard), number - self._starts[shard]

    def read(self, number: int) -> tuple[bytes, int, int]:
        """Return bytes in which a record's payload is, its start and its end; checksums hold.

        Raises DatasetError if the shard is missing, and CorruptRecord if it is not as it was.
        """
        shard = bisect_right(self._starts, number) - 1
        ends = self._ends[shard] or self._read_index(shard)
        place = number - self._starts[shard]
        offset = ends[place - 1] if place else 0
        handle = self._handles.get(shard) or self._open(shard, ends[-1])
        try:
            framed = os.pread(handle.fd, ends[place] - offset, offset)
            start, end = tfrecord.payload_span(framed, path=self._paths[shard], offset=offset)
        except OSError as error:
            raise unreadable(self.path(shard), error) from error
        return framed, start, end

    def _open(self, shard: int, size: int) -> _Handle:
        path = self.path(shard)
        try:
            handle = self._handle(path)
            status = os.fstat(handle.fd)
        except OSError as error:
            raise unreadable(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise unreadable(path, OSError(errno.EINVAL, "not a file"))
        found = status.st_size
        if found != size:
            refuse_compressed(path)
            raise CorruptRecord(
                f"{path} has {found} bytes, and its index tells of {size}",
                hint="it was changed or cut short since it was packed: pack it again",
                path=path,
                offset=min(found, size),
            )
        if len(self._handles) < _MOST_OPEN:
            return self._handles.setdefault(shard, handle)
        return handle

    def _handle(self, path: str) -> _Handle:
        return self._with_room(lambda: _Handle(_open_at_once(path, os.O_RDONLY)))

    def _read_index(self, shard: int) -> array[int]:
        path, count = self._paths[shard], self._starts[shard + 1] - self._starts[shard]
        ends = self._with_room(lambda: read_index(path, count))
        self._ends[shard] = ends
        return ends

    def _with_room(self, opening: Callable[[], T]) -> T:
        """Open a file, once more after closing all of ours if the process has too many."""
        try:
            return opening()
        except (OSError, DatasetError) as error:
            if not _tells_of_too_many_files(error) or not self._handles:
                raise
        self._handles.clear()  # those that other threads read from stay open as long as they do
        return opening()


def _tells_of_too_many_files(error: OSError | DatasetError) -> bool:
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EMFILE


def read_index(shard_path: str, count: int) -> array[int]:
    """Return where each of the `count` records of a shard ends; raise DatasetError otherwise."""
    path = shard_path + layout.INDEX_SUFFIX
    most_bytes = count * _MOST_LINE_BYTES
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            text = file.read(min(most_bytes, os.fstat(file.fileno()).st_size) + 1)
    except FileNotFoundError:
        return _walked(shard_path, count)
    except OSError as error:
        raise _wrong_index(path, f"cannot be read: {error.strerror}") from error
    return parse_index(path, text, count)


def parse_index(path: str, text: bytes, count: int) -> array[int]:
    """Return where each of `count` records ends, by the text of an index; raise DatasetError."""
    most_bytes = count * _MOST_LINE_BYTES
    try:
        numbers = list(map(int, text.split()))
    except ValueError as error:
        raise _wrong_index(path, "does not consist of numbers") from error
    offsets, lengths = numbers[0::2], numbers[1::2]
    if len(offsets) != count or len(lengths) != count or len(text) > most_bytes:
        more = " or more" * (len(text) > most_bytes)
        raise _wrong_index(path, f"tells of {len(offsets)} records{more}, and there are {count}")
    ends = list(accumulate(lengths))
    is_whole = min(lengths, default=tfrecord.OVERHEAD) >= tfrecord.OVERHEAD
    if offsets != [0, *ends[:-1]][:count] or not is_whole or ends[-1:] > [_MOST_SHARD_BYTES]:
        raise _wrong_index(path, "tells of records that do not follow each other")
    return array("Q", ends)


def _walked(shard_path: str, count: int) -> array[int]:
    """Find the ends of records in a shard that has no index, as those that TFDS writes."""
    try:
        with open(shard_path, "rb", opener=_open_at_once) as file:
            ends = array("Q", tfrecord.record_ends(file, path=shard_path))
    except OSError as error:
        raise unreadable(shard_path, error) from error
    except CorruptRecord:
        refuse_compressed(shard_path)
        raise
    return counted(ends, shard_path, count)


def counted(ends: array[int], shard_path: str, count: int) -> array[int]:
    """Return the ends of a shard's records; raise CorruptRecord if they are not `count`."""
    if len(ends) != count:
        raise CorruptRecord(
            f"{shard_path} has {len(ends)} records, and {layout.DATASET_INFO} tells of {count}",
            path=shard_path,
        )
    return ends


def _wrong_index(path: str, what: str) -> DatasetError:
    return DatasetError(
        f"{path} {what}", hint="pack the dataset again, or delete that file", path=path
    )


def unreadable(path: str, error: OSError) -> DatasetError:
    """Return the error for a shard that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        refuse_compressed(path + ".gz")
    return DatasetError(
        f"cannot read {path}: {error.strerror}",
        hint="a shard of the dataset is missing or cannot be opened: restore it, or pack it again",
        path=path,
    )


def joined(ranges: Sequence[range]) -> Sequence[int]:
    """Return the numbers of ranges one after another, as one range where they are one."""
    filled = [part for part in ranges if part]
    if not filled:
        return range(0)
    if all(a.stop == b.start for a, b in pairwise(filled)):
        return range(filled[0].start, filled[-1].stop)
    numbers = array("Q")
    for part in filled:
        numbers.extend(part)
    return numbers
