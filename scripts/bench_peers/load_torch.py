"""Torch's ImageFolder, webdataset, MosaicML streaming and Hugging Face datasets, in two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peer import Epoch, Task, at_random, decoded, pixels, serve, torch_batches


def folder(task: Task) -> Epoch:
    """Read the raw folder as documented: Pillow decodes."""
    from torchvision.datasets import ImageFolder

    data = ImageFolder(task.folder, transform=lambda image: pixels(image, task.size))
    return torch_batches(data, task.batch)


def folder_tuned(task: Task) -> Epoch:
    """Read the raw folder with torchvision's own decoder, and resize tensors."""
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    resize = v2.Resize((task.size, task.size), antialias=True) if task.size else None
    data = ImageFolder(
        task.folder,
        transform=resize,
        loader=lambda path: decode_image(read_file(path), ImageReadMode.RGB),
    )
    return torch_batches(data, task.batch)


def webdataset(task: Task) -> Epoch:
    """Read shards as documented."""
    import webdataset as wds

    shards = sorted(map(str, Path(task.packed).glob("*.tar")))
    data = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(lambda image: pixels(image, task.size), int)
        .batched(task.batch)
    )
    loader = wds.WebLoader(data, batch_size=None, num_workers=2, persistent_workers=True)

    def epoch() -> Iterator[Any]:
        for images, _labels in loader:
            yield images

    return epoch


def mds(task: Task) -> Epoch:
    """Read shards as documented, or single records at random."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()  # a process that was ended leaves some

    class Images(StreamingDataset):  # type: ignore[misc]
        """Images and labels."""

        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return decoded(sample["image"], task.size), sample["label"]

    if task.batch:
        return torch_batches(Images(local=task.packed, batch_size=task.batch), task.batch)
    data = StreamingDataset(local=task.packed, batch_size=1)
    order = at_random(len(data))
    return lambda: (data[number]["image"] for number in order)


def huggingface(task: Task) -> Epoch:
    """Read Parquet as documented: a memory-mapped table, and a transform; or bytes at random."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    from datasets import Dataset, Image

    paths = sorted(map(str, Path(task.packed).glob("*.parquet")))
    data = Dataset.from_parquet(paths, cache_dir=f"{task.packed}/.read")
    if not task.batch:
        data = data.cast_column("image", Image(decode=False))
        order = at_random(len(data))
        return lambda: (data[number]["image"]["bytes"] for number in order)

    def transform(rows: Any) -> Any:
        return {**rows, "image": [pixels(image, task.size) for image in rows["image"]]}

    data = data.with_transform(transform)

    def collate(rows: Any) -> Any:
        import torch

        return torch.stack([row["image"] for row in rows]), [row["label"] for row in rows]

    from torch.utils.data import DataLoader

    loader = DataLoader(
        data, batch_size=task.batch, num_workers=2, persistent_workers=True, collate_fn=collate
    )

    def epoch() -> Iterator[Any]:
        for images, _labels in loader:
            yield images

    return epoch


CONTENDERS = {
    "folder": folder,
    "folder_tuned": folder_tuned,
    "webdataset": webdataset,
    "mds": mds,
    "huggingface": huggingface,
}

if __name__ == "__main__":
    serve(CONTENDERS)
