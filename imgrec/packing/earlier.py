"""An earlier version of a dataset, and what of it the next version can use again.

A shard is the result of a task. What its table of samples says of a shard is enough to know which
task that was, so a task of the next version that is the same need not be done again: its result is
the files that are there already, under another name.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.image import Shape
from imgrec.codec.json_files import decode_submission
from imgrec.errors import DatasetError, DatasetNotFound
from imgrec.faults import Faults
from imgrec.model import Column, Samples, ShardTask, Stored, Submission
from imgrec.options import ColumnKind
from imgrec.outcome import DatasetInfo, RecordTable, Report, ShardResult
from imgrec.planning.growth import EarlierRecords, EarlierShard, records_key
from imgrec.read.dataset import Dataset
from imgrec.read.documents import Documents, find_damage, read_documents, read_json
from imgrec.read.files import previous_version, read_checksums, read_document
from imgrec.read.samples import read_table, wrong_table
from imgrec.read.shards import shard_lengths
from imgrec.storage.files import Seal
from imgrec.storage.paths import to_path
from imgrec.write.records import RecordFormat
from imgrec.write.shard import features_around

if TYPE_CHECKING:
    import pyarrow as pa

_ESCAPED = "\\udc"
"""In a printable name, where a byte is not UTF-8. The record has the name itself."""
_SIDES = ("height", "width", "channels")
_SHARED_TABLE = ("split", "shard", "offset", "length", "label", "labels", "filename", "xxh3",
                 *_SIDES, "format", "group")  # fmt: skip


class _Facts(NamedTuple):
    """What is known of all records, by column."""

    offsets: array[int]
    lengths: array[int]
    shapes: array[int]
    formats: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVersion:
    """A published version of a dataset."""

    folder: Path
    info: DatasetInfo
    report: Report
    records: EarlierRecords
    columns: Mapping[str, ColumnKind]
    facts: _Facts
    seals: Mapping[str, Seal]
    """The seals of its files, by name."""
    submission: Submission | None
    shards: Mapping[bytes, EarlierShard]
    """By the key of the task that each is the result of."""

    def find(self, task: ShardTask) -> EarlierShard | None:
        """Return the shard that a task would make once more; None if there is none."""
        key = records_key(task.samples)
        return None if key is None else self.shards.get(key)

    def result_of(self, task: ShardTask, shard: EarlierShard, names: Sequence[str]) -> ShardResult:
        """Return the result of a task whose shard exists, with the new `names` of its files."""
        rows = shard.rows
        seals = [
            self.seals[old]._replace(filename=new)
            for old, new in zip(self.files_of(shard), names, strict=True)
        ]
        facts, stored = self.facts, self.records.samples.contents[rows.start : rows.stop]
        return ShardResult(
            split=task.split,
            index=task.index,
            filename=task.filename,
            size=seals[0].size,
            sha256=seals[0].sha256,
            xxh3="",
            plain_size=facts.offsets[rows.stop - 1] + facts.lengths[rows.stop - 1],
            beside=tuple(map(tuple, seals[1:])),  # type: ignore[arg-type]  # name, size and hash
            records=RecordTable(
                samples=task.samples.written(range(len(rows))),
                offsets=facts.offsets[rows.start : rows.stop],
                lengths=facts.lengths[rows.start : rows.stop],
                shapes=facts.shapes[3 * rows.start : 3 * rows.stop],
                formats=tuple(facts.formats[rows.start : rows.stop]),
                hashes=b"".join(stored),
            ),
            source_bytes=sum(task.samples.sizes),
            notes=(),
        )

    def files_of(self, shard: EarlierShard) -> tuple[str, ...]:
        """Name all files of a shard, the shard itself first."""
        return record_format(self.info).filenames(shard.filename)


def record_format(info: DatasetInfo) -> RecordFormat:
    """Return the format in which the records of a dataset are written."""
    return RecordFormat(compression=info.compression, also=info.also)  # type: ignore[arg-type]  # names


def read_earlier(folder: Path) -> EarlierVersion:
    """Read a version that imgrec packed; raise DatasetError for a damaged one, or any other.

    Sizes of files are compared with the documents, but no shard is read.
    """
    try:
        return _read_earlier(folder)
    except DatasetError as error:
        try:
            before = previous_version(folder)
        except DatasetNotFound:
            raise error from None
        # Packed again, the images would be divided anew, and corrections would be lost.
        raise DatasetError(
            error.message,
            hint=f"restore it from a copy; or remove {folder}, and make it again from "
            f"{before.parent.name}:{before.name}",
            path=error.path,
        ) from error


def _read_earlier(folder: Path) -> EarlierVersion:
    documents = read_documents(folder, report=True)
    info, report = documents.info(), documents.report
    if not info.fingerprint or report is None:
        raise DatasetError(
            f"{folder} was not packed by imgrec, so its next version cannot be made from it",
            hint="pack its source, with --split-from to keep its splits and labels",
            path=str(folder),
        )
    if damage := find_damage(folder):
        raise DatasetError(
            f"{folder} is damaged: {damage}",
            hint="run imgrec verify; restore it, or pack it again with --overwrite",
            path=str(folder),
        )
    return _Reader(folder, documents, info).read(report)


class _Reader:
    """One pass over the table of samples of a version."""

    def __init__(self, folder: Path, documents: Documents, info: DatasetInfo) -> None:
        self.folder, self.info = folder, info
        self.columns = documents.features.columns
        self.table_columns = {name: layout.samples_column(name) for name in self.columns}

    def read(self, report: Report) -> EarlierVersion:
        table = read_table(self.folder, self.info, (*_SHARED_TABLE, *self.table_columns.values()))
        try:
            sides = [_cells(table, side) for side in _SIDES]
            facts = _Facts(
                array("Q", _cells(table, "offset")),
                array("Q", _cells(table, "length")),
                array("I", chain.from_iterable(zip(*sides, strict=True))),
                _cells(table, "format"),
            )
            samples = self._samples(table, facts)
            shards = tuple(self._shards(table))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise wrong_table(self.folder) from error
        spans = [samples.slice(shard.rows.start, shard.rows.stop) for shard in shards]
        keyed = zip(map(records_key, spans), shards, strict=True)
        return EarlierVersion(
            folder=self.folder,
            info=self.info,
            report=report,
            records=EarlierRecords(
                fingerprint=self.info.fingerprint,
                classes=self.info.classes,
                samples=samples,
                shards=shards,
            ),
            columns=self.columns,
            facts=facts,
            seals=self._seals(),
            submission=self._submission(),
            shards={key: shard for key, shard in keyed if key},
        )

    def _shards(self, table: pa.Table) -> Iterator[EarlierShard]:
        names = (
            (split.name, name)
            for split in self.info.splits
            for name in layout.shard_filenames(self.info, split)
        )
        found = _cells(table, "shard")
        row = 0
        for (split, name), length in zip(names, shard_lengths(self.info), strict=True):
            rows = range(row, row + length)
            row = rows.stop
            if length and {*found[rows.start : rows.stop]} != {name}:
                raise ValueError("rows in another order than the records")
            if length:
                yield EarlierShard(split, name, rows)

    def _samples(self, table: pa.Table, facts: _Facts) -> Samples:
        is_multilabel = "labels" in table.column_names
        hashes = tuple(map(bytes.fromhex, _cells(table, "xxh3")))
        folder, kinds = str(self.folder), zip(facts.formats, hashes, strict=True)
        samples = Samples(
            filenames=tuple(_cells(table, "filename")),
            splits=tuple(_cells(table, "split")),
            contents=hashes,
            blobs=tuple(Stored(folder, row, *kind) for row, kind in enumerate(kinds)),
            groups=tuple(_cells(table, "group")) if "group" in table.column_names else (),
            columns=tuple(
                Column(name, kind, tuple(_cells(table, self.table_columns[name])))
                for name, kind in self.columns.items()
            ),
            labels=() if is_multilabel else tuple(_cells(table, "label")),
            label_sets=tuple(map(tuple, _cells(table, "labels"))) if is_multilabel else (),
        )
        return replace(samples, sizes=tuple(_image_sizes(samples, facts)))

    def _submission(self) -> Submission | None:
        value = read_json(self.folder / layout.METADATA)["imgrec"].get("submission")
        if value is None:
            return None
        path = self.folder / layout.SUBMISSION
        sample = read_document(path) if path.exists() else b""
        return decode_submission(value, sample)

    def _seals(self) -> dict[str, Seal]:
        sums = read_checksums(self.folder, Faults())
        return {
            name: Seal(name, (self.folder / name).stat().st_size, digest)
            for name, digest in sums.items()
        }


def _cells(table: pa.Table, column: str) -> list[Any]:
    return table.column(column).to_pylist()


def _image_sizes(samples: Samples, facts: _Facts) -> Iterator[int]:
    """Yield the size of each stored image, from that of its record; 0 if it is unknown."""
    is_plain = not samples.label_sets and not samples.columns
    for place, (name, length) in enumerate(zip(samples.filenames, facts.lengths, strict=True)):
        height, width, channels = facts.shapes[3 * place : 3 * place + 3]
        shape = height, width, channels
        if is_plain:
            around = partial(
                example.encode_around,
                filename=name.encode(),
                label=samples.labels[place],
                shape=shape,
            )
        else:
            features = features_around(samples, place, shape)
            around = partial(example.encode_all_around, features=features)
        found = example.image_length(length - tfrecord.OVERHEAD, around)
        yield 0 if _ESCAPED in name else max(found, 0)


# Records of an earlier version, read by workers.


@lru_cache(maxsize=2)
def _opened(folder: str) -> Dataset:
    return Dataset(to_path(folder))


def stored_images(stored: Sequence[Stored]) -> Iterator[tuple[bytes, Shape]]:
    """Yield image and shape of each record, after checking its checksums."""
    for record in _records(stored):
        yield record.image, record.shape


def raw_names(stored: Sequence[Stored]) -> list[str]:
    """Return the file name in each record, with bytes that are not UTF-8."""
    return [record.filename for record in _records(stored)]


def _records(stored: Sequence[Stored]) -> Iterator[Any]:
    if not stored:
        return
    dataset, numbers = _opened(stored[0].folder), [blob.number for blob in stored]
    if not dataset.info.compression or all(one < other for one, other in pairwise(numbers)):
        yield from dataset.read_all(numbers)
        return
    # Compressed shards can only be read in order. What comes in another one are the few images
    # that moved here from other shards.
    order = sorted(numbers)
    found = dict(zip(order, dataset.read_all(order), strict=True))
    yield from itemgetter(*numbers)(found)
