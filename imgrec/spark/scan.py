"""What there is in a DataFrame: rows that were looked at, classes and bad rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.errors import SourceError
from imgrec.notes import Note, NoteKind, Notes, warnings_of
from imgrec.options.source import ColumnValue
from imgrec.plan.split import refuse_unfit
from imgrec.source.manifests.extras import missing_cells
from imgrec.source.split_words import read_splits
from imgrec.spark.frame import Frame, Request
from imgrec.spark.jobs import Job
from imgrec.spark.look import Looking
from imgrec.spark.tables import SEEN, Extras, with_extras
from imgrec.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_SHOWN = 5
_MOST_WORDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All rows of a DataFrame after a first look."""

    rows: DataFrame
    """As `SEEN` says."""
    good: int
    notes: Notes
    classes: Mapping[str, int]
    """How many good rows each has, by its name as rows have it; of bad rows too."""
    has_groups: bool
    extras: Extras
    defaults: tuple[ColumnValue, ...]
    """What stands for a missing value in each of `extras`."""
    layout: str
    images: DataFrame | None
    """Columns `filename` and `image`, if the images are in the DataFrame itself."""


def scan(frame: Frame, request: Request, job: Job) -> Seen:
    """Look at all rows; raise SourceError if they cannot be packed."""
    from pyspark.sql import functions as f

    has_splits = bool(request.split) and _has_splits(frame.rows, request.split)
    looking = Looking(
        is_path=frame.is_path,
        extras=frame.extras,
        seed=job.options.seed,
        root=request.root,
        has_splits=has_splits,
    )
    is_bad = f.col("fault").isNotNull()
    with job.small_batches():
        rows = job.keep(job.mapped(frame.rows, looking, with_extras(SEEN, frame.extras)))
        counts = rows.groupBy("class_name", "split", is_bad.alias("is_bad")).count().collect()
    bad, good = (_total(counts, is_bad=flag) for flag in (True, False))
    if not counts:
        raise SourceError("the DataFrame has no rows", hint="give a row for each image")
    _refuse_bad(rows, good, bad, job.options.max_bad)
    _refuse_repeated(rows)
    refuse_unfit({row["split"] for row in counts if not row["is_bad"]}, job.options.split_options)
    faults = rows.where(is_bad).select("filename", "fault").collect() if bad else []
    return Seen(
        rows=rows,
        good=good,
        notes=(
            *sorted(Note(row["filename"], row["fault"], NoteKind.BAD) for row in faults),
            *warnings_of(_missing_cells(rows, frame, good + bad)),
        ),
        classes=_count_classes(counts),
        has_groups=bool(request.group),
        extras=frame.extras,
        defaults=frame.defaults,
        layout=frame.layout,
        images=None if frame.is_path else _images(frame, looking),
    )


def _missing_cells(rows: DataFrame, frame: Frame, count: int) -> Iterator[str]:
    """Say for each column that travels along how many values are missing."""
    from pyspark.sql import functions as f

    if not frame.extras:
        return
    cells = [f.col(f"c{at}") for at in range(len(frame.extras))]
    missing = [f.sum(cell.isNull().cast("bigint")) for cell in cells]
    held = [
        f.max((cell == f.lit(default)).cast("int"))
        for cell, default in zip(cells, frame.defaults, strict=True)
    ]
    (found,) = rows.agg(*missing, *held).collect()
    for at, ((name, _), default) in enumerate(zip(frame.extras, frame.defaults, strict=True)):
        if found[at]:
            is_held = bool(found[len(cells) + at])
            yield missing_cells(name, found[at], count, default, is_held=is_held)


def _total(counts: Sequence[Row], *, is_bad: bool) -> int:
    return sum(row["count"] for row in counts if row["is_bad"] == is_bad)


def _count_classes(counts: Sequence[Row]) -> dict[str, int]:
    found = dict.fromkeys(sorted({row["class_name"] for row in counts} - {""}), 0)
    for row in counts:
        if row["class_name"] and not row["is_bad"]:
            found[row["class_name"]] += row["count"]
    return found


def _has_splits(rows: DataFrame, column: str) -> bool:
    """Tell whether rows have splits; raise SourceError for words that mean none."""
    found = rows.select("split").distinct().limit(_MOST_WORDS).collect()
    words = sorted(row["split"] or "" for row in found)
    return any(read_splits(words, column, "the DataFrame").splits)


def _refuse_bad(rows: DataFrame, good: int, bad: int, max_bad: float) -> None:
    """Raise SourceError before bad rows are listed of which there are too many."""
    from pyspark.sql import functions as f

    if not bad or (good and bad <= max_bad * (good + bad)):
        return
    faults = rows.where("fault is not null").groupBy("fault")
    most = faults.agg(f.count("*").alias("rows"), f.min("filename").alias("name"))
    shown = "; ".join(
        f"{row['rows']} x {row['fault']} (such as {printable(row['name'])})"
        for row in most.orderBy(f.desc("rows"), "fault").limit(_SHOWN).collect()
    )
    raise SourceError(
        f"{bad} of {good + bad} images are bad, more than --max-bad {max_bad:g} allows: {shown}",
        hint="mend the rows or how they are read, or raise --max-bad",
    )


def _refuse_repeated(rows: DataFrame) -> None:
    repeated = rows.groupBy("filename").count().where("count > 1").limit(_SHOWN).collect()
    if repeated:
        shown = ", ".join(sorted(printable(row["filename"]) for row in repeated))
        raise SourceError(
            f"several rows of the DataFrame have one name, such as {shown}",
            hint="let filename= be a column that names each image once, or drop duplicates",
        )


def _images(frame: Frame, looking: Looking) -> DataFrame:
    from pyspark.sql import functions as f

    name = f.udf(looking.name, "string")(f.col("filename")) if looking.root else f.col("filename")
    return frame.rows.select(name.alias("filename"), "image")
