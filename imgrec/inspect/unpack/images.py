"""The images of a dataset: listed with their names, then written as files, in workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.sniff import format_of
from imgrec.errors import CorruptRecord, DatasetError, UsageError
from imgrec.inspect.subject import Job
from imgrec.outcome import DatasetInfo
from imgrec.read.files import os_fault
from imgrec.read.record import Record, Value, parse
from imgrec.read.shards import MIN_RECORD_BYTES, read_shard
from imgrec.read.splits import ALL, record_ranges
from imgrec.source.split_words import split_word
from imgrec.storage.tree import write_new

_HINT = "`imgrec verify` lists all that is wrong; restore the file, or pack it again"
_EXTENSIONS = {"JPEG": "jpg", "TIFF": "tif", "JPEG2000": "jp2", "HEIF": "heic"}


class Image(NamedTuple):
    """A record without its image, and where it is."""

    shard: str
    place: int
    split: str
    filename: str
    labels: tuple[int, ...]
    columns: Mapping[str, Value | tuple[Value, ...]]
    format: str


class _Row(NamedTuple):
    filename: str
    labels: tuple[int, ...]
    columns: Mapping[str, Value | tuple[Value, ...]]
    format: str


def _read_records(path: str, compression: str, classes: tuple[str, ...]) -> Iterator[Record]:
    """Yield the records of a shard; raise CorruptRecord, with its offset, if one is damaged."""
    for offset, payload in read_shard(path, compression):
        try:
            if example.decode_plain(payload, 0, len(payload)) is None:
                example.refuse_excessive(payload)
            yield parse(payload, 0, len(payload), classes)
        except CorruptRecord as error:
            message = f"{path}: {error} at byte {offset}"
            raise CorruptRecord(message, hint=_HINT, path=path, offset=offset) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lister:
    """A picklable function that lists the records of a shard."""

    folder: str
    compression: str
    classes: tuple[str, ...]

    def __call__(self, shard: tuple[str, int]) -> tuple[str, list[_Row]]:
        """Return the shard's name and its records, at most one more than expected."""
        filename, length = shard
        path = os.path.join(self.folder, filename)
        records = _read_records(path, self.compression, self.classes)
        return filename, [
            _Row(record.filename, record.labels, record.columns, format_of(record.image, ""))
            for record in islice(records, length + 1)
        ]


def list_images(folder: Path, info: DatasetInfo, split: str, job: Job) -> list[Image]:
    """List the images that a split spec selects, each once.

    Raises UnknownName or UsageError if it selects none, and DatasetError if shards are damaged.
    """
    ranges = record_ranges(split or ALL, info.splits)
    shards = list(_shards(folder, info, ranges))
    lengths = {filename: length for filename, _, length, places in shards if places}
    if not lengths:
        raise UsageError(f"--split {split} has no records", hint="name another split")
    lister = _Lister(folder=str(folder), compression=info.compression, classes=info.classes)
    found: dict[str, list[_Row]] = {}
    with closing(job.run(lister, list(lengths.items()))) as running:
        for filename, rows in running:
            if len(rows) != lengths[filename]:
                raise _wrong_length(folder / filename, len(rows), lengths[filename])
            found[filename] = rows
            job.progress("list", len(rows), sum(lengths.values()))
    return [
        Image(filename, place, split_name, *found[filename][place])
        for filename, split_name, _, places in shards
        for place in places
    ]


def _shards(
    folder: Path, info: DatasetInfo, ranges: Sequence[range]
) -> Iterator[tuple[str, str, int, Sequence[int]]]:
    """Yield name, split and length of every shard, and which of its records are wanted."""
    start = 0
    for split in info.splits:
        names = layout.shard_filenames(info, split)
        for filename, length in zip(names, split.shard_lengths, strict=True):
            _refuse_too_many(folder / filename, length, info.compression)
            here = range(start, start + length)
            parts = [range(max(p.start, start), min(p.stop, here.stop)) for p in ranges]
            # A shard that is wanted whole may declare more records than fit into memory.
            whole = [part for part in parts if part == here]
            places = range(length) if whole else sorted({at - start for p in parts for at in p})
            yield filename, split.name, length, places
            start += length


def _refuse_too_many(path: Path, length: int, compression: str) -> None:
    """Raise DatasetError if a shard cannot hold as many records as it should."""
    try:
        size = path.stat().st_size
    except OSError as error:
        fault = os_fault(error, path.name)
        raise DatasetError(f"{path}: {fault.what}", hint=_HINT, path=str(path)) from error
    most = size // (MIN_RECORD_BYTES if compression else tfrecord.OVERHEAD)
    if length > most:
        raise _wrong_length(path, f"{most} at most", length)


def _wrong_length(path: Path, found: object, expected: int) -> DatasetError:
    return DatasetError(
        f"{path}: expected {expected} records ({layout.DATASET_INFO}), found {found}",
        hint=_HINT,
        path=str(path),
    )


def file_paths(
    images: Sequence[Image], classes: Sequence[str], *, split_folders: bool
) -> list[str]:
    """Return where each image goes: where it was, or in a folder of its split.

    If the source had a folder for each split, no other is added. If no record of a dataset has a
    name, each gets one: its split, its class and a number.
    """
    if not any(image.filename for image in images):
        return list(_made_up(images, classes))
    if split_folders and not all(map(_is_in_its_split, images)):
        return [f"{image.split}/{image.filename}" for image in images]
    return [image.filename for image in images]


def _is_in_its_split(image: Image) -> bool:
    top, slash, _ = image.filename.partition("/")
    return bool(slash) and split_word(top) == image.split


def _made_up(images: Sequence[Image], classes: Sequence[str]) -> Iterator[str]:
    for number, image in enumerate(images):
        folder = ""
        if len(image.labels) == 1:
            (label,) = image.labels
            folder = (classes[label] if label < len(classes) else str(label)).replace("/", "_")
        extension = _EXTENSIONS.get(image.format, image.format.lower() or "bin")
        yield "/".join(filter(None, (image.split, folder, f"{number:06d}.{extension}")))


class _Files(NamedTuple):
    """Records of a shard, by number, and the paths of their files."""

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
        for place, record in enumerate(_read_records(path, self.compression, ())):
            if place in files.paths:
                write_new(self.root, files.paths[place], record.image, made)
                written += len(record.image)
        return len(files.paths), written


def write_images(info: DatasetInfo, files: Mapping[str, Image], root: str, job: Job) -> int:
    """Write images, by their paths, below `root`; return how many bytes they are."""
    writer = _Writer(folder=info.path, compression=info.compression, root=root)
    by_shard: dict[str, dict[int, str]] = {}
    for path, image in files.items():
        by_shard.setdefault(image.shard, {})[image.place] = path
    total = 0
    with closing(job.run(writer, [_Files(*task) for task in by_shard.items()])) as running:
        for count, written in running:
            total += written
            job.progress("unpack", count, len(files))
    return total
