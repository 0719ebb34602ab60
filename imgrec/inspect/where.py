"""Where an image is, in a dataset or a source, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.blob import Blob, Pixels
from imgrec.outcome import DatasetInfo
from imgrec.storage.blobs import read_blob
from imgrec.storage.paths import to_path

if TYPE_CHECKING:
    from imgrec.read.dataset import Dataset

_BATCH = 512


class InSource(NamedTuple):
    """Where the bytes of an image of a source are."""

    blob: Blob
    size: int
    filename: str


class InDataset(NamedTuple):
    """Where an image of a dataset is."""

    folder: str
    number: int
    """Of its record, counted through all splits."""


Where: TypeAlias = InSource | InDataset


class RecordBatch(NamedTuple):
    """Some records of a dataset, as a task for a worker."""

    folder: str
    start: int
    stop: int


def record_batches(info: DatasetInfo) -> Iterator[RecordBatch]:
    """Yield the records of each shard in batches; a compressed shard is one, read in order."""
    start = 0
    for length in [length for split in info.splits for length in split.shard_lengths]:
        step = max(length, 1) if info.compression else _BATCH
        for first in range(start, start + length, step):
            yield RecordBatch(info.path, first, min(first + step, start + length))
        start += length


@lru_cache(maxsize=4)
def opened(folder: str) -> Dataset:
    """Return the dataset that a worker reads from, which is the same for many batches."""
    from imgrec.read.dataset import Dataset  # who looks at a source needs none of it

    return Dataset(to_path(folder))


def picture_at(where: Where) -> tuple[bytes, Pixels | None, str]:
    """Read an image: its bytes, what they are if they are bare pixels, and its name."""
    if isinstance(where, InDataset):
        record = next(iter(opened(where.folder).read_all([where.number])))
        return record.image, None, record.filename
    blob, name = where.blob, where.filename
    return read_blob(blob, where.size, name=name), blob if isinstance(blob, Pixels) else None, name
