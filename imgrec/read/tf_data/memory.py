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
    count = pipeline.part.count
    order = tf.data.Dataset.range(count)
    if pipeline.times:
        places = tf.repeat(tf.range(count, dtype=tf.int64), list(pipeline.times))
        order = tf.data.Dataset.from_tensor_slices(places)
    if options.shuffle:
        order = order.shuffle(sum(pipeline.times) or count, seed=options.seed)
    if options.repeat:
        order = order.repeat(None if options.repeat is True else options.repeat)
    if options.batch_size:
        order = order.batch(options.batch_size, drop_remainder=pipeline.drops(options.batch_size))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def gathered(places: Data) -> Data:
        return pipeline.scaled({key: tf.gather(column, places) for key, column in values.items()})

    data = order.map(gathered)
    return data.prefetch(2).with_options(pipeline.tf_options())


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
