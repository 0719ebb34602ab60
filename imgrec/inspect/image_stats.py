"""Statistics of image sizes and formats, for `imgrec info` and for the report."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

from imgrec import layout
from imgrec.outcome import DatasetInfo
from imgrec.read.samples import read_table, wrong_table
from imgrec.storage.paths import to_path

_ASPECTS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 0.97, 1.03, 5 / 4, 3 / 2, 2.0, 3.0)
"""The bounds between the bins of aspect ratios (width to height); the middle bin is square."""
_ASPECT_NAMES = (
    "taller than 1:3", "1:3 to 1:2", "1:2 to 2:3", "2:3 to 4:5", "4:5 to 1:1", "square",
    "1:1 to 5:4", "5:4 to 3:2", "3:2 to 2:1", "2:1 to 3:1", "wider than 3:1",
)  # fmt: skip
_ASPECT_TICKS = {1: "1:3", 2: "1:2", 3: "2:3", 5.5: "1:1", 8: "3:2", 9: "2:1", 10: "3:1"}
_CHANNELS = {1: "grey", 2: "grey + alpha", 3: "RGB", 4: "RGBA"}
_STEPS = (8, 5, 3, 2, 1)
"""Steps in each doubling of a side to round sizes to, if there are too many different ones."""
_MAX_SIZES = 160
_MAX_BINS = 12
_MANY_TIMES = 8
"""Numbers that differ by more are counted in growing bins."""
_MOST_DECADES = 1e20
"""Beyond this, bins that grow would be too many."""
_MANY_DECADES = 10_000
"""Numbers that differ by more are counted in decades."""


class Spread(NamedTuple):
    """Minimum, median and maximum."""

    least: int
    median: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStats:
    """Statistics of all images of a dataset."""

    formats: Mapping[str, int]
    """Images of each format, the most frequent first."""
    channels: Mapping[str, int]
    widths: Spread
    heights: Spread
    record_bytes: Spread
    long_sides: Mapping[int, int]
    """Images whose longer side is at least the key, and less than twice the key."""


def read_image_stats(info: DatasetInfo) -> ImageStats | None:
    """Return the statistics of a dataset; None without samples.parquet or without images.

    Raises DatasetError if samples.parquet is damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    folder = to_path(info.path)
    if not (folder / layout.SAMPLES).exists():
        return None
    table = read_table(folder, info, ("format", "height", "width", "channels", "length"))
    if not table.num_rows:
        return None
    try:
        width, height = table.column("width"), table.column("height")
        return ImageStats(
            formats=_ranked(_counts(table.column("format"))),
            channels=_ranked(_counts(table.column("channels"))),
            widths=_spread(width),
            heights=_spread(height),
            record_bytes=_spread(table.column("length")),
            long_sides={
                1 << bits >> 1: count
                for bits, count in _doublings(_counts(pc.max_element_wise(width, height))).items()
            },
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def _counts(column: Any) -> dict[Any, int]:  # pyarrow's stubs do not type the values
    counted = column.value_counts()
    values, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
    return dict(zip(values, counts, strict=True))


def _spread(column: Any) -> Spread:
    import pyarrow.compute as pc

    (median,) = pc.quantile(column, 0.5, interpolation="lower").to_pylist()
    return Spread(int(pc.min(column).as_py()), int(median or 0), int(pc.max(column).as_py()))


def _ranked(counts: Mapping[Any, int]) -> dict[str, int]:
    named = {str(value): count for value, count in counts.items()}
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))


def _doublings(counts: Mapping[int, int]) -> dict[int, int]:
    """Count numbers by their bits, that is between powers of two; fill gaps with 0."""
    by_bits: Counter[int] = Counter()
    for value, count in counts.items():
        by_bits[max(value, 1).bit_length()] += count
    return {bits: by_bits[bits] for bits in range(min(by_bits), max(by_bits) + 1)}


class Histogram(NamedTuple):
    """Images counted in bins from low to high."""

    bins: Mapping[str, int]
    """The name of each bin, and its number of images."""
    ticks: Mapping[float, str]
    """The marks below it, by their distance from the left in bins."""


class Measures(NamedTuple):
    """The sizes and formats of the images in a report."""

    median: tuple[int, int]
    """Width and height."""
    smallest: tuple[int, int]
    largest: tuple[int, int]
    sizes: Mapping[tuple[int, int], int]
    """Images of each width and height. Similar sizes are merged if there are too many."""
    aspects: Histogram
    bytes: Histogram
    formats: Mapping[str, int]
    channels: Mapping[str, int]


def measure(shapes: Sequence[int], bytes_: Iterable[int], formats: Iterable[str]) -> Measures:
    """Sum up all images; there must be at least one.

    `shapes` has height, width and channels of image i at 3i, 3i+1 and 3i+2.
    """
    heights, widths = shapes[0::3], shapes[1::3]
    sizes = Counter(zip(widths, heights, strict=True))
    channels = Counter(shapes[2::3])
    names = {count: _CHANNELS.get(count, f"{count} channels") for count in channels}
    return Measures(
        median=(sorted(widths)[len(widths) // 2], sorted(heights)[len(heights) // 2]),
        smallest=min(sizes, key=lambda size: (size[0] * size[1], size)),
        largest=max(sizes, key=lambda size: (size[0] * size[1], size)),
        sizes=_merged(sizes),
        aspects=_aspects(sizes),
        bytes=_byte_sizes(bytes_),
        formats=_ranked(Counter(formats)),
        channels=_ranked({names[count]: images for count, images in channels.items()}),
    )


def _merged(sizes: Counter[tuple[int, int]]) -> dict[tuple[int, int], int]:
    merged = sizes
    for step in _STEPS:
        if len(merged) <= _MAX_SIZES:
            break
        merged = Counter()
        # Photos have many sizes, but few different sides.
        rounded = {side: _rounded(side, step) for side in {*chain.from_iterable(sizes)}}
        for (width, height), count in sizes.items():
            merged[rounded[width], rounded[height]] += count
    return dict(sorted(merged.items()))


def _rounded(side: int, step: int) -> int:
    """Return the nearest of `step` sides in each doubling.

    >>> _rounded(500, 1), _rounded(500, 2)
    (512, 512)
    """
    return round(math.exp2(round(math.log2(side) * step) / step))


def _aspects(sizes: Mapping[tuple[int, int], int]) -> Histogram:
    bins = dict.fromkeys(_ASPECT_NAMES, 0)
    for (width, height), count in sizes.items():
        bins[_ASPECT_NAMES[bisect_right(_ASPECTS, width / height)]] += count
    return Histogram(bins, _ASPECT_TICKS)


def _byte_sizes(bytes_: Iterable[int]) -> Histogram:
    """Count sizes in doublings, or in equal steps if they differ little."""
    counts = Counter(bytes_)
    least, most = min(counts), max(counts)
    if most >= _MANY_TIMES * max(least, 1):
        by_bits = _doublings(counts)
        edges = [1 << bits >> 1 for bits in (*by_bits, max(by_bits) + 1)]
        return _histogram([_bytes_text(edge) for edge in edges], list(by_bits.values()))
    step = 1
    while (most // step - least // step) >= _MAX_BINS:
        step *= 2
    edges = list(range(least // step * step, most + step + 1, step))[: _MAX_BINS + 1]
    bins = [0] * (most // step - least // step + 1)
    for value, images in counts.items():
        bins[value // step - least // step] += images
    return _histogram([_bytes_text(edge) for edge in edges[: len(bins) + 1]], bins)


def _histogram(edges: Sequence[str], bins: Sequence[int]) -> Histogram:
    names = [f"{low} to {high}" for low, high in pairwise(edges)]
    return Histogram(dict(zip(names, bins, strict=True)), dict(enumerate(edges)))


def number_bins(numbers: Collection[float]) -> Histogram:
    """Count numbers in bins with round edges; there must be at least one.

    The bins have equal widths, unless the largest numbers are far from most others.
    """
    least, most = min(numbers), max(numbers)
    spans = least > 0 and most < _MOST_DECADES * least
    if spans and most > _MANY_TIMES * sorted(numbers)[len(numbers) // 2]:
        edges = _growing_edges(least, most)
        bins = Counter(bisect_right(edges, number) - 1 for number in numbers)
        return _histogram(
            [f"{edge:,.7g}" for edge in edges], [bins[at] for at in range(len(edges) - 1)]
        )
    is_whole = all(number == int(number) for number in numbers)
    width = (most - least) / _MAX_BINS
    step = max(round_step(width), 1) if is_whole else round_step(width)
    first = math.floor(least / step)
    bins = Counter(math.floor(number / step) - first for number in numbers)
    images = [bins[place] for place in range(max(bins) + 1)]
    edges = [(first + place) * step for place in range(len(images) + 1)]
    texts = [f"{edge:,.7g}" for edge in edges]  # 3 x 0.1 is 0.30000000000000004
    if is_whole and step == 1:
        names = texts[:-1]
        return Histogram(
            dict(zip(names, images, strict=True)), {at + 0.5: name for at, name in enumerate(names)}
        )
    return _histogram(texts, images)


def _growing_edges(least: float, most: float) -> list[float]:
    """Return round edges, each two to ten times the one before, around some numbers.

    >>> _growing_edges(3, 90), _growing_edges(0.02, 5000)
    ([2.0, 5.0, 10.0, 20.0, 50.0, 100.0], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    factors = (1, 2, 5) if most < _MANY_DECADES * least else (1,)
    powers = range(math.floor(math.log10(least)) - 1, math.floor(math.log10(most)) + 3)
    edges = [float(f"{factor}e{power}") for power in powers for factor in factors]
    return edges[bisect_right(edges, least) - 1 : bisect_right(edges, most) + 1]


def round_step(width: float) -> float:
    """Return the next number that is 1, 2 or 5 times a power of ten.

    >>> round_step(0.3), round_step(21), round_step(0)
    (0.5, 50.0, 1.0)
    """
    if width <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= width * (1 - 1e-9))


def _bytes_text(count: int) -> str:
    """Return a number of bytes in few digits.

    >>> _bytes_text(16384), _bytes_text(1536), _bytes_text(0)
    ('16 KiB', '1.5 KiB', '0 B')
    """
    unit = min(max(count.bit_length() - 1, 0) // 10, 3)
    return f"{count / (1 << 10 * unit):.5g} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
