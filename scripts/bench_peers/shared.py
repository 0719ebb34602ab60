"""The images of a benchmark, as the scripts of the peers list them. Needs no package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """An image file."""

    path: str
    key: str
    """Its name in the folder, without the extension."""
    label: int

    def read(self) -> bytes:
        """Return its bytes."""
        return Path(self.path).read_bytes()


def images_of(folder: str | Path) -> list[Source]:
    """List the images of a folder of class folders."""
    return [
        Source(f"{folder}/{name}/{file}", f"{name}/{file[:-4]}", label)
        for label, name in enumerate(sorted(os.listdir(folder)))
        for file in sorted(os.listdir(f"{folder}/{name}"))
    ]


def parts(images: Sequence[Source], workers: int) -> list[Sequence[Source]]:
    """Divide images into a run for each worker."""
    size = -(-len(images) // workers)
    return [images[start : start + size] for start in range(0, len(images), size)]
