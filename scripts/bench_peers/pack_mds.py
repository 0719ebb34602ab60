"""MosaicML streaming: MDSWriter, in parallel as its guide shows, with one index in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path

from peer import SHARD_BYTES, Source, images_of, packer, parts

COLUMNS = {"image": "bytes", "label": "int"}


def write(images: Sequence[Source], folder: str) -> None:
    """Write shards."""
    from streaming import MDSWriter

    with MDSWriter(out=folder, columns=COLUMNS, size_limit=SHARD_BYTES) as sink:
        for image in images:
            sink.write({"image": image.read(), "label": image.label})


def pack(source: Path, output: Path, workers: int) -> None:
    """Write a part in each process, and merge their indexes."""
    jobs = [(part, f"{output}/{n}") for n, part in enumerate(parts(images_of(source), workers))]
    with Pool(workers) as pool:
        pool.starmap(write, jobs, chunksize=1)
    from streaming.base.util import merge_index

    merge_index(str(output), keep_local=True)


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    from streaming import StreamingDataset

    data = StreamingDataset(local=str(output), batch_size=1)
    yield from (len(data[number]["image"]) for number in range(len(data)))


if __name__ == "__main__":
    packer(pack, sizes)
