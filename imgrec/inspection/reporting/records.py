"""The table of a packed dataset, from a look at every record."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import exif, tone
from imgrec.codec.sniff import format_of
from imgrec.inspection.job import Job
from imgrec.inspection.possible import refuse_impossible
from imgrec.inspection.reporting.table import ImageTable, spans_of
from imgrec.inspection.where import InDataset, opened
from imgrec.outcome import DatasetInfo, Report, SplitInfo
from imgrec.read.dataset import Dataset
from imgrec.read.metadata import read_report
from imgrec.text import printable

_BATCH = 512
_MOST_SIDE = (1 << 32) - 1


class Batch(NamedTuple):
    """Some records of a dataset, as a worker gets them."""

    folder: str
    start: int
    stop: int


def batches(info: DatasetInfo, most: int = _BATCH) -> Iterator[Batch]:
    """Yield the records of each shard, many at once; all of a compressed one, read in order."""
    start = 0
    for length in [length for split in info.splits for length in split.shard_lengths]:
        step = max(length, 1) if info.compression else most
        for first in range(start, start + length, step):
            yield Batch(info.path, first, min(first + step, start + length))
        start += length


class _Looks(NamedTuple):
    """What some records are like, by column."""

    start: int
    names: list[str]
    labels: list[tuple[int, ...]]
    singles: array[int]
    shapes: array[int]
    formats: list[str]
    sizes: array[int]
    orientations: bytes
    tones: bytes


def table_of_dataset(folder: Path, job: Job) -> tuple[ImageTable, Report]:
    """Look at all records of a dataset; return what they are, and the report of their pack.

    Datasets that imgrec did not make have a report too, which knows only of classes and splits.
    """
    info = Dataset(folder).info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: dict[int, _Looks] = {}
    for looks in job.run(_look, list(batches(info))):
        found[looks.start] = looks
        job.tell("look", len(looks.names), count)
    parts = [found[start] for start in sorted(found)]
    labels = list(chain.from_iterable(part.labels for part in parts))
    is_multilabel = any(map(_has_several, parts))
    table = ImageTable(
        names=[name for part in parts for name in part.names],
        spans=tuple(spans_of((split.name, split.examples) for split in info.splits)),
        labels=array("q", chain.from_iterable(part.singles for part in parts)),
        label_sets=labels if is_multilabel else (),
        shapes=array("I", chain.from_iterable(part.shapes for part in parts)),
        formats=list(chain.from_iterable(part.formats for part in parts)),
        sizes=array("Q", chain.from_iterable(part.sizes for part in parts)),
        orientations=b"".join([part.orientations for part in parts]),
        tones=b"".join([part.tones for part in parts]),
        where=lambda number: InDataset(info.path, number),
    )
    return table, _report(folder, info, table)


def _has_several(looks: _Looks) -> bool:
    """Tell whether records have several labels, or may have."""
    return any(
        labels and single < 0 for labels, single in zip(looks.labels, looks.singles, strict=True)
    )


def _look(batch: Batch) -> _Looks:
    names, labels, formats = [], [], []
    singles, shapes, sizes = array("q"), array("I"), array("Q")
    orientations, tones = bytearray(), tone.Tones()
    numbers = range(batch.start, batch.stop)
    for number, record in zip(numbers, opened(batch.folder).read_all(numbers), strict=True):
        names.append(printable(record.filename) or f"record {number}")
        labels.append(record.labels)
        singles.append(record.label)
        shapes.extend(min(max(side, 1), _MOST_SIDE) for side in record.shape)
        formats.append(format_of(record.image, record.filename) or "unknown")
        sizes.append(len(record.image))
        orientations.append(exif.orientation(record.image))
        tones.add(tone.levels_of(record.image, record.filename))
    known = tones.encode() or tone.UNKNOWN * len(names)
    return _Looks(
        batch.start, names, labels, singles, shapes, formats, sizes, bytes(orientations), known
    )


def _report(folder: Path, info: DatasetInfo, table: ImageTable) -> Report:
    if (folder / layout.REPORT).exists():
        return read_report(folder)
    return Report(
        name=info.name,
        version=info.version,
        source="",
        layout="",
        fingerprint="",
        options={},
        classes=info.classes,
        splits=tuple(_counted(split, info, table) for split in info.splits),
        source_bytes=0,
        skipped=(),
        ignored=(),
        transcoded=(),
        damaged=(),
        duplicates=(),
        leaks=(),
        conflicts=(),
        warnings=(),
    )


def _counted(split: SplitInfo, info: DatasetInfo, table: ImageTable) -> SplitInfo:
    span = next(span for span in table.spans if span.split == split.name)
    counts = Counter(
        label for place in range(span.start, span.stop) for label in table.labels_of(place)
    )
    return SplitInfo(
        name=split.name,
        shard_lengths=split.shard_lengths,
        num_bytes=split.num_bytes,
        class_counts=tuple(counts[label] for label in range(len(info.classes))),
    )
