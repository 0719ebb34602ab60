"""All images of a report by column, from the results of a pack or from a packed dataset."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from imgrec import layout
from imgrec.codec import exif, tone
from imgrec.codec.sniff import format_of
from imgrec.inspect.report.columns import GROUP
from imgrec.inspect.subject import (
    ImagePlace,
    InDataset,
    InSource,
    Job,
    RecordBatch,
    open_dataset,
    record_batches,
)
from imgrec.model import Column, Samples, SourceLayout
from imgrec.options import ColumnKind, SourceKind
from imgrec.outcome import DatasetInfo, RecordTable, Report, ShardResult
from imgrec.read.samples import read_table
from imgrec.storage.paths import to_path
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

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
    columns: Sequence[Column] = ()
    """The columns of the source's tables, and its groups, as `samples.parquet` names them."""

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
    tones = [part.tones or tone.UNKNOWN_TONE * len(part.samples) for part in parts]
    return ImageTable(
        names=list(chain.from_iterable(part.samples.filenames for part in parts)),
        splits=splits,
        labels=array("q", chain.from_iterable(part.samples.labels for part in parts)),
        label_sets=list(chain.from_iterable(part.samples.label_sets for part in parts)),
        shapes=shapes,
        formats=list(chain.from_iterable(part.formats for part in parts)),
        sizes=sizes,
        orientations=b"".join([part.orientations or bytes(len(part.samples)) for part in parts]),
        tones=b"".join(tones) if any(part.tones for part in parts) else b"",
        locate=locate,
        columns=tuple(_columns([part.samples for part in parts if len(part.samples)])),
    )


def _columns(parts: Sequence[Samples]) -> Iterator[Column]:
    if any(any(part.groups) for part in parts):
        groups = chain.from_iterable(part.groups or ("",) * len(part) for part in parts)
        yield Column(GROUP, ColumnKind.TEXT, tuple(groups))
    for place, column in enumerate(parts[0].columns if parts else ()):
        values = chain.from_iterable(part.columns[place].values for part in parts)
        yield Column(layout.samples_column(column.name), column.kind, tuple(values))


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
    table = replace(table, columns=tuple(_columns_of_dataset(info)))
    has_report = (folder / layout.REPORT).exists()
    return table, read_report(folder) if has_report else _empty_report(info)


def _columns_of_dataset(info: DatasetInfo) -> Iterator[Column]:
    """Yield groups and columns of the table of all records, if there is one."""
    import pyarrow.types as types

    folder = to_path(info.path)
    if not (folder / layout.SAMPLES).exists():
        return
    table = read_table(folder, info, (), with_extra=True)
    kinds: Mapping[ColumnKind, tuple[Callable[[pa.DataType], bool], int | float | str]] = {
        ColumnKind.TEXT: (types.is_string, ""),
        ColumnKind.INT: (types.is_integer, -1),
        ColumnKind.FLOAT: (types.is_floating, math.nan),
    }
    for name in table.column_names:
        column = table.column(name)
        for kind, (is_kind, missing) in kinds.items():
            if is_kind(column.type):
                values: list[Any] = column.to_pylist()  # of the column's kind
                known = (missing if value is None else value for value in values)
                yield Column(name, kind, tuple(known))


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
        tones.append(tone.tone(tone.levels_of(record.image, record.filename)))
    samples = Samples(filenames=tuple(names), labels=tuple(labels), label_sets=tuple(label_sets))
    return batch.start, RecordTable(
        samples=samples,
        offsets=array("Q"),
        lengths=sizes,
        shapes=shapes,
        formats=tuple(formats),
        hashes=b"",
        orientations=bytes(orientations),
        tones=tone.join_tones(tones),
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
