"""Images that are worth a look because they are unlike the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import NamedTuple

from imgrec.codec.tone import NOT_SEEN
from imgrec.inspection.reporting.facts import Measures
from imgrec.inspection.reporting.table import ImageTable

MOST = 12
"""How many of a kind are shown: the most extreme ones."""
_TINY, _HUGE = 4, 4
"""A side is tiny or huge if it is that many times shorter or longer than the median."""
_ASPECT = 3.0
_BLANK, _DARK, _BRIGHT = 3, 16, 243
"""The spread below which a picture is blank, and the levels of dark and bright ones."""


class Outliers(NamedTuple):
    """Images that are unlike the others in one way."""

    key: str
    title: str
    meaning: str
    total: int
    shown: tuple[tuple[int, str], ...]
    """Places of the most extreme ones, and how extreme they are."""


class _Way(NamedTuple):
    """A way to be unlike the others."""

    key: str
    title: str
    meaning: str
    ranked: list[tuple[float, int]]
    """A number for each outlier, lower for a more extreme one, and its place."""
    tell: Callable[[int], str]


def find_outliers(table: ImageTable, measures: Measures) -> tuple[Outliers, ...]:
    """Return the outliers of every way in which there are any."""
    ways = [*_ways_of_shape(table, measures), *(_ways_of_tone(table) if table.tones else ())]
    return tuple(_outliers(way) for way in ways if way.ranked)


def _outliers(way: _Way) -> Outliers:
    shown = tuple((place, way.tell(place)) for _, place in sorted(way.ranked)[:MOST])
    return Outliers(way.key, way.title, way.meaning, len(way.ranked), shown)


def _ways_of_shape(table: ImageTable, measures: Measures) -> Iterator[_Way]:
    short_side, long_side = min(measures.median), max(measures.median)
    heights, widths = table.shapes[0::3], table.shapes[1::3]
    sizes = {*zip(heights, widths, strict=True)}
    small, large = short_side / _TINY, _HUGE * long_side
    least_ratio = max(_ASPECT, 1.5 * long_side / short_side)
    # Photos may have as many sizes as there are, so as little as can be is done for each.
    tiny = [size for size in sizes if size[0] < small or size[1] < small]
    huge = [size for size in sizes if size[0] > large or size[1] > large]
    stretched = [
        size for size in sizes
        if size[0] >= least_ratio * size[1] or size[1] >= least_ratio * size[0]
    ]  # fmt: skip

    def ranked(odd: dict[tuple[int, int], float]) -> list[tuple[float, int]]:
        if not odd:
            return []
        pairs = enumerate(zip(heights, widths, strict=True))
        return [(odd[size], at) for at, size in pairs if size in odd]

    def size(place: int) -> str:
        return f"{widths[place]:,} x {heights[place]:,} pixels"

    def ratio(place: int) -> str:
        value = _ratio((heights[place], widths[place]))
        is_wide = widths[place] > heights[place]
        return f"{value:.1f} times as {'wide as high' if is_wide else 'high as wide'}"

    yield _Way(
        "tiny", "Tiny",
        "Their shorter side is less than a quarter of the median: icons, previews, crops. "
        "--min-side leaves them out.",
        ranked({size: min(size) for size in tiny}), size,
    )  # fmt: skip
    yield _Way(
        "huge", "Huge",
        "Their longer side is more than four times the median, and slows down loading. "
        "--max-side shrinks them.",
        ranked({size: -max(size) for size in huge}), size,
    )  # fmt: skip
    yield _Way(
        "stretched", "Extreme proportions",
        "Resized to a square, they are squeezed beyond recognition: crop them instead.",
        ranked({size: -_ratio(size) for size in stretched}), ratio,
    )  # fmt: skip


def _ratio(size: tuple[int, int]) -> float:
    return max(size) / min(size)


def _ways_of_tone(table: ImageTable) -> Iterator[_Way]:
    levels, spreads = table.tones[0::2], table.tones[1::2]
    is_plain = [2 * _BLANK <= spread < NOT_SEEN for spread in spreads]

    def level(place: int) -> str:
        return f"mean level {levels[place]} of 255"

    def spread(place: int) -> str:
        return f"levels spread by {spreads[place] / 2:g} of 255, {level(place)}"

    yield _Way(
        "blank", "Nearly blank",
        "There is next to nothing in them: empty scans, covered lenses, placeholders.",
        [(value, at) for at, value in enumerate(spreads) if value < 2 * _BLANK], spread,
    )  # fmt: skip
    seen = list(compress(enumerate(levels), is_plain))
    # Where most are dark, as digits on black are, being dark is nothing odd.
    usual = sorted(level for _, level in seen)[len(seen) // 2] if seen else 0
    dark, bright = min(_DARK, usual / 2), max(_BRIGHT, (255 + usual) / 2)
    yield _Way(
        "dark", "Very dark", "They are nearly black on the whole.",
        [(value, at) for at, value in seen if value < dark], level,
    )  # fmt: skip
    yield _Way(
        "bright", "Very bright", "They are nearly white on the whole.",
        [(-value, at) for at, value in seen if value > bright], level,
    )  # fmt: skip
