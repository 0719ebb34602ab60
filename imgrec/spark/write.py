"""Writing the shards of a DataFrame on the executors."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.blob import Blob
from imgrec.codec import result as result_codec
from imgrec.errors import ExecutionError
from imgrec.layout import shard_filename
from imgrec.model import Column, Samples, ShardTask
from imgrec.options import ColumnKind
from imgrec.options.source import ColumnValue
from imgrec.outcome import ShardResult
from imgrec.plan.shards import facts_of, record_bytes
from imgrec.publish.publish import refuse_losses
from imgrec.spark.look import digest_of
from imgrec.spark.notes import read_note, write_note
from imgrec.spark.tables import (
    SHARDED,
    Columns,
    Extras,
    batches_of,
    columns_of,
    extra_columns,
    with_extras,
)
from imgrec.storage.spool import append
from imgrec.text import path_of, printable
from imgrec.write.shard import ShardWriter

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 3
UNSTABLE = (
    "the DataFrame is read twice and must give the same rows each time: persist or checkpoint the "
    "DataFrame, or write it to a table and pack that"
)
WRITTEN = {"shard": "int", "records": "int"}
_TOLD = ("filenames", "labels", "groups", "columns")
"""What the result of a shard does not tell again."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a dataset."""

    split: str
    index: int
    filename: str


@dataclass(frozen=True)
class Shards:
    """All shards of a dataset, numbered through its splits."""

    lengths: Mapping[str, Sequence[int]]
    """How many records each shard of a split has; splits are in their order."""
    name: str
    compression: str

    def __iter__(self) -> Iterator[Shard]:
        for split, lengths in self.lengths.items():
            for index in range(len(lengths)):
                filename = shard_filename(self.name, split, index, len(lengths), self.compression)
                yield Shard(split, index, filename)

    def __len__(self) -> int:
        return sum(map(len, self.lengths.values()))


@dataclass(frozen=True)
class Sharding:
    """Turns rows of `PLACED` into rows of `SHARDED`."""

    lengths: Mapping[str, Sequence[int]]
    offsets: Mapping[str, Mapping[int, int]]
    extras: Extras

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Find the shards of some rows."""
        starts = {
            split: list(accumulate(lengths, initial=0)) for split, lengths in self.lengths.items()
        }
        firsts = dict(
            zip(self.lengths, accumulate(map(len, self.lengths.values()), initial=0), strict=False)
        )
        for batch in batches:
            rows = columns_of(batch)
            where = zip(rows["split"], rows["bucket"], rows["place"], strict=True)
            rows["place"] = [self.offsets[split][bucket] + place for split, bucket, place in where]
            rows["shard"] = [
                firsts[split] + bisect_right(starts[split], place) - 1
                for split, place in zip(rows["split"], rows["place"], strict=True)
            ]
            yield from batches_of(rows, with_extras(SHARDED, self.extras))


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Writes the shards whose rows, sorted, it is given, and notes what came of each."""

    writer: ShardWriter
    shards: tuple[Shard, ...]
    extras: Extras
    defaults: tuple[ColumnValue, ...]
    """What stands for a missing value in each of `extras`."""
    has_groups: bool
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write some shards."""
        number, rows, blobs = -1, Columns(), list[Blob]()
        with TemporaryDirectory(prefix="imgrec-") as place:
            for batch in batches:
                columns = columns_of(batch)
                images = columns.pop("image", None)
                for at, shard in enumerate(columns["shard"]):
                    if shard != number:
                        yield from self._write(number, rows, blobs)
                        number, rows, blobs = shard, {name: [] for name in columns}, []
                    for name, cells in columns.items():
                        rows[name].append(cells[at])
                    path = path_of(rows["blob"][-1])
                    blobs.append(path if images is None else _kept(images[at], rows, place))
            yield from self._write(number, rows, blobs)

    def _write(self, number: int, rows: Columns, blobs: list[Blob]) -> Iterator[pa.RecordBatch]:
        if not blobs:
            return
        shard = self.shards[number]
        task = ShardTask(
            split=shard.split,
            index=shard.index,
            filename=shard.filename,
            expected_bytes=sum(record_bytes(rows["size"], rows["filename"])),
            samples=Samples(
                blobs=tuple(blobs),
                filenames=tuple(rows["filename"]),
                sizes=tuple(rows["size"]),
                labels=tuple(rows["label"]),
                groups=tuple(rows["grp"]) if self.has_groups else (),
                columns=extra_columns(rows, self.extras, self.defaults),
            ),
        )
        result = self.writer(task)
        refuse_losses((task,), (result,))
        told = json.dumps({name: getattr(task.samples, name) for name in _TOLD}).encode()
        write_note(self.folder, f"{number}.result", told + b"\n" + result_codec.encode(result))
        write_note(self.folder, facts_name(number), facts_of(task))
        yield from batches_of({"shard": [number], "records": [len(blobs)]}, WRITTEN)


def _kept(image: bytes | None, rows: Columns, folder: str) -> Blob:
    """Keep the bytes of an image on a disk of the executor until its shard is written."""
    if image is None or digest_of(image) != rows["digest"][-1]:
        raise ExecutionError(
            f"{printable(rows['filename'][-1])} changed between two reads of the DataFrame: "
            f"{rows['size'][-1]} bytes when planned, {len(image or b'')} other bytes when written",
            hint=UNSTABLE,
        )
    path, offset = append(folder, [image])
    if not path:
        raise ExecutionError(
            f"cannot keep the images of a shard in {folder}",
            hint="let TMPDIR of the executors be a disk with room for some shards",
        )
    return path, offset


def refuse_other_counts(shards: Shards, written: Mapping[int, int]) -> None:
    """Raise ExecutionError unless each shard has as many records as were planned."""
    planned = [length for lengths in shards.lengths.values() for length in lengths]
    wrong = [
        (shard.filename, planned[number], written.get(number, 0))
        for number, shard in enumerate(shards)
        if written.get(number, 0) != planned[number]
    ]
    if not wrong:
        return
    shown = "; ".join(f"{name}: {want} planned, {got} found" for name, want, got in wrong[:_SHOWN])
    more = f"; and {len(wrong) - _SHOWN} more shards" if len(wrong) > _SHOWN else ""
    raise ExecutionError(
        f"{sum(planned)} rows of the DataFrame were planned, and {sum(written.values())} were "
        f"there when shards were written ({shown}{more})",
        hint=UNSTABLE,
    )


def read_result(folder: str, number: int, shard: Shard) -> ShardResult:
    """Return what came of a shard."""
    told, _, result = read_note(folder, f"{number}.result").partition(b"\n")
    value = json.loads(told)
    task = ShardTask(
        split=shard.split,
        index=shard.index,
        filename=shard.filename,
        expected_bytes=0,
        samples=Samples(
            filenames=tuple(value["filenames"]),
            labels=tuple(value["labels"]),
            groups=tuple(value["groups"]),
            columns=tuple(
                Column(name, ColumnKind(kind), tuple(cells))
                for name, kind, cells in value["columns"]
            ),
        ),
    )
    return result_codec.decode(result, task)


def facts_name(number: int) -> str:
    """Name the note with what decides the bytes of a shard."""
    return f"{number}.facts"
