"""Statistics of image sizes and formats, for `imgrec info` and for the report."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    by_bits = _doublings(Counter(bytes_))
    edges = [_power_of_two(bits - 1) for bits in (*by_bits, max(by_bits) + 1)]
    names = [f"{low} to {high}" for low, high in pairwise(edges)]
    return Histogram(dict(zip(names, by_bits.values(), strict=True)), dict(enumerate(edges)))


def _power_of_two(power: int) -> str:
    """Return a power of two as a number of bytes.

    >>> _power_of_two(14)
    '16 KiB'
    """
    unit = min(power // 10, 3)
    return f"{1 << power - 10 * unit} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
