"""What the layout in a report says about the source of a dataset.

The layout is a line for people, such as `<split>/<class>/**/image`. This is the only place that
takes it apart.
"""

from __future__ import annotations

import re

from imgrec.outcome import Report

_CLASS_FOLDERS = re.compile(
    r"(archive of )?(?P<split><split>/)?(?P<classes>(<class>/)+)\*\*/image(, .*)?"
)
_ARRAYS = ("CIFAR", "IDX", "pixels", "TFRecords", "NumPy")


def class_depths(report: Report | None) -> tuple[int, int] | None:
    """Return which parts of a file's path are its class: the first, and the one after the last.

    None if the folders of the source are not its classes.
    """
    match = _CLASS_FOLDERS.fullmatch(report.layout) if report else None
    if match is None:
        return None
    first = 1 if match["split"] else 0
    return first, first + match["classes"].count("/")


def array_kind(report: Report | None) -> str:
    """Return the first word of the layout of a source of bare pixels; "" for one of image files."""
    layout = report.layout.removeprefix("archive of ") if report else ""
    return next((word for word in _ARRAYS if layout.startswith(word)), "")


def has_coarse_labels(report: Report) -> bool:
    """Tell whether the labels are the coarse ones of CIFAR-100."""
    return report.layout.endswith("coarse labels")


def column_place(layout: str, column: str) -> int:
    """Return a sort key: columns come in the order in which they were asked for."""
    return layout.find(f", {column} -> ")
