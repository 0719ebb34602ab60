"""The records of a dataset, read shard by shard, in workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.codec.sniff import format_of
from imgrec.errors import CorruptRecord, DatasetError, UsageError
from imgrec.inspection.files import RegularFile, why
from imgrec.inspection.frames import shard_frames
from imgrec.inspection.job import Job
from imgrec.inspection.wire import is_excessive
from imgrec.outcome import DatasetInfo
from imgrec.read.record import Record, Value, parse
from imgrec.read.spec import ALL, record_ranges

_HINT = "`imgrec verify` lists all that is wrong; restore the file, or pack it again"
_LEAST_BYTES = 8
"""What any record takes, even compressed: no checksum of it is like another."""


class Row(NamedTuple):
    """What is known of a record beside its image."""

    filename: str
    labels: tuple[int, ...]
    columns: Mapping[str, Value | tuple[Value, ...]]
    format: str
    """Of the image."""


class Image(NamedTuple):
    """A record, and where it is."""

    shard: str
    place: int
    split: str
    row: Row


def read_shard(path: str, compression: str, classes: tuple[str, ...]) -> Iterator[Record]:
    """Yield the records of a shard; raise CorruptRecord, which names it, where one is damaged."""
    try:
        with RegularFile(path) as file:
            for frame in shard_frames(file, compression):
                if frame.fault:
                    raise CorruptRecord(frame.fault, offset=frame.offset)
                if is_excessive(frame.payload):
                    raise CorruptRecord("no record of an image", offset=frame.offset)
                try:
                    yield parse(frame.payload, 0, len(frame.payload), classes)
                except CorruptRecord as error:
                    error.offset = frame.offset
                    raise
    except CorruptRecord as error:
        raise CorruptRecord(
            f"{path}: {error} at byte {error.offset}", hint=_HINT, path=path, offset=error.offset
        ) from error
    except OSError as error:
        raise DatasetError(f"{path}: {why(error)}", hint=_HINT, path=path) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lister:
    """A picklable function that lists the records of a shard."""

    folder: str
    compression: str
    classes: tuple[str, ...]

    def __call__(self, shard: tuple[str, int]) -> tuple[str, list[Row]]:
        """Return the shard's name and its records, and no more than one too many."""
        filename, length = shard
        path = os.path.join(self.folder, filename)
        records = read_shard(path, self.compression, self.classes)
        return filename, [
            Row(record.filename, record.labels, record.columns, format_of(record.image, ""))
            for record in islice(records, length + 1)
        ]


def list_images(folder: Path, info: DatasetInfo, split: str, job: Job) -> list[Image]:
    """Read the names of the records that a split, as TFDS writes it, stands for; each is once.

    Raises UnknownName or UsageError if it stands for none, and DatasetError if shards are damaged.
    """
    ranges = record_ranges(split or ALL, info.splits)
    shards = list(_shards(folder, info, ranges))
    lengths = {filename: length for filename, _, length, places in shards if places}
    if not lengths:
        raise UsageError(f"--split {split} has no records", hint="name another split")
    look = _Lister(folder=str(folder), compression=info.compression, classes=info.classes)
    found: dict[str, list[Row]] = {}
    with closing(job.run(look, list(lengths.items()))) as running:
        for filename, rows in running:
            if len(rows) != lengths[filename]:
                raise _wrong_length(folder / filename, len(rows), lengths[filename])
            found[filename] = rows
            job.tell("list", len(rows), sum(lengths.values()))
    return [
        Image(filename, place, split_name, found[filename][place])
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
            _refuse_lie(folder / filename, length, info.compression)
            here = range(start, start + length)
            parts = [range(max(p.start, start), min(p.stop, here.stop)) for p in ranges]
            # A shard that is wanted whole may say that it has more records than fit into memory.
            whole = [part for part in parts if part == here]
            places = range(length) if whole else sorted({at - start for p in parts for at in p})
            yield filename, split.name, length, places
            start += length


def _refuse_lie(path: Path, length: int, compression: str) -> None:
    """Raise DatasetError if a shard cannot hold as many records as it is said to."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DatasetError(f"{path}: {why(error)}", hint=_HINT, path=str(path)) from error
    most = size // (_LEAST_BYTES if compression else tfrecord.OVERHEAD)
    if not 0 <= length <= most:
        raise _wrong_length(path, f"{most} at most" if length > 0 else most, length)


def _wrong_length(path: Path, found: object, told: int) -> DatasetError:
    return DatasetError(
        f"{path} has {found} records, and {layout.DATASET_INFO} tells of {told}",
        hint=_HINT,
        path=str(path),
    )
