"""Assigning groups to splits, like `plan.groups`, with the units in a table instead of a dict.

A unit must stay in one split. It is a group with all groups that share an image with it, or all
copies of an image outside groups. One task assigns the units in order. It keeps only how many
images of each label each split has so far.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from imgrec.errors import PlanError
from imgrec.model import TRAIN, Samples
from imgrec.planning.groups import Dealer, fill_empty, find_units, turn_of
from imgrec.spark.job import (
    DEALT,
    RANKED,
    Columns,
    Extras,
    Job,
    batches_of,
    by_key,
    columns_of,
    samples_of,
    together,
    with_extras,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_MOST_LINKS = 1_000_000
_FIRST = -(1 << 30)
"""The turn of a unit that must go to train."""
_SMALLEST = 3
"""How many units of a split to choose from: enough for three splits."""
_LINKS = {"one": "string", "other": "string"}
_FIRST_ROW = "struct<draw:bigint,place:int>"
_TURNED = {
    "unit": "string",
    "counts": f"array<struct<first:{_FIRST_ROW},label:int,images:bigint>>",
    "first": _FIRST_ROW,
    "turn": "bigint",
}
_DEALT = {"unit": "string", DEALT: "string", "total": "bigint", "turn": "bigint", "at": "bigint"}


def assign_groups(ranked: DataFrame, extras: Extras, job: Job) -> DataFrame:
    """Add the column `DEALT` to rows of `RANKED`."""
    from pyspark.sql import functions as f

    links = job.map_batches(ranked, find_links, _LINKS).distinct().limit(_MOST_LINKS + 1).collect()
    if len(links) > _MOST_LINKS:
        raise PlanError(
            f"more than {_MOST_LINKS} pairs of groups share an image",
            hint="merge groups that belong together",
        )
    naming = _Naming(_united([(link["one"], link["other"]) for link in links]), extras)
    named = job.map_batches(ranked, naming, naming.fields())
    units = _units(named)
    totals, uses = Counter[int](), Counter[int]()
    for row in units.select(f.explode("counts").alias("c")).select("c.*").groupBy("label").agg(
        f.sum("images").alias("images"), f.count("*").alias("units")
    ).collect():  # fmt: skip
        totals[row["label"]], uses[row["label"]] = row["images"], row["units"]
    dealer = Dealer(totals, uses, job.options)
    turned = job.map_batches(units, partial(_add_turns, dealer), _TURNED)
    queue = turned.repartition(1).sortWithinPartitions("turn", "first")
    dealt = job.persist(job.map_batches(queue, partial(_deal, dealer), _DEALT))
    moved = _moved(dealt, dealer.fractions)
    home: Column = f.col(DEALT)
    for unit, split in moved.items():
        home = f.when(f.col("unit") == unit, split).otherwise(home)
    homes = dealt.select("unit", home.alias(DEALT))
    rows = named.join(homes, "unit", "left").drop("unit")
    buckets = ranked.select("bucket").distinct().count()
    return together(rows, "bucket", buckets, "place")


def split_groups(rows: DataFrame, most: int) -> tuple[list[str], int]:
    """Return some of the groups that are in several splits, and the number of all such groups."""
    from pyspark.sql import functions as f

    split = f.when(f.col("split") == "", TRAIN).otherwise(f.col("split"))
    if DEALT in rows.columns:
        is_dealt = (split == TRAIN) & f.col(DEALT).isNotNull()
        split = f.when(is_dealt, f.col(DEALT)).otherwise(split)
    found = (
        rows.where("grp != ''").groupBy("grp").agg(f.countDistinct(split).alias("splits"))
    ).where("splits > 1")
    names = [row["grp"] for row in found.orderBy("grp").limit(most).collect()]
    return names, found.count() if names else 0


def _nodes(rows: Columns) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the node (group or image) of each row, and pairs of groups that share an image."""
    units = find_units(samples_of(rows))
    groups: dict[int, set[str]] = defaultdict(set)
    for unit, group in zip(units, rows["grp"], strict=True):
        if group:
            groups[unit].add(group)
    names = {unit: sorted(own) for unit, own in groups.items()}
    nodes = [
        f"g{names[unit][0]}" if unit in names else f"c{content.hex()}"
        for unit, content in zip(units, rows["content"], strict=True)
    ]
    return nodes, [(f"g{own[0]}", f"g{other}") for own in names.values() for other in own[1:]]


def find_links(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield pairs of groups that share an image."""
    for _, rows in by_key(batches, "bucket"):
        links = _nodes(rows)[1]
        columns = {"one": [one for one, _ in links], "other": [other for _, other in links]}
        yield from batches_of(columns, _LINKS)


def _united(links: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Map each linked node to the first node of its unit."""
    nodes = tuple(chain.from_iterable(links))
    contents = chain.from_iterable([b"%d" % number] * 2 for number in range(len(links)))
    units = find_units(Samples(filenames=nodes, contents=tuple(contents), groups=nodes))
    return {node: nodes[unit] for node, unit in zip(nodes, units, strict=True)}


@dataclass(frozen=True)
class _Naming:
    """Adds the column `unit` to rows of `RANKED`."""

    roots: Mapping[str, str]
    extras: Extras

    def fields(self) -> dict[str, str]:
        """Return the columns of the result."""
        return {**with_extras(RANKED, self.extras), "unit": "string"}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in by_key(batches, "bucket"):
            nodes, _ = _nodes(rows)
            rows["unit"] = [self.roots.get(node, node) for node in nodes]
            yield from batches_of(rows, self.fields())


def _units(named: DataFrame) -> DataFrame:
    """Return the units that may leave train, with the number of images by label.

    Labels keep the order in which they are first met: floats added in another order may give
    another sum, and so another split.
    """
    from pyspark.sql import functions as f

    is_train = f.col("split").isin("", TRAIN)
    # Rows with the same draw are in one bucket, sorted by content and name.
    where = f.when(is_train, f.struct("draw", "place"))
    by_label = named.groupBy("unit", "label").agg(
        f.min(where).alias("first"),
        f.sum(is_train.cast("bigint")).alias("images"),
        f.max(~is_train).alias("is_elsewhere"),
    )
    count = f.when(f.col("images") > 0, f.struct("first", "label", "images"))
    units = by_label.groupBy("unit").agg(
        f.array_sort(f.collect_list(count)).alias("counts"),
        f.min("first").alias("first"),
        f.max("is_elsewhere").alias("is_elsewhere"),
    )
    return units.where("not is_elsewhere and first is not null").drop("is_elsewhere")


def _add_turns(dealer: Dealer, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the turn of each unit."""
    import pyarrow as pa

    for batch in batches:
        units = map(_labels, columns_of(batch)["counts"])
        turns = [_FIRST if dealer.is_alone(unit) else turn_of(unit) for unit in units]
        columns = [*batch.columns, pa.array(turns, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "turn"])


def _deal(dealer: Dealer, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Assign units, sorted by turn. Each task has its own dealer, which counts."""
    at = 0
    for batch in batches:
        rows = columns_of(batch)
        units, turns = list(map(_labels, rows["counts"])), rows["turn"]
        columns: Columns = {
            "unit": rows["unit"],
            DEALT: [_home(dealer, unit, turn) for unit, turn in zip(units, turns, strict=True)],
            "total": [unit.total() for unit in units],
            "turn": turns,
            "at": list(range(at, at + len(units))),
        }
        at += len(units)
        yield from batches_of(columns, _DEALT)


def _labels(counts: list[dict[str, int]]) -> Counter[int]:
    return Counter({count["label"]: count["images"] for count in counts})


def _home(dealer: Dealer, unit: Counter[int], turn: int) -> str:
    if turn != _FIRST:
        return dealer.place(unit)
    dealer.seat(unit, TRAIN)
    return TRAIN


def _moved(dealt: DataFrame, fractions: Mapping[str, float]) -> dict[str, str]:
    """Return the units that must move to splits that would be empty otherwise.

    `fill_empty` chooses among the smallest units of each split. Of the other units, it needs to
    know only that there are some.
    """
    from pyspark.sql import functions as f

    counts = {row[DEALT]: row["count"] for row in dealt.groupBy(DEALT).count().collect()}
    if all(counts.get(split) for split in fractions):
        return {}
    free = dealt.where(f.col("turn") != _FIRST)
    small = [
        row
        for split in counts
        for row in free.where(f.col(DEALT) == split)
        .orderBy("total", "at")
        .limit(_SMALLEST)
        .collect()
    ]
    small.sort(key=lambda row: row["at"])
    splits = {at: row[DEALT] for at, row in enumerate(small)}
    before = dict(splits)
    others: dict[int, str] = {}
    for split, count in counts.items():
        rest = count - sum(home == split for home in splits.values())
        others |= {-1 - len(others) - at: split for at in range(min(rest, 2))}
    everything = {**others, **splits}
    units = {at: Counter({0: row["total"]}) for at, row in enumerate(small)}
    fill_empty(everything, units, others, fractions)
    return {
        small[at]["unit"]: split
        for at, split in everything.items()
        if before.get(at, split) != split
    }
