"""A split decoded once and kept in memory: batches are gathered from one array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from imgrec.errors import UsageError
from imgrec.loaders.tf.available_memory import available_bytes
from imgrec.loaders.tf.pipeline import Pipeline
from imgrec.loaders.tf.records import epoch_seeds
from imgrec.text import size as shown_size

Data: TypeAlias = Any  # TensorFlow has no types
_BATCH = 128
_CALLS = 2
"""How many batches are cut at once. More were measured to be slower: all are bound by memory."""


def from_memory(pipeline: Pipeline) -> Data:
    """Decode all images now; return a dataset that shuffles all of them, and hardly takes time."""
    options = pipeline.options
    values = _decoded(pipeline)
    if options.batch_size and not options.repeat:
        data = _batches(pipeline, values, options.batch_size)
    else:
        data = _singles(pipeline, values)
    return data.prefetch(2).with_options(pipeline.tf_options())


def _orders(pipeline: Pipeline) -> Data:
    """Return, for each epoch, the places of its images in the order in which they come."""
    tf, options, balance = pipeline.tf, pipeline.options, pipeline.balance
    count = pipeline.epoch_count
    if balance is not None:
        records = balance.records()

        def balanced(seeds: Any) -> Any:  # arrays of NumPy
            order = balance.order(seeds.tolist() if options.shuffle else None)
            return records.searchsorted(order)

        def order(seeds: Data) -> Data:
            places = tf.numpy_function(balanced, [seeds], tf.int64)
            return tf.ensure_shape(places, [count])

    else:
        places = tf.range(pipeline.part.records, dtype=tf.int64)

        def order(seeds: Data) -> Data:
            if options.shuffle:
                return tf.random.experimental.stateless_shuffle(places, seeds)[:count]
            return places[:count]

    return epoch_seeds(tf, options).map(tf.autograph.experimental.do_not_convert(order))


def _singles(pipeline: Pipeline, values: dict[str, Data]) -> Data:
    """Choose images one by one, and then put them into batches, which epochs may share."""
    tf, options = pipeline.tf, pipeline.options
    places = _orders(pipeline).unbatch()
    places = places.apply(tf.data.experimental.assert_cardinality(pipeline.cardinality))
    if options.batch_size:
        is_even = pipeline.drops(options.batch_size)
        places = places.batch(options.batch_size, drop_remainder=is_even)

    def gathered(places: Data) -> Data:
        return pipeline.scaled({key: tf.gather(column, places) for key, column in values.items()})

    return places.map(tf.autograph.experimental.do_not_convert(gathered))


def _batches(pipeline: Pipeline, values: dict[str, Data], batch_size: int) -> Data:
    """Take whole batches, so that no image passes alone."""
    tf, options = pipeline.tf, pipeline.options
    is_even = pipeline.drops(batch_size)
    count = pipeline.epoch_count
    stop = count // batch_size * batch_size if is_even else count
    starts = tf.data.Dataset.range(0, stop, batch_size)

    def cut(at: Data, places: Data | None = None) -> Data:
        """Return a batch: what stands there, or what stands at the places that stand there."""
        part = slice(at, at + batch_size)
        taken = {
            key: column[part] if places is None else tf.gather(column, places[part])
            for key, column in values.items()
        }
        size = batch_size if is_even else None
        even = {key: tf.ensure_shape(each, [size, *each.shape[1:]]) for key, each in taken.items()}
        return pipeline.scaled(even)

    if not options.shuffle and pipeline.balance is None:
        return pipeline.mapped(starts, lambda at: cut(at), calls=_CALLS)
    batches = _orders(pipeline).flat_map(
        lambda places: pipeline.mapped(starts, lambda at: cut(at, places), calls=_CALLS)
    )
    return batches.apply(tf.data.experimental.assert_cardinality(len(starts)))


def _refuse_too_large(pipeline: Pipeline) -> None:
    """Raise UsageError if the decoded images would not fit into memory."""
    options = pipeline.options
    height, width = options.image_size or (0, 0)
    value_bytes = 4 if options.is_float else 1
    size = pipeline.epoch_count * height * width * pipeline.decoder.channels * value_bytes
    free = available_bytes()
    # Batches are joined once all are there, so that for a moment there are two copies.
    if free is None or 2 * size <= free:
        return
    raise UsageError(
        f"cache=True needs {shown_size(2 * size)} of memory for {pipeline.epoch_count:,} images of "
        f"{height}x{width}, and {shown_size(free)} are available",
        hint="leave out cache, or choose a smaller image_size or a part of the split",
    )


def _decoded(pipeline: Pipeline) -> dict[str, Data]:
    """Return all features of all records, in their order, each as one tensor."""
    tf, options = pipeline.tf, pipeline.options
    once = replace(
        options,
        shuffle=False,
        repeat=False,
        batch_size=min(_BATCH, pipeline.part.records),
        drop_remainder=False,
        as_dict=True,
        scale=None,
        dtype="float32" if options.exact and options.is_float else "uint8",
    )
    decoder = replace(pipeline.decoder, options=once)
    balance = pipeline.balance and pipeline.balance.once()
    part = replace(pipeline.part, most=None)
    whole = replace(pipeline, part=part, options=once, decoder=decoder, balance=balance)
    _refuse_too_large(whole)
    batches = list(whole.build())
    return {key: tf.concat([batch[key] for batch in batches], 0) for key in batches[0]}
