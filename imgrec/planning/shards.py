"""Cut splits into shards, and fingerprint everything that decides their bytes."""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from imgrec.errors import PlanError
from imgrec.layout import shard_filename
from imgrec.model import FORMAT, TRAIN, Samples, ShardTask, Submission, split_order
from imgrec.near.clusters import ALIKE, NearDuplicates, NearPairs
from imgrec.options import NearDups, PackOptions

_SPREAD_BYTES = 16 << 20
_SPREAD_SHARDS = 8
_MOST_TRIED = 1 << 19
"""How many shards are cut to find an even cut, so that planning time grows with records only."""
_RECORD_BYTES = 96
"""The size of a record without the image and the file name: frame, keys, lengths and numbers."""


def make_tasks(
    name: str, samples: Samples, order: Sequence[int], options: PackOptions
) -> Iterator[ShardTask]:
    """Yield the shards of all splits, given the places of samples in the order of writing."""
    places: dict[str, list[int]] = defaultdict(list)
    for place in order:
        places[samples.splits[place]].append(place)
    counts = {split: len(own) for split, own in places.items()}
    to_write = samples.to_write()
    for split in sorted(counts, key=split_order):
        ordered = to_write.pick(places[split])
        ends = list(accumulate(record_bytes(ordered.sizes, ordered.filenames)))
        lengths = cut(ends, shard_count(split, counts, options.shards), options.shard_size)
        bounds = pairwise(accumulate(lengths, initial=0))
        for index, (start, end) in enumerate(bounds):
            yield ShardTask(
                split=split,
                index=index,
                filename=shard_filename(
                    name, split, index, len(lengths), options.shard_compression
                ),
                expected_bytes=ends[end - 1] - (ends[start - 1] if start else 0),
                samples=ordered.slice(start, end),
            )


def record_bytes(sizes: Sequence[int], filenames: Sequence[str]) -> list[int]:
    """Return the most that each record takes in a shard, if its image is packed unchanged."""
    named = zip(sizes, map(len, filenames), strict=True)
    return [size + 4 * length + _RECORD_BYTES for size, length in named]


def cut(ends: Sequence[int], count: int | None, max_bytes: int) -> list[int]:
    """Return how many records each shard holds, given where each record ends in one long file.

    With `count` there are exactly that many shards. Otherwise none is larger than `max_bytes`,
    except that a record larger than that is a shard of its own. From 16 MiB up there are a multiple
    of 8, if there are as many records. `ends` may be lazy: few are read.
    """
    if count is not None:
        return _cut_evenly(ends, count)
    step = _SPREAD_SHARDS if ends[-1] >= _SPREAD_BYTES else 1
    filled = _fill(ends, max_bytes)
    if max(_sizes(ends, filled)) <= max_bytes:  # so no record is larger than a shard
        even = _cut_evenly_within(ends, max_bytes, step)
        if even is not None:
            return even
    return _split_up(ends, filled, -(-len(filled) // step) * step)


def _cut_evenly_within(ends: Sequence[int], max_bytes: int, step: int) -> list[int] | None:
    """Cut into the fewest shards of nearly equal bytes that are small enough.

    Returns None after too many tries: records close to the limit would need a lucky cut on both
    sides of each of them.
    """
    count = -(-ends[-1] // (max_bytes * step)) * step
    tried = 0
    while count < len(ends):
        lengths = _cut_evenly(ends, count)
        if max(_sizes(ends, lengths)) <= max_bytes:
            return lengths
        tried += count
        if tried > _MOST_TRIED:
            return None
        count += step
    return [1] * len(ends)


def _fill(ends: Sequence[int], max_bytes: int) -> list[int]:
    """Fill one shard after the other; a record that is too large for any gets its own."""
    lengths = []
    at = start = 0
    while at < len(ends):
        end = max(bisect_right(ends, start + max_bytes, lo=at), at + 1)
        lengths.append(end - at)
        at, start = end, ends[end - 1]
    return lengths


def _split_up(ends: Sequence[int], lengths: list[int], count: int) -> list[int]:
    """Halve the largest shard of two or more records until there are `count`."""
    while len(lengths) < min(count, len(ends)):
        sizes = _sizes(ends, lengths)
        place = max(range(len(lengths)), key=lambda place: (lengths[place] > 1, sizes[place]))
        start, length = sum(lengths[:place]), lengths[place]
        middle = ends[start + length - 1] - sizes[place] // 2
        first = bisect_left(ends, middle, lo=start, hi=start + length - 2) + 1 - start
        lengths = [*lengths[:place], first, length - first, *lengths[place + 1 :]]
    return lengths


def _cut_evenly(ends: Sequence[int], count: int) -> list[int]:
    """Cut into `count` shards of nearly equal bytes, none of them empty."""
    total, length = ends[-1], len(ends)
    cuts = [0]
    for shard in range(1, count):
        fair = bisect_left(ends, total * shard / count) + 1
        cuts.append(min(max(fair, cuts[-1] + 1), length - count + shard))
    return [end - start for start, end in pairwise([*cuts, length])]


def _sizes(ends: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """Return the bytes of each shard."""
    bounds = [0, *(ends[end - 1] for end in accumulate(lengths))]
    return [end - start for start, end in pairwise(bounds)]


def shard_count(split: str, counts: Mapping[str, int], shards: int | None) -> int | None:
    """Return the number of shards of a split: `--shards` for train, in proportion for others."""
    if shards is None:
        return None
    if TRAIN in counts and shards > counts[TRAIN]:
        raise PlanError(
            f"--shards {shards} is more than the {counts[TRAIN]} images of train",
            hint="ask for fewer shards",
        )
    share = counts[split] / counts.get(TRAIN, counts[split])
    return min(max(1, round(shards * share)), counts[split])


def fingerprint(
    dataset: bytes, tasks: Iterable[bytes], contents: Iterable[bytes], lengths: Iterable[bytes]
) -> str:
    """Hash everything that decides the bytes of the output, as the functions below return it.

    `contents` and `lengths` are those of all samples in the order of writing, in pieces of any
    size: 100 million of them do not fit into memory.
    """
    sha256 = hashlib.sha256(dataset)
    for pieces in (tasks, contents, lengths):
        for piece in pieces:
            sha256.update(piece)
    return sha256.hexdigest()


def dataset_facts(
    name: str, classes: Sequence[str], options: PackOptions, submission: Submission | None = None
) -> bytes:
    """Return what decides about all shards."""
    asked = [f"--also {also}" for also in options.also]
    if options.shrink_options:
        asked += [f"{what} {value}" for what, value in options.shrink_options.deciding().items()]
    if options.thumbnails is not None:
        asked.append(f"--thumbnails {options.thumbnails}")
    if options.near_dups is not NearDups.AUTO:  # it decides what is known about each image
        asked.append(f"--near-dups {options.near_dups}")
    if options.alike != ALIKE:
        asked.append(f"--alike {options.alike}")
    if submission is not None:
        sample = hashlib.sha256(submission.sample).hexdigest()
        asked.append(f"submission {replace(submission, sample=b'')!r} {sample}")
    asked += [f"--{what} {value}" for what, value in options.source.class_changes().items()]
    asked += [f"--{what} {text!r}" for what, text in options.about.given().items()]
    facts = (FORMAT, name, options.version, options.check, *classes, *asked)
    return "".join(f"{fact}\n" for fact in facts).encode("utf-8", "surrogateescape")


def embeddings_facts(near: NearDuplicates | NearPairs | None) -> bytes:
    """Return what decides about near-duplicates beside options."""
    return f"--embeddings {near.embeddings}\n".encode() if near and near.embeddings else b""


def task_facts(task: ShardTask) -> bytes:
    """Return what decides about one shard."""
    samples = task.samples
    others = (*filter(None, (samples.label_sets, samples.groups)), *samples.columns)
    texts = (task.filename, "\0".join(samples.filenames), *map(repr, others))
    numbers = (
        struct.pack(f"<{len(column)}q", *column) for column in (samples.labels, samples.sizes)
    )
    return b"".join(("\n".join(texts).encode("utf-8", "surrogateescape"), *numbers))


def lengths_of(contents: Iterable[bytes]) -> bytes:
    """Return the length of each content, one byte each."""
    return bytes(map(len, contents))
