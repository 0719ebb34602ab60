"""Planning a DataFrame on the executors: rank, split and shard of every row.

The rank of an image is a hash, so its first bits cut the order of all images into buckets of even
size. Each bucket is small enough for the functions of `plan`. Copies of an image have the same rank
and are therefore in the same bucket.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import imgrec.spark.groups as groups
from imgrec.codec.sniff import HEAD_BYTES
from imgrec.layout import shard_filename
from imgrec.model import TEST, TRAIN, UNLABELLED, VAL, Planned, Samples, ShardTask, split_order
from imgrec.notes import (
    Note,
    NoteCollector,
    NoteKind,
    Notes,
    groups_of_copies,
    unlisted_warnings,
    warnings_of,
)
from imgrec.options import OnLeak, PackOptions
from imgrec.planning.build import SHOWN, missing_classes, missing_splits, warn_of_divided_groups
from imgrec.planning.classes import FoundClasses, number_classes
from imgrec.planning.groups import find_groups, find_units, leaked_copies, note_copies, refuse_leaks
from imgrec.planning.shards import cut, lengths_of, record_bytes, shard_count
from imgrec.planning.split import draws_of, find_free_units, held_out_counts, write_order
from imgrec.source.probe import contents
from imgrec.spark.job import (
    ASSIGNED,
    DEALT,
    RANKED,
    Columns,
    Ends,
    Extras,
    Job,
    Part,
    batches_of,
    by_key,
    picked,
    read_result,
    samples_of,
    together,
    with_extras,
    write_ends,
    write_result,
)
from imgrec.spark.scan import Scanned
from imgrec.storage.blobs import close_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_BUCKET_ROWS = 1 << 16
"""The approximate number of rows in a bucket."""


def _into_buckets(rows: DataFrame, bits: int) -> DataFrame:
    """Group the good rows into buckets by the first bits of their rank."""
    from pyspark.sql import functions as f

    # Spark takes a shift by 64 bits for a shift by 0.
    bucket = f.shiftrightunsigned("rank", 64 - bits).cast("int") if bits else f.lit(0)
    good = rows.where(f.col("fault").isNull()).withColumn("bucket", bucket)
    return together(good, "bucket", 1 << bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """Turns rows of `PROBED`, grouped by bucket, into rows of `RANKED`."""

    seed: int
    label_of: Mapping[str, int]
    extras: Extras

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in by_key(batches, "bucket"):
            rows["content"] = _contents(rows)
            rows["label"] = [self.label_of.get(name, UNLABELLED) for name in rows["class_name"]]
            rows = picked(rows, write_order(samples_of(rows), self.seed))
            rows["place"] = list(range(len(rows["bucket"])))
            rows["draw"] = [draw - (1 << 63) for draw in draws_of(rows["content"], self.seed)]
            yield from batches_of(rows, with_extras(RANKED, self.extras))


def _contents(rows: Columns) -> list[bytes]:
    """Return a key for the content of each image; see `source.probe.contents`."""
    keys, sizes = rows["key"], rows["size"]
    if any(rows["blob"]):  # files: only those with equal beginnings are read whole
        names = [""] * len(keys)  # used only to suggest --exclude
        return contents(names, rows["blob"], sizes, keys, lambda each, tasks: map(each, tasks))
    counts = Counter(keys)
    return [
        key + whole if whole and counts[key] > 1 and size > HEAD_BYTES else key
        for key, whole, size in zip(keys, rows["whole"], sizes, strict=True)
    ]


def _free_units(samples: Samples, labels: list[int], units: Sequence[int]) -> Mapping[int, int]:
    """Return the label of each unit that may leave train, by the place of its first row."""
    return find_free_units(samples, labels, units, range(len(samples)), folds=False).labels


def list_units(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of `RANKED` into rows of `UNITS`: the units that may leave train."""
    for _, rows in by_key(batches, "bucket"):
        samples = samples_of(rows)
        labels = _free_units(samples, rows["label"], find_units(samples))
        columns: Columns = {
            "label": list(labels.values()),
            "draw": [rows["draw"][unit] for unit in labels],
            "content": [rows["content"][unit] for unit in labels],
        }
        yield from batches_of(columns, UNITS)


UNITS = {"label": "int", "draw": "bigint", "content": "binary"}


Bound = tuple[int, bytes]
"""The draw and the content of a unit, which together are unique."""
_BEFORE = (-1 << 63, b"")
_BEHIND = (1 << 63, b"")


class Bounds(NamedTuple):
    """Units of a class before `val_end` go to val, units from `test_start` on to test."""

    val_end: Bound
    test_start: Bound

    def split_of(self, unit: Bound) -> str:
        """Return the split of a unit."""
        if unit < self.val_end:
            return VAL
        return TEST if unit >= self.test_start else TRAIN


def find_bounds(units: DataFrame, bits: int, options: PackOptions) -> dict[int, Bounds]:
    """Return the bounds of val and test of each label, given rows of `UNITS`.

    The units of a class may be too many to sort in one task. So they are counted in cells, cut by
    the first bits of their draws, and only cells with a bound are sorted.
    """
    from pyspark.sql import functions as f

    # Spark takes a shift by 64 bits for a shift by 0.
    cell = f.shiftright("draw", 64 - bits).cast("int") if bits else f.lit(0)
    units = units.withColumn("cell", cell)
    cells = units.groupBy("label", "cell").count()
    totals = cells.groupBy("label").agg(f.sum("count").alias("units")).collect()
    ends = {}
    for row in totals:
        val, test = held_out_counts(row["units"], options)
        ends[row["label"]] = val, row["units"] - test
    wanted = [
        (row["label"], number)
        for row in totals
        for number in set(ends[row["label"]])
        if 0 < number < row["units"]
    ]
    found = _find(units, cells, wanted) if wanted else {}
    for row in totals:
        found[row["label"], 0] = _BEFORE
        found[row["label"], row["units"]] = _BEHIND
    return {
        label: Bounds(found[label, val_end], found[label, test_start])
        for label, (val_end, test_start) in ends.items()
    }


def _find(
    units: DataFrame, cells: DataFrame, wanted: list[tuple[int, int]]
) -> dict[tuple[int, int], Bound]:
    """Return the units with the wanted label and position in the order of their class."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = f.sum("count").over(Window.partitionBy("label").orderBy("cell")) - f.col("count")
    places = units.sparkSession.createDataFrame(wanted, "label int, number bigint")
    at = f.row_number().over(
        Window.partitionBy("label", "cell", "number").orderBy("draw", "content")
    )
    ends = (
        cells.withColumn("before", before)
        .join(f.broadcast(places), "label")
        .where("before <= number and number < before + count")
        .select("label", "cell", "number", "before")
    )
    rows = (
        units.join(f.broadcast(ends), ["label", "cell"])
        .withColumn("at", f.col("before") + at - 1)
        .where("at = number")
    )
    return {
        (row["label"], row["number"]): (row["draw"], bytes(row["content"]))
        for row in rows.collect()
    }


MOST = 10_000
"""The most notes of a kind in the report, to bound the driver's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assigning:
    """Turns rows of `RANKED` into rows of `ASSIGNED`; writes the rest of the plan to files."""

    bounds: Mapping[int, Bounds]
    """By label; empty if there are groups or nothing to split."""
    on_leak: OnLeak
    extras: Extras
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = with_extras(ASSIGNED, self.extras)
        for bucket, rows in by_key(batches, "bucket"):
            samples = samples_of(rows)
            splits = self._splits(rows, samples)
            groups = find_groups(samples)
            notes = note_copies(samples, groups, rows["label"], splits)
            is_dropped = self.on_leak is OnLeak.DROP
            left_out = leaked_copies(samples, groups, splits) if is_dropped else {}
            rows["split"] = splits
            kept = [place for place in range(len(samples)) if place not in left_out]
            rows = picked(rows, kept)
            self._write_results(bucket, rows, (*left_out.values(), *notes))
            rows["place"] = _count_by(rows["split"])
            if kept:
                yield from batches_of(rows, fields)

    def _splits(self, rows: Columns, samples: Samples) -> list[str]:
        splits = [split or TRAIN for split in samples.splits]
        if DEALT in rows:
            dealt = zip(splits, rows[DEALT], strict=True)
            return [home if home and split == TRAIN else split for split, home in dealt]
        if not self.bounds:
            return splits
        units = find_units(samples)
        homes = {
            unit: self.bounds[label].split_of((rows["draw"][unit], rows["content"][unit]))
            for unit, label in _free_units(samples, rows["label"], units).items()
        }
        return [
            homes.get(unit, split) if split == TRAIN else split
            for unit, split in zip(units, splits, strict=True)
        ]

    def _write_results(self, bucket: int, rows: Columns, notes: Notes) -> None:
        by_split: dict[str, list[int]] = defaultdict(list)
        for place, split in enumerate(rows["split"]):
            by_split[split].append(place)
        planned = record_bytes(rows["size"], rows["filename"])
        totals = {
            split: write_ends(
                self.folder,
                bucket_file(bucket, f"{split}.ends"),
                (planned[place] for place in places),
            )
            for split, places in by_split.items()
        }
        write_result(self.folder, bucket_file(bucket, "contents"), b"".join(rows["content"]))
        write_result(self.folder, bucket_file(bucket, "lengths"), lengths_of(rows["content"]))
        value = {
            "splits": {split: (len(by_split[split]), totals[split]) for split in by_split},
            "labels": {
                split: sorted({rows["label"][place] for place in places})
                for split, places in by_split.items()
            },
            "notes": notes,
        }
        write_result(self.folder, bucket_file(bucket, "json"), json.dumps(value).encode())


def _count_by(values: Iterable[str]) -> list[int]:
    counts: Counter[str] = Counter()
    places = []
    for value in values:
        places.append(counts[value])
        counts[value] += 1
    return places


def bucket_file(bucket: int, ending: str) -> str:
    """Name a result file of a bucket."""
    return f"bucket-{bucket}.{ending}"


@dataclass(slots=True)
class Summary:
    """The result files of all buckets, summed up."""

    buckets: list[int] = field(default_factory=list)
    """The buckets with rows, by rank."""
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """The records of each split, bucket by bucket."""
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    """The number of records of a split before each bucket."""
    labels: dict[str, set[int]] = field(default_factory=dict)
    notes: NoteCollector = field(default_factory=lambda: NoteCollector(MOST))

    def counts(self) -> dict[str, int]:
        """Count the records of each split, in the order of splits."""
        splits = sorted(self.parts, key=split_order)
        return {split: sum(part.records for part in self.parts[split]) for split in splits}


def summarize(folder: str, buckets: Iterable[int]) -> Summary:
    """Read the result files of the buckets, in order."""
    summary = Summary()
    sizes: Counter[str] = Counter()
    for bucket in buckets:
        value = json.loads(read_result(folder, bucket_file(bucket, "json")))
        summary.buckets.append(bucket)
        for split, (count, total) in value["splits"].items():
            path = os.path.join(folder, bucket_file(bucket, f"{split}.ends"))
            summary.parts.setdefault(split, []).append(Part(path, count, total))
            summary.offsets.setdefault(split, {})[bucket] = sizes[split]
            sizes[split] += count
            summary.labels.setdefault(split, set()).update(value["labels"][split])
        summary.notes.add(
            Note(filename, reason, NoteKind(kind), other)
            for filename, reason, kind, other, _ in value["notes"]
        )
    return summary


@dataclass(frozen=True)
class Shards:
    """All shards of a dataset, numbered across its splits."""

    lengths: Mapping[str, Sequence[int]]
    """The number of records of each shard, by split, in the order of splits."""
    name: str
    compression: str

    def __iter__(self) -> Iterator[ShardTask]:
        """Yield the task of each shard, without its samples."""
        none = Samples()
        for split, lengths in self.lengths.items():
            for index in range(len(lengths)):
                filename = shard_filename(self.name, split, index, len(lengths), self.compression)
                yield ShardTask(
                    split=split, index=index, filename=filename, expected_bytes=0, samples=none
                )

    def __len__(self) -> int:
        return sum(map(len, self.lengths.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """The split, shard and place of every row."""

    rows: DataFrame
    """Columns as in `ASSIGNED`."""
    classes: tuple[str, ...]
    summary: Summary
    planned: Planned
    shards: Shards
    notes: Notes


def plan_rows(scanned: Scanned, job: Job) -> RowPlan:
    """Decide the label, split, shard and place of every good row."""
    options, extras = job.options, scanned.frame.extras
    folders = {name: (name,) for name in scanned.classes}
    classes, label_of = number_classes(
        FoundClasses(folders=folders, images=scanned.classes), options
    )
    ranking = _Ranking(seed=options.seed, label_of=label_of, extras=extras)
    bits = (scanned.good // _BUCKET_ROWS).bit_length()
    rows = _into_buckets(scanned.rows, bits)
    ranked = job.persist(job.map_batches(rows, ranking, with_extras(RANKED, extras)))
    is_divided = bool(options.val_split or options.test_split)
    bounds: dict[int, Bounds] = {}
    if is_divided and scanned.has_groups:
        ranked = job.persist(groups.assign_groups(ranked, extras, job))
    elif is_divided:
        units = job.persist(job.map_batches(ranked, list_units, UNITS))
        bounds = find_bounds(units, bits, options)
    assigning = _Assigning(bounds=bounds, on_leak=options.on_leak, extras=extras, folder=job.folder)
    placed = job.persist(job.map_batches(ranked, assigning, with_extras(ASSIGNED, extras)))
    buckets = sorted(row["bucket"] for row in ranked.select("bucket").distinct().collect())
    placed.count()
    job.fetch()
    summary = summarize(job.here, buckets)
    if options.on_leak is OnLeak.FAIL:
        leaks = groups_of_copies(summary.notes.notes(NoteKind.LEAK))
        refuse_leaks(leaks, summary.notes.total(NoteKind.LEAK))
    parted = groups.split_groups(ranked, SHOWN) if scanned.has_groups else ([], 0)
    notes = summary.notes.notes()
    warnings = (
        *warn_of_divided_groups(*parted),
        *missing_splits(summary.counts(), options),
        *missing_classes(classes, {split: summary.labels[split] for split in summary.counts()}),
    )
    return RowPlan(
        rows=placed,
        classes=classes,
        summary=summary,
        planned=Planned(
            count=sum(summary.counts().values()),
            labels=summary.labels,
            columns=extras,
            is_multilabel=False,
        ),
        shards=_shards(summary, job),
        notes=(*scanned.notes, *notes, *warnings_of(warnings), *unlisted_warnings(notes)),
    )


def _shards(summary: Summary, job: Job) -> Shards:
    options, counts = job.options, summary.counts()
    lengths = {
        split: cut(
            Ends(summary.parts[split]),
            shard_count(split, counts, options.shards),
            options.shard_size,
        )
        for split in counts
    }
    close_files()
    return Shards(lengths, options.name, options.shard_compression)
