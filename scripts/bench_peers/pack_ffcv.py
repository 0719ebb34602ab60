"""FFCV: DatasetWriter, JPEGs kept as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer import images_of, packer


class Folder:
    """The images of a folder, by number, as FFCV wants them."""

    def __init__(self, source: Path) -> None:
        self._images = images_of(source)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import numpy as np

        return np.frombuffer(self._images[number].read(), np.uint8), self._images[number].label


def pack(source: Path, output: Path, workers: int) -> None:
    """Write one file."""
    from ffcv.fields import BytesField, IntField
    from ffcv.writer import DatasetWriter

    fields = {"image": BytesField(), "label": IntField()}
    writer = DatasetWriter(str(output / "all.beton"), fields, num_workers=workers)
    writer.from_indexed_dataset(Folder(source))


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    from ffcv.reader import Reader

    yield from (int(size) for size in Reader(str(output / "all.beton")).metadata["f0"]["size"])


if __name__ == "__main__":
    packer(pack, sizes)
