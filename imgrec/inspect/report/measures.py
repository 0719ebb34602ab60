"""Image sizes summed up: medians, histograms and a map of widths and heights."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from imgrec.inspect.report.facts import Bin, Cell, Histogram, Measures, Tick
from imgrec.inspect.report.images import ImageTable

_ASPECTS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 0.97, 1.03, 5 / 4, 3 / 2, 2.0, 3.0)
"""The bounds between the bins of aspect ratios (width to height); the middle bin is square."""
_ASPECT_NAMES = (
    "taller than 1:3", "1:3 to 1:2", "1:2 to 2:3", "2:3 to 4:5", "4:5 to 1:1", "square",
    "1:1 to 5:4", "5:4 to 3:2", "3:2 to 2:1", "2:1 to 3:1", "wider than 3:1",
)  # fmt: skip
_ASPECT_TICKS = (
    Tick(1, "1:3"), Tick(2, "1:2"), Tick(3, "2:3"), Tick(5.5, "1:1"), Tick(8, "3:2"),
    Tick(9, "2:1"), Tick(10, "3:1"),
)  # fmt: skip
_CHANNELS = {1: "grey", 2: "grey + alpha", 3: "RGB", 4: "RGBA"}
_STEPS = (8, 5, 3, 2, 1)
"""Steps in each doubling of a side to round sizes to, if there are too many different ones."""
_MAX_CELLS = 160


def measure(table: ImageTable) -> Measures:
    """Sum up the sizes of all images; there must be at least one."""
    heights, widths = table.shapes[0::3], table.shapes[1::3]
    sizes = Counter(zip(widths, heights, strict=True))
    by_area = [(width * height, (width, height)) for width, height in sizes]
    return Measures(
        median=(_median(widths), _median(heights)),
        smallest=min(by_area)[1],
        largest=max(by_area)[1],
        cells=_cells(sizes),
        aspects=_aspects(sizes),
        sizes=_doublings(table.sizes),
        formats=_ranked(Counter(table.formats)),
        channels=_ranked(_channel_names(Counter(table.shapes[2::3]))),
    )


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def _channel_names(channels: Counter[int]) -> Counter[str]:
    return Counter(
        {_CHANNELS.get(count, f"{count} channels"): images for count, images in channels.items()}
    )


def _ranked(counts: Counter[str]) -> tuple[Bin, ...]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Bin(name, count) for name, count in ranked)


def _cells(sizes: Counter[tuple[int, int]]) -> tuple[Cell, ...]:
    """Merge similar sizes if there are too many to show each."""
    cells = sizes
    for step in _STEPS:
        if len(cells) <= _MAX_CELLS:
            break
        cells = Counter()
        rounded = {side: _rounded(side, step) for side in {*chain.from_iterable(sizes)}}
        for (width, height), count in sizes.items():
            cells[rounded[width], rounded[height]] += count
    return tuple(Cell(width, height, count) for (width, height), count in sorted(cells.items()))


def _rounded(side: int, step: int) -> int:
    """Return the nearest of `step` sides in each doubling.

    >>> _rounded(500, 1), _rounded(500, 2)
    (512, 512)
    """
    return round(math.exp2(round(math.log2(side) * step) / step))


def _aspects(sizes: Counter[tuple[int, int]]) -> Histogram:
    counts = [0] * len(_ASPECT_NAMES)
    for (width, height), count in sizes.items():
        counts[bisect_right(_ASPECTS, width / height)] += count
    return Histogram(tuple(map(Bin, _ASPECT_NAMES, counts)), _ASPECT_TICKS)


def _doublings(values: Iterable[int]) -> Histogram:
    """Count numbers of bytes by powers of two, empty bins in between included."""
    counts = Counter(map(int.bit_length, values))
    powers = range(min(counts), max(counts) + 1)
    edges = [_bytes(1 << power >> 1) for power in (*powers, powers[-1] + 1)]
    bins = [
        Bin(f"{low} to {high}", counts[power])
        for power, low, high in zip(powers, edges, edges[1:], strict=False)
    ]
    return Histogram(tuple(bins), tuple(Tick(at, edge) for at, edge in enumerate(edges)))


def _bytes(count: int) -> str:
    """Return a power of two with a unit.

    >>> _bytes(1 << 14)
    '16 KiB'
    """
    power = max(count.bit_length() - 1, 0) // 10
    return f"{count >> 10 * power} {('B', 'KiB', 'MiB', 'GiB')[min(power, 3)]}"
