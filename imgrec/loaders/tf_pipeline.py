"""The tf.data pipeline from the records of a dataset to batches of images and labels.

Two things make it fast. Small images are bound by the cost per element, so their records are
batched first, parsed all at once, and decoded by one map. Photos are bound by decoding and copying,
so each is decoded at the smallest scale that suffices, and batched as uint8.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from imgrec.errors import CorruptRecord, UsageError
from imgrec.loaders.selection import Balance, Selection
from imgrec.loaders.tf_decode import Decoder
from imgrec.options import ColumnKind
from imgrec.options.loading import Labels, LoadOptions
from imgrec.read.shards import (
    read_shard,
    refuse_incomplete,
    shard_lengths,
    shard_paths,
)
from imgrec.read.splits import Piece, between, cut
from imgrec.read.store_shards import open_shards
from imgrec.storage.paths import is_remote
from imgrec.text import name_of
from imgrec.text import size as shown_size

Tensor: TypeAlias = Any  # TensorFlow has no types
Data: TypeAlias = Any

_SMALL_BYTES = 16_384
"""Records up to this mean size are parsed and decoded a batch at a time. 20,000 PNGs of 32x32
loaded in 0.45 s, against 0.61 s one by one (medians of 8 epochs on two busy cores)."""
_EXTRA_CALLS = 2
"""Parallel calls beyond the number of CPUs: some wait for their turn, because results come in
order. Photos were measured to load 8 % faster than without."""
_MAX_UNROLLED = 128
"""The most images that one map decodes; larger batches are composed of such."""
_READ_BYTES = 1 << 20
_SHUFFLE_BYTES = 256 << 20
"""The size of the shuffle buffer, unless the caller gives one in records."""
_MIN_SHUFFLED = 1_000
_BLOCK_SHARDS = 4
"""The least number of shards whose records are shuffled together."""
_BLOCK_BUFFERS = 4
"""The least size of a block, in shuffle buffers. Nothing is decoded while the buffer of a block is
filled: with one buffer, 20,000 photos at 96 px loaded 8 % slower."""
_OPEN_SHARDS = 16
_READERS = 2
_BLOCK_RECORDS = 16
"""Consecutive records from one shard, when shards are mixed."""
_CHUNK_RECORDS = 64
"""Records that go from Python to TensorFlow at once, if they are read by number."""
_GATHER_CALLS = 2
"""Batches gathered from memory at once. More were measured to be slower: memory is the limit."""
_CACHE_BATCH_SIZE = 128
_GRAPH_SEED = 87_654_321
"""TensorFlow's own default."""
_ENDLESS = (1 << 63) - 1
_FOREVER = -1
"""As `repeat` takes it."""
_MEMINFO = "/proc/meminfo"
_CGROUPS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Limit and use of a container's memory, in versions 2 and 1 of control groups."""
_DTYPES = {ColumnKind.INT: tf.int64, ColumnKind.FLOAT: tf.float32, ColumnKind.TEXT: tf.string}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The parts of a pipeline."""

    selection: Selection
    decoder: Decoder
    options: LoadOptions

    def build(self) -> Data:
        """Return the dataset: pairs of images and labels, or dicts of all features."""
        data = self._build_cached() if self.options.cache else self._build_streamed()
        return data.prefetch(2).with_options(self._tf_options())

    def _build_streamed(self) -> Data:
        options = self.options
        data = self._records()
        if options.is_random:
            data = tf.data.Dataset.zip(data, _random_pairs(options).skip(self._skipped))
        if options.batch_size and self.selection.record_bytes <= _SMALL_BYTES:
            return self._decode_batches(data, options.batch_size)
        return self._decode_singly(data)

    def _tf_options(self) -> Any:
        """Return the settings of the tf.data pipeline."""
        settings = tf.data.Options()
        settings.deterministic = not self.options.shuffle or self.options.seed is not None
        # Every parallel step has a fixed number of calls. TensorFlow's search for one keeps a
        # thread that the end of each epoch would wait for.
        settings.autotune.enabled = False
        settings.threading.max_intra_op_parallelism = 1
        return settings

    # Reading records

    def _records(self) -> Data:
        """Return the serialized records of all epochs."""
        selection, options = self.selection, self.options
        pieces = list(cut(selection.ranges, shard_lengths(selection.info)))
        refuse_incomplete(selection.info, {piece.shard for piece in pieces})
        if selection.balance is not None:
            data = self._epochs(self._balanced_epoch(selection.balance)).prefetch(2).unbatch()
        elif options.shuffle:
            data = self._epochs(self._shuffled_epoch(pieces))
        else:
            data = self._plain_epochs()
        return data.apply(tf.data.experimental.assert_cardinality(self._cardinality))

    def _epochs(self, epoch: Callable[[Tensor, Tensor], Data]) -> Data:
        """Return all epochs, each from its seeds and the number of records that it skips."""
        done, rest = divmod(self._skipped, self.selection.epoch_count)

        def from_number(number: Tensor, seeds: Tensor) -> Data:
            return epoch(seeds, tf.where(number == done, tf.constant(rest, tf.int64), 0))

        numbered = tf.data.Dataset.zip(tf.data.Dataset.range(_ENDLESS), _epoch_seeds(self.options))
        return numbered.skip(done).flat_map(_unconverted(from_number))

    def _plain_epochs(self) -> Data:
        """Return all epochs in order; skipped records are read past in their last shard only."""
        ranges, count = self.selection.ranges, self.selection.epoch_count
        done, rest = divmod(self._skipped, count)
        epochs = _FOREVER if self.options.repeat is True else max(self.options.repeat, 1) - done
        whole = self._in_order(between(ranges, 0, count))
        if not rest:
            return whole.repeat(epochs)
        begun = self._in_order(between(ranges, rest, count))
        return begun.concatenate(whole.repeat(max(epochs - 1, _FOREVER)))

    def _in_order(self, ranges: list[range]) -> Data:
        pieces = list(cut(ranges, shard_lengths(self.selection.info)))
        files = tf.data.Dataset.from_tensor_slices(self._columns(pieces))
        return files.flat_map(_unconverted(self._open_piece(pieces)))

    def _shuffled_epoch(self, pieces: list[Piece]) -> Callable[[Tensor, Tensor], Data]:
        """Shuffle the shards, and the records in each block of shards.

        Blocks whose records are all skipped are not read.
        """
        selection, options = self.selection, self.options
        size = options.shuffle
        if size is True:
            size = max(_SHUFFLE_BYTES // max(selection.record_bytes, 1), _MIN_SHUFFLED)
        # TensorFlow allocates the whole buffer at once, however few records there are.
        size = min(size, selection.records)
        share = -(-_BLOCK_BUFFERS * size * len(pieces) // selection.records)
        width = min(max(share, _BLOCK_SHARDS), len(pieces))
        open_piece, columns = self._open_piece(pieces), self._columns(pieces)

        def epoch(seeds: Tensor, skip: Tensor) -> Data:
            order = tf.random.experimental.stateless_shuffle(tf.range(len(pieces)), seeds)
            shuffled = [tf.gather(column, order) for column in columns]
            ends = tf.concat([[0], tf.cumsum(shuffled[2])], 0)

            def block(first: Tensor) -> Data:
                last = tf.minimum(first + width, len(pieces))
                files = tf.data.Dataset.from_tensor_slices(
                    tuple(column[first:last] for column in shuffled)
                )
                data = files.interleave(
                    _unconverted(open_piece),
                    cycle_length=min(width, _OPEN_SHARDS),
                    block_length=_BLOCK_RECORDS,
                    num_parallel_calls=min(width, _READERS),
                    deterministic=options.seed is not None,
                )
                # For this graph only: TensorFlow combines its seed with that of the shuffle, and
                # fails if the user's global seed is 0, as it compares a tensor with a number.
                tf.random.set_seed(_GRAPH_SEED)
                data = data.shuffle(size, seed=seeds[0] + first, reshuffle_each_iteration=False)
                return data.skip(tf.maximum(skip - ends[first], 0))

            if width == len(pieces):
                # Each level of functions takes 4 ms at the start of an epoch.
                data = block(tf.constant(0, tf.int64))
            else:
                skipped = tf.cast(ends[width::width] <= skip, tf.int64)
                first = width * tf.reduce_sum(skipped)
                blocks = tf.data.Dataset.range(first, len(pieces), width)
                data = blocks.flat_map(_unconverted(block))
            limit = selection.limit
            return data if limit is None else data.take(limit - skip)

        return epoch

    def _open_piece(self, pieces: list[Piece]) -> Callable[[Tensor, Tensor, Tensor], Data]:
        """Return the function that reads some records of a shard."""
        info, lengths = self.selection.info, shard_lengths(self.selection.info)
        is_whole = all(piece == Piece(piece.shard, 0, lengths[piece.shard]) for piece in pieces)

        def open_piece(path: Data, skip: Data, take: Data) -> Data:
            if is_remote(info.path):
                data = _stream(path, info.compression)
            else:
                kind = info.compression.upper()
                data = tf.data.TFRecordDataset(path, compression_type=kind, buffer_size=_READ_BYTES)
            return data if is_whole else data.skip(skip).take(take)

        return open_piece

    def _columns(self, pieces: list[Piece]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path of each piece, how many records to skip there, and how many to take."""
        paths = shard_paths(self.selection.info)
        names = [name_of(paths[piece.shard]) for piece in pieces]
        skips, takes = ([piece[at] for piece in pieces] for at in (1, 2))
        return tf.constant(names), tf.constant(skips, tf.int64), tf.constant(takes, tf.int64)

    def _balanced_epoch(self, balance: Balance) -> Callable[[Tensor, Tensor], Data]:
        """Read chunks of records by number: copies are far apart."""
        shards, options = open_shards(self.selection.info), self.options

        def chunks(seeds: Any, skip: Any) -> Iterator[Any]:  # NumPy arrays
            order = balance.order(seeds.tolist() if options.shuffle else None)
            numbers = order[int(skip) :].tolist()
            records = (data[start:end] for _, data, start, end in shards.stream(numbers))
            while chunk := list(islice(records, _CHUNK_RECORDS)):
                yield np.array(chunk, object)

        def epoch(seeds: Tensor, skip: Tensor) -> Data:
            spec = tf.TensorSpec([None], tf.string)
            return tf.data.Dataset.from_generator(chunks, args=(seeds, skip), output_signature=spec)

        return epoch

    # Decoding images

    def _decode_singly(self, data: Data) -> Data:
        """Decode images one at a time, and batch them on request."""
        options = self.options

        def decode(record: Tensor, seeds: Tensor | None = None) -> dict[str, Tensor]:
            parsed = self._with_label_vectors(tf.io.parse_single_example(record, self._spec()))
            pixels = self.decoder(parsed["image"], parsed["shape"], seeds)
            return {**parsed, "image": self._flip(pixels, seeds)}

        data = _parallel_map(data, decode)
        if options.batch_size:
            is_even = self._has_even_batches(options.batch_size)
            data = data.batch(options.batch_size, drop_remainder=is_even)
        return _parallel_map(data, self._finish)

    def _decode_batches(self, data: Data, batch_size: int) -> Data:
        """Parse and decode a whole batch in one map."""
        unrolled = min(batch_size, _MAX_UNROLLED)

        def decode(records: Tensor, seeds: Tensor | None = None) -> Any:
            parsed = self._with_label_vectors(tf.io.parse_example(records, self._spec()))
            images, shapes, count = parsed["image"], parsed["shape"], tf.shape(records)[0]
            if records.shape[0] is None:
                # The last batch is filled up with its first image, which is removed again below.
                places = tf.range(unrolled)
                places = tf.where(places < count, places, 0)
                images, shapes = tf.gather(images, places), tf.gather(shapes, places)
                seeds = tf.gather(seeds, places) if seeds is not None else None
            columns = [tf.unstack(images, unrolled), tf.unstack(shapes, unrolled)]
            columns.append([None] * unrolled if seeds is None else tf.unstack(seeds, unrolled))
            pixels = tf.stack([self.decoder(*one) for one in zip(*columns, strict=True)])
            flipped = self._flip(pixels, seeds)
            return self._finish({**parsed, "image": flipped[:count]})

        if unrolled == batch_size:
            batches = data.batch(batch_size, drop_remainder=self._has_even_batches(batch_size))
            return _parallel_map(batches, decode)
        pieces = data.batch(unrolled, drop_remainder=self._divides_evenly(unrolled))
        is_even = self._has_even_batches(batch_size)
        batches = _parallel_map(pieces, decode).rebatch(batch_size, is_even)
        return batches.apply(tf.data.experimental.assert_cardinality(self._batch_count(batch_size)))

    def _flip(self, images: Tensor, seeds: Tensor | None) -> Tensor:
        """Mirror images whose first seed is odd, on request; take one image, or many."""
        if not self.options.flip or seeds is None:
            return images
        is_odd = seeds[..., 0] % 2 == 1
        return tf.where(is_odd[..., None, None, None], tf.reverse(images, [-2]), images)

    def _spec(self) -> dict[str, Any]:
        """Return the features to parse from a record: only those that are asked for."""
        features = self.selection.features
        spec = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "shape": tf.io.FixedLenFeature([3], tf.int64),
        }
        if features.is_multilabel:
            spec["labels"] = tf.io.FixedLenSequenceFeature(
                [], tf.int64, allow_missing=True, default_value=-1
            )
        else:
            spec["label"] = tf.io.FixedLenFeature([], tf.int64)
        if self.options.as_dict:
            spec["filename"] = tf.io.FixedLenFeature([], tf.string)
            for name, kind in features.columns.items():
                spec[name] = tf.io.FixedLenFeature([], _DTYPES[kind])
        return spec

    def _with_label_vectors(self, parsed: dict[str, Tensor]) -> dict[str, Tensor]:
        """Replace several labels, and others on request, by a 0 or 1 for each class.

        It takes one record or many. This comes before batching: records have different numbers of
        labels.
        """
        # Rows are padded with -1, as is a missing label, which one_hot turns into zeros.
        classes = len(self.selection.info.classes)
        if self.selection.features.is_multilabel:
            ones = tf.one_hot(parsed["labels"], classes)
            return {**parsed, "labels": tf.reduce_sum(ones, -2)}
        if self.options.labels is Labels.ONEHOT:
            return {**parsed, "label": tf.one_hot(parsed["label"], classes)}
        return parsed

    def _finish(self, values: dict[str, Tensor]) -> Any:
        """Scale and cast pixels as requested, and return the element to yield."""
        options, images = self.options, values["image"]
        if options.scale is not None:
            low, high = options.scale
            images = tf.cast(images, tf.float32) * ((high - low) / 255) + low
        images = tf.cast(images, options.dtype)
        if options.as_dict:
            return {**values, "image": images}
        return images, values["labels" if self.selection.features.is_multilabel else "label"]

    # Keeping images in memory

    def _build_cached(self) -> Data:
        """Decode all images now; return a fast dataset that shuffles all of them."""
        values, batch_size = self._decode_all(), self.options.batch_size
        places = self._orders().unbatch().skip(self._skipped)
        places = places.apply(tf.data.experimental.assert_cardinality(self._cardinality))
        if self.options.flip:
            pairs = _random_pairs(self.options).skip(self._skipped)
            places = tf.data.Dataset.zip(places, pairs)
        if batch_size:
            places = places.batch(batch_size, drop_remainder=self._has_even_batches(batch_size))

        def gather(places: Data, seeds: Tensor | None = None) -> Data:
            found = {key: tf.gather(column, places) for key, column in values.items()}
            return self._finish({**found, "image": self._flip(found["image"], seeds)})

        return _parallel_map(places, gather, calls=_GATHER_CALLS)

    def _decode_all(self) -> dict[str, Data]:
        """Return all features of all records, in order, each as one tensor."""
        selection, options = self.selection, self.options
        if selection.balance is not None:
            once = Balance(classes=(), unlabelled=selection.balance.records())
            selection = replace(selection, balance=once)
        options = replace(
            options,
            shuffle=False,
            repeat=False,
            flip=False,
            cache=False,
            skip_to=0,
            batch_size=min(_CACHE_BATCH_SIZE, selection.records),
            drop_remainder=False,
            as_dict=True,
            scale=None,
            dtype="float32" if options.exact and options.is_float else "uint8",
        )
        whole = Pipeline(
            selection=replace(selection, limit=None),
            decoder=replace(self.decoder, options=options),
            options=options,
        )
        _refuse_too_large(whole)
        try:
            batches = list(whole.build())
        except tf.errors.DataLossError as error:
            path = selection.info.path
            raise CorruptRecord(
                f"a record in {path} is damaged", hint=f"run imgrec verify {path}", path=path
            ) from error
        return {key: tf.concat([batch[key] for batch in batches], 0) for key in batches[0]}

    def _orders(self) -> Data:
        """Return, for each epoch, the places of its images in order."""
        selection, options, balance = self.selection, self.options, self.selection.balance
        count = selection.epoch_count
        if balance is not None:
            records = balance.records()

            def balanced(seeds: Any) -> Any:  # NumPy arrays
                order = balance.order(seeds.tolist() if options.shuffle else None)
                return records.searchsorted(order)

            def order(seeds: Data) -> Data:
                return tf.ensure_shape(tf.numpy_function(balanced, [seeds], tf.int64), [count])

        else:
            places = tf.range(selection.records, dtype=tf.int64)

            def order(seeds: Data) -> Data:
                if options.shuffle:
                    return tf.random.experimental.stateless_shuffle(places, seeds)[:count]
                return places[:count]

        return _epoch_seeds(options).map(_unconverted(order))

    # Counting

    @property
    def _skipped(self) -> int:
        """Count the records before the first that is wanted."""
        return self.options.skip_to * (self.options.batch_size or 1)

    @property
    def _cardinality(self) -> int:
        """Count the records of all epochs, as tf.data does."""
        if self.options.repeat is True:
            return int(tf.data.INFINITE_CARDINALITY)
        return self.selection.epoch_count * max(self.options.repeat, 1) - self._skipped

    def _batch_count(self, batch_size: int) -> int:
        if self.options.repeat is True:
            return self._cardinality
        whole, rest = divmod(self._cardinality, batch_size)
        return whole + (rest > 0 and not self.options.drop_remainder)

    def _has_even_batches(self, batch_size: int) -> bool:
        """Return whether all batches have the same size, because a smaller last one is dropped."""
        return self.options.drop_remainder or self._divides_evenly(batch_size)

    def _divides_evenly(self, batch_size: int) -> bool:
        return self.options.repeat is True or self._cardinality % batch_size == 0


def _parallel_map(data: Data, function: Callable[..., Any], *, calls: int = 0) -> Data:
    """Apply a function to all elements, `calls` at once; by default, as many as can decode."""
    return data.map(_unconverted(function), num_parallel_calls=calls or _cpu_count() + _EXTRA_CALLS)


def _unconverted(function: Callable[..., Any]) -> Any:
    # The functions are plain Python. Searching them for loops to convert would double the time.
    return tf.autograph.experimental.do_not_convert(function)


def _epoch_seeds(options: LoadOptions) -> Data:
    """Return two numbers for each epoch, different ones in each iteration of the dataset."""
    epochs = -1 if options.repeat is True else max(options.repeat, 1)
    return _random_pairs(options).take(epochs)


def _random_pairs(options: LoadOptions) -> Data:
    random = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True)
    return random.batch(2, drop_remainder=True)


def _stream(path: Data, compression: str) -> Data:
    """Return the records of a shard on an object store that TensorFlow itself cannot read."""

    def records(url: bytes) -> Iterator[bytes]:
        return (payload for _, payload in read_shard(url.decode(), compression))

    spec = tf.TensorSpec((), tf.string)
    return tf.data.Dataset.from_generator(records, args=(path,), output_signature=spec)


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _refuse_too_large(pipeline: Pipeline) -> None:
    """Raise UsageError if the decoded images would not fit into memory."""
    options, count = pipeline.options, pipeline.selection.epoch_count
    height, width = options.image_size or pipeline.decoder.shape[:2]
    value_bytes = 4 if options.is_float else 1
    # Joining the batches takes two copies for a moment.
    needed_bytes = 2 * count * height * width * pipeline.decoder.channels * value_bytes
    free_bytes = available_bytes()
    if free_bytes is not None and needed_bytes > free_bytes:
        raise UsageError(
            f"cache=True needs {shown_size(needed_bytes)} of memory for {count:,} images of "
            f"{height}x{width}, and {shown_size(free_bytes)} are available",
            hint="leave out cache, or choose a smaller image_size or a part of the split",
        )


def available_bytes() -> int | None:
    """Return the memory that this process can still allocate; None if it is unknown."""
    limits = [_free_in_system(), *(_free_in_cgroup(*names) for names in _CGROUPS)]
    return min((limit for limit in limits if limit is not None), default=None)


def _free_in_system() -> int | None:
    try:
        kib = _read_numbers(_MEMINFO)
        return (kib["MemAvailable:"] + kib["SwapFree:"]) << 10
    except (OSError, ValueError, KeyError):
        return None


def _free_in_cgroup(folder: str, limit: str, used: str) -> int | None:
    try:
        with open(folder + limit) as limit_file, open(folder + used) as used_file:
            free = int(limit_file.read()) - int(used_file.read())
        stat = _read_numbers(f"{folder}memory.stat")
        # Cached pages of files count as used, but are freed when memory is needed.
        return max(free + stat["inactive_file"] + stat["active_file"], 0)
    except (OSError, ValueError, KeyError):  # no such group, or its limit is "max"
        return None


def _read_numbers(path: str) -> dict[str, int]:
    """Read lines of a name, a number and perhaps a unit."""
    with open(path) as file:
        lines = [line.split() for line in file]
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
