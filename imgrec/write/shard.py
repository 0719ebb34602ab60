"""Writing one shard and its index, and gathering the evidence."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import sub
from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from imgrec.blob import Pixels
from imgrec.codec import example, exif, tone
from imgrec.codec.image import Packable, Shape, pack_pixels, prepare
from imgrec.errors import BadImage
from imgrec.layout import INDEX_SUFFIX
from imgrec.model import Samples, ShardTask, picked
from imgrec.notes import Note, NoteCollector, NoteKind, Notes, of_kinds
from imgrec.options import Check, ShrinkOptions
from imgrec.outcome import RecordTable, ShardResult
from imgrec.storage.blobs import close_files
from imgrec.storage.files import Seal, seal_of, write_file
from imgrec.storage.read_ahead import reader
from imgrec.write.records import PLAIN, RecordFiles, RecordFormat, create_records

if TYPE_CHECKING:
    from imgrec.codec.phash import Sketch

_CHANGES = NoteKind.TRANSCODED, NoteKind.DAMAGED, NoteKind.RESIZED


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWriter:
    """A picklable function that writes shards into one folder."""

    folder: str
    check: Check
    shrink_to: ShrinkOptions | None = None
    record_format: RecordFormat = PLAIN
    signs: bool = False
    """Whether to tell what images look like, as far as their check has decoded them."""
    newest_ns: int = 0
    """As `read_blob` has it."""

    def __call__(self, task: ShardTask) -> ShardResult:
        """Write the shard of a task, and beside it `<shard>.idx` if it is not compressed.

        A sample that cannot be packed is in the result's `bad`, with the reason, instead.
        """
        path = os.path.join(self.folder, task.filename)
        gathered = _Gathered(task, signs=self.signs, newest_ns=self.newest_ns)
        # How much is left of images that are shrunk is not known, as with compression.
        expected_bytes = 0 if self.shrink_to else task.expected_bytes
        with create_records(path, self.record_format, expected_bytes=expected_bytes) as (out, file):
            gathered.take_all(out, self.check, self.shrink_to)
        beside = tuple(self._beside(path, gathered))
        seal = Seal(task.filename, file.position, file.sha256())
        return gathered.result(seal, file.xxh3(), beside)

    def _beside(self, path: str, gathered: _Gathered) -> Iterator[Seal]:
        """Write what goes with a shard, and yield its seals."""
        _, *beside = self.record_format.filenames(path)
        for other in beside:
            is_index = other == path + INDEX_SUFFIX
            yield write_file(other, gathered.index()) if is_index else seal_of(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardExaminer:
    """A picklable function that finds out what a `ShardWriter` would write, and writes nothing."""

    check: Check
    signs: bool = False

    def __call__(self, task: ShardTask) -> ShardResult:
        """Return the result of a task, whose shard has no hash; every image's tone is known."""
        gathered = _Gathered(task, signs=self.signs, looks_closer=True)
        out = RecordFiles(lambda _data: None, ())
        gathered.take_all(out, self.check, None)
        return gathered.result(Seal(task.filename, out.position, ""), "", ())


class _Gathered:
    """What is known of the records of a shard while it grows."""

    def __init__(
        self, task: ShardTask, *, signs: bool, looks_closer: bool = False, newest_ns: int = 0
    ) -> None:
        self.task = task
        self.newest_ns = newest_ns
        self.looks_closer = looks_closer
        """Whether to decode images once more, for their tones, if their check has left nothing."""
        self.sketches: list[Sketch | None] | None = [] if signs else None
        self.is_plain = not task.samples.label_sets and not task.samples.columns
        self.rows: list[tuple[int, Shape, str, int, bytes, int]] = []
        """A record each: its place in the task, shape, format, end, content hash, orientation."""
        self.tones = tone.Tones()
        self.notes: list[Note] = []

    def take_all(self, out: RecordFiles, check: Check, shrink_to: ShrinkOptions | None) -> None:
        """Read, check and add all samples of the task; note those that cannot be packed."""
        samples, newest_ns = self.task.samples, self.newest_ns
        read = reader(samples.blobs, samples.sizes)
        files = zip(samples.blobs, samples.filenames, samples.sizes, strict=True)
        for place, (blob, filename, size) in enumerate(files):
            try:
                data = read(blob, size, newest_ns, filename)
                image = (
                    pack_pixels(data, blob, shrink_to)
                    if type(blob) is Pixels
                    else prepare(data, filename, check, shrink_to)
                )
            except BadImage as error:
                self.notes.append(Note(filename, str(error), NoteKind.BAD))
            else:
                self.add(out, image, place, xxh3_128_digest(data))
                levels = image.grey
                if levels is None and type(blob) is Pixels:
                    levels = tone.levels_of_pixels(data)
                elif levels is None and self.looks_closer:
                    levels = tone.levels_of(image.data, "")
                self.tones.add(levels)
        close_files()

    def add(self, out: RecordFiles, image: Packable, place: int, content_hash: bytes) -> None:
        data, shape, image_format, transcoded, damaged, resized, grey, orientation = image
        filename = self.task.samples.filenames[place]
        if self.is_plain:
            before, after = example.encode_around(
                len(data),
                filename=filename.encode("utf-8", "surrogateescape"),
                label=self.task.samples.labels[place],
                shape=shape,
            )
        else:
            before, after = example.encode_all_around(
                len(data), features=_features(self.task.samples, place, shape)
            )
        end = out.add(before, data, after)
        turn = orientation or exif.orientation(data)
        self.rows.append((place, shape, image_format, end, content_hash, turn))
        if self.sketches is not None and grey is None:
            self.sketches.append(None)
        elif self.sketches is not None:
            from imgrec.codec import phash  # it takes a while, and most checks need it not

            self.sketches.append(phash.sketch_checked(grey, data, shape))
        changes = zip((transcoded, damaged, resized), _CHANGES, strict=True)
        self.notes += [Note(filename, reason, kind) for reason, kind in changes if reason]

    def index(self) -> bytes:
        """Return the index of the shard: one line "offset length" a record, as DALI reads it."""
        bounds = pairwise((0, *(end for _, _, _, end, _, _ in self.rows)))
        return "".join([f"{start} {end - start}\n" for start, end in bounds]).encode()

    def result(self, seal: Seal, xxh3: str, beside: tuple[Seal, ...]) -> ShardResult:
        task = self.task
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * 6
        places, shapes, formats, ends, hashes, turns = columns
        offsets = (0, *ends)[:-1] if ends else ()
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
                signatures=self._signatures(),
                orientations=bytes(turns),
                tones=self.tones.encode(),
            ),
            source_bytes=sum(picked(task.samples.sizes, places)),
            notes=_with_few_resized(self.notes),
        )

    def _signatures(self) -> bytes:
        """Return the signature of each record, or nothing if none could be told."""
        sketches = self.sketches or ()
        if not any(sketches):
            return b""
        from imgrec.codec import phash

        return phash.encode(sketches)


def _with_few_resized(notes: Sequence[Note]) -> Notes:
    """Name only the first images that were shrunk: it may be all of them."""
    resized = NoteCollector({})
    resized.add(of_kinds(notes, NoteKind.RESIZED))
    others = [note for note in notes if note.kind is not NoteKind.RESIZED]
    return (*others, *resized.notes(NoteKind.RESIZED))


def _features(
    samples: Samples, place: int, shape: tuple[int, int, int]
) -> dict[str, example.Feature]:
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
