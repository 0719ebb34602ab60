"""Which records of which shard files make up a part of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple


class Piece(NamedTuple):
    """Records of one shard that follow each other."""

    shard: int
    """Counted through the shards of all splits."""
    skip: int
    take: int


def part_of(ranges: Sequence[range], index: int, count: int) -> list[range]:
    """Return part `index` of `count` of the records in `ranges`; parts differ by one at most.

    >>> part_of([range(0, 5), range(10, 13)], 1, 2)
    [range(4, 5), range(10, 13)]
    """
    total = sum(map(len, ranges))
    start, stop = total * index // count, total * (index + 1) // count
    parts = []
    for records in ranges:
        parts.append(records[max(start, 0) : max(stop, 0)])
        start, stop = start - len(records), stop - len(records)
    return [part for part in parts if part]


def cut(ranges: Iterable[range], shard_lengths: Sequence[int]) -> Iterator[Piece]:
    """Yield the pieces of shards that hold the records in `ranges`, in order.

    >>> list(cut([range(1, 5)], [3, 3]))
    [Piece(shard=0, skip=1, take=2), Piece(shard=1, skip=0, take=2)]
    """
    starts = list(accumulate(shard_lengths, initial=0))
    for records in ranges:
        for shard, length in enumerate(shard_lengths):
            first = max(records.start, starts[shard])
            last = min(records.stop, starts[shard] + length)
            if first < last:
                yield Piece(shard, first - starts[shard], last - first)
