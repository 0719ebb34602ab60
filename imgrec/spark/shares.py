"""Which units of a class are val and test, told by two bounds in the order in which they are drawn.

The order of a class may be too long to be sorted in one task. So the units are counted in cells,
cut by the first bits of their draws, and only in those cells that hold a bound they are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from imgrec.model import TEST, TRAIN, VAL
from imgrec.options import SplitOptions
from imgrec.plan.split import held_out_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bound = tuple[int, bytes]
"""Draw and content of a unit, which no other unit has."""
_BEFORE = (-1 << 63, b"")
_BEHIND = (1 << 63, b"")


class Share(NamedTuple):
    """The units of a class before `val_end` are val, those from `test_start` on are test."""

    val_end: Bound
    test_start: Bound

    def split_of(self, unit: Bound) -> str:
        """Return the split of a unit."""
        if unit < self.val_end:
            return VAL
        return TEST if unit >= self.test_start else TRAIN


def shares(units: DataFrame, bits: int, options: SplitOptions) -> dict[int, Share]:
    """Return the shares of each label, given rows of `UNITS` and how many bits number a cell."""
    from pyspark.sql import functions as f

    # Shifting by 64 bits is shifting by none.
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
        label: Share(found[label, val_end], found[label, test_start])
        for label, (val_end, test_start) in ends.items()
    }


def _find(
    units: DataFrame, cells: DataFrame, wanted: list[tuple[int, int]]
) -> dict[tuple[int, int], Bound]:
    """Return the units at places of a class's order, each wanted by label and number."""
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
