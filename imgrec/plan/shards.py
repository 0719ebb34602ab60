"""Which records share a file."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

from imgrec.errors import PlanError
from imgrec.model import TRAIN
from imgrec.options import ShardOptions

_SPREAD_BYTES = 16 << 20
_SPREAD_SHARDS = 8
_RECORD_BYTES = 96
"""What a record takes beside the image and the file name: frame, keys, lengths and numbers."""


def record_bytes(sizes: Sequence[int], filenames: Sequence[str]) -> list[int]:
    """Return the most that the record of each image takes in a shard, if it is packed as it is."""
    named = zip(sizes, map(len, filenames), strict=True)
    return [size + 4 * length + _RECORD_BYTES for size, length in named]


def cut(sizes: Sequence[int], options: ShardOptions) -> list[int]:
    """Return how many records each shard holds, given the size of each record in order.

    With `options.count` there are exactly that many shards; otherwise none is larger than
    `options.max_bytes` (unless one record alone is), and from 16 MiB up there are a multiple of 8.
    """
    return cut_at(list(itertools.accumulate(sizes)), options)


def cut_at(ends: Sequence[int], options: ShardOptions) -> list[int]:
    """Do as `cut` does, given where each record ends: no more of them are looked at than must."""
    if options.count is not None:
        return _cut_evenly(ends, options.count)
    total = ends[-1]
    step = _SPREAD_SHARDS if total >= _SPREAD_BYTES else 1
    count = -(-total // (options.max_bytes * step)) * step
    while count < len(ends):
        lengths = _cut_evenly(ends, count)
        if _largest(ends, lengths) <= options.max_bytes:
            return lengths
        count += step
    return [1] * len(ends)


def _cut_evenly(ends: Sequence[int], count: int) -> list[int]:
    """Cut into `count` shards of nearly equal bytes, none of them empty."""
    total, length = ends[-1], len(ends)
    cuts = [0]
    for shard in range(1, count):
        fair = bisect_left(ends, total * shard / count) + 1
        cuts.append(min(max(fair, cuts[-1] + 1), length - count + shard))
    return [end - start for start, end in itertools.pairwise([*cuts, length])]


def _largest(ends: Sequence[int], lengths: Sequence[int]) -> int:
    bounds = [0, *(ends[end - 1] for end in itertools.accumulate(lengths))]
    return max(end - start for start, end in itertools.pairwise(bounds))


def options_for(split: str, counts: dict[str, int], options: ShardOptions) -> ShardOptions:
    """Return the options for one split.

    A number of shards that is asked for is train's; others get theirs in proportion.
    """
    if options.count is None:
        return options
    if TRAIN in counts and options.count > counts[TRAIN]:
        raise PlanError(
            f"--shards {options.count} is more than the {counts[TRAIN]} images of train",
            hint="ask for fewer shards",
        )
    share = counts[split] / counts.get(TRAIN, counts[split])
    count = min(max(1, round(options.count * share)), counts[split])
    return ShardOptions(count=count, max_bytes=options.max_bytes)
