"""Writing one shard and its index, and gathering the evidence."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec import example, jpeg, tfrecord
from imgrec.codec.image import Packable, prepare
from imgrec.errors import BadImage
from imgrec.layout import INDEX_SUFFIX
from imgrec.model import RecordTable, ShardResult, ShardTask, Skipped
from imgrec.options import Check
from imgrec.storage.files import HashingFile, Seal, create, write_file
from imgrec.write.blobs import read_blob


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
        gathered = _Gathered()
        with create(path, expected_bytes=task.expected_bytes) as file:
            columns = zip(task.blobs, task.filenames, task.sizes, task.labels, strict=True)
            for blob, filename, size, label in columns:
                try:
                    image = prepare(read_blob(blob, size), filename, self.check)
                except BadImage as error:
                    gathered.bad.append(Skipped(filename, str(error)))
                else:
                    gathered.add(file, image, filename, label)
                    gathered.source_bytes += size
        index = write_file(path + INDEX_SUFFIX, gathered.index())
        return gathered.result(task, file, index)


class _Row(NamedTuple):
    filename: str
    label: int
    offset: int
    length: int
    shape: tuple[int, int, int]
    format: str
    content_hash: bytes


@dataclass(slots=True)
class _Gathered:
    """The rows of the record table, and what else is to be said, while they grow."""

    rows: list[_Row] = field(default_factory=list)
    source_bytes: int = 0
    bad: list[Skipped] = field(default_factory=list)
    transcoded: list[Skipped] = field(default_factory=list)
    damaged: list[Skipped] = field(default_factory=list)

    def add(self, file: HashingFile, image: Packable, filename: str, label: int) -> None:
        data, shape, offset = image.data, image.shape, file.position
        encoded_name = filename.encode("utf-8", "surrogateescape")
        before, after = example.encode_around(
            len(data), filename=encoded_name, label=label, shape=shape
        )
        head, foot = tfrecord.frame(before, data, after)
        file.write(head + before, data, after + foot)
        content_hash = xxh3_128_digest(data)
        length = file.position - offset
        self.rows.append(_Row(filename, label, offset, length, shape, image.format, content_hash))
        if image.transcoded:
            self.transcoded.append(Skipped(filename, image.transcoded))
        if image.damaged:
            self.damaged.append(Skipped(filename, image.damaged))

    def index(self) -> bytes:
        """Return the index of the shard: one line "offset length" a record, as DALI reads it."""
        return "".join(f"{row.offset} {row.length}\n" for row in self.rows).encode()

    def result(self, task: ShardTask, file: HashingFile, index: Seal) -> ShardResult:
        rows = self.rows
        return ShardResult(
            split=task.split,
            index=task.index,
            filename=task.filename,
            size=file.position,
            sha256=file.sha256(),
            index_sha256=index.sha256,
            records=RecordTable(
                filenames=tuple(row.filename for row in rows),
                labels=array("q", (row.label for row in rows)),
                offsets=array("Q", (row.offset for row in rows)),
                lengths=array("Q", (row.length for row in rows)),
                shapes=array("I", (size for row in rows for size in row.shape)),
                formats=tuple(row.format for row in rows),
                hashes=b"".join(row.content_hash for row in rows),
            ),
            source_bytes=self.source_bytes,
            bad=tuple(self.bad),
            transcoded=tuple(self.transcoded),
            damaged=tuple(self.damaged),
        )
