"""A split decoded once and kept in memory: batches are gathered from one array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import tensorflow as tf

from imgrec.errors import UsageError
from imgrec.loaders.selection import Balance
from imgrec.loaders.tf_pipeline import Pipeline, epoch_seeds, parallel_map
from imgrec.text import size as shown_size

Data: TypeAlias = Any  # TensorFlow has no types

_BATCH_SIZE = 128
_CALLS = 2
"""Batches gathered at once. More were measured to be slower: all are bound by memory."""


def load_from_memory(pipeline: Pipeline) -> Data:
    """Decode all images now; return a dataset that shuffles all of them and takes little time."""
    values, batch_size = _decode_all(pipeline), pipeline.options.batch_size
    places = _orders(pipeline).unbatch()
    places = places.apply(tf.data.experimental.assert_cardinality(pipeline.cardinality))
    if batch_size:
        places = places.batch(batch_size, drop_remainder=pipeline.has_even_batches(batch_size))

    def gather(places: Data) -> Data:
        return pipeline.finish({key: tf.gather(column, places) for key, column in values.items()})

    return (
        parallel_map(places, gather, calls=_CALLS).prefetch(2).with_options(pipeline.tf_options())
    )


def _decode_all(pipeline: Pipeline) -> dict[str, Data]:
    """Return all features of all records, in order, each as one tensor."""
    selection, options = pipeline.selection, pipeline.options
    if selection.balance is not None:
        once = Balance(classes=(), unlabelled=selection.balance.records())
        selection = replace(selection, balance=once)
    options = replace(
        options,
        shuffle=False,
        repeat=False,
        batch_size=min(_BATCH_SIZE, selection.records),
        drop_remainder=False,
        as_dict=True,
        scale=None,
        dtype="float32" if options.exact and options.is_float else "uint8",
    )
    whole = Pipeline(
        selection=replace(selection, limit=None),
        decoder=replace(pipeline.decoder, options=options),
        options=options,
    )
    _refuse_too_large(whole)
    batches = list(whole.build())
    return {key: tf.concat([batch[key] for batch in batches], 0) for key in batches[0]}


def _refuse_too_large(pipeline: Pipeline) -> None:
    """Raise UsageError if the decoded images would not fit into memory."""
    options, count = pipeline.options, pipeline.selection.epoch_count
    height, width = options.image_size or (0, 0)
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


def _orders(pipeline: Pipeline) -> Data:
    """Return, for each epoch, the places of its images in order."""
    selection, options, balance = pipeline.selection, pipeline.options, pipeline.selection.balance
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

    return epoch_seeds(options).map(tf.autograph.experimental.do_not_convert(order))


_MEMINFO = "/proc/meminfo"
_CGROUPS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Limit and use of a container's memory, in versions 2 and 1 of control groups."""


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
