"""LitData: optimize, with two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer import Source, images_of, packer


def sample(image: Source) -> dict[str, Any]:
    """Return what is stored of an image."""
    return {"image": image.read(), "label": image.label}


def pack(source: Path, output: Path, workers: int) -> None:
    """Write chunks."""
    import litdata

    litdata.optimize(
        fn=sample,
        inputs=images_of(source),
        output_dir=str(output / "data"),
        num_workers=workers,
        chunk_bytes="64MB",
    )


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    import litdata

    yield from (len(each["image"]) for each in litdata.StreamingDataset(str(output / "data")))


if __name__ == "__main__":
    packer(pack, sizes)
