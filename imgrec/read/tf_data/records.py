"""The serialized records of a part of a dataset, as a tf.data pipeline."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.options.loading import LoadOptions
from imgrec.outcome import DatasetInfo
from imgrec.read.pieces import Piece, cut
from imgrec.read.stream import read_shard
from imgrec.storage.paths import is_remote

Data: TypeAlias = Any  # TensorFlow has no types

_READ_BYTES = 1 << 20
_SHUFFLE_BYTES = 256 << 20
"""How much the shuffle buffer may hold, unless its size is given."""
_LEAST_SHUFFLED = 1_000
_OPEN_SHARDS = 16
_READERS = 2
_BLOCK = 16
"""How many records of a shard come after each other when shards are mixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The records to read, and how large they are on the average."""

    info: DatasetInfo
    ranges: Sequence[range]
    """Their numbers, counted through all splits."""

    @property
    def count(self) -> int:
        """Count the records."""
        return sum(map(len, self.ranges))

    @property
    def record_bytes(self) -> int:
        """Return the mean size of a record of the dataset."""
        examples = sum(split.examples for split in self.info.splits)
        return sum(split.num_bytes for split in self.info.splits) // max(examples, 1)


def read(tf: Any, part: Part, options: LoadOptions, times: Sequence[int] = ()) -> Data:
    """Return the records of a part in their order, or with those of several shards mixed.

    If `times` is given, it says how often each record comes. Raises DatasetError if a shard is not
    there.
    """
    lengths = [length for split in part.info.splits for length in split.shard_lengths]
    pieces = list(cut(part.ranges, lengths))
    paths = _paths(part.info)
    for piece in pieces:
        _refuse_missing(paths[piece.shard])
    is_whole = all(piece == Piece(piece.shard, 0, lengths[piece.shard]) for piece in pieces)
    repeats = tf.constant(times, tf.int64)

    def open_piece(path: Data, skip: Data, take: Data, start: Data) -> Data:
        kind = part.info.compression.upper()
        if is_remote(part.info.path):
            data = _streamed(tf, path, part.info.compression)
        else:
            data = tf.data.TFRecordDataset(path, compression_type=kind, buffer_size=_READ_BYTES)
        if not is_whole:
            data = data.skip(skip).take(take)
        if times:
            counts = tf.data.Dataset.from_tensor_slices(repeats[start : start + take])
            data = tf.data.Dataset.zip(data, counts).flat_map(
                lambda record, count: tf.data.Dataset.from_tensors(record).repeat(count)
            )
        return data

    starts = accumulate((piece.take for piece in pieces[:-1]), initial=0)
    rows = [
        (paths[piece.shard], piece.skip, piece.take, start)
        for piece, start in zip(pieces, starts, strict=True)
    ]
    path, *numbers = zip(*rows, strict=True)
    files = tf.data.Dataset.from_tensor_slices(
        (list(path), *(tf.constant(column, tf.int64) for column in numbers))
    )
    if options.shuffle:
        data = files.shuffle(len(pieces), seed=options.seed).interleave(
            open_piece,
            cycle_length=min(len(pieces), _OPEN_SHARDS),
            block_length=_BLOCK,
            num_parallel_calls=min(len(pieces), _READERS),
            deterministic=options.seed is not None,
        )
    else:
        data = files.flat_map(open_piece)
    return data.apply(tf.data.experimental.assert_cardinality(sum(times) or part.count))


def _streamed(tf: Any, path: Data, compression: str) -> Data:
    """Return the records of a shard on an object store, which TensorFlow itself need not know."""

    def records(url: bytes) -> Iterator[bytes]:
        return (payload for _, payload in read_shard(url.decode(), compression))

    spec = tf.TensorSpec((), tf.string)
    return tf.data.Dataset.from_generator(records, args=(path,), output_signature=spec)


def shuffled(data: Data, part: Part, options: LoadOptions) -> Data:
    """Shuffle records in a buffer, anew in each epoch."""
    if not options.shuffle:
        return data
    if options.shuffle is True:
        fitting = max(_SHUFFLE_BYTES // max(part.record_bytes, 1), _LEAST_SHUFFLED)
        return data.shuffle(max(min(part.count, fitting), 1), seed=options.seed)
    # TensorFlow makes room for the whole buffer at once, however few records there are.
    return data.shuffle(min(options.shuffle, max(int(data.cardinality()), 1)), seed=options.seed)


def copies(labels: Sequence[int]) -> list[int]:
    """Return how often each record must come, so that all classes come as often as the largest.

    Records without a label come once.

    >>> copies([0, 0, 0, 1, 1])
    [1, 1, 1, 2, 1]
    """
    counts = Counter(label for label in labels if label >= 0)
    most = max(counts.values(), default=0)
    seen: Counter[int] = Counter()
    result = []
    for label in labels:
        if label < 0:
            result.append(1)
            continue
        result.append(most // counts[label] + (seen[label] < most % counts[label]))
        seen[label] += 1
    return result


def _paths(info: DatasetInfo) -> list[str]:
    return [
        os.path.join(info.path, filename)
        for split in info.splits
        for filename in layout.shard_filenames(info, split)
    ]


def _refuse_missing(path: str) -> None:
    if is_remote(path):
        from imgrec.read.store_shards import refuse_missing

        refuse_missing(path)
    elif not os.path.isfile(path):
        raise DatasetError(
            f"the shard {path} is missing",
            hint="restore it, or pack the dataset again",
            path=path,
        )
