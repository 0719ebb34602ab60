"""The records of shards: one shard from front to back, or any record of a dataset by number.

Shards are plain or compressed, on a disk or on a store. Records are numbered through all splits.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.codec.sniff import HEAD_BYTES
from imgrec.codec.tfrecord import Decompressed, Frame, compression_of
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.files import RegularFile, open_regular, read_document
from imgrec.storage.blobs import OpenFile
from imgrec.storage.paths import is_remote, to_path
from imgrec.storage.urls import is_url

if TYPE_CHECKING:
    from concurrent.futures import Future

    from imgrec.storage.remote.cache import Cache
    from imgrec.storage.remote.read import Span

T = TypeVar("T")

MIN_RECORD_BYTES = 8
"""The least that a record takes, even compressed: checksums do not compress."""
MAX_INDEX_LINE_BYTES = 42
"""Two numbers of up to 20 digits, a blank and a line feed."""
_MAX_SHARD_BYTES = (1 << 63) - 1
_MAX_OPEN = 256
"""Shards that stay open; others are opened for each record. A process has few descriptors."""
_GAP_BYTES = 1 << 16
"""Bytes that are read in vain, rather than with a request for each side."""
_AGAIN = "pack it again with --overwrite"
_RESTORE = f"restore that shard of the dataset, or {_AGAIN}"
_IN_ORDER = "iterate over a whole split, `for record in split`, or pack without --compression"


def shard_paths(info: DatasetInfo) -> tuple[str, ...]:
    """Return the paths of all shards of a dataset, in the order of its splits."""
    return tuple(
        os.path.join(info.path, name)
        for split in info.splits
        for name in layout.shard_filenames(info, split)
    )


def shard_lengths(info: DatasetInfo) -> tuple[int, ...]:
    """Return the number of records in each shard, in the order of `shard_paths`."""
    return tuple(length for split in info.splits for length in split.shard_lengths)


def shard_frames(
    file: RegularFile, compression: str, path: str, index: Sequence[tuple[int, int]] = ()
) -> Iterator[Frame]:
    """Yield every record of an open shard, with its fault if it is damaged.

    Offsets are those before compression. Faults name `path`.
    """
    if compression:
        return tfrecord.frames(Decompressed(file, compression).read, None, path=path, index=index)
    return tfrecord.frames(file.read, file.size, path=path, index=index)


def read_shard(path: str, compression: str) -> Generator[tuple[int, bytes], None, None]:
    """Yield the offset and payload of each record of a shard, after checking both checksums.

    Raises CorruptRecord at the first damaged record, and DatasetError if the shard cannot be
    opened. Memory is bounded by the longest record, whatever a compressed file declares.
    """
    unit = " of the unpacked data" if compression else ""
    try:
        with RegularFile(path) as file:
            yield from tfrecord.sound(shard_frames(file, compression, path), unit)
    except OSError as error:
        raise _unreadable(path, error) from error


def parse_index(text: bytes) -> list[tuple[int, int]]:
    """Return offset and length of each record in an index; raise ValueError if it is malformed."""
    numbers = list(map(int, text.split()))
    return list(zip(numbers[0::2], numbers[1::2], strict=True))


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


def open_shards(info: DatasetInfo, cache: Cache | None = None) -> Shards:
    """Open the shards of a dataset, plain or compressed, on a disk or a store.

    With a cache, those on a store are read from copies.
    """
    if info.compression:
        return _CompressedShards(info)
    if cache is not None:
        return _CachedShards(info, cache)
    return _StoreShards(info) if is_remote(info.path) else _LocalShards(info)


if hasattr(os, "pread"):
    _read_at = os.pread
else:  # Windows
    _SEEKING = Lock()

    def _read_at(descriptor: int, size: int, offset: int, /) -> bytes:
        with _SEEKING:  # threads share the position in a file
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, size)


class _LocalShards(Shards):
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
        shard = bisect_right(self._starts, number) - 1
        ends = self._ends[shard] or self._read_ends(shard)
        place = number - self._starts[shard]
        offset = ends[place - 1] if place else 0
        handle = self._handles.get(shard) or self._open(shard, ends[-1])
        try:
            framed = _read_at(handle.descriptor, ends[place] - offset, offset)
        except OSError as error:
            raise _unreadable(self._paths[shard], error) from error
        span = tfrecord.payload_span(framed, path=self._paths[shard], offset=offset)
        return Payload(number, framed, *span)

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        return map(self.read, numbers)

    def _open(self, shard: int, expected_bytes: int) -> OpenFile:
        path = self._paths[shard]
        try:
            descriptor, size = self._retry(lambda: open_regular(path))
        except OSError as error:
            raise _unreadable(path, error) from error
        handle = OpenFile(descriptor)
        if size != expected_bytes:
            _refuse_undeclared_compression(path)
            raise CorruptRecord(
                f"{path}: expected {expected_bytes} bytes (its index), found {size}",
                hint=f"it was changed or truncated after it was packed: {_AGAIN}",
                path=path,
                offset=min(size, expected_bytes),
            )
        if len(self._handles) < _MAX_OPEN:
            return self._handles.setdefault(shard, handle)
        return handle

    def _read_ends(self, shard: int) -> array[int]:
        path, count = self._paths[shard], self._length(shard)
        index = path + layout.INDEX_SUFFIX
        limit = count * MAX_INDEX_LINE_BYTES
        try:
            ends = _index_ends(self._retry(lambda: read_document(Path(index), limit)), count, index)
        except FileNotFoundError:
            ends = self._scan_ends(path, count)
        except OSError as error:
            raise _wrong_index(index, f"cannot be read: {error.strerror}") from error
        self._ends[shard] = ends
        return ends

    def _scan_ends(self, path: str, count: int) -> array[int]:
        """Find the ends of records in a shard without an index, such as those that TFDS writes."""
        try:
            with os.fdopen(self._retry(lambda: open_regular(path))[0], "rb") as file:
                ends = array("Q", tfrecord.record_ends(file, path=path))
        except OSError as error:
            raise _unreadable(path, error) from error
        except CorruptRecord:
            _refuse_undeclared_compression(path)
            raise
        _refuse_miscount(path, count, len(ends))
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


class _StoreShards(Shards):
    """Shards on an object store.

    The index of a shard is read once, and each record is one request. Consecutive records are read
    in larger parts, and the next parts are fetched ahead.
    """

    def read(self, number: int) -> Payload:
        from imgrec.storage.remote.read import read_span

        span = self._span(number)
        try:
            framed = read_span(span)
        except OSError as error:
            raise _unreadable(span.url, error) from error
        return _payload(number, framed, span)

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
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
            raise _unreadable(str(error.filename or self._paths[0]), error) from error

    def gather(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Start to read all of these records now, near ones in one request."""
        from imgrec.storage.remote.read import fetch

        self._read_indices(numbers)
        spans = [self._span(number) for number in numbers]
        parts = list(_near(sorted(set(spans))))
        places = {span: at for at, part in enumerate(parts) for span in part.spans}
        # The part that is needed first is requested first.
        needed = dict.fromkeys(places[span] for span in spans)
        futures = dict(zip(needed, fetch([parts[at].whole for at in needed]), strict=True))
        uses = Counter(places[span] for span in spans)

        def payloads() -> Iterator[Payload]:
            try:
                for number, span in zip(numbers, spans, strict=True):
                    at = places[span]
                    start = parts[at].whole.start
                    framed = futures[at].result()[span.start - start : span.end - start]
                    uses[at] -= 1
                    if not uses[at]:
                        del futures[at]  # and its bytes
                    yield _payload(number, framed, span)
            except OSError as error:
                raise _unreadable(str(error.filename or self._paths[0]), error) from error
            finally:
                for future in futures.values():
                    future.cancel()

        return payloads()

    def _read_indices(self, numbers: Sequence[int]) -> None:
        """Read the indices of the shards of these records, many at once."""
        from imgrec.storage.remote.read import at_once

        shards = {self._shard(number) for number in numbers}
        at_once(self._read_ends, [shard for shard in shards if self._ends[shard] is None])

    def _span(self, number: int) -> Span:
        from imgrec.storage.remote.read import Span

        shard = self._shard(number)
        ends = self._ends[shard] or self._read_ends(shard)
        place = number - self._starts[shard]
        return Span(self._paths[shard], ends[place - 1] if place else 0, ends[place])

    def _parts(self, numbers: Sequence[int]) -> Iterator[Span]:
        """Yield the parts of shards that hold consecutive records, in order."""
        from imgrec.storage.remote.read import PART_BYTES

        part: Span | None = None
        for span in map(self._span, numbers):
            is_next = part and part.url == span.url and part.end == span.start
            if part and is_next and span.end - part.start <= PART_BYTES:
                part = part._replace(end=span.end)
                continue
            if part:
                yield part
            part = span
        if part:
            yield part

    def _read_ends(self, shard: int) -> array[int]:
        from imgrec.storage.remote.read import read_object

        url, count = self._paths[shard], self._length(shard)
        index = url + layout.INDEX_SUFFIX
        try:
            ends = _index_ends(read_object(index), count, index)
        except FileNotFoundError:
            records = read_shard(url, "")
            ends = array("Q", (at + len(data) + tfrecord.OVERHEAD for at, data in records))
            _refuse_miscount(url, count, len(ends))
        except PermissionError as error:
            raise _unreadable(index, error) from error
        self._ends[shard] = ends
        return ends


class _CachedShards(_StoreShards):
    """Shards on an object store, read from copies of whole shards on this machine.

    A shard for which the cache has no room is read from the store.
    """

    def __init__(self, info: DatasetInfo, cache: Cache) -> None:
        super().__init__(info)
        self._cache = cache
        self._files: dict[int, OpenFile] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_files": {}}

    def read(self, number: int) -> Payload:
        return next(self.gather([number]))

    def stream(self, numbers: Sequence[int]) -> Iterator[Payload]:
        for _, consecutive in groupby(numbers, self._shard):
            yield from self.gather(list(consecutive))

    def gather(self, numbers: Sequence[int]) -> Iterator[Payload]:
        """Start to fetch the shards of these records now."""
        self._read_indices(numbers)
        wanted: dict[int, list[int]] = {}
        for number in numbers:
            wanted.setdefault(self._shard(number), []).append(number)
        fetched = {
            shard: self._cache.begin(os.path.basename(self._paths[shard]))
            for shard in wanted
            if shard not in self._files
        }
        sources: dict[int, Iterator[Payload]] = {}

        def payloads() -> Iterator[Payload]:
            try:
                for number in numbers:
                    shard = self._shard(number)
                    if shard not in sources:
                        file = self._files.get(shard) or self._wait(shard, fetched.pop(shard))
                        sources[shard] = self._records(shard, file, wanted[shard])
                    yield next(sources[shard])
            finally:
                for future in fetched.values():
                    future.cancel()

        return payloads()

    def _wait(self, shard: int, opening: Future[OpenFile | None]) -> OpenFile | None:
        try:
            file = opening.result()
        except OSError as error:
            raise _unreadable(self._paths[shard], error) from error
        # A file that is kept open cannot make room for others.
        if file and self._cache.most_bytes is None and len(self._files) < _MAX_OPEN:
            self._files[shard] = file
        return file

    def _records(
        self, shard: int, file: OpenFile | None, numbers: Sequence[int]
    ) -> Iterator[Payload]:
        """Yield records of one shard; fetch it again if its copy is damaged."""
        if file is None:
            yield from super().gather(numbers)
            return
        is_fresh = False
        for number in numbers:
            span = self._span(number)
            while True:
                framed = _read_at(file.descriptor, span.end - span.start, span.start)
                try:
                    payload = _payload(number, framed, span)
                    break
                except CorruptRecord:
                    if is_fresh:
                        raise
                name = os.path.basename(self._paths[shard])
                self._cache.forget(name)
                self._files.pop(shard, None)
                file, is_fresh = self._wait(shard, self._cache.begin(name)), True
                if file is None:
                    yield from super().gather(numbers[numbers.index(number) :])
                    return
            yield payload


class _Part(NamedTuple):
    """Records that one request reads."""

    whole: Span
    spans: list[Span]


def _near(spans: Iterable[Span]) -> Iterator[_Part]:
    """Join sorted spans with small gaps between them, up to the size of a request."""
    from imgrec.storage.remote.read import PART_BYTES

    part: _Part | None = None
    for span in spans:
        is_near = part and span.url == part.whole.url and span.start - part.whole.end <= _GAP_BYTES
        if part and is_near and span.end - part.whole.start <= PART_BYTES:
            part.spans.append(span)
            part = part._replace(whole=part.whole._replace(end=span.end))
            continue
        if part:
            yield part
        part = _Part(span, [span])
    if part:
        yield part


def _payload(number: int, framed: bytes, span: Span) -> Payload:
    return Payload(number, framed, *tfrecord.payload_span(framed, path=span.url, offset=span.start))


class _CompressedShards(Shards):
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
                    _refuse_miscount(path, count, f"only {read}")
            if read == count and next(records, None):
                _refuse_miscount(path, count, "more")


def _index_ends(text: bytes, count: int, path: str) -> array[int]:
    """Return where each of `count` records ends, by an index; raise DatasetError if it is wrong."""
    try:
        spans = parse_index(text)
    except ValueError as error:
        raise _wrong_index(path, "does not consist of pairs of numbers") from error
    if len(spans) != count:
        raise _wrong_index(path, f"lists {len(spans)} records; expected {count}")
    ends = list(accumulate(length for _, length in spans))
    is_gapless = [offset for offset, _ in spans] == [0, *ends][:count]
    is_possible = all(length >= tfrecord.OVERHEAD for _, length in spans)
    if not (is_gapless and is_possible) or ends[-1:] > [_MAX_SHARD_BYTES]:
        raise _wrong_index(path, "lists records that do not follow each other")
    return array("Q", ends)


def fetch_shards(info: DatasetInfo, cache: Cache, shards: Collection[int]) -> DatasetInfo:
    """Copy shards and their indices; return the dataset as if it were where the copies are.

    Shards are counted as in `shard_paths`. A copy of another size than its index is fetched again.
    """

    def fetch(shard: int) -> None:
        name = os.path.basename(shard_paths(info)[shard])
        numbers: list[bytes] = []
        with suppress(FileNotFoundError):  # there is no index
            cache.open(name + layout.INDEX_SUFFIX)
            numbers = read_document(cache.folder / (name + layout.INDEX_SUFFIX)).split()
        try:
            file = cache.open(name)
            # The last line is where the last record begins, and its length.
            expected_bytes = sum(map(int, numbers[-2:]))
            if file and numbers and os.fstat(file.descriptor).st_size != expected_bytes:
                cache.forget(name)
                cache.open(name)
        except OSError as error:
            raise _unreadable(f"{info.path}/{name}", error) from error

    from imgrec.storage.remote.read import at_once

    at_once(fetch, shards)
    return replace(info, path=str(cache.folder))


def refuse_incomplete(info: DatasetInfo, shards: Collection[int]) -> None:
    """Raise DatasetError if a shard is missing, CorruptRecord if a whole split has another size.

    Shards are counted as in `shard_paths`. None is read.
    """
    paths, start = shard_paths(info), 0
    for split in info.splits:
        own = range(start, start + len(split.shard_lengths))
        start = own.stop
        sizes = [_size(paths[shard]) for shard in own if shard in shards]
        if info.fingerprint and len(sizes) == len(own) and sum(sizes) != split.num_bytes:
            raise CorruptRecord(
                f"the shards of {split.name} have {sum(sizes)} bytes; expected {split.num_bytes} "
                f"({layout.DATASET_INFO})",
                hint=f"run imgrec verify {info.path} to see which was changed or truncated",
                path=info.path,
            )


def _size(path: str) -> int:
    try:
        with RegularFile(path) as file:
            return file.size
    except OSError as error:
        raise DatasetError(f"the shard {path} is missing", hint=_RESTORE, path=path) from error


def refuse_impossible(info: DatasetInfo) -> None:
    """Raise DatasetError if a dataset has fewer bytes than its number of records needs.

    Otherwise a number in a document would decide how much memory is allocated.
    """
    least = MIN_RECORD_BYTES if info.compression else tfrecord.OVERHEAD
    for split in info.splits:
        folder = to_path(info.path)  # it may be on a store
        paths = [folder / name for name in layout.shard_filenames(info, split)]
        size = sum(path.stat().st_size for path in paths if path.exists())
        if split.examples * least > size:
            raise DatasetError(
                f"the shards of {split.name} have {size} bytes, too few for the "
                f"{split.examples} records that {layout.DATASET_INFO} declares",
                hint="restore the missing shards, or pack the dataset again",
                path=info.path,
            )


def _wrong_index(path: str, what: str) -> DatasetError:
    hint = "pack the dataset again, or delete that file"
    return DatasetError(f"{path} {what}", hint=hint, path=path)


def _refuse_miscount(path: str, expected: int, found: object) -> None:
    if found != expected:
        raise CorruptRecord(
            f"{path}: expected {expected} records ({layout.DATASET_INFO}), found {found}",
            hint=_RESTORE,
            path=path,
        )


def _refuse_undeclared_compression(path: str) -> None:
    """Raise DatasetError if someone compressed a shard of a dataset that is not compressed."""
    try:
        with RegularFile(path) as file:
            compression = compression_of(file.read(HEAD_BYTES))
    except OSError:
        return
    if compression:
        raise DatasetError(
            f"{path} is {compression}-compressed, but the dataset does not declare it",
            hint=f"decompress all of its shards, or pack it again with --compression {compression};"
            f' tf.data.TFRecordDataset reads such a file with compression_type="'
            f'{compression.upper()}"',
            path=path,
        )


def _unreadable(path: str, error: OSError) -> DatasetError:
    if isinstance(error, FileNotFoundError) and not is_url(path):
        _refuse_undeclared_compression(path + ".gz")
    return DatasetError(
        f"cannot read {path}: {error.strerror}",
        hint=f"a shard of the dataset is missing or cannot be opened: restore it, or {_AGAIN}",
        path=path,
    )
