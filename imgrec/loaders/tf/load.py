"""Opening a packed dataset with tf.data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from imgrec.errors import UsageError
from imgrec.extras import needed
from imgrec.loaders.tf.balance import Balance, balance
from imgrec.loaders.tf.memory import from_memory
from imgrec.loaders.tf.pipeline import Pipeline
from imgrec.loaders.tf.pixels import RATIOS, Decoder, Known
from imgrec.loaders.tf.records import Part
from imgrec.options.loading import LoadOptions
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_documents
from imgrec.read.samples import ImageRange, read_image_range, read_labels
from imgrec.read.splits import part_of, record_ranges
from imgrec.read.tfds_files import Features

Data: TypeAlias = Any  # TensorFlow has no types


def load_folder(folder: Path, split: str, options: LoadOptions) -> Data:
    """Return the records of a split as a tf.data.Dataset."""
    documents = read_documents(folder)
    info, features = documents.info(), documents.imgrec_features()
    ranges = record_ranges(split, info.splits)
    part = _part(info, ranges, options)
    if not part.count:
        raise UsageError(f"split {split!r} is empty", hint="name one that has records")
    _refuse_uneven_batches(options, features)
    if options.balance:
        _refuse_unbalanceable(info, features, options)
    tf = needed("tensorflow", extra="tfds", what="imgrec.load")
    images = read_image_range(folder)
    decoder = Decoder(
        tf=tf,
        known=Known(images.formats, features.image_shape, _ratios(images, options)),
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
        balance=_balance(folder, part, options) if options.balance else None,
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


def _ratios(images: ImageRange, options: LoadOptions) -> tuple[int, ...]:
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
            images.max_height >= ratio * height and images.max_width >= ratio * width
            for height, width in sizes
        )
    )


def _part(info: DatasetInfo, ranges: Sequence[range], options: LoadOptions) -> Part:
    """Return the records of one job; of all jobs if these share them in another way."""
    most = None
    if options.shard is not None and not options.balance:
        job, jobs = options.shard
        if options.batch_size and options.drop_remainder:
            most = sum(map(len, ranges)) // jobs  # so that all jobs have as many batches
        ranges = part_of(ranges, job, jobs)
    return Part(info=info, ranges=[records for records in ranges if records], most=most)


def _refuse_unbalanceable(info: DatasetInfo, features: Features, options: LoadOptions) -> None:
    if features.is_multilabel:
        raise UsageError(
            "images with several labels cannot be balanced by class",
            hint="leave out balance, and weigh the classes in the loss",
        )
    if info.compression and not options.cache:
        raise UsageError(
            f"the shards of {info.name} are compressed, so balance cannot read them by number",
            hint="pass cache=True too, or pack without --compression",
        )


def _balance(folder: Path, part: Part, options: LoadOptions) -> Balance:
    import numpy as np

    numbers = np.concatenate([np.arange(each.start, each.stop) for each in part.ranges])
    labels = read_labels(folder, part.info)[numbers]
    return balance(numbers, labels, options.shard or (0, 1), options.batch_size or 1)
