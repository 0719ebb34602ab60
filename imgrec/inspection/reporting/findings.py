"""What a report says of single files: skipped, changed, turned, there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import TypeAlias

from imgrec.codec.exif import UPRIGHT
from imgrec.inspection.reporting.facts import Entry, Finding, Shot
from imgrec.model import SameImage, Skipped
from imgrec.near.found import NearPair
from imgrec.outcome import Report

MOST = 60
"""How many things of a kind are listed; report.json lists them all."""
_MOST_COPIES = 4
_TURNS = {
    2: "mirrored", 3: "by 180°", 4: "by 180° and mirrored", 5: "by 90° and mirrored",
    6: "by 90° clockwise", 7: "by 90° and mirrored", 8: "by 90° anticlockwise",
}  # fmt: skip
"""How each EXIF orientation is to be turned."""

ToShot: TypeAlias = Callable[[str], Shot]
"""Tells what is known of a file, by its name."""


def find_all(report: Report, turned: Sequence[tuple[str, int]], shot: ToShot) -> Iterator[Finding]:
    """Yield all that there is to find, the gravest first.

    `turned` are the images that their EXIF data says to turn.
    """
    yield _same(
        "leaks", "In two splits", report.leaks, shot,
        "The same image is trained on and tested with, which makes a model look better than it "
        "is. --on-leak drop leaves out the copies in train.",
    )  # fmt: skip
    yield _near(report, shot)
    yield _same(
        "conflicts", "Two labels for one image", report.conflicts, shot,
        "The same bytes stand under different labels: one of them is wrong.",
    )  # fmt: skip
    yield _said(
        "skipped", "Skipped", report.skipped, shot,
        "They are in the source and not in the dataset. Mend or replace them, and pack again.",
        is_grave=True,
    )  # fmt: skip
    yield _said(
        "damaged", "Damaged, but decodable", report.damaged, shot,
        "Every decoder accepts them, and a strict one complains: parts may be grey or shifted.",
    )  # fmt: skip
    yield _turned(turned, shot)
    yield _said(
        "transcoded", "Transcoded", report.transcoded, shot,
        "TensorFlow does not read these files as they are, so their pixels are stored as PNG.",
    )  # fmt: skip
    yield _same(
        "duplicates", "There more than once", report.duplicates, shot,
        "Byte for byte the same. They are kept in one split, and weigh more than others.",
    )  # fmt: skip


def _near(report: Report, shot: ToShot) -> Finding:
    near = report.near_duplicates
    pairs: tuple[NearPair, ...] = near.examples if near else ()
    total = near.pairs if near else 0
    across = near.across_splits if near else 0
    meaning = (
        f"In different splits: {across:,}. That makes a model look better than it is; "
        "--near-dups group keeps such pairs together."
        if across
        else "No pair is in different splits. --near-dups drop keeps one of each."
    )
    entries = tuple(
        Entry(
            (shot(pair.first), shot(pair.second)),
            f"{pair.distance:.1f} apart" + (", mirrored" if pair.is_mirrored else ""),
        )
        for pair in pairs[:MOST]
    )
    return Finding("near", "Look alike", total, meaning, entries, is_grave=bool(across))


def _said(
    key: str,
    title: str,
    files: Sequence[Skipped],
    shot: ToShot,
    meaning: str,
    *,
    is_grave: bool = False,
) -> Finding:
    entries = tuple(Entry((shot(file.filename),), file.reason) for file in files[:MOST])
    return Finding(key, title, len(files), meaning, entries, is_grave)


def _same(key: str, title: str, groups: Sequence[SameImage], shot: ToShot, meaning: str) -> Finding:
    entries = tuple(
        Entry(
            tuple(map(shot, group.filenames[:_MOST_COPIES])),
            f"{len(group.filenames)} files of the same bytes",
        )
        for group in groups[:MOST]
    )
    return Finding(key, title, len(groups), meaning, entries, is_grave=key != "duplicates")


def _turned(turned: Sequence[tuple[str, int]], shot: ToShot) -> Finding:
    entries = tuple(
        Entry((shot(name),), f"to be turned {_TURNS.get(orientation, '')}")
        for name, orientation in turned[:MOST]
    )
    return Finding(
        "turned",
        "Turned by EXIF",
        len(turned),
        "Cameras note which way is up, and photo viewers turn pictures; TensorFlow and TFDS do "
        "not. imgrec.load(..., orient=True) does. Here they are shown upright.",
        entries,
    )


def turned_images(names: Sequence[str], orientations: bytes) -> list[tuple[str, int]]:
    """Return the images that are to be turned, and how."""
    pairs = zip(names, orientations, strict=False)
    return list(compress(pairs, map(UPRIGHT.__ne__, orientations)))


def named_in(report: Report, turned: Iterable[tuple[str, int]]) -> set[str]:
    """Return the names of all files that may be shown."""
    near = report.near_duplicates.examples if report.near_duplicates else ()
    said = (*report.skipped[:MOST], *report.damaged[:MOST], *report.transcoded[:MOST])
    same = (*report.leaks[:MOST], *report.conflicts[:MOST], *report.duplicates[:MOST])
    return {
        *(file.filename for file in said),
        *(name for group in same for name in group.filenames[:_MOST_COPIES]),
        *(name for pair in near[:MOST] for name in (pair.first, pair.second)),
        *(name for name, _ in list(turned)[:MOST]),
    }
