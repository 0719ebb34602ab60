"""A split decoded once and kept in memory: batches are gathered from one array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from imgrec.read.tf_data.pipeline import Pipeline

Data: TypeAlias = Any  # TensorFlow has no types
_BATCH = 128


def from_memory(pipeline: Pipeline) -> Data:
    """Decode all images now; return a dataset that shuffles all of them, and hardly takes time."""
    tf, options = pipeline.tf, pipeline.options
    values = _decoded(pipeline)
    order = tf.range(pipeline.part.count, dtype=tf.int64)
    if pipeline.times:
        order = tf.repeat(order, list(pipeline.times))
    if options.batch_size and not options.repeat:
        chosen = _batches(pipeline, order, options.batch_size)
    else:
        chosen = _singles(pipeline, order)

    def gathered(places: Data) -> Data:
        return pipeline.scaled({key: tf.gather(column, places) for key, column in values.items()})

    data = chosen.map(tf.autograph.experimental.do_not_convert(gathered))
    return data.prefetch(2).with_options(pipeline.tf_options())


def _singles(pipeline: Pipeline, order: Data) -> Data:
    """Return the places of images one by one, or in batches that epochs may share."""
    options = pipeline.options
    chosen = pipeline.tf.data.Dataset.from_tensor_slices(order)
    if options.shuffle:
        chosen = chosen.shuffle(len(order), seed=options.seed)
    if options.repeat:
        chosen = chosen.repeat(None if options.repeat is True else options.repeat)
    if options.batch_size:
        is_even = pipeline.drops(options.batch_size)
        chosen = chosen.batch(options.batch_size, drop_remainder=is_even)
    return chosen


def _batches(pipeline: Pipeline, order: Data, batch_size: int) -> Data:
    """Return the places of the images of each batch, of which none passes alone."""
    tf, options = pipeline.tf, pipeline.options
    epochs = tf.data.Dataset.from_tensors(order)
    if options.shuffle:
        seeds = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True)
        epochs = seeds.batch(2, drop_remainder=True).take(1)
        epochs = epochs.map(lambda seed: tf.random.experimental.stateless_shuffle(order, seed))
    is_even = pipeline.drops(batch_size)
    stop = len(order) // batch_size * batch_size if is_even else len(order)

    def cut(places: Data) -> Data:
        starts = tf.data.Dataset.range(0, stop, batch_size)
        size = batch_size if is_even else None
        return starts.map(lambda at: tf.ensure_shape(places[at : at + batch_size], [size]))

    count = tf.data.experimental.assert_cardinality(-(-stop // batch_size))
    return epochs.flat_map(cut).apply(count)


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
