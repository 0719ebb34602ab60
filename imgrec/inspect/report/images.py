"""All images of a report by column, from the results of a pack or from a packed dataset."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from imgrec import layout
from imgrec.codec import descriptor, exif
from imgrec.codec.sniff import format_of
from imgrec.inspect.subject import (
    ImagePlace,
    InDataset,
    InSource,
    Job,
    RecordBatch,
    open_dataset,
    record_batches,
)
from imgrec.model import Samples, SourceLayout
from imgrec.options import SourceKind
from imgrec.outcome import DatasetInfo, RecordTable, Report, ShardResult
from imgrec.text import printable

_MAX_SIDE = (1 << 32) - 1

Locate: TypeAlias = Callable[[str, int | None], ImagePlace | None]
"""Returns the place of an image by its name and its row.

The row is None for a file that is not among the images. The place is None if it is unknown.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """Images by column: a million rows stay small."""

    names: Sequence[str]
    splits: Mapping[str, range]
    """The rows of each split."""
    labels: Sequence[int]
    label_sets: Sequence[Sequence[int]]
    """All labels of each image in a multi-label dataset; otherwise empty."""
    shapes: array[int]
    """Height, width and channels of image i at 3i, 3i+1 and 3i+2."""
    formats: Sequence[str]
    sizes: array[int]
    """Bytes of each record."""
    orientations: bytes
    """As in `RecordTable`."""
    tones: bytes
    """As in `RecordTable`; empty if none is known."""
    locate: Locate

    def __len__(self) -> int:
        return len(self.names)

    def split_of(self, row: int) -> str:
        """Return the split of an image."""
        return next(split for split, rows in self.splits.items() if row in rows)

    def labels_of(self, row: int) -> Sequence[int]:
        """Return the labels of an image; empty if it has none."""
        if self.label_sets:
            return self.label_sets[row]
        return (self.labels[row],) if self.labels[row] >= 0 else ()


def in_source(samples: Samples) -> Locate:
    """Return a function that finds the images of a source by name."""
    rows: dict[str, int] = {}

    def locate(name: str, _row: int | None) -> ImagePlace | None:
        if not rows:
            rows.update(zip(samples.filenames, range(len(samples)), strict=True))
        at = rows.get(name)
        return None if at is None else InSource(samples.blobs[at], samples.sizes[at], name)

    return locate


def in_dataset(folder: str) -> Locate:
    """Return a function that finds the images of a dataset by row."""
    return lambda _name, row: None if row is None else InDataset(folder, row)


def table_of_results(results: Sequence[ShardResult], locate: Locate) -> ImageTable:
    """Return the images of shards that were written, or examined."""
    lengths = [(result.split, len(result.records.samples)) for result in results]
    return _joined([result.records for result in results], lengths, locate)


def _joined(
    parts: Sequence[RecordTable], lengths: Iterable[tuple[str, int]], locate: Locate
) -> ImageTable:
    """Join the records of shards, given the split and the length of each."""
    splits: dict[str, range] = {}
    stop = 0
    for split, length in lengths:  # the shards of a split follow each other
        start = splits[split].start if split in splits else stop
        stop += length
        splits[split] = range(start, stop)
    shapes, sizes = array("I"), array("Q")
    for part in parts:
        shapes.extend(part.shapes)
        sizes.extend(part.lengths)
    tones = [part.tones or descriptor.UNKNOWN_TONE * len(part.samples) for part in parts]
    return ImageTable(
        names=list(chain.from_iterable(part.samples.filenames for part in parts)),
        splits=splits,
        labels=array("q", chain.from_iterable(part.samples.labels for part in parts)),
        label_sets=list(chain.from_iterable(part.samples.label_sets for part in parts)),
        shapes=shapes,
        formats=list(chain.from_iterable(part.formats for part in parts)),
        sizes=sizes,
        orientations=b"".join([part.orientations for part in parts]),
        tones=b"".join(tones) if any(part.tones for part in parts) else b"",
        locate=locate,
    )


def table_of_dataset(folder: Path, job: Job) -> tuple[ImageTable, Report]:
    """Read all records of a dataset; return the images, and the report of their pack.

    For a dataset that imgrec did not pack, the report knows only classes and splits.
    """
    from imgrec.read.dataset import Dataset
    from imgrec.read.documents import read_report
    from imgrec.read.shards import refuse_impossible

    info = Dataset(folder).info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: dict[int, RecordTable] = {}
    for start, records in job.run(_examine, list(record_batches(info))):
        found[start] = records
        job.progress("look", len(records.samples), count)
    lengths = [(split.name, split.examples) for split in info.splits]
    parts = [found[start] for start in sorted(found)]
    table = _joined(parts, lengths, in_dataset(info.path))
    sets_and_labels = zip(table.label_sets, table.labels, strict=True)
    if not any(labels and label < 0 for labels, label in sets_and_labels):
        table = replace(table, label_sets=())  # each image has one label
    has_report = (folder / layout.REPORT).exists()
    return table, read_report(folder) if has_report else _empty_report(info)


def _examine(batch: RecordBatch) -> tuple[int, RecordTable]:
    names, labels, label_sets, formats = [], [], [], []
    shapes, sizes = array("I"), array("Q")
    orientations, tones = bytearray(), list[bytes]()
    numbers = range(batch.start, batch.stop)
    for number, record in zip(numbers, open_dataset(batch.folder).read_all(numbers), strict=True):
        names.append(printable(record.filename) or f"record {number}")
        labels.append(record.label)
        label_sets.append(record.labels)
        shapes.extend(min(max(side, 1), _MAX_SIDE) for side in record.shape)
        formats.append(format_of(record.image, record.filename) or "unknown")
        sizes.append(len(record.image))
        orientations.append(exif.orientation(record.image))
        tones.append(descriptor.tone(descriptor.levels_of(record.image, record.filename)))
    samples = Samples(filenames=tuple(names), labels=tuple(labels), label_sets=tuple(label_sets))
    return batch.start, RecordTable(
        samples=samples,
        offsets=array("Q"),
        lengths=sizes,
        shapes=shapes,
        formats=tuple(formats),
        hashes=b"",
        orientations=bytes(orientations),
        tones=descriptor.join_tones(tones),
    )


def _empty_report(info: DatasetInfo) -> Report:
    return Report(
        name=info.name,
        version=info.version,
        source="",
        layout=SourceLayout(kind=SourceKind.FOLDER, sentence=""),
        fingerprint="",
        options={},
        classes=info.classes,
        splits=info.splits,
        source_bytes=0,
        notes=(),
    )
