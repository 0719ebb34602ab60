"""The distributions of groups and of columns of the source's tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from imgrec.inspect.image_stats import Histogram, number_bins
from imgrec.model import Column
from imgrec.options import ColumnKind
from imgrec.text import number

GROUP = "group"
"""The column of `samples.parquet` that holds groups."""
_MAX_COLUMNS = 24
_MAX_SHARES = 10
"""Of a column with more different values, the most frequent ones are shown."""


class ColumnFacts(NamedTuple):
    """The values of one column."""

    name: str
    about: str
    """What is known about all values, in a line."""
    shares: tuple[tuple[str, int], ...] = ()
    """The images of each value, or of the most frequent ones."""
    others: int = 0
    """The images of all other values."""
    histogram: Histogram | None = None
    counted: str = "Images"
    """What the histogram counts."""
    unit: str = ""
    """What its horizontal axis measures."""


def describe_columns(columns: Sequence[Column]) -> Iterator[ColumnFacts]:
    """Yield the facts of the first columns; there must be at least one image."""
    for column in columns[:_MAX_COLUMNS]:
        if column.name == GROUP:
            yield _groups(column)
        elif column.kind is ColumnKind.TEXT:
            yield _texts(column)
        else:
            yield _numbers(column)


def _groups(column: Column) -> ColumnFacts:
    sizes = Counter(value for value in column.values if value)
    if not sizes:
        return ColumnFacts(column.name, "No image belongs to a group.")
    alone = len(column.values) - sizes.total()
    about = f"{len(sizes):,} groups of {_spread(list(sizes.values()))} images, each in one split."
    about += f" {alone:,} images belong to none." if alone else ""
    return ColumnFacts(
        name=column.name,
        about=about,
        histogram=number_bins(sizes.values()),
        counted="Groups",
        unit="images in a group",
    )


def _texts(column: Column) -> ColumnFacts:
    counts = Counter(column.values)
    missing = counts.pop("", 0)
    about = _about(number(len(counts), "value"), missing)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(counts) > 1 and ranked[0][1] == 1:
        about = f"A different value for each image, such as {ranked[0][0]}"
        return ColumnFacts(column.name, _about(about, missing))
    shares = tuple((str(value), images) for value, images in ranked[:_MAX_SHARES])
    others = sum(images for _, images in ranked[_MAX_SHARES:])
    return ColumnFacts(column.name, about, shares, others)


def _numbers(column: Column) -> ColumnFacts:
    known = [float(value) for value in column.values if math.isfinite(float(value))]
    missing = len(column.values) - len(known)
    counts = Counter(known)
    if len(counts) <= _MAX_SHARES:
        shares = tuple((f"{value:.7g}", counts[value]) for value in sorted(counts))
        return ColumnFacts(
            column.name, _about(f"{len(counts):,} different numbers", missing), shares
        )
    about = _about(_spread(known), missing)
    return ColumnFacts(column.name, about, histogram=number_bins(known), counted="Images")


def _spread(numbers: list[float] | list[int]) -> str:
    """Return the range and the median of some numbers.

    >>> _spread([3, 1, 2, 9]), _spread([5, 5])
    ('1 to 9 (median 3)', '5')
    """
    ranked = sorted(numbers)
    least, median, most = ranked[0], ranked[len(ranked) // 2], ranked[-1]
    if least == most:
        return f"{least:,.7g}"
    return f"{least:,.7g} to {most:,.7g} (median {median:,.7g})"


def _about(text: str, missing: int) -> str:
    return f"{text}. Missing in {missing:,}." if missing else f"{text}."
