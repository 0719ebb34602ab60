"""Findings: what packing reported about single files, and images unlike the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.codec.exif import UPRIGHT
from imgrec.codec.tone import NOT_DECODED
from imgrec.inspect.image_stats import Measures
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.subject import ImagePlace, InDataset
from imgrec.near.clusters import NearDuplicates
from imgrec.notes import COPIES, NoteKind, Notes, SameImage
from imgrec.outcome import Report

if TYPE_CHECKING:
    from imgrec.inspect.diff import Difference, Image, Pair

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
_GRAVE = ("leaks", "near", "conflicts", "skipped")
"""The kinds that spoil results; near-duplicates only if they are in different splits."""
FIRST = (*_GRAVE, "damaged", "turned")
TITLES = {
    **{str(kind): kind.heading for kind in NoteKind},
    "skipped": "Skipped",
    "near": "Near-duplicates",
    "near_leaks": "Near leaks",
    "near_conflicts": "Near conflicts",
    "turned": "Rotated by EXIF",
    "tiny": "Tiny",
    "huge": "Huge",
    "stretched": "Extreme aspect ratio",
    "blank": "Nearly blank",
    "dark": "Very dark",
    "bright": "Very bright",
    "unreadable": "Unreadable",
    "added": "Added",
    "removed": "Removed",
    "changed": "Other contents",
    "relabelled": "Relabelled",
    "moved": "In another split",
    "renamed": "Renamed",
}


class ShapeLimits(NamedTuple):
    """The sides, in pixels, and the aspect ratio beyond which an image is an outlier."""

    least: float
    """A shorter side below this is tiny."""
    most: float
    """A longer side above this is huge."""
    ratio: float
    """From this ratio of the longer side to the shorter one, an image is stretched."""

    @classmethod
    def of(cls, width: int, height: int) -> ShapeLimits:
        """Return the limits for images of this median width and height."""
        short, long = max(min(width, height), 1), max(width, height)
        ratio = max(_ASPECT, 1.5 * long / short)
        return cls(short / _SIZE_FACTOR, long * _SIZE_FACTOR, ratio)


class ToneLimits(NamedTuple):
    """The brightness and contrast (see `codec.tone`) beyond which an image is an outlier."""

    blank: int
    """Below this spread, an image is blank. Blank images are neither dark nor bright."""
    dark: float
    bright: float

    @classmethod
    def of(cls, usual: int) -> ToneLimits:
        """Return the limits for images of this median level.

        In a dataset of mostly dark images, such as digits on black, a dark one is not an outlier.
        """
        return cls(2 * _BLANK, min(_DARK, usual / 2), max(_BRIGHT, (255 + usual) / 2))


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
    total: int
    entries: tuple[Entry, ...]
    """The first cases."""
    is_grave: bool = False
    """True if it spoils results, False if it is only worth knowing."""


class Shots(NamedTuple):
    """Makes shots, by file name or by row of the table."""

    named: Callable[[str], Shot]
    at: Callable[[int], Shot]


_Cases: TypeAlias = tuple[int, tuple[Entry, ...]]
"""The number of cases, and the first of them."""
_Outliers: TypeAlias = tuple[str, Iterable[tuple[float, int]], Callable[[int], str]]
"""A kind, the rank and row of each outlier, and a function that describes one by its row.

More extreme outliers have lower ranks.
"""


def find_findings(report: Report, table: ImageTable, shots: Shots) -> Iterator[Finding]:
    """Yield what packing reported, the gravest first."""

    def entries(cases: Iterable[tuple[Sequence[str], str]]) -> tuple[Entry, ...]:
        return tuple(
            Entry(tuple(map(shots.named, names[:_MAX_COPIES])), reason)
            for names, reason in islice(cases, _MAX_ENTRIES)
        )

    def files(notes: Notes) -> _Cases:
        return len(notes), entries(((note.filename,), note.reason) for note in notes)

    def copies(groups: Sequence[SameImage]) -> _Cases:
        cases = ((names, f"{len(names)} files with the same bytes") for (names,) in groups)
        return len(groups), entries(cases)

    near = report.near_duplicates or NearDuplicates(0, 0, 0, 0, 0, ())
    alike = entries(
        (
            group.files,
            f"{group.size:,} images, {group.alike} % alike" + ", mirrored" * group.is_mirrored,
        )
        for group in near.examples
    )
    turns = [(row, turn) for row, turn in enumerate(table.orientations) if turn not in (0, UPRIGHT)]
    turned = [
        Entry((shots.at(row),), f"EXIF orientation {turn}: {_TURNS.get(turn, 'unknown')}")
        for row, turn in turns[:_MAX_ENTRIES]
    ]
    found: dict[str, _Cases] = {
        **dict.fromkeys(FIRST, (0, ())),  # for their order
        **{kind: files(notes) for kind, notes in report.listed.items()},
        **{kind: copies(report.copies(kind)) for kind in COPIES},
        "skipped": files(report.skipped),
        "near": (near.groups, alike),
        "turned": (len(turns), tuple(turned)),
    }
    for key, (total, shown) in found.items():
        if total:
            is_grave = key in _GRAVE and (key != "near" or near.across_splits > 0)
            yield Finding(key, TITLES[key], total, shown, is_grave)


def find_changes(difference: Difference, shots: Shots) -> Iterator[Finding]:
    """Yield how the images differ from those of the version before."""

    def old(image: Image) -> Shot:
        where = InDataset(difference.before.path, image.number)
        return Shot(image.filename, image.split, image.labels, where=where)

    def new(image: Image, reason: str = "") -> Entry:
        return Entry((shots.named(image.filename),), reason)

    def words(labels: Sequence[str]) -> str:
        return ", ".join(labels) or "no label"

    found: dict[str, tuple[Sequence[Image | Pair], Callable[..., Entry]]] = {
        "added": (difference.added, new),
        "removed": (difference.removed, lambda image: Entry((old(image),), "")),
        "changed": (
            difference.changed,
            lambda pair: Entry((old(pair.before), *new(pair.after).shots), "before, and after"),
        ),
        "relabelled": (
            difference.relabelled,
            lambda pair: new(
                pair.after, f"{words(pair.before.labels)} -> {words(pair.after.labels)}"
            ),
        ),
        "moved": (
            difference.moved,
            lambda pair: new(pair.after, f"{pair.before.split} -> {pair.after.split}"),
        ),
        "renamed": (
            difference.renamed,
            lambda pair: new(pair.after, f"was {pair.before.filename}"),
        ),
    }
    for key, (images, entry) in found.items():
        if images:
            yield Finding(key, TITLES[key], len(images), tuple(map(entry, images[:_MAX_ENTRIES])))


def find_outliers(table: ImageTable, measures: Measures, shots: Shots) -> Iterator[Finding]:
    """Yield the images that are unlike the others, by kind."""
    kinds = [*_by_shape(table, measures), *(_by_tone(table) if table.tones else ())]
    for key, outliers, describe in kinds:
        ranked = sorted(outliers)
        if ranked:
            worst = [Entry((shots.at(row),), describe(row)) for _, row in ranked[:_MAX_OUTLIERS]]
            yield Finding(key, TITLES[key], len(ranked), tuple(worst))


def _by_shape(table: ImageTable, measures: Measures) -> Iterator[_Outliers]:
    limits = ShapeLimits.of(*measures.median)
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

    least, most, ratio = limits
    yield "tiny", ranked(lambda size: min(size) if min(size) < least else None), size_text
    yield "huge", ranked(lambda size: -max(size) if max(size) > most else None), size_text
    yield (
        "stretched",
        ranked(lambda size: -max(size) / min(size) if max(size) >= ratio * min(size) else None),
        ratio_text,
    )


def _by_tone(table: ImageTable) -> Iterator[_Outliers]:
    levels, spreads = table.tones[0::2], table.tones[1::2]

    def level_text(row: int) -> str:
        return f"mean level {levels[row]} of 255"

    def spread_text(row: int) -> str:
        return f"levels spread by {spreads[row] / 2:g} of 255, {level_text(row)}"

    least = 2 * _BLANK
    seen = [(level, row) for row, level in enumerate(levels) if least <= spreads[row] < NOT_DECODED]
    limits = ToneLimits.of(sorted(seen)[len(seen) // 2][0] if seen else 0)
    blank = [(spread, row) for row, spread in enumerate(spreads) if spread < limits.blank]
    yield "blank", blank, spread_text
    yield "dark", [(level, row) for level, row in seen if level < limits.dark], level_text
    yield "bright", [(-level, row) for level, row in seen if level > limits.bright], level_text
