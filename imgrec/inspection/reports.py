"""The report in a dataset of which nothing is trusted."""

from __future__ import annotations

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.errors import DatasetError
from imgrec.outcome import Report

MOST_REPORT_BYTES = 1 << 28
_ARRAYS = ("CIFAR", "IDX", "pixels", "TFRecords", "NumPy")
"""How a report begins to tell of a source whose images were mere pixels, without names."""


def decode_report(data: bytes) -> Report | None:
    """Decode a report; return None if it is none."""
    try:
        return report_codec.decode(data, path=layout.REPORT)
    except DatasetError:
        return None


def array_kind(report: Report | None) -> str:
    """Return how a report tells a source of mere pixels, or "" for one of image files."""
    layout = report.layout.removeprefix("archive of ") if report else ""
    found = (word for word in _ARRAYS if layout.startswith(word))
    return next(found, "")
