"""Deciding the splits of images of one label without a list of all: where each class is cut.

The units of a class are drawn in the order of a random number. So a class is cut by the units that
begin its next split, and these few are enough for a task to know the split of any image.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.model import TEST, TRAIN, VAL, Samples
from imgrec.options import PackOptions
from imgrec.planning.balance import fold_sizes
from imgrec.planning.groups import find_units
from imgrec.planning.split import find_free_units, held_out_counts
from imgrec.spark.job import Columns, batches_of, by_key, samples_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Bound: TypeAlias = tuple[int, bytes]
"""The draw and the content of a unit, which together are unique."""
UNITS = {"label": "int", "draw": "bigint", "content": "binary"}
_BEFORE = (-1 << 63, b"")
_BEHIND = (1 << 63, b"")


class Bounds(NamedTuple):
    """How a class is cut: its splits, and the first unit of each but the first."""

    splits: tuple[str, ...]
    starts: tuple[Bound, ...]

    def split_of(self, unit: Bound) -> str:
        """Return the split of a unit."""
        return self.splits[bisect_right(self.starts, unit)]


def free_units(
    samples: Samples, labels: Sequence[int], units: Sequence[int], options: PackOptions
) -> Mapping[int, int]:
    """Return the label of each unit that may leave train, by the place of its first row."""
    places = range(len(samples))
    return find_free_units(samples, labels, units, places, folds=bool(options.folds)).labels


def list_units(options: PackOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows of `RANKED` into rows of `UNITS`: the units that may leave train."""
    for _, rows in by_key(batches, "bucket"):
        samples = samples_of(rows)
        labels = free_units(samples, rows["label"], find_units(samples), options)
        columns: Columns = {
            "label": list(labels.values()),
            "draw": [rows["draw"][unit] for unit in labels],
            "content": [rows["content"][unit] for unit in labels],
        }
        yield from batches_of(columns, UNITS)


def find_bounds(units: DataFrame, bits: int, options: PackOptions) -> dict[int, Bounds] | None:
    """Return how each label is cut, given rows of `UNITS`; None if a fold would be empty.

    The units of a class may be too many to sort in one task. So they are counted in cells, cut by
    the first bits of their draws, and only cells with a bound are sorted.
    """
    from pyspark.sql import functions as f

    # Spark takes a shift by 64 bits for a shift by 0.
    cell = f.shiftright("draw", 64 - bits).cast("int") if bits else f.lit(0)
    units = units.withColumn("cell", cell)
    cells = units.groupBy("label", "cell").count()
    totals = {
        row["label"]: row["units"]
        for row in cells.groupBy("label").agg(f.sum("count").alias("units")).collect()
    }
    sizes = {label: _sizes(label, total, options) for label, total in totals.items()}
    in_folds = sum(map(Counter, sizes.values()), Counter[str]())
    if options.folds and len(in_folds.keys() - {TEST}) < options.folds:
        return None
    starts = {label: list(accumulate(own.values()))[:-1] for label, own in sizes.items()}
    wanted = [
        (label, number)
        for label, own in starts.items()
        for number in sorted(set(own))
        if 0 < number < totals[label]
    ]
    found = _find(units, cells, wanted) if wanted else {}
    for label, total in totals.items():
        found[label, total] = _BEHIND
        found[label, 0] = _BEFORE
    return {
        label: Bounds(tuple(own), tuple(found[label, number] for number in starts[label]))
        for label, own in sizes.items()
    }


def _sizes(label: int, units: int, options: PackOptions) -> dict[str, int]:
    """Return how many units of a class each split gets, in the order of drawing."""
    val, test = held_out_counts(units, options)
    rest = {TRAIN: units - val - test}
    if options.folds:
        rest = fold_sizes(units - val - test, label, {}, options.folds)
    return {VAL: val, **rest, TEST: test}


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
