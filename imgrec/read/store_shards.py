"""Reading records of shards on an object store: one by one, or many that follow each other."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.shards import counted, parse_index, unreadable
from imgrec.read.stream import read_shard
from imgrec.storage.remote.reading import (
    PART_BYTES,
    Span,
    read_ahead,
    read_object,
    read_span,
)


class StoreShards:
    """The records of all shards of a dataset on a store, numbered as in `Shards`.

    The index of a shard is read once, and a record is one request; records that follow each other
    are read in larger parts, the next of which are on their way meanwhile.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._urls = tuple(
            os.path.join(info.path, name)
            for split in info.splits
            for name in layout.shard_filenames(info, split)
        )
        lengths = [length for split in info.splits for length in split.shard_lengths]
        self._starts = tuple(accumulate(lengths, initial=0))
        self._ends: list[array[int] | None] = [None] * len(self._urls)

    def locate(self, number: int) -> tuple[str, int]:
        """Return the URL of a record's shard, and its number in there."""
        shard = self._shard(number)
        return self._urls[shard], number - self._starts[shard]

    def _shard(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def read(self, number: int) -> tuple[bytes, int, int]:
        """Return bytes in which a record's payload is, its start and its end; checksums hold.

        Raises DatasetError if the shard is missing, and CorruptRecord if it is not as it was.
        """
        span = self._span(number)
        try:
            framed = read_span(span)
        except OSError as error:
            raise unreadable(span.url, error) from error
        start, end = tfrecord.payload_span(framed, path=span.url, offset=span.start)
        return framed, start, end

    def _span(self, number: int) -> Span:
        shard = self._shard(number)
        ends = self._ends[shard] or self._read_index(shard)
        place = number - self._starts[shard]
        return Span(self._urls[shard], ends[place - 1] if place else 0, ends[place])

    def stream(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield number and payload of the records of these numbers, in this order."""
        following = iter(numbers)
        try:
            with closing(read_ahead(self._runs(numbers))) as parts:
                for span, data in parts:
                    yield from self._records(span, data, following)
        except OSError as error:
            raise unreadable(str(error.filename or self._urls[0]), error) from error

    def _records(
        self, part: Span, data: bytes, following: Iterator[int]
    ) -> Iterator[tuple[int, bytes]]:
        position = part.start
        while position < part.end:
            number = next(following)
            span = self._span(number)
            framed = data[span.start - part.start : span.end - part.start]
            start, end = tfrecord.payload_span(framed, path=span.url, offset=span.start)
            yield number, framed[start:end]
            position = span.end

    def _runs(self, numbers: Sequence[int]) -> Iterator[Span]:
        """Yield the parts of shards that hold records which follow each other, in order."""
        run: Span | None = None
        for number in numbers:
            span = self._span(number)
            if run and run.url == span.url and run.end == span.start:
                joined = run._replace(end=span.end)
                if joined.end - joined.start <= PART_BYTES:
                    run = joined
                    continue
            if run:
                yield run
            run = span
        if run:
            yield run

    def _read_index(self, shard: int) -> array[int]:
        url, count = self._urls[shard], self._starts[shard + 1] - self._starts[shard]
        path = url + layout.INDEX_SUFFIX
        try:
            ends = parse_index(path, read_object(path), count)
        except FileNotFoundError:
            ends = self._walk(url, count)
        except PermissionError as error:
            raise unreadable(path, error) from error
        self._ends[shard] = ends
        return ends

    def _walk(self, url: str, count: int) -> array[int]:
        """Find the ends of records in a shard that has no index, as those that TFDS writes."""
        ends = array("Q")
        for offset, payload in read_shard(url, ""):
            ends.append(offset + len(payload) + tfrecord.OVERHEAD)
        return counted(ends, url, count)


def refuse_missing(url: str) -> None:
    """Raise DatasetError if there is no such shard."""
    try:
        read_span(Span(url, 0, 1))
    except OSError as error:
        raise DatasetError(
            f"the shard {url} is missing",
            hint="restore it, or pack the dataset again",
            path=url,
        ) from error
