"""Findings about the records of a dataset: those in its report, odd shapes and odd tones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec import layout
from imgrec.codec.tone import NOT_DECODED, TONE_BYTES
from imgrec.errors import DatasetError
from imgrec.inspect.report.findings import FIRST, TITLES, ShapeLimits, ToneLimits
from imgrec.notes import COPIES, LISTED
from imgrec.outcome import Report
from imgrec.read.documents import read_report
from imgrec.view.facets import ArrowColumn, Integers, Mask, integers


class Named(NamedTuple):
    """A kind of finding, and the file names of its cases. Those of one case belong together."""

    key: str
    title: str
    cases: Sequence[Sequence[str]]


_ORDER = ("leaks", "near_leaks", "conflicts", "near_conflicts", "damaged", "duplicates", "near")
"""The kinds that come first, in this order."""


class Findings(NamedTuple):
    """The records of each kind of finding."""

    titles: dict[str, str]
    """By key, the gravest first."""
    masks: dict[str, Mask]
    cases: Integers
    """The number of the case that each record belongs to, with its copies; -1 for none."""
    ranks: ArrowColumn
    """The place of each record in an order that keeps cases together, as their files come; null
    for records in none."""

    def with_tones(self, tones: bytes) -> Findings:
        """Add the records that are blank, dark or bright, or were not decoded."""
        found = {key: mask for key, mask in _odd_tones(tones) if mask.any()}
        titles = self.titles | {key: TITLES[key] for key in found}
        return self._replace(titles=titles, masks=self.masks | found)


def find(named: Sequence[Named], filenames: ArrowColumn, shapes: Iterable[Integers]) -> Findings:
    """Find the records of each kind: `named` by their files, and the others by their shapes."""
    named = sorted(named, key=lambda one: _ORDER.index(one.key) if one.key in _ORDER else 99)
    titles = {one.key: one.title for one in named}
    listed = [(name, kind) for kind, one in enumerate(named) for case in one.cases for name in case]
    place = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in listed))}
    is_of = np.zeros((len(named), len(place) + 1), dtype=np.bool_)
    for name, kind in listed:
        is_of[kind, place[name]] = True
    case_of, rank_of = np.full((2, len(place) + 1), -1, dtype=np.int64)
    groups = [case for one in named for case in one.cases if len(case) > 1]
    ends = accumulate(map(len, groups))
    for number, case, end in reversed([*zip(count(), groups, ends)]):  # the gravest case counts
        case_of[[place[name] for name in case]] = number
        rank_of[[place[name] for name in case]] = np.arange(end - len(case), end)
    known = pa.array(list(place), pa.string())
    # The place after the last stands for all other files.
    places = integers(pc.index_in(filenames, value_set=known), missing=len(place))
    masks = {one.key: is_of[kind][places] for kind, one in enumerate(named)}
    for key, mask in _odd_shapes(*shapes):
        titles[key], masks[key] = TITLES[key], mask
    ranks = rank_of[places]
    return Findings(
        titles={key: title for key, title in titles.items() if masks[key].any()},
        masks=masks,
        cases=case_of[places],
        ranks=pa.array(ranks, mask=ranks < 0),
    )


def _odd_shapes(widths: Integers, heights: Integers) -> Iterator[tuple[str, Mask]]:
    is_known = (widths > 0) & (heights > 0)
    if not is_known.any():
        return
    middle = np.count_nonzero(is_known) // 2
    width, height = (int(np.sort(sides[is_known])[middle]) for sides in (widths, heights))
    limits = ShapeLimits.of(width, height)
    short, long = np.minimum(widths, heights), np.maximum(widths, heights)
    yield "tiny", is_known & (short < limits.least)
    yield "huge", is_known & (long > limits.most)
    yield "stretched", is_known & (long >= limits.ratio * short)


def _odd_tones(tones: bytes) -> Iterator[tuple[str, Mask]]:
    levels, spreads = np.frombuffer(tones, np.uint8).reshape(-1, TONE_BYTES).T
    is_known = spreads != NOT_DECODED
    is_blank = spreads < ToneLimits.of(0).blank
    has_content = is_known & ~is_blank
    seen = np.sort(levels[has_content])
    limits = ToneLimits.of(int(seen[len(seen) // 2]) if len(seen) else 0)
    yield "blank", is_blank
    yield "dark", has_content & (levels < limits.dark)
    yield "bright", has_content & (levels > limits.bright)
    yield "unreadable", ~is_known


def by_sides(
    named: Iterable[Named], filenames: ArrowColumn, side_of: Callable[[int], tuple[object, object]]
) -> Iterator[Named]:
    """Divide near-duplicates by what they cross: splits, labels, or neither.

    `side_of` returns the split and the labels of a record.
    """
    for one in named:
        if one.key != "near":
            yield one
            continue
        names = list(dict.fromkeys(name for case in one.cases for name in case))
        rows = integers(pc.index_in(pa.array(names), value_set=filenames), missing=-1).tolist()
        sides = {name: side_of(row) for name, row in zip(names, rows, strict=True) if row >= 0}
        found: dict[str, list[Sequence[str]]] = {"near_leaks": [], "near_conflicts": [], "near": []}
        for case in one.cases:
            splits, labels = zip(*(sides[name] for name in case if name in sides), strict=True)
            is_leak, is_conflict = len({*splits}) > 1, len({*labels} - {()}) > 1
            if is_leak:
                found["near_leaks"].append(case)
            if is_conflict:
                found["near_conflicts"].append(case)
            if not (is_leak or is_conflict):
                found["near"].append(case)
        rest = one.title.removeprefix(TITLES["near"])
        yield from (Named(key, TITLES[key] + rest, cases) for key, cases in found.items() if cases)


def read_findings(folder: Path) -> list[Named]:
    """Return what packing reported; nothing if there is no report, or if it is damaged."""
    if not (folder / layout.REPORT).exists():
        return []
    try:
        report = read_report(folder)
    except DatasetError:  # `imgrec verify` says what is wrong with it
        return []
    return [one for one in _reported(report) if one.cases]


def _reported(report: Report) -> Iterator[Named]:
    near = report.near_duplicates
    groups = [group.files for group in near.examples] if near else []
    found: dict[str, Sequence[Sequence[str]]] = {
        **{key: [] for key in FIRST},  # for their order
        **{kind: [one.filenames for one in report.copies(kind)] for kind in COPIES},
        "near": groups,
        **{kind: [(note.filename,) for note in notes] for kind, notes in report.listed.items()},
    }
    missing: dict[str, int] = {kind: report.unlisted(kind) for kind in (*COPIES, *LISTED)}
    missing["near"] = near.groups - len(groups) if near else 0
    for key, cases in found.items():
        first = f" (first {len(cases):,})" if missing.get(key) else ""
        yield Named(str(key), TITLES[key] + first, cases)
