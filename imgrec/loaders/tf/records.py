"""The serialized records of a part of a dataset, as a tf.data pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from imgrec.loaders.tf.balance import Balance
from imgrec.options.loading import LoadOptions
from imgrec.outcome import DatasetInfo
from imgrec.read.shards import open_shards, read_shard, refuse_missing, shard_lengths, shard_paths
from imgrec.read.splits import Piece, cut
from imgrec.storage.paths import is_remote
from imgrec.text import name_of

Data: TypeAlias = Any  # TensorFlow has no types

_READ_BYTES = 1 << 20
_SHUFFLE_BYTES = 256 << 20
"""How much the shuffle buffer may hold, unless its size is given."""
_LEAST_SHUFFLED = 1_000
_OPEN_SHARDS = 16
_READERS = 2
_BLOCK = 16
"""How many records of a shard come after each other when shards are mixed."""
_PASSED = 64
"""How many records that are read by number go from Python to TensorFlow at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The records to read, and how large they are on the average."""

    info: DatasetInfo
    ranges: Sequence[range]
    """Their numbers, counted through all splits."""
    most: int | None = None
    """How many of them an epoch has at most."""

    @property
    def records(self) -> int:
        """Count the records."""
        return sum(map(len, self.ranges))

    @property
    def count(self) -> int:
        """Count the records of an epoch."""
        return self.records if self.most is None else min(self.records, self.most)

    @property
    def record_bytes(self) -> int:
        """Return the mean size of a record of the dataset."""
        examples = sum(split.examples for split in self.info.splits)
        return sum(split.num_bytes for split in self.info.splits) // max(examples, 1)


def read(tf: Any, part: Part, options: LoadOptions) -> Data:
    """Return the records of a part in their order, or with those of several shards mixed.

    Raises DatasetError if a shard is not there.
    """
    lengths, paths = shard_lengths(part.info), shard_paths(part.info)
    pieces = _pieces(part)
    is_whole = all(piece == Piece(piece.shard, 0, lengths[piece.shard]) for piece in pieces)

    def open_piece(path: Data, skip: Data, take: Data) -> Data:
        kind = part.info.compression.upper()
        if is_remote(part.info.path):
            data = _streamed(tf, path, part.info.compression)
        else:
            data = tf.data.TFRecordDataset(path, compression_type=kind, buffer_size=_READ_BYTES)
        if not is_whole:
            data = data.skip(skip).take(take)
        return data

    rows = [(name_of(paths[piece.shard]), piece.skip, piece.take) for piece in pieces]
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
    return data.apply(tf.data.experimental.assert_cardinality(part.records))


def _streamed(tf: Any, path: Data, compression: str) -> Data:
    """Return the records of a shard on an object store, which TensorFlow itself need not know."""

    def records(url: bytes) -> Iterator[bytes]:
        return (payload for _, payload in read_shard(url.decode(), compression))

    spec = tf.TensorSpec((), tf.string)
    return tf.data.Dataset.from_generator(records, args=(path,), output_signature=spec)


def shuffled(data: Data, part: Part, options: LoadOptions) -> Data:
    """Shuffle records in a buffer, anew in each epoch."""
    if options.shuffle is True:
        fitting = max(_SHUFFLE_BYTES // max(part.record_bytes, 1), _LEAST_SHUFFLED)
        data = data.shuffle(max(min(part.records, fitting), 1), seed=options.seed)
    elif options.shuffle:
        # TensorFlow makes room for the whole buffer at once, however few records there are.
        data = data.shuffle(min(options.shuffle, max(part.records, 1)), seed=options.seed)
    return data if part.most is None else data.take(part.most)


def epoch_seeds(tf: Any, options: LoadOptions) -> Data:
    """Return two numbers for each epoch, others whenever the dataset is gone through anew."""
    random = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True)
    epochs = -1 if options.repeat is True else max(options.repeat, 1)
    return random.batch(2, drop_remainder=True).take(epochs)


def read_balanced(tf: Any, part: Part, balance: Balance, options: LoadOptions) -> Data:
    """Return the records of all balanced epochs, read by number, since copies are far apart.

    Raises DatasetError if a shard of the part is not there.
    """
    _pieces(part)
    shards = open_shards(part.info)

    def chunks(seeds: Any) -> Iterator[Any]:  # arrays of NumPy
        import numpy as np

        numbers = balance.order(seeds.tolist() if options.shuffle else None).tolist()
        records = (data[start:end] for _, data, start, end in shards.stream(numbers))
        while chunk := list(islice(records, _PASSED)):
            yield np.array(chunk, object)

    def epoch(seeds: Data) -> Data:
        spec = tf.TensorSpec([None], tf.string)
        return tf.data.Dataset.from_generator(chunks, args=(seeds,), output_signature=spec)

    return epoch_seeds(tf, options).flat_map(epoch).prefetch(2).unbatch()


def _pieces(part: Part) -> list[Piece]:
    """Return what is read of which shards; raise DatasetError if one is missing."""
    pieces, paths = list(cut(part.ranges, shard_lengths(part.info))), shard_paths(part.info)
    for piece in pieces:
        refuse_missing(paths[piece.shard])
    return pieces
