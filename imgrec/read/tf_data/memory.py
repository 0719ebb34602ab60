"""A split decoded once and kept in memory: batches are gathered from one array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from imgrec.read.tf_data.pipeline import Pipeline

Data: TypeAlias = Any  # TensorFlow has no types
_BATCH = 128
_CALLS = 2
"""How many batches are cut at once. More were measured to be slower: all are bound by memory."""


def from_memory(pipeline: Pipeline) -> Data:
    """Decode all images now; return a dataset that shuffles all of them, and hardly takes time."""
    tf, options = pipeline.tf, pipeline.options
    values = _decoded(pipeline)
    order = tf.range(pipeline.part.count, dtype=tf.int64)
    if pipeline.times:
        order = tf.repeat(order, list(pipeline.times))
    if options.batch_size and not options.repeat:
        data = _batches(pipeline, values, order, options.batch_size)
    else:
        data = _singles(pipeline, values, order)
    return data.prefetch(2).with_options(pipeline.tf_options())


def _singles(pipeline: Pipeline, values: dict[str, Data], order: Data) -> Data:
    """Choose images one by one, and then put them into batches, which epochs may share."""
    tf, options = pipeline.tf, pipeline.options
    places = tf.data.Dataset.from_tensor_slices(order)
    if options.shuffle:
        places = places.shuffle(len(order), seed=options.seed)
    if options.repeat:
        places = places.repeat(None if options.repeat is True else options.repeat)
    if options.batch_size:
        is_even = pipeline.drops(options.batch_size)
        places = places.batch(options.batch_size, drop_remainder=is_even)

    def gathered(places: Data) -> Data:
        return pipeline.scaled({key: tf.gather(column, places) for key, column in values.items()})

    return places.map(tf.autograph.experimental.do_not_convert(gathered))


def _batches(pipeline: Pipeline, values: dict[str, Data], order: Data, batch_size: int) -> Data:
    """Take whole batches, so that no image passes alone."""
    tf, options = pipeline.tf, pipeline.options
    is_even = pipeline.drops(batch_size)
    stop = len(order) // batch_size * batch_size if is_even else len(order)
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

    if not options.shuffle and not pipeline.times:
        return pipeline.mapped(starts, cut, calls=_CALLS)
    epochs = tf.data.Dataset.from_tensors(order)
    if options.shuffle:
        seeds = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True)
        epochs = seeds.batch(2, drop_remainder=True).take(1)
        epochs = epochs.map(lambda seed: tf.random.experimental.stateless_shuffle(order, seed))
    batches = epochs.flat_map(
        lambda places: pipeline.mapped(starts, lambda at: cut(at, places), calls=_CALLS)
    )
    return batches.apply(tf.data.experimental.assert_cardinality(len(starts)))


def _decoded(pipeline: Pipeline) -> dict[str, Data]:
    """Return all features of all records, in their order, each as one tensor."""
    tf, options = pipeline.tf, pipeline.options
    once = replace(
        options,
        shuffle=False,
        repeat=False,
        batch_size=_BATCH,
        drop_remainder=False,
        as_dict=True,
        scale=None,
        dtype="float32" if options.exact and options.is_float else "uint8",
    )
    decoder = replace(pipeline.decoder, options=once)
    whole = replace(pipeline, options=once, decoder=decoder, times=())
    batches = list(whole.build())
    return {key: tf.concat([batch[key] for batch in batches], 0) for key in batches[0]}
