"""Charts as SVG: drawn by attributes alone, so that a page may forbid all styles but its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from imgrec.inspection.reporting.facts import Cell, Column
from imgrec.text import markup, number

_WIDTH, _HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 22, 22, 18, 30
"""Margins of a histogram."""
_SIDES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_COLOURS = 6
_MOST_TICKS = 7
_MOST_WIDE = 64


def colour(split: int) -> str:
    """Return the class of the colour of a split."""
    return f"s{split % _COLOURS}"


class Tick(NamedTuple):
    """A mark below a histogram."""

    at: float
    """How many columns from the left."""
    text: str


def histogram(columns: Sequence[Column], what: str, ticks: Sequence[Tick]) -> str:
    """Draw columns side by side, with ticks below."""
    most = max(column.images for column in columns)
    step = (_WIDTH - _LEFT - _RIGHT) / len(columns)
    floor = _HEIGHT - _BOTTOM
    parts = [f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{floor}" y2="{floor}"/>']
    for place, column in enumerate(columns):
        height = max((floor - _TOP) * column.images / most, 2.0 if column.images else 0.0)
        left = _LEFT + place * step
        wide = min(step * 0.84, _MOST_WIDE)
        parts.append(
            f'<g class="column"><title>{markup(column.name)}: {number(column.images, "image")}'
            f'</title><rect class="hit" x="{left:.1f}" y="0" width="{step:.1f}" '
            f'height="{_HEIGHT}"/><rect class="s0" x="{left + (step - wide) / 2:.1f}" '
            f'y="{floor - height:.1f}" width="{wide:.1f}" height="{height:.1f}" rx="2"/>'
        )
        if column.images and (len(columns) <= 8 or column.images == most):
            middle = left + step / 2
            parts.append(
                f'<text x="{middle:.1f}" y="{floor - height - 5:.1f}">{column.images:,}</text>'
            )
        parts.append("</g>")
    parts += _ticks(ticks, step, floor)
    told = "; ".join(f"{column.name}: {column.images:,}" for column in columns if column.images)
    return _svg("".join(parts), _WIDTH, _HEIGHT, f"{what}. {told}")


def _ticks(ticks: Sequence[Tick], step: float, floor: float) -> Iterator[str]:
    every = -(-len(ticks) // _MOST_TICKS)
    for tick in ticks[::every]:
        at = _LEFT + tick.at * step
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{floor}" y2="{floor + 4}"/>'
        yield f'<text class="tick" x="{at:.1f}" y="{floor + 18}">{markup(tick.text)}</text>'


def one_size(width: int, height: int) -> str:
    """Draw the one size that all images have."""
    scale = min((_WIDTH - 160) / width, (_HEIGHT - 60) / height)
    wide, high = width * scale, height * scale
    left, top = (_WIDTH - wide) / 2, (_HEIGHT - 20 - high) / 2
    inside = (
        f'<rect class="frame" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
        f'height="{high:.1f}" rx="4"/>'
        f'<text x="{_WIDTH / 2}" y="{top + high + 18:.1f}">{width:,}</text>'
        f'<text class="end" x="{left - 8:.1f}" y="{top + high / 2 + 4:.1f}">{height:,}</text>'
    )
    return _svg(inside, _WIDTH, _HEIGHT, f"All images are {width} wide and {height} high")


def size_map(cells: Sequence[Cell]) -> str:
    """Draw widths across and heights up, on logarithmic axes, as circles of so many images."""
    plot = _Map(cells)
    parts = [*plot.grid()]
    most = max(cell.images for cell in cells)
    for cell in sorted(cells, key=lambda cell: -cell.images):
        radius = 3 + 13 * math.sqrt(cell.images / most)
        parts.append(
            f'<circle class="s0 bubble" cx="{plot.x(cell.width):.1f}" '
            f'cy="{plot.y(cell.height):.1f}" r="{radius:.1f}"><title>{cell.width} x {cell.height}: '
            f"{number(cell.images, 'image')}</title></circle>"
        )
    told = "; ".join(
        f"{cell.width} x {cell.height}: {cell.images:,}"
        for cell in sorted(cells, key=lambda cell: -cell.images)[:10]
    )
    return _svg("".join(parts), _WIDTH, plot.height, f"Widths and heights. Most: {told}")


class _Map:
    """Logarithmic axes that fit some sizes."""

    height = 300
    _left, _bottom, _top, _right = 44, 34, 20, 20

    def __init__(self, cells: Sequence[Cell]) -> None:
        sides = [side for cell in cells for side in (cell.width, cell.height)]
        self._low = math.log2(min(sides)) - 0.35
        self._high = math.log2(max(sides)) + 0.35

    def _part(self, side: float) -> float:
        return (math.log2(side) - self._low) / (self._high - self._low)

    def x(self, side: float) -> float:
        return self._left + self._part(side) * (_WIDTH - self._left - self._right)

    def y(self, side: float) -> float:
        return self.height - self._bottom - self._part(side) * self._up

    @property
    def _up(self) -> float:
        return self.height - self._top - self._bottom

    def grid(self) -> Iterator[str]:
        """Yield lines and their numbers, and the diagonal of squares."""
        floor, right = self.height - self._bottom, _WIDTH - self._right
        for side in _within(self._low, self._high):
            x, y = self.x(side), self.y(side)
            yield f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{self._top}" y2="{floor}"/>'
            yield f'<line class="rule" x1="{self._left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{floor + 16}">{side}</text>'
            yield f'<text class="tick end" x="{self._left - 6}" y="{y + 4:.1f}">{side}</text>'
        yield (
            f'<line class="diagonal" x1="{self._left}" y1="{floor}" x2="{right}" y2="{self._top}"/>'
        )
        yield f'<text class="tick end" x="{right}" y="{self.height - 2}">width, pixels</text>'
        yield f'<text class="tick start" x="2" y="{self._top - 8}">height, pixels</text>'


def _within(low: float, high: float) -> list[int]:
    """Return round numbers of pixels between two powers of two; at least two of them."""
    found = [side for side in _SIDES if low <= math.log2(side) <= high]
    if len(found) > 1:
        return found[:: 1 + len(found) // _MOST_TICKS]
    return sorted({round(2 ** (low + (high - low) * part)) for part in (0.2, 0.5, 0.8)})


def sorted_counts(totals: Sequence[int], what: str) -> str:
    """Draw the counts of many classes, the largest first, as one shape."""
    ranked = sorted(totals, reverse=True)
    most = max(ranked[0], 1)
    width, height = 1000, 120
    step = width / len(ranked)
    path = ["M0 120"]
    for place, total in enumerate(ranked):
        top = height - (height - 4) * total / most
        path.append(f"L{place * step:.1f} {top:.1f}H{(place + 1) * step:.1f}")
    path.append("V120Z")
    middle = ranked[len(ranked) // 2]
    told = f"{what}: from {ranked[0]:,} down to {ranked[-1]:,}, median {middle:,}"
    return (
        f'<svg class="sorted" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{markup(told)}"><path class="s0" d="{"".join(path)}"/></svg>'
    )


def stacked(counts: Sequence[tuple[str, int]], most: int) -> str:
    """Draw the counts of one class by split, as a bar of which `most` fills the width."""
    parts, left = [], 0.0
    for split, (name, count) in enumerate(counts):
        width = 100 * count / max(most, 1)
        if count:
            parts.append(
                f'<rect class="{colour(split)}" x="{left:.2f}%" width="{width:.2f}%" '
                f'height="100%"><title>{markup(name)}: {count:,}</title></rect>'
            )
        left += width
    return f'<svg class="bar" aria-hidden="true">{"".join(parts)}</svg>'


def _svg(inside: str, width: int, height: int, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{markup(label)}">{inside}</svg>'
    )
