"""Findings: what packing reported about single files, and images unlike the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple, TypeAlias

from imgrec.codec.exif import UPRIGHT
from imgrec.codec.tone import NOT_SEEN
from imgrec.inspect.report.facts import Entry, Finding, Measures, Shot
from imgrec.inspect.report.images import ImageTable
from imgrec.near.duplicates import NearDuplicates
from imgrec.notes import Note, SameImage
from imgrec.outcome import Report

_MAX_ENTRIES = 60
"""The page lists the first cases of each kind; report.json lists them all."""
_MAX_COPIES = 4
_MAX_OUTLIERS = 12
"""The most extreme ones are shown."""
_TURNS = {
    2: "mirror", 3: "turn by 180°", 4: "turn by 180° and mirror", 5: "turn by 90° and mirror",
    6: "turn by 90° clockwise", 7: "turn by 90° and mirror", 8: "turn by 90° anticlockwise",
}  # fmt: skip
"""What each EXIF orientation asks a viewer to do."""
_SIZE_FACTOR = 4
"""A side is tiny or huge if it is that many times shorter or longer than the median."""
_ASPECT = 3.0
_BLANK, _DARK, _BRIGHT = 3, 16, 243
"""The spread below which an image is blank, and the levels of dark and bright ones."""

_Ranked: TypeAlias = list[tuple[float, int]]
"""The rank of each outlier, lower for a more extreme one, and its row."""


def find_findings(report: Report, table: ImageTable) -> Iterator[Finding]:
    """Yield all findings of a report, the gravest first. Shots have only a name yet."""
    yield _same(
        "leaks", "Leaked between splits",
        "A model is tested with images that it was trained on, and looks better than it is. "
        "--on-leak drop leaves out the copies in train.",
        report.leaks,
    )  # fmt: skip
    yield _near(report.near_duplicates)
    yield _same(
        "conflicts", "Conflicting labels",
        "The same bytes have different labels: one of them is wrong.",
        report.conflicts,
    )  # fmt: skip
    yield _listed(
        "skipped", "Skipped",
        "These files are in the source but not in the dataset. Repair or replace them, and pack "
        "again.",
        report.skipped, is_grave=True,
    )  # fmt: skip
    yield _listed(
        "damaged", "Damaged, but decodable",
        "Every decoder accepts these files, but a strict one complains: parts may be grey or "
        "shifted.",
        report.damaged,
    )  # fmt: skip
    yield _turned(table)
    yield _listed(
        "transcoded", "Transcoded",
        "TensorFlow cannot read the format of these files, so their pixels are stored as PNG.",
        report.transcoded,
    )  # fmt: skip
    yield _same(
        "duplicates", "Exact duplicates",
        "These files have the same bytes. They stay in one split, and weigh more than others.",
        report.duplicates, is_grave=False,
    )  # fmt: skip


def _near(near: NearDuplicates | None) -> Finding:
    near = near or NearDuplicates(0, 0, 0, 0, ())
    meaning = (
        f"In different splits: {near.across_splits:,}. That makes a model look better than it is; "
        "--near-dups group keeps such pairs together."
        if near.across_splits
        else "No pair is in different splits. --near-dups drop keeps one of each."
    )
    entries = [
        _entry(
            (pair.first, pair.second),
            f"{pair.distance:.1f} apart" + (", mirrored" if pair.is_mirrored else ""),
        )
        for pair in near.examples[:_MAX_ENTRIES]
    ]
    is_grave = bool(near.across_splits)
    return Finding("near", "Near-duplicates", meaning, near.pairs, tuple(entries), is_grave)


def _listed(
    key: str, title: str, meaning: str, files: Sequence[Note], *, is_grave: bool = False
) -> Finding:
    entries = [_entry((file.filename,), file.reason) for file in files[:_MAX_ENTRIES]]
    return Finding(key, title, meaning, len(files), tuple(entries), is_grave)


def _same(
    key: str, title: str, meaning: str, groups: Sequence[SameImage], *, is_grave: bool = True
) -> Finding:
    entries = [
        _entry(group.filenames[:_MAX_COPIES], f"{len(group.filenames)} files with the same bytes")
        for group in groups[:_MAX_ENTRIES]
    ]
    return Finding(key, title, meaning, len(groups), tuple(entries), is_grave)


def _turned(table: ImageTable) -> Finding:
    pairs = zip(table.names, table.orientations, strict=False)
    turned = list(compress(pairs, map(UPRIGHT.__ne__, table.orientations)))
    entries = [
        _entry((name,), f"EXIF orientation {orientation}: {_TURNS.get(orientation, 'unknown')}")
        for name, orientation in turned[:_MAX_ENTRIES]
    ]
    return Finding(
        "turned",
        "Rotated by EXIF",
        "Photo viewers rotate these images as their EXIF data asks; TensorFlow and TFDS do not. "
        "imgrec.load(..., orient=True) does. They are shown upright here.",
        len(turned),
        tuple(entries),
    )


def _entry(names: Iterable[str], reason: str) -> Entry:
    return Entry(tuple(map(Shot, names)), reason)


class _Outliers(NamedTuple):
    key: str
    title: str
    meaning: str
    ranked: _Ranked
    describe: Callable[[int], str]
    """Returns how extreme an image is, by its row."""


def find_outliers(
    table: ImageTable, measures: Measures, shot_at: Callable[[int], Shot]
) -> Iterator[Finding]:
    """Yield the images that are unlike the others, by kind."""
    for kind in (*_by_shape(table, measures), *(_by_tone(table) if table.tones else ())):
        shown = [
            Entry((shot_at(row),), kind.describe(row))
            for _, row in sorted(kind.ranked)[:_MAX_OUTLIERS]
        ]
        if shown:
            yield Finding(kind.key, kind.title, kind.meaning, len(kind.ranked), tuple(shown))


def _by_shape(table: ImageTable, measures: Measures) -> Iterator[_Outliers]:
    short_side, long_side = min(measures.median), max(measures.median)
    heights, widths = table.shapes[0::3], table.shapes[1::3]
    # Every photo may have a size of its own, so each distinct size is judged only once.
    sizes = {*zip(heights, widths, strict=True)}
    small, large = short_side / _SIZE_FACTOR, long_side * _SIZE_FACTOR
    least_ratio = max(_ASPECT, 1.5 * long_side / short_side)

    def ranked(odd: dict[tuple[int, int], float]) -> _Ranked:
        pairs = enumerate(zip(heights, widths, strict=True)) if odd else ()
        return [(odd[size], row) for row, size in pairs if size in odd]

    def size_text(row: int) -> str:
        return f"{widths[row]:,} x {heights[row]:,} pixels"

    def ratio_text(row: int) -> str:
        is_wide = widths[row] > heights[row]
        ratio = _ratio((heights[row], widths[row]))
        return f"{ratio:.1f} times as {'wide as high' if is_wide else 'high as wide'}"

    yield _Outliers(
        "tiny", "Tiny",
        "The shorter side is less than a quarter of the median: icons, previews, crops. "
        "--min-side leaves them out.",
        ranked({size: min(size) for size in sizes if min(size) < small}), size_text,
    )  # fmt: skip
    yield _Outliers(
        "huge", "Huge",
        "The longer side is more than four times the median, which slows down loading. "
        "--max-side shrinks them.",
        ranked({size: -max(size) for size in sizes if max(size) > large}), size_text,
    )  # fmt: skip
    yield _Outliers(
        "stretched", "Extreme proportions",
        "Resizing to a square distorts them beyond recognition: crop them instead.",
        ranked({size: -_ratio(size) for size in sizes if max(size) >= least_ratio * min(size)}),
        ratio_text,
    )  # fmt: skip


def _ratio(size: tuple[int, int]) -> float:
    return max(size) / min(size)


def _by_tone(table: ImageTable) -> Iterator[_Outliers]:
    levels, spreads = table.tones[0::2], table.tones[1::2]

    def level_text(row: int) -> str:
        return f"mean level {levels[row]} of 255"

    def spread_text(row: int) -> str:
        return f"levels spread by {spreads[row] / 2:g} of 255, {level_text(row)}"

    yield _Outliers(
        "blank", "Nearly blank",
        "They show next to nothing: empty scans, covered lenses, placeholders.",
        [(spread, row) for row, spread in enumerate(spreads) if spread < 2 * _BLANK], spread_text,
    )  # fmt: skip
    has_content = [2 * _BLANK <= spread < NOT_SEEN for spread in spreads]
    seen = list(compress(enumerate(levels), has_content))
    # Where most images are dark, as digits on black are, a dark one is no outlier.
    usual = sorted(level for _, level in seen)[len(seen) // 2] if seen else 0
    dark, bright = min(_DARK, usual / 2), max(_BRIGHT, (255 + usual) / 2)
    yield _Outliers(
        "dark", "Very dark", "They are almost black.",
        [(level, row) for row, level in seen if level < dark], level_text,
    )  # fmt: skip
    yield _Outliers(
        "bright", "Very bright", "They are almost white.",
        [(-level, row) for row, level in seen if level > bright], level_text,
    )  # fmt: skip
