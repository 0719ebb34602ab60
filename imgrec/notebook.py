"""Cards for notebooks, which show objects by their `_repr_html_`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from imgrec.html import render

MAX_PICTURES = 12
_MAX_CLASSES = 20


class SplitRow(NamedTuple):
    """A split."""

    name: str
    images: int
    shards: int
    bytes: int


class Picture(NamedTuple):
    """A small JPEG."""

    data: bytes
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A dataset in short; empty parts are left out."""

    title: str
    subtitle: str
    splits: Sequence[SplitRow] = ()
    pictures: Iterable[Picture] = ()
    classes: Sequence[str] = ()
    counts: Sequence[tuple[str, Sequence[int] | None]] = ()
    """The name of each split, and its images by label if known."""
    findings: Sequence[tuple[str, int]] = ()

    def html(self) -> str:
        """Return the card as HTML."""
        known = [(split, images) for split, images in self.counts if images]
        shown = self.classes[:_MAX_CLASSES]
        values = {
            "card": self,
            "pictures": list(self.pictures),
            "columns": [split for split, _ in known],
            "rows": [
                (name, [images[label] for _, images in known]) for label, name in enumerate(shown)
            ],
            "hidden": len(self.classes) - len(shown),
        }
        return render(Path(__file__).with_name("notebook.html"), values)
