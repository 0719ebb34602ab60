"""Opening a packed dataset with tf.data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from imgrec.errors import UsageError
from imgrec.extras import needed
from imgrec.options.loading import LoadOptions
from imgrec.read.features import Features, read_features
from imgrec.read.metadata import read_info
from imgrec.read.pieces import part_of
from imgrec.read.samples import Pictures, read_columns, read_pictures
from imgrec.read.spec import record_ranges
from imgrec.read.tf_data.memory import from_memory
from imgrec.read.tf_data.pipeline import Pipeline
from imgrec.read.tf_data.pixels import RATIOS, Decoder, Known
from imgrec.read.tf_data.records import Part, copies

Data: TypeAlias = Any  # TensorFlow has no types


def load_folder(folder: Path, split: str, options: LoadOptions) -> Data:
    """Return the records of a split as a tf.data.Dataset."""
    info, features = read_info(folder), read_features(folder)
    ranges = record_ranges(split, info.splits)
    if options.shard is not None:
        ranges = part_of(ranges, *options.shard)
    part = Part(info=info, ranges=[records for records in ranges if records])
    if not part.count:
        raise UsageError(f"{split!r} is no records at all", hint="ask for more of them")
    _refuse_uneven_batches(options, features)
    tf = needed("tensorflow", extra="tfds", what="imgrec.load")
    pictures = read_pictures(folder)
    decoder = Decoder(
        tf=tf,
        known=Known(pictures.formats, features.image_shape, _ratios(pictures, options)),
        options=options,
        channels=options.channels or features.image_shape[2],
    )
    pipeline = Pipeline(
        tf=tf,
        part=part,
        features=features,
        decoder=decoder,
        options=options,
        classes=len(info.classes),
        times=_times(folder, part, features) if options.balance else (),
    )
    return from_memory(pipeline) if options.cache else pipeline.build()


def _refuse_uneven_batches(options: LoadOptions, features: Features) -> None:
    """Raise UsageError if images of several sizes would have to make one batch."""
    is_even = options.image_size or (features.is_one_size and not options.orient)
    if options.batch_size and not is_even:
        raise UsageError(
            "images of different sizes do not make a batch",
            hint="give image_size=(height, width), or leave out batch_size",
        )


def _ratios(pictures: Pictures, options: LoadOptions) -> tuple[int, ...]:
    """Return by how much one of the images, or its crop, could be shrunk while it is decoded."""
    if options.image_size is None or options.exact:
        return (1,)
    sizes = (
        [options.image_size, options.image_size[::-1]] if options.orient else [options.image_size]
    )
    return tuple(
        ratio
        for ratio in RATIOS
        if ratio == 1
        or any(
            pictures.max_height >= ratio * height and pictures.max_width >= ratio * width
            for height, width in sizes
        )
    )


def _times(folder: Path, part: Part, features: Features) -> Sequence[int]:
    if features.is_multilabel:
        raise UsageError(
            "images with several labels cannot be balanced by class",
            hint="leave out balance, and weigh the classes in the loss",
        )
    labels = read_columns(folder, part.info).labels
    return copies([labels[number] for records in part.ranges for number in records])
