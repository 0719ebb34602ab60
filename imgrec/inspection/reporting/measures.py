"""How large the images of a table are: medians, histograms and a map of widths and heights."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from imgrec.inspection.reporting.facts import Cell, Column, Measures
from imgrec.inspection.reporting.table import ImageTable

_ASPECTS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 0.97, 1.03, 5 / 4, 3 / 2, 2.0, 3.0)
"""Where the columns of aspect ratios (width to height) end; the middle one is square."""
_ASPECT_NAMES = (
    "taller than 1:3", "1:3 to 1:2", "1:2 to 2:3", "2:3 to 4:5", "4:5 to 1:1", "square",
    "1:1 to 5:4", "5:4 to 3:2", "3:2 to 2:1", "2:1 to 3:1", "wider than 3:1",
)  # fmt: skip
_CHANNELS = {1: "grey", 2: "grey + alpha", 3: "RGB", 4: "RGBA"}
_STEPS = (8, 5, 3, 2, 1)
"""Into how many the map may divide each doubling of a side, when there are many sizes."""
_MOST_CELLS = 160


def measure(table: ImageTable) -> Measures:
    """Sum up the sizes of all images; there is at least one."""
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
        channels=_ranked(_named(Counter(table.shapes[2::3]))),
    )


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def _named(channels: Counter[int]) -> Counter[str]:
    return Counter(
        {_CHANNELS.get(count, f"{count} channels"): images for count, images in channels.items()}
    )


def _ranked(counts: Counter[str]) -> tuple[Column, ...]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Column(name, count) for name, count in ranked)


def _cells(sizes: Counter[tuple[int, int]]) -> tuple[Cell, ...]:
    """Gather sizes that are nearly the same, if there are too many to show each."""
    cells = sizes
    for step in _STEPS:
        if len(cells) <= _MOST_CELLS:
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


def _aspects(sizes: Counter[tuple[int, int]]) -> tuple[Column, ...]:
    counts = [0] * len(_ASPECT_NAMES)
    for (width, height), count in sizes.items():
        counts[bisect_right(_ASPECTS, width / height)] += count
    return tuple(map(Column, _ASPECT_NAMES, counts))


def _doublings(values: Iterable[int]) -> tuple[Column, ...]:
    """Count numbers of bytes by their powers of two, with none left out between."""
    counts = Counter(map(int.bit_length, values))
    return tuple(
        Column(f"{_bytes(1 << power >> 1)} to {_bytes(1 << power)}", counts[power])
        for power in range(min(counts), max(counts) + 1)
    )


def _bytes(count: int) -> str:
    """Return a power of two as people say it.

    >>> _bytes(1 << 14)
    '16 KiB'
    """
    power = max(count.bit_length() - 1, 0) // 10
    return f"{count >> 10 * power} {('B', 'KiB', 'MiB', 'GiB')[min(power, 3)]}"
