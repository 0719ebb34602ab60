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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from imgrec.codec.sniff import HEAD_BYTES
from imgrec.layout import shard_filename
from imgrec.model import (
    TRAIN,
    UNLABELLED,
    Label,
    Planned,
    Samples,
    ShardTask,
    known_label,
    split_order,
)
from imgrec.near.clusters import NearDuplicates
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
from imgrec.packing.catalog import known_splits
from imgrec.planning.build import warnings_of_splits
from imgrec.planning.classes import FoundClasses, number_classes, rarest
from imgrec.planning.groups import find_groups, find_units, leaked_copies, note_copies, refuse_leaks
from imgrec.planning.shards import cut, lengths_of, record_bytes, shard_count
from imgrec.planning.split import draws_of, write_order
from imgrec.source.probe import contents
from imgrec.spark.bounds import UNITS, Bounds, find_bounds, free_units, list_units
from imgrec.spark.job import (
    ASSIGNED,
    RANKED,
    Columns,
    Ends,
    Form,
    Job,
    Part,
    as_note,
    batches_of,
    by_key,
    picked,
    read_result,
    samples_of,
    together,
    write_ends,
    write_result,
)
from imgrec.spark.near_rows import with_near
from imgrec.spark.scan import Scanned, labels_in
from imgrec.spark.whole import Found, assign_all, splits_of
from imgrec.storage.blobs import close_files
from imgrec.storage.paths import to_path

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
    """The label of each name in the rows."""
    images: Mapping[int, int]
    """How many images each label has."""
    form: Form

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in by_key(batches, "bucket"):
            rows["content"] = _contents(rows)
            names = [labels_in(name, self.form) for name in rows["class_name"]]
            sets = [tuple(sorted({self.label_of[name] for name in own})) for own in names]
            rows["label"], rows["labels"] = rarest(sets, self.images), sets
            rows = picked(rows, write_order(samples_of(rows), self.seed))
            rows["place"] = list(range(len(rows["bucket"])))
            rows["draw"] = [draw - (1 << 63) for draw in draws_of(rows["content"], self.seed)]
            yield from batches_of(rows, self.form.fields(RANKED))


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


MOST = 10_000
"""The most notes of a kind in the report, to bound the driver's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assigning:
    """Turns rows of `RANKED` into rows of `ASSIGNED`; writes the rest of the plan to files."""

    bounds: Mapping[int, Bounds] | None
    """By label; empty if there is nothing to split, None if splits are known of all rows."""
    options: PackOptions
    form: Form
    folder: str
    left_out: Mapping[str, Note]
    """Near-duplicates that are not packed, by name."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = self.form.fields(ASSIGNED)
        for bucket, rows in by_key(batches, "bucket"):
            samples = samples_of(rows)
            splits = self._splits(bucket, rows, samples)
            groups = find_groups(samples)
            labels = self.form.label_sets(rows) or rows["label"]
            notes = note_copies(samples, groups, labels, splits)
            names = enumerate(samples.filenames)
            left_out = {at: self.left_out[name] for at, name in names if name in self.left_out}
            if self.options.on_leak is OnLeak.DROP:
                left_out |= leaked_copies(samples, groups, splits)
            rows["split"] = splits
            kept = [place for place in range(len(samples)) if place not in left_out]
            rows = picked(rows, kept)
            self._write_results(bucket, rows, (*left_out.values(), *notes))
            rows["place"] = _count_by(rows["split"])
            if kept:
                yield from batches_of(rows, fields)

    def _splits(self, bucket: int, rows: Columns, samples: Samples) -> list[str]:
        if self.bounds is None:
            return splits_of(self.folder, bucket)
        splits = [split or TRAIN for split in samples.splits]
        if not self.bounds:
            return splits
        units = find_units(samples)
        homes = {
            unit: self.bounds[label].split_of((rows["draw"][unit], rows["content"][unit]))
            for unit, label in free_units(samples, rows["label"], units, self.options).items()
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
                split: sorted(self._labels(rows, places)) for split, places in by_split.items()
            },
            "notes": notes,
        }
        write_result(self.folder, bucket_file(bucket, "json"), json.dumps(value).encode())

    def _labels(self, rows: Columns, places: Sequence[int]) -> set[int]:
        if self.form.is_multilabel:
            return set().union(*(rows["labels"][place] for place in places))
        return {rows["label"][place] for place in places}


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
        summary.notes.add(map(as_note, value["notes"]))
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
    near_duplicates: NearDuplicates | None


def plan_rows(scanned: Scanned, job: Job) -> RowPlan:
    """Decide the label, split, shard and place of every good row."""
    scanned = with_near(replace(scanned, rows=_with_pins(scanned.rows, job)), job)
    options, form, found = job.options, scanned.frame.form, scanned.labels
    classes, label_of = number_classes(
        FoundClasses(
            folders={name: (name,) for name in found.images},
            images=found.images,
            order=found.order,
            earlier=job.earlier.classes,
        ),
        options,
    )
    images: Counter[int] = Counter()
    for name, count in found.images.items():
        images[label_of[name]] += count
    labels = {name: label_of[own] for name, own in found.class_of.items()}
    ranking = _Ranking(
        seed=options.seed, label_of={**labels, "": UNLABELLED}, images=images, form=form
    )
    bits = (scanned.good // _BUCKET_ROWS).bit_length()
    rows = _into_buckets(scanned.rows, bits)
    ranked = job.persist(job.map_batches(rows, ranking, form.fields(RANKED)))
    is_divided = bool(options.val_split or options.test_split or options.folds)
    bounds: dict[int, Bounds] | None = {}
    needs_list = scanned.has_groups or scanned.has_near or bool(options.split_from)
    if needs_list or (is_divided and form.is_multilabel):
        bounds = None
    elif is_divided:
        units = job.persist(job.map_batches(ranked, partial(list_units, options), UNITS))
        bounds = find_bounds(units, bits, options)
    whole = Found()
    if bounds is None:
        whole = assign_all(ranked, scanned, job)
    assigning = _Assigning(
        bounds=bounds, options=options, form=form, folder=job.folder, left_out=whole.left_out
    )
    placed = job.persist(job.map_batches(ranked, assigning, form.fields(ASSIGNED)))
    buckets = sorted(row["bucket"] for row in ranked.select("bucket").distinct().collect())
    placed.count()
    summary = summarize(job.fetch(), buckets)
    if options.on_leak is OnLeak.FAIL:
        leaks = groups_of_copies(summary.notes.notes(NoteKind.LEAK))
        refuse_leaks(leaks, summary.notes.total(NoteKind.LEAK))
    notes = summary.notes.notes()
    in_splits = {split: summary.labels[split] for split in summary.counts()}
    earlier = len(job.earlier.classes)
    warnings = (
        *whole.warnings,
        *warnings_of_splits(classes, in_splits, options, earlier, are_pinned=whole.are_pinned),
    )
    return RowPlan(
        rows=placed,
        classes=classes,
        summary=summary,
        planned=Planned(
            count=sum(summary.counts().values()),
            labels=summary.labels,
            columns=form.extras,
            is_multilabel=form.is_multilabel,
        ),
        shards=_shards(summary, job),
        notes=(*scanned.notes, *notes, *warnings_of(warnings), *unlisted_warnings(notes)),
        near_duplicates=_near_duplicates(scanned, placed),
    )


def _near_duplicates(scanned: Scanned, placed: DataFrame) -> NearDuplicates | None:
    """Return the groups of near-duplicates among the rows to pack, as the report shows them."""
    if scanned.near is None:
        return None
    label = "labels" if scanned.frame.form.is_multilabel else "label"
    splits, labels = dict[str, str](), dict[str, Label | None]()
    for name, split, found in placed.select("filename", "split", label).collect():
        splits[name] = split
        labels[name] = known_label(tuple(found) if label == "labels" else found, split)
    return scanned.near.sum_up(splits, labels)


def _with_pins(rows: DataFrame, job: Job) -> DataFrame:
    """Add the split that the dataset of `split_from` has each image in, as the column `pin`."""
    from pyspark.sql import functions as f

    if not job.earlier.folder:
        return rows.withColumn("pin", f.lit(""))
    one = job.session.range(0, 1, 1, 1)
    known = job.map_batches(one, partial(_list_known, job.earlier.folder), _KNOWN)
    found = rows.join(known, "digest", "left")
    return found.withColumn("pin", f.coalesce("pin", f.lit("")))


_KNOWN = {"digest": "binary", "pin": "string"}


def _list_known(folder: str, _batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn one row into the images of a dataset, with their splits."""
    known = known_splits(to_path(folder))
    yield from batches_of({"digest": list(known), "pin": list(known.values())}, _KNOWN)


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
