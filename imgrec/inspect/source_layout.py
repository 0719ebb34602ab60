"""The layout of a source, read from the report of its pack.

The layout is a line for people, such as `<split>/<class>/**/image`. Only this module parses it.
"""

from __future__ import annotations

import re

from imgrec.options import SourceKind
from imgrec.outcome import Report
from imgrec.source.kinds import KINDS

_CLASS_FOLDERS = re.compile(
    r"(archive of )?(?P<split><split>/)?(?P<classes>(<class>/)+)\*\*/image(, .*)?"
)


def class_depths(report: Report | None) -> tuple[int, int] | None:
    """Return which parts of a path are the class, as a slice; None if folders are not classes."""
    match = _CLASS_FOLDERS.fullmatch(report.layout) if report else None
    if match is None:
        return None
    first = 1 if match["split"] else 0
    return first, first + match["classes"].count("/")


def array_kind(report: Report | None) -> SourceKind | None:
    """Return the kind of a source with images inside other files; None for image files."""
    layout = report.layout.removeprefix("archive of ") if report else ""
    words = {name: kind.layout for name, kind in KINDS.items() if kind.layout}
    return next((name for name, word in words.items() if layout.startswith(word)), None)


def has_coarse_labels(report: Report) -> bool:
    """Return whether the labels are the coarse ones of CIFAR-100."""
    return report.layout.endswith("coarse labels")


def column_place(layout: str, column: str) -> int:
    """Return a sort key that puts columns in the order in which the pack named them."""
    return layout.find(f", {column} -> ")
