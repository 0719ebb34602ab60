"""webdataset: ShardWriter, once, or in each of several processes."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path

from peer import SHARD_BYTES, Source, images_of, packer, parts


def write(images: Sequence[Source], pattern: str) -> None:
    """Write shards."""
    import webdataset as wds

    with wds.ShardWriter(pattern, maxsize=SHARD_BYTES, maxcount=10_000, verbose=0) as sink:
        for image in images:
            sink.write({"__key__": image.key, "jpg": image.read(), "cls": image.label})


def pack(source: Path, output: Path, workers: int) -> None:
    """Write shards in this process, or in several."""
    images = images_of(source)
    if workers < 2:
        write(images, f"{output}/%06d.tar")
        return
    with Pool(workers) as pool:
        jobs = [(part, f"{output}/{n}-%06d.tar") for n, part in enumerate(parts(images, workers))]
        pool.starmap(write, jobs, chunksize=1)


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    for path in sorted(output.glob("*.tar")):
        with tarfile.open(path) as shard:
            yield from (member.size for member in shard if member.name.endswith(".jpg"))


if __name__ == "__main__":
    packer(pack, sizes)
