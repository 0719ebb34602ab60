"""Where an image is, in a dataset or a source, and how to get it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.blob import Blob, Pixels
from imgrec.storage.blobs import read_blob
from imgrec.storage.paths import to_path

if TYPE_CHECKING:
    from imgrec.read.dataset import Dataset


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
