"""Draw report.html: one file that needs nothing else, and may load nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from imgrec.errors import DatasetError
from imgrec.html import render
from imgrec.inspect.report.facts import Cell, Facts, Sheet, Shot
from imgrec.inspect.report.gather import gather
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.report.thumbnails import Thumbnail, count_for, make_thumbnails
from imgrec.inspect.subject import ImagePlace, Job
from imgrec.outcome import Report
from imgrec.text import number, size

_FOLDER = Path(__file__).parent
_TIMES = "\N{MULTIPLICATION SIGN}"
_MAX_CLASSES = 2000
"""More classes are counted, not listed."""
_MAX_TEXT = 300
_OPTION_NAMES = {"shard_bytes": "shard_size", "columns": "column"}
"""The options whose name on the command line differs from report.json."""
_ROUND_SIDES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_MAX_TICKS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The page of a dataset or a source, and the facts on it."""

    facts: Facts
    thumbnails: int
    """The number of different pictures."""
    data: bytes
    path: str = ""
    seconds: float = 0.0

    def at(self, path: str, seconds: float) -> ReportPage:
        """Return the page as it was written there."""
        return replace(self, path=path, seconds=seconds)


def make_page(table: ImageTable, report: Report, job: Job, thumbnails: int | None) -> ReportPage:
    """Return the page that shows all images of a table, with at most so many thumbnails."""
    if not len(table):
        raise DatasetError(f"{report.name} holds no images", hint="there is nothing to show")
    facts = gather(table, report, count_for(thumbnails, len(report.classes)))
    made = make_thumbnails(_wanted(facts), job)
    return ReportPage(facts=facts, thumbnails=len(made), data=_draw(facts, made))


def _wanted(facts: Facts) -> Iterator[ImagePlace]:
    """Yield the places of all pictures on the page, the most important first."""
    found = (*facts.findings, *facts.outliers)
    shots = [shot for each in found for entry in each.entries for shot in entry.shots]
    yield from (shot.where for shot in shots if shot.where is not None)
    deepest = max((len(sheet.shots) for sheet in facts.sheets), default=0)
    for depth in range(deepest):
        for sheet in facts.sheets:
            if depth < len(sheet.shots) and (where := sheet.shots[depth].where) is not None:
                yield where


def _draw(facts: Facts, thumbnails: Mapping[ImagePlace, Thumbnail]) -> bytes:
    """Return the page; equal facts and pictures give equal bytes."""
    style, script = ((_FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    # The browser runs and loads nothing but these two, whatever a file name smuggles in.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    sheets = [sheet for sheet in facts.sheets[:_MAX_CLASSES] if _has_any(sheet, thumbnails)]
    made = list(_made(facts))
    sections = {
        "balance": "Class balance",
        "images": "Images",
        "sheets": "Sample images" if sheets else "",
        "findings": "Findings" if facts.findings else "",
        "outliers": "Outliers" if facts.outliers else "",
        "load": "Load it" if facts.version else "Pack it",
        "made": "How it was made" if made else "",
    }
    values = {
        "facts": facts,
        "is_packed": bool(facts.version),
        "policy": policy,
        "style": style,
        "script": script,
        "sections": {key: title for key, title in sections.items() if title},
        "lead": _lead(facts),
        "tiles": list(_tiles(facts)),
        "passed": list(_passed_checks(facts)),
        "balance_about": _balance_about(facts),
        "classes": list(_class_rows(facts)),
        "largest_class": max(facts.totals, default=0),
        "sheets": sheets,
        "size_map": _size_map(facts.measures.cells),
        "class_sizes": _class_sizes(facts.totals),
        "made": made,
        "thumbnails": thumbnails,
        "cut": _cut,
        "shape": _shape_text,
    }
    return render(_FOLDER / "page.html", values).encode()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _has_any(sheet: Sheet, thumbnails: Mapping[ImagePlace, Thumbnail]) -> bool:
    return any(shot.where in thumbnails for shot in sheet.shots if shot.where is not None)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _shape_text(shot: Shot) -> str:
    if shot.shape is None:
        return ""
    height, width, channels = shot.shape
    return f"{width:,} {_TIMES} {height:,} {_TIMES} {channels}"


def _lead(facts: Facts) -> str:
    splits = ", ".join(f"{split.images:,} {split.name}" for split in facts.splits)
    layout = facts.layout.replace("\n", "; ") or "TFDS records"
    return f"{number(facts.images, 'image')} ({splits}), read as {layout}."


def _tiles(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the key figures, each with its unit."""
    yield f"{facts.images:,}", "images"
    yield f"{len(facts.classes):,}", "class" if len(facts.classes) == 1 else "classes"
    width, height = facts.measures.median
    same = facts.measures.smallest == facts.measures.largest
    yield f"{width:,} {_TIMES} {height:,}", "pixels, every image" if same else "pixels, median"
    packed = f"from {size(facts.source_bytes)} of files" if facts.source_bytes else "of records"
    yield size(facts.bytes), packed
    filled = [total for total in facts.totals if total]
    if len(filled) > 1:
        yield f"{max(filled) / min(filled):,.1f} : 1", "largest to smallest class"


def _passed_checks(facts: Facts) -> Iterator[str]:
    if facts.version and not facts.fingerprint:
        return  # nobody has checked a dataset that others packed
    keys = {found.key for found in facts.findings}
    if len(facts.splits) > 1 and "leaks" not in keys:
        yield "No image in two splits"
    if "conflicts" not in keys and not facts.is_multilabel:
        yield "No conflicting labels"
    if "skipped" not in keys:
        yield "Nothing skipped"


def _balance_about(facts: Facts) -> str:
    totals = facts.totals
    if not totals:
        return "The images have no classes."
    small = min(range(len(totals)), key=totals.__getitem__)
    large = max(range(len(totals)), key=totals.__getitem__)
    text = (
        f"From {totals[small]:,} images of {facts.classes[small]} to "
        f"{totals[large]:,} of {facts.classes[large]}."
    )
    if totals[small] == totals[large]:
        text = f"{totals[small]:,} images of every class."
    unlabelled = sum(split.unlabelled for split in facts.splits)
    several = " An image may have several labels, and counts for each." * facts.is_multilabel
    return (
        text + several + (f" {number(unlabelled, 'image')} without a label." if unlabelled else "")
    )


class _ClassRow(NamedTuple):
    name: str
    total: int
    by_split: tuple[tuple[str, int], ...]


def _class_rows(facts: Facts) -> Iterator[_ClassRow]:
    totals = facts.totals
    for label, name in enumerate(facts.classes[:_MAX_CLASSES]):
        by_split = tuple((split.name, split.counts[label]) for split in facts.splits)
        yield _ClassRow(name, totals[label], by_split)


class _ClassSizes(NamedTuple):
    """The sizes of all classes, the largest first, as one shape."""

    path: str
    label: str


def _class_sizes(totals: Sequence[int]) -> _ClassSizes | None:
    if not totals:
        return None
    ranked = sorted(totals, reverse=True)
    step = 1000 / len(ranked)
    tops = [120 - 116 * total / max(ranked[0], 1) for total in ranked]
    steps = [f"L{at * step:.1f} {top:.1f}H{(at + 1) * step:.1f}" for at, top in enumerate(tops)]
    median = ranked[len(ranked) // 2]
    label = f"Images per class: from {ranked[0]:,} down to {ranked[-1]:,}, median {median:,}"
    return _ClassSizes(f"M0 120{''.join(steps)}V120Z", label)


class _SizeMap(NamedTuple):
    """Widths and heights on logarithmic axes from 0 to 1."""

    bubbles: tuple[tuple[Cell, float, float, float], ...]
    """Each with its place on both axes and its radius, the largest first."""
    ticks: tuple[tuple[int, float], ...]


def _size_map(cells: Sequence[Cell]) -> _SizeMap:
    sides = [side for cell in cells for side in (cell.width, cell.height)]
    low, high = math.log2(min(sides)) - 0.35, math.log2(max(sides)) + 0.35

    def place(side: float) -> float:
        return (math.log2(side) - low) / (high - low)

    ranked = sorted(cells, key=lambda cell: -cell.images)
    most = ranked[0].images
    bubbles = [
        (cell, place(cell.width), place(cell.height), 3 + 13 * math.sqrt(cell.images / most))
        for cell in ranked
    ]
    ticks = [side for side in _ROUND_SIDES if low <= math.log2(side) <= high]
    ticks = ticks[:: 1 + len(ticks) // _MAX_TICKS]
    if len(ticks) < 2:
        ticks = sorted({round(2 ** (low + (high - low) * part)) for part in (0.2, 0.5, 0.8)})
    return _SizeMap(tuple(bubbles), tuple((side, place(side)) for side in ticks))


def _made(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what made the dataset: fingerprint, options, and what was ignored."""
    if facts.fingerprint:
        yield "fingerprint", facts.fingerprint
    for key, value in facts.options.items():
        if value not in (None, "", [], 0):
            name = _OPTION_NAMES.get(key, key).replace("_", "-")
            yield f"--{name}", _option_text(key, value)
    for ignored in facts.ignored:
        yield "ignored", f"{ignored.images:,} x {ignored.name}"
    for warning in facts.warnings:
        yield "warning", warning


def _option_text(key: str, value: object) -> str:
    if key == "shard_bytes" and isinstance(value, int):
        return size(value)
    if isinstance(value, dict):
        return ", ".join(f"{old} -> {new or 'dropped'}" for old, new in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
