"""Datasets as notebooks show them: counts, and a few pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from imgrec import notebook
from imgrec.errors import ImgrecError
from imgrec.outcome import DatasetInfo
from imgrec.read.record import Record

_SIDE = 144


def show_dataset(info: DatasetInfo, records: Iterable[Record]) -> str:
    """Return a dataset as HTML: its splits, its classes, and the first of some images."""
    rows = [(s.name, s.examples, len(s.shard_lengths), s.num_bytes) for s in info.splits]
    return notebook.card(
        f"{info.name} {info.version}",
        f"{sum(images for _, images, _, _ in rows):,} images, {len(info.classes):,} classes",
        notebook.split_table(rows),
        notebook.strip(_pictures(records)),
        notebook.class_table(info.classes, [(s.name, s.class_counts) for s in info.splits]),
    )


def show_split(
    name: str, info: DatasetInfo, counts: Sequence[int], records: Iterable[Record]
) -> str:
    """Return some records as HTML: how many there are of each label, and the first images."""
    return notebook.card(
        name,
        f"of {info.name} {info.version}",
        notebook.strip(_pictures(records)),
        notebook.class_table(info.classes, [("images", counts)]),
    )


def _pictures(records: Iterable[Record]) -> Iterator[tuple[bytes, str]]:
    from imgrec.codec.thumbnail import encode_thumbnail, thumbnail

    with suppress(ImgrecError):  # what is damaged is not shown, and neither is what follows
        for record in islice(records, notebook.MOST_PICTURES):
            small = thumbnail(record.image, record.filename, _SIDE)
            labels = ", ".join(record.class_names)
            yield encode_thumbnail(small), " · ".join(filter(None, (labels, record.filename)))
