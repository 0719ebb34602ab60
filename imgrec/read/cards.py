"""Datasets and splits as notebook cards: counts, and a few pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from imgrec.errors import ImgrecError
from imgrec.notebook import MAX_PICTURES, Card, Picture, SplitRow
from imgrec.outcome import DatasetInfo
from imgrec.read.record import Record

_SIDE = 144


def dataset_card(info: DatasetInfo, records: Iterable[Record]) -> str:
    """Return a dataset as HTML: its splits and classes, and the first images."""
    images = sum(split.examples for split in info.splits)
    return Card(
        title=f"{info.name} {info.version}",
        subtitle=f"{images:,} images, {len(info.classes):,} classes",
        splits=[
            SplitRow(split.name, split.examples, len(split.shard_lengths), split.num_bytes)
            for split in info.splits
        ],
        pictures=_pictures(records),
        classes=info.classes,
        counts=[(split.name, split.class_counts) for split in info.splits],
    ).html()


def split_card(
    title: str, info: DatasetInfo, counts: Sequence[int], records: Iterable[Record]
) -> str:
    """Return some records as HTML: the number of each label, and the first images."""
    return Card(
        title=title,
        subtitle=f"of {info.name} {info.version}",
        pictures=_pictures(records),
        classes=info.classes,
        counts=[("images", counts)],
    ).html()


def _pictures(records: Iterable[Record]) -> Iterator[Picture]:
    from imgrec.codec.thumbnail import encode_thumbnail, thumbnail

    with suppress(ImgrecError):  # a damaged record ends the pictures
        for record in islice(records, MAX_PICTURES):
            small = thumbnail(record.image, record.filename, _SIDE)
            labels = ", ".join(record.class_names)
            caption = " · ".join(filter(None, (labels, record.filename)))
            yield Picture(encode_thumbnail(small), caption)
