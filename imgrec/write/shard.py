"""Writing one shard and its index, and gathering the evidence."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from imgrec import storage
from imgrec.codec import example, tfrecord
from imgrec.codec.image import Packable, prepare
from imgrec.errors import BadImage
from imgrec.layout import INDEX_SUFFIX
from imgrec.model import Check, RecordTable, Sample, ShardResult, ShardTask, Skipped
from imgrec.write.blobs import read_blob


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWriter:
    """A picklable function that writes shards into one folder."""

    folder: str
    check: Check

    def __call__(self, task: ShardTask) -> ShardResult:
        """Write the shard of a task, and `<shard>.idx` beside it.

        A sample that cannot be packed is in the result's `bad`, with the reason, instead.
        """
        path = Path(self.folder) / task.filename
        gathered = _Gathered()
        with storage.create(path) as file:
            for sample, label in zip(task.samples, task.labels, strict=True):
                try:
                    image = prepare(
                        read_blob(sample.blob, sample.size), sample.filename, self.check
                    )
                except BadImage as error:
                    gathered.bad.append(Skipped(sample.filename, str(error)))
                    continue
                gathered.add(file, sample, label, image)
        index = storage.write_file(path.with_name(path.name + INDEX_SUFFIX), gathered.index())
        return gathered.result(task, file, index)


@dataclass(slots=True)
class _Gathered:
    """The columns of the record table, and what else is to be said, while they grow."""

    filenames: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    labels: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    lengths: array[int] = field(default_factory=lambda: array("Q"))
    shapes: array[int] = field(default_factory=lambda: array("I"))
    hashes: list[bytes] = field(default_factory=list)
    source_bytes: int = 0
    bad: list[Skipped] = field(default_factory=list)
    transcoded: list[Skipped] = field(default_factory=list)
    damaged: list[Skipped] = field(default_factory=list)

    def add(self, file: storage.HashingFile, sample: Sample, label: int, image: Packable) -> None:
        before, after = example.encode_around(
            len(image.data),
            filename=sample.filename.encode("utf-8", "surrogateescape"),
            label=label,
            shape=image.shape,
        )
        head, foot = tfrecord.frame((before, image.data, after))
        self.offsets.append(file.position)
        file.write(head + before, image.data, after + foot)
        self.lengths.append(file.position - self.offsets[-1])
        self.filenames.append(sample.filename)
        self.formats.append(image.format)
        self.labels.append(label)
        self.shapes.extend(image.shape)
        self.hashes.append(hashlib.sha256(image.data).digest())
        self.source_bytes += sample.size
        if image.transcoded:
            self.transcoded.append(Skipped(sample.filename, image.transcoded))
        if image.damaged:
            self.damaged.append(Skipped(sample.filename, image.damaged))

    def index(self) -> bytes:
        """Return the index of the shard: one line "offset length" a record, as DALI reads it."""
        rows = zip(self.offsets, self.lengths, strict=True)
        return "".join(f"{offset} {length}\n" for offset, length in rows).encode()

    def result(
        self, task: ShardTask, file: storage.HashingFile, index: storage.Seal
    ) -> ShardResult:
        return ShardResult(
            split=task.split,
            index=task.index,
            filename=task.filename,
            size=file.position,
            sha256=file.sha256(),
            index_sha256=index.sha256,
            records=RecordTable(
                filenames=tuple(self.filenames),
                labels=self.labels,
                offsets=self.offsets,
                lengths=self.lengths,
                shapes=self.shapes,
                formats=tuple(self.formats),
                sha256=b"".join(self.hashes),
            ),
            source_bytes=self.source_bytes,
            bad=tuple(self.bad),
            transcoded=tuple(self.transcoded),
            damaged=tuple(self.damaged),
        )
