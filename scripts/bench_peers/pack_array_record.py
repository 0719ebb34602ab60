"""array_record: ArrayRecordWriter as documented, or without compression in several processes.

A record is a label of four bytes, and the image: less work than a protobuf. Records stand alone,
as random access wants it. What is documented compresses, which does nothing for JPEGs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path

from peer import Source, images_of, packer, parts

DOCUMENTED = "group_size:1"
TUNED = "group_size:1,uncompressed"


def write(images: Sequence[Source], path: str, options: str = TUNED) -> None:
    """Write a file."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(path, options)
    for image in images:
        writer.write(image.label.to_bytes(4, "little") + image.read())
    writer.close()


def pack(source: Path, output: Path, workers: int) -> None:
    """Write a file in this process, or one in each of several."""
    images = images_of(source)
    if workers < 2:
        write(images, f"{output}/0.array_record", DOCUMENTED)
        return
    with Pool(workers) as pool:
        runs = enumerate(parts(images, workers))
        jobs = [(part, f"{output}/{number}.array_record") for number, part in runs]
        pool.starmap(write, jobs, chunksize=1)


def sizes(output: Path) -> Iterator[int]:
    """Yield how many bytes each image has."""
    from array_record.python.array_record_module import ArrayRecordReader

    for path in sorted(output.glob("*.array_record")):
        reader = ArrayRecordReader(str(path))
        yield from (len(reader.read([number])[0]) - 4 for number in range(reader.num_records()))


if __name__ == "__main__":
    packer(pack, sizes)
