"""Where an image is, in a dataset or a source, and how to get it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from imgrec.blob import Blob, Pixels
from imgrec.read.dataset import Dataset
from imgrec.storage.blobs import read_blob


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

opened = lru_cache(maxsize=4)(lambda folder: Dataset(Path(folder)))
"""The dataset that a worker reads from, which is the same for many batches."""


def picture_at(where: Where) -> tuple[bytes, Pixels | None, str]:
    """Read an image: its bytes, what they are if they are bare pixels, and its name."""
    if isinstance(where, InDataset):
        record = next(iter(opened(where.folder).read_all([where.number])))
        return record.image, None, record.filename
    blob = where.blob
    return read_blob(blob, where.size), blob if isinstance(blob, Pixels) else None, where.filename
