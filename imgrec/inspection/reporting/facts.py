"""The values that the page shows: everything is counted and chosen, nothing is drawn yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.inspection.where import Where


class Shot(NamedTuple):
    """An image, or a file that was to be one, with what is known of it."""

    name: str
    split: str = ""
    labels: tuple[str, ...] = ()
    shape: tuple[int, int, int] | None = None
    format: str = ""
    size: int = 0
    where: Where | None = None
    """None if there is nothing to show."""


class Entry(NamedTuple):
    """One thing found: the images that it is about, and what is to be said of them."""

    shots: tuple[Shot, ...]
    reason: str


class Finding(NamedTuple):
    """Things of one kind that were found."""

    key: str
    title: str
    total: int
    meaning: str
    """What it means for whoever trains with it, in a sentence."""
    entries: tuple[Entry, ...]
    """The first of them."""
    is_grave: bool = False
    """Whether it spoils results, or is only worth knowing."""


class Column(NamedTuple):
    """A column of a histogram."""

    name: str
    images: int


class Cell(NamedTuple):
    """Images of about one width and height."""

    width: int
    height: int
    images: int


class SplitFacts(NamedTuple):
    """A split, and its images by label."""

    name: str
    images: int
    shards: int
    bytes: int
    counts: tuple[int, ...]
    unlabelled: int


class Sheet(NamedTuple):
    """Some images of a class."""

    label: int
    name: str
    total: int
    shots: tuple[Shot, ...]


class Measures(NamedTuple):
    """How large images are."""

    median: tuple[int, int]
    """Width and height."""
    smallest: tuple[int, int]
    largest: tuple[int, int]
    cells: tuple[Cell, ...]
    aspects: tuple[Column, ...]
    sizes: tuple[Column, ...]
    formats: tuple[Column, ...]
    channels: tuple[Column, ...]


class Snippet(NamedTuple):
    """Some code to copy."""

    title: str
    code: str
    language: str = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the page shows."""

    name: str
    version: str
    """Empty for a source."""
    layout: str
    fingerprint: str
    options: Mapping[str, object]
    classes: tuple[str, ...]
    is_multilabel: bool
    splits: tuple[SplitFacts, ...]
    source_bytes: int
    """0 if that is not known."""
    measures: Measures
    findings: tuple[Finding, ...]
    outliers: tuple[Finding, ...]
    toned: int
    """How many images are known to be bright or dark."""
    sheets: tuple[Sheet, ...]
    snippets: tuple[Snippet, ...]
    ignored: tuple[Column, ...]
    warnings: tuple[str, ...]

    @property
    def images(self) -> int:
        """Count all images."""
        return sum(split.images for split in self.splits)

    @property
    def bytes(self) -> int:
        """Return the size of all records."""
        return sum(split.bytes for split in self.splits)

    @property
    def totals(self) -> tuple[int, ...]:
        """Count the images of each class in all splits."""
        return tuple(map(sum, zip(*(split.counts for split in self.splits), strict=True)))
