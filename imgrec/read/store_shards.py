"""Read records by number from shards on an object store, or from copies of these here."""

from __future__ import annotations

import os
from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import finalize

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import CorruptRecord
from imgrec.outcome import DatasetInfo
from imgrec.read.files import read_document
from imgrec.read.records_by_number import (
    MAX_OPEN,
    CompressedShards,
    LocalShards,
    Payload,
    Shards,
    read_at,
)
from imgrec.read.shards import index_ends, read_shard, refuse_miscount, shard_paths, unreadable
from imgrec.storage.blobs import OpenFile
from imgrec.storage.paths import is_remote

if TYPE_CHECKING:
    from concurrent.futures import Future

    from imgrec.storage.remote.cache import Cache
    from imgrec.storage.remote.read import Span

_GAP_BYTES = 1 << 18
"""Bytes that are read in vain, rather than with a request for each side. A request takes about 1 ms
of CPU, as 1.4 MB do; two workers that share 5,000 photos made 0.39 requests for each with a quarter
of this, and now make 0.11."""
_GATHERED_BYTES = 2 << 20
"""The most that one request reads for a block. The first batch needs records from all over a block,
so with larger parts it would wait for nearly all of it."""
_SHARDS_AHEAD = 3
"""Copies that are fetched while the records of another shard are read."""


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
            raise unreadable(span.url, error) from error
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
            raise unreadable(str(error.filename or self._paths[0]), error) from error

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
                raise unreadable(str(error.filename or self._paths[0]), error) from error

        return _with_futures(payloads(), futures)

    def _read_indices(self, numbers: Sequence[int]) -> None:
        """Read the indices of the shards of these records, many at once."""
        from imgrec.storage.remote.read import at_once

        shards = {self._shard(number) for number in numbers}
        if missing := [shard for shard in shards if self._ends[shard] is None]:
            at_once(self._read_ends, missing)

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
            ends = index_ends(read_object(index), count, index)
        except FileNotFoundError:
            records = read_shard(url, "")
            ends = array("Q", (at + len(data) + tfrecord.OVERHEAD for at, data in records))
            refuse_miscount(url, count, len(ends))
        except PermissionError as error:
            raise unreadable(index, error) from error
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
        under_way: deque[Iterator[Payload]] = deque()
        for _, consecutive in groupby(numbers, self._shard):
            under_way.append(self.gather(list(consecutive)))
            if len(under_way) > _SHARDS_AHEAD:
                yield from under_way.popleft()
        while under_way:
            yield from under_way.popleft()

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
            for number in numbers:
                shard = self._shard(number)
                if shard not in sources:
                    file = self._files.get(shard) or self._wait(shard, fetched.pop(shard))
                    sources[shard] = self._records(shard, file, wanted[shard])
                yield next(sources[shard])

        return _with_futures(payloads(), fetched)

    def _wait(self, shard: int, opening: Future[OpenFile | None]) -> OpenFile | None:
        try:
            file = opening.result()
        except OSError as error:
            raise unreadable(self._paths[shard], error) from error
        # A file that is kept open cannot make room for others.
        if file and self._cache.most_bytes is None and len(self._files) < MAX_OPEN:
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
                framed = read_at(file.descriptor, span.end - span.start, span.start)
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


def _with_futures(
    payloads: Iterator[Payload], futures: Mapping[int, Future[Any]]
) -> Iterator[Payload]:
    """Cancel what has not begun when nobody waits for the payloads, even if none was taken."""

    def cancel() -> None:
        for future in futures.values():
            future.cancel()

    finalize(payloads, cancel)
    return payloads


class _Part(NamedTuple):
    """Records that one request reads."""

    whole: Span
    spans: list[Span]


def _near(spans: Iterable[Span]) -> Iterator[_Part]:
    """Join sorted spans with small gaps between them, up to the size of a request."""
    part: _Part | None = None
    for span in spans:
        is_near = part and span.url == part.whole.url and span.start - part.whole.end <= _GAP_BYTES
        if part and is_near and span.end - part.whole.start <= _GATHERED_BYTES:
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
            raise unreadable(f"{info.path}/{name}", error) from error

    from imgrec.storage.remote.read import at_once

    at_once(fetch, shards)
    return replace(info, path=str(cache.folder))


def open_shards(info: DatasetInfo, cache: Cache | None = None) -> Shards:
    """Open the shards of a dataset, plain or compressed, on a disk or a store.

    With a cache, those on a store are read from copies.
    """
    if info.compression:
        return CompressedShards(info)
    if cache is not None:
        return _CachedShards(info, cache)
    return _StoreShards(info) if is_remote(info.path) else LocalShards(info)
