"""Findings: what packing reported about single files, and images unlike the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from imgrec.codec.descriptor import NOT_DECODED
from imgrec.codec.exif import UPRIGHT
from imgrec.inspect.image_stats import Measures
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.subject import ImagePlace
from imgrec.near.duplicates import NearDuplicates
from imgrec.notes import Note, SameImage
from imgrec.outcome import Report
from imgrec.text import number

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


class Shot(NamedTuple):
    """An image or a skipped file, with what is known about it."""

    name: str
    split: str = ""
    labels: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    """Height, width and channels; empty if unknown."""
    format: str = ""
    size: int = 0
    where: ImagePlace | None = None
    """None if it is shown without a picture."""


class Entry(NamedTuple):
    """One case of a finding: the images concerned, and the reason."""

    shots: tuple[Shot, ...]
    reason: str


class Finding(NamedTuple):
    """All cases of one kind: leaks, duplicates, tiny images, ..."""

    key: str
    title: str
    meaning: str
    """The consequence for training, and what to do."""
    total: int
    entries: tuple[Entry, ...]
    """The first cases."""
    is_grave: bool = False
    """True if it spoils results, False if it is only worth knowing."""


class Shots(NamedTuple):
    """Makes shots, by file name or by row of the table."""

    named: Callable[[str], Shot]
    at: Callable[[int], Shot]


def find_findings(report: Report, table: ImageTable, shots: Shots) -> Iterator[Finding]:
    """Yield the findings of a report, the gravest first; empty ones too."""

    def copies(groups: Sequence[SameImage]) -> tuple[int, tuple[Entry, ...]]:
        return len(groups), tuple(
            Entry(
                tuple(map(shots.named, group.filenames[:_MAX_COPIES])),
                f"{len(group.filenames)} files with the same bytes",
            )
            for group in groups[:_MAX_ENTRIES]
        )

    def notes(files: Sequence[Note]) -> tuple[int, tuple[Entry, ...]]:
        shown = files[:_MAX_ENTRIES]
        return len(files), tuple(
            Entry((shots.named(file.filename),), file.reason) for file in shown
        )

    yield Finding(
        "leaks", "Leaks between splits",
        "The model is tested on images that it was trained on, so its score is too good. "
        "--on-leak drop removes the copies from train.",
        *copies(report.leaks), is_grave=True,
    )  # fmt: skip
    near = report.near_duplicates or NearDuplicates(0, 0, 0, 0, ())
    yield Finding(
        "near", "Near-duplicates",
        f"{number(near.across_splits, 'pair')} across splits, so the score is too good. "
        "--near-dups group keeps such pairs together."
        if near.across_splits
        else "No pair is in different splits. --near-dups drop keeps one of each.",
        near.pairs, tuple(
            Entry(
                (shots.named(pair.first), shots.named(pair.second)),
                f"distance {pair.distance:.1f}" + ", mirrored" * pair.is_mirrored,
            )
            for pair in near.examples[:_MAX_ENTRIES]
        ),
        is_grave=bool(near.across_splits),
    )  # fmt: skip
    yield Finding(
        "conflicts", "Conflicting labels",
        "The same bytes have different labels, so at least one label is wrong.",
        *copies(report.conflicts), is_grave=True,
    )  # fmt: skip
    yield Finding(
        "skipped", "Skipped",
        "These files are in the source but not in the dataset. Repair or replace them, then pack "
        "again.",
        *notes(report.skipped), is_grave=True,
    )  # fmt: skip
    yield Finding(
        "damaged", "Damaged, but decodable",
        "Every decoder accepts these files, but a strict one complains. Parts may be grey or "
        "shifted.",
        *notes(report.damaged),
    )  # fmt: skip
    turned = [row for row, turn in enumerate(table.orientations) if turn != UPRIGHT]
    yield Finding(
        "turned", "Rotated by EXIF",
        "Photo viewers rotate these images as their EXIF data asks. TensorFlow and TFDS do not; "
        "imgrec.load(..., orient=True) does. They are shown upright here.",
        len(turned), tuple(
            Entry((shots.at(row),), f"EXIF orientation {turn}: {_TURNS.get(turn, 'unknown')}")
            for row in turned[:_MAX_ENTRIES]
            for turn in [table.orientations[row]]
        ),
    )  # fmt: skip
    yield Finding(
        "transcoded", "Transcoded",
        "TensorFlow cannot read the format of these files, so their pixels are stored as PNG.",
        *notes(report.transcoded),
    )  # fmt: skip
    yield Finding(
        "duplicates", "Exact duplicates",
        "These files have the same bytes, so the image counts more than once in training.",
        *copies(report.duplicates),
    )  # fmt: skip


class _Outliers(NamedTuple):
    key: str
    title: str
    meaning: str
    ranked: Iterable[tuple[float, int]]
    """The rank of each outlier, lower for a more extreme one, and its row."""
    describe: Callable[[int], str]
    """Returns how extreme an image is, by its row."""


def find_outliers(table: ImageTable, measures: Measures, shots: Shots) -> Iterator[Finding]:
    """Yield the images that are unlike the others, by kind."""
    for kind in (*_by_shape(table, measures), *(_by_tone(table) if table.tones else ())):
        ranked = sorted(kind.ranked)
        if ranked:
            worst = [
                Entry((shots.at(row),), kind.describe(row)) for _, row in ranked[:_MAX_OUTLIERS]
            ]
            yield Finding(kind.key, kind.title, kind.meaning, len(ranked), tuple(worst))


def _by_shape(table: ImageTable, measures: Measures) -> Iterator[_Outliers]:
    short_side, long_side = min(measures.median), max(measures.median)
    heights, widths = table.shapes[0::3], table.shapes[1::3]
    # Many images share a size, so each distinct size is judged only once.
    sizes = {*zip(heights, widths, strict=True)}

    def ranked(rank: Callable[[tuple[int, int]], float | None]) -> Iterator[tuple[float, int]]:
        odd = {size: found for size in sizes if (found := rank(size)) is not None}
        for row, size in enumerate(zip(heights, widths, strict=True)) if odd else ():
            if size in odd:
                yield odd[size], row

    def size_text(row: int) -> str:
        return f"{widths[row]:,} x {heights[row]:,} pixels"

    def ratio_text(row: int) -> str:
        width, height = widths[row], heights[row]
        ratio = max(width, height) / min(width, height)
        return f"{ratio:.1f} times as {'wide as high' if width > height else 'high as wide'}"

    smallest, largest = short_side / _SIZE_FACTOR, long_side * _SIZE_FACTOR
    yield _Outliers(
        "tiny", "Tiny",
        "The shorter side is less than a quarter of the median, as in icons, previews or crops. "
        "--min-side removes them.",
        ranked(lambda size: min(size) if min(size) < smallest else None), size_text,
    )  # fmt: skip
    yield _Outliers(
        "huge", "Huge",
        "The longer side is more than four times the median, which slows down loading. "
        "--max-side shrinks them.",
        ranked(lambda size: -max(size) if max(size) > largest else None), size_text,
    )  # fmt: skip
    ratio = max(_ASPECT, 1.5 * long_side / short_side)
    yield _Outliers(
        "stretched", "Extreme aspect ratio",
        "Resizing to a square distorts them beyond recognition. Crop them instead.",
        ranked(lambda size: -max(size) / min(size) if max(size) >= ratio * min(size) else None),
        ratio_text,
    )  # fmt: skip


def _by_tone(table: ImageTable) -> Iterator[_Outliers]:
    levels, spreads = table.tones[0::2], table.tones[1::2]

    def level_text(row: int) -> str:
        return f"mean level {levels[row]} of 255"

    def spread_text(row: int) -> str:
        return f"levels spread by {spreads[row] / 2:g} of 255, {level_text(row)}"

    yield _Outliers(
        "blank", "Nearly blank",
        "They show next to nothing, like empty scans, covered lenses or placeholders.",
        [(spread, row) for row, spread in enumerate(spreads) if spread < 2 * _BLANK], spread_text,
    )  # fmt: skip
    has_content = [2 * _BLANK <= spread < NOT_DECODED for spread in spreads]
    seen = list(compress(enumerate(levels), has_content))
    # In a dataset of mostly dark images, such as digits on black, a dark one is not an outlier.
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
