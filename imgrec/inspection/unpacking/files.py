"""Writing the images of records as files, in workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from imgrec.inspection.job import Job
from imgrec.inspection.unpacking.records import Image, read_shard
from imgrec.outcome import DatasetInfo
from imgrec.source.split_words import split_word
from imgrec.storage.tree import write_new

_EXTENSIONS = {"JPEG": "jpg", "TIFF": "tif", "JPEG2000": "jp2", "HEIF": "heic"}


def file_paths(
    images: Sequence[Image], classes: Sequence[str], *, split_folders: bool
) -> list[str]:
    """Return where each image goes: where it was, in a folder of its split if so it is asked.

    Where the source had a folder for each split, those are the folders, and none is added.
    If no record of a dataset has a name, each gets one: its split, its class and a number.
    """
    if not any(image.row.filename for image in images):
        return list(_made_up(images, classes))
    if split_folders and not all(map(_is_in_its_split, images)):
        return [f"{image.split}/{image.row.filename}" for image in images]
    return [image.row.filename for image in images]


def _is_in_its_split(image: Image) -> bool:
    top, slash, _ = image.row.filename.partition("/")
    return bool(slash) and split_word(top) == image.split


def _made_up(images: Sequence[Image], classes: Sequence[str]) -> Iterator[str]:
    for number, image in enumerate(images):
        row = image.row
        folder = ""
        if len(row.labels) == 1:
            (label,) = row.labels
            folder = (classes[label] if label < len(classes) else str(label)).replace("/", "_")
        extension = _EXTENSIONS.get(row.format, row.format.lower() or "bin")
        yield "/".join(filter(None, (image.split, folder, f"{number:06d}.{extension}")))


class _Files(NamedTuple):
    """Records of a shard, by number, and the files that they become."""

    shard: str
    paths: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """A picklable function that writes the images of shards as files."""

    folder: str
    compression: str
    root: str

    def __call__(self, files: _Files) -> tuple[int, int]:
        """Return how many files were written, and how many bytes."""
        made: set[str] = set()
        written = 0
        path = os.path.join(self.folder, files.shard)
        for place, record in enumerate(read_shard(path, self.compression, ())):
            if place in files.paths:
                write_new(self.root, files.paths[place], record.image, made)
                written += len(record.image)
        return len(files.paths), written


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which file each image becomes."""

    images: Sequence[Image]
    paths: Sequence[str]

    def tasks(self) -> list[_Files]:
        """Return the files of each shard."""
        tasks: dict[str, dict[int, str]] = {}
        for image, path in zip(self.images, self.paths, strict=True):
            tasks.setdefault(image.shard, {})[image.place] = path
        return [_Files(*task) for task in tasks.items()]


def write_images(folder: Path, info: DatasetInfo, plan: Plan, root: str, job: Job) -> int:
    """Write all images below `root`, and return how many bytes they are."""
    writer = _Writer(folder=str(folder), compression=info.compression, root=root)
    total = 0
    with closing(job.run(writer, plan.tasks())) as running:
        for count, written in running:
            total += written
            job.tell("unpack", count, len(plan.images))
    return total
