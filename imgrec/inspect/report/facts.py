"""The values that the page shows: everything is counted and chosen, nothing is drawn yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.inspect.subject import ImagePlace


class Shot(NamedTuple):
    """An image or a skipped file, with what is known about it."""

    name: str
    split: str = ""
    labels: tuple[str, ...] = ()
    shape: tuple[int, int, int] | None = None
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


class Bin(NamedTuple):
    """A named number of images."""

    name: str
    images: int


class Tick(NamedTuple):
    """A mark below a histogram."""

    at: float
    """Distance from the left, in bins."""
    text: str


class Histogram(NamedTuple):
    """Images counted in bins from low to high."""

    bins: tuple[Bin, ...]
    ticks: tuple[Tick, ...]


class Cell(NamedTuple):
    """Images of about the same width and height."""

    width: int
    height: int
    images: int


class Measures(NamedTuple):
    """The sizes and formats of all images."""

    median: tuple[int, int]
    """Width and height."""
    smallest: tuple[int, int]
    largest: tuple[int, int]
    cells: tuple[Cell, ...]
    aspects: Histogram
    sizes: Histogram
    formats: tuple[Bin, ...]
    channels: tuple[Bin, ...]


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
    """Empty for images without a label."""
    total: int
    shots: tuple[Shot, ...]


class Snippet(NamedTuple):
    """Code to copy."""

    title: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the page shows."""

    name: str
    version: str
    """Empty for a source."""
    layout: str
    fingerprint: str
    """Empty for a source, and for a dataset that imgrec did not pack."""
    options: Mapping[str, object]
    classes: tuple[str, ...]
    is_multilabel: bool
    splits: tuple[SplitFacts, ...]
    source_bytes: int
    """0 if unknown."""
    measures: Measures
    findings: tuple[Finding, ...]
    outliers: tuple[Finding, ...]
    toned: int
    """The number of images whose brightness is known."""
    sheets: tuple[Sheet, ...]
    snippets: tuple[Snippet, ...]
    ignored: tuple[Bin, ...]
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
