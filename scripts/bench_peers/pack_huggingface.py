"""Hugging Face datasets: an imagefolder to Parquet, bytes embedded, in several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from peer import packer

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}


def pack(source: Path, output: Path, workers: int) -> None:
    """Prepare the dataset as Parquet."""
    os.environ["HF_HOME"] = str(output / ".home")
    from datasets import load_dataset_builder

    builder = load_dataset_builder(
        "imagefolder", data_dir=str(source), cache_dir=str(output / ".cache")
    )
    builder.download_and_prepare(str(output), file_format="parquet", num_proc=workers)


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    from pyarrow.parquet import ParquetFile

    for path in sorted(output.glob("*.parquet")):
        for batch in ParquetFile(path).iter_batches(256, columns=["image"]):
            yield from (len(image["bytes"]) for image in batch.column(0).to_pylist())


if __name__ == "__main__":
    packer(pack, sizes)
