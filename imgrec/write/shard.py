"""Write one shard and its index, and collect what the report needs to know about its records."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import sub
from typing import TypeAlias

from xxhash import xxh3_128_digest

from imgrec.codec import example, exif, tone
from imgrec.codec.image import Packable, Shape, pack_pixels, prepare
from imgrec.codec.look import look_at_checked
from imgrec.codec.tfrecord import RecordWriter
from imgrec.errors import BadImage
from imgrec.layout import INDEX_SUFFIX
from imgrec.model import Pixels, Samples, ShardTask, Stored, picked
from imgrec.near.descriptor import BLANK, describe
from imgrec.notes import Note, NoteCollector, NoteKind
from imgrec.options import Check, ShrinkOptions
from imgrec.outcome import RecordTable, ShardResult
from imgrec.storage.blobs import close_files
from imgrec.storage.files import OnWritten, Seal, seal_of, write_file
from imgrec.storage.read_ahead import Read, reader
from imgrec.write.records import PLAIN, ArrayRecordFile, RecordFormat, create_records

_LIGHT = Check.STRUCTURE
"""The check of an image that was decoded before."""

ReadStored: TypeAlias = Callable[[Sequence[Stored]], Iterator[tuple[bytes, Shape]]]
"""Yields the image and the shape in each of some records of an earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWriter:
    """A picklable function that writes shards into a folder."""

    folder: str
    check: Check
    shrink_to: ShrinkOptions | None = None
    record_format: RecordFormat = PLAIN
    describes: bool = False
    """Whether to compute descriptors of the images that the check has decoded."""
    newest_ns: int = 0
    """See `read_blob`."""
    read_stored: ReadStored | None = None
    on_written: OnWritten | None = None

    def __call__(self, task: ShardTask) -> ShardResult:
        """Write the shard of a task, and `<shard>.idx` beside it unless it is compressed.

        The result lists the samples that could not be packed in `bad`, with the reasons.
        """
        path = os.path.join(self.folder, task.filename)
        # Nobody knows how small images get when they are shrunk.
        expected_bytes = 0 if self.shrink_to else task.expected_bytes
        growing = create_records(
            path, self.record_format, expected_bytes=expected_bytes, on_written=self.on_written
        )
        with growing as files:
            out, file, twins = files
            shard = _Shard(task, out, twins, describes=self.describes)
            shard.pack_images(self.check, self.shrink_to, self.newest_ns, self.read_stored)
        index, others = path + INDEX_SUFFIX, self.record_format.filenames(path)[1:]
        beside = tuple(
            write_file(other, shard.index()) if other == index else seal_of(other)
            for other in others
        )
        seal = Seal(task.filename, file.position, file.sha256())
        return shard.result(seal, file.xxh3(), beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardExaminer:
    """A picklable function that returns what `ShardWriter` would, but writes nothing.

    The shard has no hash. Images are decoded again where the check left no pixels, so that the
    brightness of every image is known.
    """

    check: Check

    def __call__(self, task: ShardTask) -> ShardResult:
        """Return the result of a task."""
        out = RecordWriter(lambda _data: None)
        shard = _Shard(task, out, describes=True, needs_tones=True)
        shard.pack_images(self.check, None, 0)
        return shard.result(Seal(task.filename, out.position, ""), "", ())


class _Shard:
    """A shard while it grows."""

    def __init__(
        self,
        task: ShardTask,
        out: RecordWriter,
        twins: Sequence[ArrayRecordFile] = (),
        *,
        describes: bool,
        needs_tones: bool = False,
    ) -> None:
        self.task, self.out, self.twins = task, out, twins
        self.needs_tones = needs_tones
        self.looks: list[bytes] | None = [] if describes else None
        """32 x 32 grey pixels of each record: see `codec.look`."""
        self.is_plain = not task.samples.label_sets and not task.samples.columns
        self.rows: list[tuple[int, Shape, str, int, bytes, int]] = []
        """One per record: place in the task, shape, format, end, content hash, orientation."""
        self.tones: list[bytes] = []
        self.notes: list[Note] = []

    def pack_images(
        self,
        check: Check,
        shrink_to: ShrinkOptions | None,
        newest_ns: int,
        read_stored: ReadStored | None = None,
    ) -> None:
        """Read, check and add all samples of the task; note those that cannot be packed.

        Stored images were checked when they were first packed, and are not decoded again.
        """
        samples = self.task.samples
        checked = samples.checked
        stored = [blob for blob in samples.blobs if type(blob) is Stored]
        images = read_stored(stored) if stored and read_stored else iter(())
        read = _reader_of_files(samples)
        files = zip(samples.blobs, samples.filenames, samples.sizes, strict=True)
        for place, (blob, filename, size) in enumerate(files):
            if type(blob) is Stored:
                data, shape = next(images)
                self._add(Packable(data, shape, blob.format), place, blob.content)
                self.tones.append(tone.tone(None))
                continue
            try:
                data = read(blob, size, newest_ns, filename)
                content = xxh3_128_digest(data)
                is_checked = bool(checked) and checked[place].startswith(content)
                image = (
                    pack_pixels(data, blob, shrink_to)
                    if type(blob) is Pixels
                    else prepare(data, filename, _LIGHT if is_checked else check, shrink_to)
                )
            except BadImage as error:
                self.notes.append(Note(filename, str(error), NoteKind.BAD))
                continue
            self._add(image, place, content)
            if is_checked:
                self.tones.append(checked[place][len(content) :])
                continue
            levels = image.grey
            if levels is None and type(blob) is Pixels:
                levels = tone.levels_of_pixels(data)
            elif levels is None and self.needs_tones:
                levels = tone.levels_of(image.data, "")
            self.tones.append(tone.tone(levels))
        close_files()

    def _add(self, image: Packable, place: int, content_hash: bytes) -> None:
        data, shape, image_format, transcoded, damaged, resized, grey, orientation = image
        samples = self.task.samples
        filename = samples.filenames[place]
        if self.is_plain:
            before, after = example.encode_around(
                len(data),
                filename=filename.encode("utf-8", "surrogateescape"),
                label=samples.labels[place],
                shape=shape,
            )
        else:
            features = features_around(samples, place, shape)
            before, after = example.encode_all_around(len(data), features=features)
        end = self.out.add(before, data, after)
        for twin in self.twins:
            twin.write(before + data + after)
        turn = orientation or exif.orientation(data)
        self.rows.append((place, shape, image_format, end, content_hash, turn))
        if self.looks is not None:
            self.looks.append(look_at_checked(grey, shape, turn) or BLANK)
        if transcoded:
            self.notes.append(Note(filename, transcoded, NoteKind.TRANSCODED))
        if damaged:
            self.notes.append(Note(filename, damaged, NoteKind.DAMAGED))
        if resized:
            self.notes.append(Note(filename, resized, NoteKind.RESIZED))

    def index(self) -> bytes:
        """Return the index of the shard: a line "offset length" per record, as DALI reads it."""
        bounds = pairwise((0, *(end for _, _, _, end, _, _ in self.rows)))
        return "".join([f"{start} {end - start}\n" for start, end in bounds]).encode()

    def result(self, seal: Seal, xxh3: str, beside: tuple[Seal, ...]) -> ShardResult:
        """Return the evidence of the finished shard."""
        task, looks = self.task, self.looks or ()
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * 6
        places, shapes, formats, ends, hashes, turns = columns
        offsets = (0, *ends)[:-1] if ends else ()
        notes = NoteCollector()
        notes.add(self.notes)
        return ShardResult(
            split=task.split,
            index=task.index,
            filename=seal.filename,
            size=seal.size,
            sha256=seal.sha256,
            xxh3=xxh3,
            plain_size=ends[-1] if ends else 0,
            beside=beside,
            records=RecordTable(
                samples=task.samples.written(places),
                offsets=array("Q", offsets),
                lengths=array("Q", map(sub, ends, offsets)),
                shapes=array("I", chain.from_iterable(shapes)),
                formats=formats,
                hashes=b"".join(hashes),
                descriptors=describe(looks) if any(map(BLANK.__ne__, looks)) else b"",
                orientations=bytes(turns),
                tones=tone.join_tones(self.tones),
            ),
            source_bytes=sum(picked(task.samples.sizes, places)),
            notes=notes.notes(),
        )


def _reader_of_files(samples: Samples) -> Read:
    places = [place for place, blob in enumerate(samples.blobs) if type(blob) is not Stored]
    return reader(picked(samples.blobs, places), picked(samples.sizes, places))


def features_around(samples: Samples, place: int, shape: Shape) -> dict[str, example.Feature]:
    """Return all features of a record but the image."""
    features: dict[str, example.Feature] = {
        "filename": (samples.filenames[place].encode("utf-8", "surrogateescape"),),
        "shape": shape,
    }
    if samples.label_sets:
        features["labels"] = samples.label_sets[place]
    else:
        features["label"] = (samples.labels[place],)
    for column in samples.columns:
        value = column.values[place]
        features[column.name] = (value.encode(),) if isinstance(value, str) else (value,)
    return features
