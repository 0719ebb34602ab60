"""A contact sheet of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from imgrec.inspection.contact import Captioned, Layout, draw_contact_sheet
from imgrec.inspection.job import Job
from imgrec.inspection.leaking.leaks import LeakedImage, LeakPair

MOST_PAIRS = 50
_LAYOUT = Layout(across=3, lines=3)


def draw_sheet(pairs: Sequence[LeakPair], job: Job) -> bytes:
    """Return a PNG of the first 50 pairs, each with files, splits, labels and distance."""
    shown = [
        (_captioned(pair.first, _verdict(pair)), _captioned(pair.second))
        for pair in pairs[:MOST_PAIRS]
    ]
    return draw_contact_sheet(shown, _LAYOUT, job)


def _captioned(image: LeakedImage, verdict: str = "") -> Captioned:
    told = " ".join(filter(None, (image.split, *image.labels)))
    return Captioned(image.where, (image.name, told, verdict))


def _verdict(pair: LeakPair) -> str:
    if pair.is_exact:
        return f"{pair.kind}: the same file"
    return f"{pair.kind}: {pair.distance:.1f}" + (", mirrored" if pair.is_mirrored else "")
