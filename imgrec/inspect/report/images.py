"""All images of a report by column, from the results of a pack or from a packed dataset."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import exif, tone
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
from imgrec.model import Samples, ShardTask
from imgrec.outcome import DatasetInfo, Report, ShardResult, SplitInfo
from imgrec.text import printable

_MAX_SIDE = (1 << 32) - 1


class Span(NamedTuple):
    """The rows of one split."""

    split: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """Images by column: a million rows stay small."""

    names: Sequence[str]
    spans: tuple[Span, ...]
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
    where: Callable[[int], ImagePlace]
    """Returns the place of an image, by its row."""
    others: Callable[[str], ImagePlace | None] = lambda _name: None
    """Returns the place of a file that is not among the images, by its name; None if unknown."""

    def __len__(self) -> int:
        return len(self.names)

    def split_of(self, row: int) -> str:
        """Return the split of an image."""
        return next(span.split for span in self.spans if row < span.stop)

    def labels_of(self, row: int) -> Sequence[int]:
        """Return the labels of an image; empty if it has none."""
        if self.label_sets:
            return self.label_sets[row]
        return (self.labels[row],) if self.labels[row] >= 0 else ()

    def shape_of(self, row: int) -> tuple[int, int, int]:
        """Return height, width and channels of an image."""
        height, width, channels = self.shapes[3 * row : 3 * row + 3]
        return height, width, channels

    def rows_of(self, names: set[str]) -> Mapping[str, int]:
        """Return the rows of some images by name; the first row of a name that is there twice."""
        found: dict[str, int] = {}
        for row, name in enumerate(self.names):
            if name in names:
                found.setdefault(name, row)
        return found


def table_of_results(
    results: Sequence[ShardResult], tasks: Sequence[ShardTask], samples: Samples
) -> ImageTable:
    """Return the images of shards that were written, or examined.

    `samples` are all images of the source, packed or not.
    """
    records = [result.records for result in results]
    ends = list(accumulate(len(part.samples.filenames) for part in records))

    def where(row: int) -> ImagePlace:
        shard = bisect_right(ends, row)
        given, names = tasks[shard].samples, records[shard].samples.filenames
        name = names[row - ends[shard] + len(names)]
        at = given.filenames.index(name)
        return InSource(given.blobs[at], given.sizes[at], name)

    rows: dict[str, int] = {}

    def others(name: str) -> ImagePlace | None:
        if not rows:
            rows.update((each, at) for at, each in enumerate(samples.filenames))
        at = rows.get(name)
        return None if at is None else InSource(samples.blobs[at], samples.sizes[at], name)

    parts = [
        _Part(
            names=part.samples.filenames,
            labels=part.samples.labels,
            label_sets=part.samples.label_sets,
            shapes=part.shapes,
            formats=part.formats,
            sizes=part.lengths,
            orientations=part.orientations,
            tones=part.tones,
        )
        for part in records
    ]
    spans = _spans(
        (result.split, len(part.names)) for result, part in zip(results, parts, strict=True)
    )
    return replace(_joined(parts, spans, where), others=others)


class _Part(NamedTuple):
    """The columns of some images; see `ImageTable`."""

    names: Sequence[str]
    labels: Sequence[int]
    label_sets: Sequence[Sequence[int]]
    shapes: array[int]
    formats: Sequence[str]
    sizes: array[int]
    orientations: bytes
    tones: bytes


def _joined(
    parts: Sequence[_Part], spans: Iterable[Span], where: Callable[[int], ImagePlace]
) -> ImageTable:
    tones = [part.tones or tone.UNKNOWN * len(part.names) for part in parts]
    return ImageTable(
        names=list(chain.from_iterable(part.names for part in parts)),
        spans=tuple(spans),
        labels=array("q", chain.from_iterable(part.labels for part in parts)),
        label_sets=list(chain.from_iterable(part.label_sets for part in parts)),
        shapes=_array("I", (part.shapes for part in parts)),
        formats=list(chain.from_iterable(part.formats for part in parts)),
        sizes=_array("Q", (part.sizes for part in parts)),
        orientations=b"".join([part.orientations for part in parts]),
        tones=b"".join(tones) if any(part.tones for part in parts) else b"",
        where=where,
    )


def _array(kind: str, parts: Iterable[array[int]]) -> array[int]:
    whole: array[int] = array(kind)
    for part in parts:
        whole.extend(part)
    return whole


def _spans(lengths: Iterable[tuple[str, int]]) -> Iterator[Span]:
    """Yield the rows of each split, given the lengths of shards in order."""
    counts: dict[str, int] = {}
    for split, length in lengths:
        counts[split] = counts.get(split, 0) + length
    start = 0
    for split, count in counts.items():
        yield Span(split, start, start + count)
        start += count


def table_of_dataset(folder: Path, job: Job) -> tuple[ImageTable, Report]:
    """Read all records of a dataset; return the images, and the report of their pack.

    For a dataset that imgrec did not pack, the report knows only classes and splits.
    """
    from imgrec.read.dataset import Dataset
    from imgrec.read.shards import refuse_impossible

    info = Dataset(folder).info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: dict[int, _Part] = {}
    for start, records in job.run(_examine, list(record_batches(info))):
        found[start] = records
        job.progress("look", len(records.names), count)
    spans = _spans((split.name, split.examples) for split in info.splits)
    table = _joined(
        [found[start] for start in sorted(found)],
        spans,
        lambda row: InDataset(info.path, row),
    )
    is_multilabel = any(
        labels and single < 0 for labels, single in zip(table.label_sets, table.labels, strict=True)
    )
    table = table if is_multilabel else replace(table, label_sets=())
    return table, _report_of(folder, info, table)


def _examine(batch: RecordBatch) -> tuple[int, _Part]:
    names, labels, formats = [], [], []
    singles, shapes, sizes = array("q"), array("I"), array("Q")
    orientations, tones = bytearray(), tone.Tones()
    numbers = range(batch.start, batch.stop)
    for number, record in zip(numbers, open_dataset(batch.folder).read_all(numbers), strict=True):
        names.append(printable(record.filename) or f"record {number}")
        labels.append(record.labels)
        singles.append(record.label)
        shapes.extend(min(max(side, 1), _MAX_SIDE) for side in record.shape)
        formats.append(format_of(record.image, record.filename) or "unknown")
        sizes.append(len(record.image))
        orientations.append(exif.orientation(record.image))
        tones.add(tone.levels_of(record.image, record.filename))
    return batch.start, _Part(
        names=names,
        labels=singles,
        label_sets=labels,
        shapes=shapes,
        formats=formats,
        sizes=sizes,
        orientations=bytes(orientations),
        tones=tones.encode(),
    )


def _report_of(folder: Path, info: DatasetInfo, table: ImageTable) -> Report:
    from imgrec.read.documents import read_report

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
        notes=(),
    )


def _counted(split: SplitInfo, info: DatasetInfo, table: ImageTable) -> SplitInfo:
    span = next(span for span in table.spans if span.split == split.name)
    counts = Counter(
        label for row in range(span.start, span.stop) for label in table.labels_of(row)
    )
    return replace(split, class_counts=tuple(counts[label] for label in range(len(info.classes))))
