"""Writing one shard and its index, and gathering the evidence."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from xxhash import xxh3_128_digest

from imgrec.blob import Pixels
from imgrec.codec import example, jpeg, tfrecord
from imgrec.codec.image import Packable, pack_pixels, prepare
from imgrec.errors import BadImage
from imgrec.layout import INDEX_SUFFIX
from imgrec.model import RecordTable, ShardResult, ShardTask, Skipped, picked
from imgrec.options import Check
from imgrec.storage.blobs import close_files, read_blob
from imgrec.storage.files import HashingFile, Seal, create, write_file

T = TypeVar("T")


def warm_up(check: Check) -> None:
    """Import what writing a shard will need."""
    if check is Check.DECODE:
        jpeg.preload()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWriter:
    """A picklable function that writes shards into one folder."""

    folder: str
    check: Check

    def __call__(self, task: ShardTask) -> ShardResult:
        """Write the shard of a task, and `<shard>.idx` beside it.

        A sample that cannot be packed is in the result's `bad`, with the reason, instead.
        """
        path = os.path.join(self.folder, task.filename)
        gathered = _Gathered(task)
        with create(path, expected_bytes=task.expected_bytes) as file:
            samples = zip(task.blobs, task.filenames, task.sizes, strict=True)
            for place, (blob, filename, size) in enumerate(samples):
                try:
                    data = read_blob(blob, size)
                    image = (
                        pack_pixels(data, blob)
                        if type(blob) is Pixels
                        else prepare(data, filename, self.check)
                    )
                except BadImage as error:
                    gathered.bad.append(Skipped(filename, str(error)))
                else:
                    gathered.add(file, image, place, xxh3_128_digest(data))
        close_files()
        index = write_file(path + INDEX_SUFFIX, gathered.index())
        return gathered.result(file, index)


class _Gathered:
    """What is known of the records of a shard while it grows."""

    def __init__(self, task: ShardTask) -> None:
        self.task = task
        self.is_plain = not task.label_sets and not task.columns
        self.places: list[int] = []
        """Which samples of the task the records are."""
        self.images: list[tuple[tuple[int, int, int], str]] = []
        """Shape and format of each."""
        self.ends: list[int] = []
        self.hashes: list[bytes] = []
        self.bad: list[Skipped] = []
        self.transcoded: list[Skipped] = []
        self.damaged: list[Skipped] = []

    def add(self, file: HashingFile, image: Packable, place: int, content_hash: bytes) -> None:
        data, shape, image_format, transcoded, damaged = image
        filename = self.task.filenames[place]
        if self.is_plain:
            before, after = example.encode_around(
                len(data),
                filename=filename.encode("utf-8", "surrogateescape"),
                label=self.task.labels[place],
                shape=shape,
            )
        else:
            before, after = example.encode_all_around(
                len(data), features=_features(self.task, place, shape)
            )
        head, foot = tfrecord.frame(before, data, after)
        file.write(head + before, data, after + foot)
        self.places.append(place)
        self.images.append((shape, image_format))
        self.ends.append(file.position)
        self.hashes.append(content_hash)
        if transcoded:
            self.transcoded.append(Skipped(filename, transcoded))
        if damaged:
            self.damaged.append(Skipped(filename, damaged))

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield offset and length of each record."""
        return ((start, end - start) for start, end in pairwise((0, *self.ends)))

    def index(self) -> bytes:
        """Return the index of the shard: one line "offset length" a record, as DALI reads it."""
        return "".join([f"{offset} {length}\n" for offset, length in self._spans()]).encode()

    def result(self, file: HashingFile, index: Seal) -> ShardResult:
        task = self.task
        return ShardResult(
            split=task.split,
            index=task.index,
            filename=task.filename,
            size=file.position,
            sha256=file.sha256(),
            index_sha256=index.sha256,
            records=RecordTable(
                filenames=self._picked(task.filenames),
                labels=array("q", self._picked(task.labels)),
                label_sets=self._picked(task.label_sets) if task.label_sets else (),
                offsets=array("Q", [0, *self.ends[:-1]] if self.ends else []),
                lengths=array("Q", [length for _, length in self._spans()]),
                shapes=array("I", [size for shape, _ in self.images for size in shape]),
                formats=tuple([image_format for _, image_format in self.images]),
                hashes=b"".join(self.hashes),
            ),
            source_bytes=sum(self._picked(task.sizes)),
            bad=tuple(self.bad),
            transcoded=tuple(self.transcoded),
            damaged=tuple(self.damaged),
        )

    def _picked(self, column: tuple[T, ...]) -> tuple[T, ...]:
        return column if len(self.places) == len(column) else picked(column, self.places)


def _features(
    task: ShardTask, place: int, shape: tuple[int, int, int]
) -> dict[str, example.Feature]:
    """Return all features of a record but the image."""
    features: dict[str, example.Feature] = {
        "filename": (task.filenames[place].encode("utf-8", "surrogateescape"),),
        "shape": shape,
    }
    if task.label_sets:
        features["labels"] = task.label_sets[place]
    else:
        features["label"] = (task.labels[place],)
    for column in task.columns:
        value = column.values[place]
        features[column.name] = (value.encode(),) if isinstance(value, str) else (value,)
    return features
