"""Ranks cut into buckets, each small enough to be planned at once by the functions of `plan`.

The rank of an image is a hash, so its first bits cut the order of all images into parts of even
size. Copies of one image have one rank, and so are in one bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.sniff import HEAD_BYTES
from imgrec.model import TRAIN, UNLABELLED, Samples
from imgrec.plan.groups import find_units
from imgrec.plan.split import Drawn, draws_of, find_homes, write_order
from imgrec.source.probe import contents
from imgrec.spark.tables import (
    SETTLED,
    Columns,
    Extras,
    batches_of,
    by_key,
    picked,
    with_extras,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS = 1 << 16
"""About how many rows a bucket has."""


def bits_for(rows: int) -> int:
    """Return how many bits of the rank number the buckets of so many rows."""
    return (rows // ROWS).bit_length()


def bucketed(seen: DataFrame, bits: int) -> DataFrame:
    """Return the good rows, those of a bucket one after the other in one partition."""
    from pyspark.sql import functions as f

    # Shifting by 64 bits is shifting by none.
    bucket = f.shiftrightunsigned("rank", 64 - bits).cast("int") if bits else f.lit(0)
    good = seen.where(f.col("fault").isNull()).withColumn("bucket", bucket)
    return together(good, "bucket", 1 << bits)


def together(rows: DataFrame, key: str, count: int, *order: str) -> DataFrame:
    """Bring the rows of each of `count` values together, sorted by it and then as said."""
    context = rows.sparkSession.sparkContext
    partitions = min(count, max(context.defaultParallelism * 4, count // 4))
    return rows.repartition(partitions, key).sortWithinPartitions(key, *order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Turns rows of `SEEN` by bucket into rows of `SETTLED`."""

    seed: int
    label_of: Mapping[str, int]
    extras: Extras

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Settle content, rank and label of the rows of some buckets."""
        for _, rows in by_key(batches, "bucket"):
            rows["content"] = _contents(rows)
            rows["label"] = [self.label_of.get(name, UNLABELLED) for name in rows["class_name"]]
            rows = picked(rows, write_order(samples_of(rows), self.seed))
            rows["place"] = list(range(len(rows["bucket"])))
            rows["draw"] = [draw - (1 << 63) for draw in draws_of(rows["content"], self.seed)]
            yield from batches_of(rows, with_extras(SETTLED, self.extras))


def _contents(rows: Columns) -> list[bytes]:
    """Return what tells each image from all others; see `source.probe.contents`."""
    keys, sizes = rows["key"], rows["size"]
    if any(rows["blob"]):  # files, of which only those in doubt are read whole
        names = [""] * len(keys)  # --exclude is not for rows
        return contents(names, rows["blob"], sizes, keys, lambda each, tasks: map(each, tasks))
    counts = Counter(keys)
    return [
        key + whole if whole and counts[key] > 1 and size > HEAD_BYTES else key
        for key, whole, size in zip(keys, rows["whole"], sizes, strict=True)
    ]


def samples_of(rows: Columns) -> Samples:
    """Return the rows of a bucket as the planner takes them."""
    count = len(rows["filename"])
    return Samples(
        filenames=tuple(rows["filename"]),
        class_names=("",) * count,
        splits=tuple(rows["split"]),
        sizes=tuple(rows["size"]),
        contents=tuple(rows["content"]),
        blobs=("",) * count,
    )


class Train(NamedTuple):
    """The units of a bucket that may leave train."""

    labels: Mapping[int, int]
    """The label of each, by the place of its first row."""
    units: Sequence[int]
    """The unit of each row."""
    splits: Sequence[str]
    """The split that each row is in."""


def train_of(samples: Samples, labels: list[int]) -> Train:
    """Return the units of a bucket that may leave train; their order says nothing."""
    drawn = Drawn(samples, labels, find_units(samples), range(len(samples)))
    splits = [split or TRAIN for split in samples.splits]
    return Train(find_homes(drawn, splits, folds=False).labels, drawn.units, splits)


def list_units(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the units that may leave train, of rows of `SETTLED`, as rows of `UNITS`."""
    for _, rows in by_key(batches, "bucket"):
        labels = train_of(samples_of(rows), rows["label"]).labels
        columns: Columns = {
            "label": list(labels.values()),
            "draw": [rows["draw"][unit] for unit in labels],
            "content": [rows["content"][unit] for unit in labels],
        }
        yield from batches_of(columns, UNITS)


UNITS = {"label": "int", "draw": "bigint", "content": "binary"}
