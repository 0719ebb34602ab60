"""The tf.data pipeline from the records of a dataset to batches of images and labels.

Two things make it fast. Small images are bound by the cost of each element that passes, so their
records are batched first, parsed all at once, and decoded by one map. Photos are bound by decoding
and copying, so each is decoded at the smallest scale that will do and batched as uint8.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from imgrec.loaders.tf.balance import Balance
from imgrec.loaders.tf.pixels import Decoder
from imgrec.loaders.tf.records import Part, read, read_balanced, shuffled
from imgrec.options import ColumnKind
from imgrec.options.loading import Crop, LoadOptions
from imgrec.read.tfds_files import Features

Tensor: TypeAlias = Any  # TensorFlow has no types
Data: TypeAlias = Any

_SMALL_BYTES = 16_384
"""Records up to this size, on the average, are parsed and decoded a batch at a time."""
_WAITING = 2
"""How many more calls are under way than there are CPUs: some wait for their turn, as results come
in order. Photos were measured to load 8 % faster than with none."""
_UNROLLED = 128
"""The most images that one map decodes; larger batches are put together of such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """All that a pipeline is made of."""

    tf: Any
    part: Part
    features: Features
    decoder: Decoder
    options: LoadOptions
    classes: int
    balance: Balance | None = None
    """Which records come instead of all of the part, if classes are balanced."""

    def build(self) -> Data:
        """Return the dataset: pairs of images and labels, or dicts of all features."""
        options = self.options
        data = self._records()
        if options.crop is Crop.RANDOM:
            data = self.tf.data.Dataset.zip(data, self._seeds())
        if options.batch_size and self.part.record_bytes <= _SMALL_BYTES:
            data = self._decoded_together(data, options.batch_size)
        else:
            data = self._decoded_singly(data)
        return data.prefetch(2).with_options(self.tf_options())

    def _records(self) -> Data:
        """Return the serialized records of all epochs."""
        tf, options = self.tf, self.options
        if self.balance is not None:
            data = read_balanced(tf, self.part, self.balance, options)
            return data.apply(tf.data.experimental.assert_cardinality(self.cardinality))
        data = shuffled(read(tf, self.part, options), self.part, options)
        if options.repeat:
            data = data.repeat(None if options.repeat is True else options.repeat)
        return data

    def _seeds(self) -> Data:
        """Return two numbers for each record, which its random crop depends on alone."""
        random = self.tf.data.Dataset.random(
            seed=self.options.seed, rerandomize_each_iteration=True
        )
        return random.batch(2, drop_remainder=True)

    def tf_options(self) -> Any:
        """Return the settings of the pipeline."""
        settings = self.tf.data.Options()
        settings.deterministic = not self.options.shuffle or self.options.seed is not None
        # Every parallel step has its number: TensorFlow's search for one keeps a thread that makes
        # the end of each epoch wait for it.
        settings.autotune.enabled = False
        settings.threading.max_intra_op_parallelism = 1
        return settings

    def _decoded_singly(self, data: Data) -> Data:
        """Decode images one at a time, and batch them if asked to."""
        options, tf = self.options, self.tf

        def decode(record: Tensor, seeds: Tensor | None = None) -> dict[str, Tensor]:
            parsed = self._with_label_vectors(tf.io.parse_single_example(record, self._spec()))
            return {**parsed, "image": self.decoder(parsed["image"], parsed["shape"], seeds)}

        data = self.mapped(data, decode)
        if options.batch_size:
            data = data.batch(options.batch_size, drop_remainder=self.drops(options.batch_size))
        return self.mapped(data, self.scaled)

    def _decoded_together(self, data: Data, batch_size: int) -> Data:
        """Parse and decode a whole batch in one map."""
        tf = self.tf
        unrolled = min(batch_size, _UNROLLED)

        def decode(records: Tensor, seeds: Tensor | None = None) -> Any:
            parsed = self._with_label_vectors(tf.io.parse_example(records, self._spec()))
            images, shapes, count = parsed["image"], parsed["shape"], tf.shape(records)[0]
            if records.shape[0] is None:
                # The last batch is filled up with its first image, which is taken off again.
                places = tf.range(unrolled)
                places = tf.where(places < count, places, 0)
                images, shapes = tf.gather(images, places), tf.gather(shapes, places)
                seeds = tf.gather(seeds, places) if seeds is not None else None
            each = [_parts(tf, column, unrolled) for column in (images, shapes, seeds)]
            pixels = tf.stack([self.decoder(*parts) for parts in zip(*each, strict=True)])
            return self.scaled({**parsed, "image": pixels[:count]})

        if unrolled == batch_size:
            whole = data.batch(batch_size, drop_remainder=self.drops(batch_size))
            return self.mapped(whole, decode)
        pieces = data.batch(unrolled, drop_remainder=self._is_even(unrolled))
        batches = self.mapped(pieces, decode).rebatch(batch_size, self.drops(batch_size))
        return batches.apply(tf.data.experimental.assert_cardinality(self._batches(batch_size)))

    def mapped(self, data: Data, function: Callable[..., Any], *, calls: int = 0) -> Data:
        """Apply a function to all of `data`, so many at once; by default, as many as decode."""
        # What is in there is plain Python: looking for loops to convert takes as long as the rest.
        as_it_is = self.tf.autograph.experimental.do_not_convert(function)
        return data.map(as_it_is, num_parallel_calls=calls or _cpus() + _WAITING)

    @property
    def cardinality(self) -> int:
        """Count the records of all epochs, in the way of tf.data."""
        is_endless = self.options.repeat is True
        return int(self.tf.data.INFINITE_CARDINALITY) if is_endless else self._count()

    def _batches(self, batch_size: int) -> int:
        if self.options.repeat is True:
            return self.cardinality
        records = self._count() - (self._count() % batch_size) * self.options.drop_remainder
        return -(-records // batch_size)

    def _count(self) -> int:
        """Count the records of all epochs."""
        return self.epoch_count * max(self.options.repeat, 1)

    @property
    def epoch_count(self) -> int:
        """Count the records of one epoch."""
        return self.part.count if self.balance is None else self.balance.count

    def drops(self, batch_size: int) -> bool:
        """Tell whether all batches have one size: the smaller last one is dropped, or is none."""
        return self.options.drop_remainder or self._is_even(batch_size)

    def _is_even(self, batch_size: int) -> bool:
        """Tell whether no batch is left smaller than the others."""
        if self.options.repeat is True:
            return True
        return self._count() % batch_size == 0

    def _spec(self) -> dict[str, Any]:
        """Return how a record is parsed: only what is asked for."""
        io, tf = self.tf.io, self.tf
        spec = {
            "image": io.FixedLenFeature([], tf.string),
            "shape": io.FixedLenFeature([3], tf.int64),
        }
        if self.features.is_multilabel:
            spec["labels"] = io.FixedLenSequenceFeature(
                [], tf.int64, allow_missing=True, default_value=-1
            )
        else:
            spec["label"] = io.FixedLenFeature([], tf.int64)
        if self.options.as_dict:
            spec["filename"] = io.FixedLenFeature([], tf.string)
            kinds = {
                ColumnKind.INT: tf.int64, ColumnKind.FLOAT: tf.float32, ColumnKind.TEXT: tf.string
            }  # fmt: skip
            for name, kind in self.features.columns.items():
                spec[name] = io.FixedLenFeature([], kinds[kind])
        return spec

    def _with_label_vectors(self, parsed: dict[str, Tensor]) -> dict[str, Tensor]:
        """Replace the labels of one record or of many by a 0 or 1 for each class.

        This comes before batching: records have different numbers of labels, but as many classes.
        """
        if not self.features.is_multilabel:
            return parsed
        ones = self.tf.one_hot(parsed[self.label_key], self.classes)  # -1 pads rows; it is all 0
        return {**parsed, self.label_key: self.tf.reduce_sum(ones, -2)}

    def scaled(self, values: dict[str, Tensor]) -> Any:
        """Return what comes out, with the values of pixels as they are asked for."""
        tf, options = self.tf, self.options
        images = values["image"]
        if options.scale is not None:
            low, high = options.scale
            images = tf.cast(images, tf.float32) * ((high - low) / 255) + low
        images = tf.cast(images, options.dtype)
        return {**values, "image": images} if options.as_dict else (images, values[self.label_key])

    @property
    def label_key(self) -> str:
        """Return the name of the feature that holds the label or labels."""
        return "labels" if self.features.is_multilabel else "label"


def _parts(tf: Any, column: Tensor | None, count: int) -> list[Tensor | None]:
    return [None] * count if column is None else tf.unstack(column, count)


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
