"""Which images are there twice, exactly or nearly, and whether that matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from imgrec.inspection.job import Job
from imgrec.inspection.leaking.images import Images
from imgrec.inspection.where import Where
from imgrec.near import alike
from imgrec.near.search import Search, find_edges


class Kind(StrEnum):
    """What two images that look alike have in common, the worst first."""

    AGAINST = "against"
    """They are in the two datasets that are compared."""
    SPLITS = "across splits"
    CLASSES = "across classes"
    WITHIN = "within"


_ORDER = {kind: place for place, kind in enumerate(Kind)}


class LeakedImage(NamedTuple):
    """One of two images that look alike."""

    name: str
    split: str
    """Empty where there are no splits."""
    labels: tuple[str, ...]
    where: Where


class LeakPair(NamedTuple):
    """Two images that look alike."""

    kind: Kind
    first: LeakedImage
    second: LeakedImage
    distance: float
    """In thousandths: see `near.search`."""
    is_mirrored: bool
    is_exact: bool
    """Whether they are the same to the byte."""

    def order(self) -> tuple[object, ...]:
        """Return what pairs are sorted by: the worst and nearest first."""
        named = self.first.name, self.second.name, self.first.split, self.second.split
        return _ORDER[self.kind], not self.is_exact, self.distance, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """What was found by comparing all images with each other, or with those of another dataset."""

    name: str
    """What was looked at: a dataset or a source."""
    version: str
    """That of the dataset; empty for a source."""
    against: str
    """What it was compared with; empty for itself."""
    images: int
    flat: int
    """Images with too little in them to tell them from others: only compared to the byte."""
    unreadable: int
    distance: float
    pairs: tuple[LeakPair, ...]
    """In order; of several images that are the same, each is paired with the first of them.

    Whatever has its like in another split, or in another class, is in a pair that says so.
    """
    sheet: str = ""
    """The path of the contact sheet; empty if there is none."""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """Name what was looked at."""
        return _title(self.name, self.version)

    def of(self, kind: Kind) -> list[LeakPair]:
        """Return the pairs of one kind."""
        return [pair for pair in self.pairs if pair.kind is kind]

    @property
    def is_leaking(self) -> bool:
        """Tell whether an image is in two splits, or in the other dataset."""
        return any(pair.kind in (Kind.AGAINST, Kind.SPLITS) for pair in self.pairs)


def _title(name: str, version: str) -> str:
    return f"{name} {version}".strip()


def find_leaks(images: Images, distance: float, job: Job) -> Leaks:
    """Compare all images with each other."""
    known = alike.Images(images.names, _contents(images), images.signatures)
    found = alike.find_alike(known, distance, job.run)
    sides = (images.splits, [frozenset(labels) or None for labels in images.labels])
    pairs = []
    for first, second, apart, is_mirrored in chain(found.pairs(), *map(found.pairs_across, sides)):
        one, other = _image(images, first), _image(images, second)
        is_exact = known.contents[first] == known.contents[second]
        pairs.append(LeakPair(_kind(one, other), one, other, apart, is_mirrored, is_exact))
    return Leaks(
        name=images.name,
        version=images.version,
        against="",
        images=len(images.names),
        flat=alike.count_flat(images.signatures) - images.unreadable,
        unreadable=images.unreadable + images.bad,
        distance=distance,
        pairs=tuple(sorted(pairs, key=LeakPair.order)),
    )


def find_contamination(images: Images, others: Images, distance: float, job: Job) -> Leaks:
    """Tell which images are among others as well, each with the one that is nearest to it."""
    pairs = dict(_nearest(images, others, distance, job))
    pairs |= dict(_same(images, others))
    return Leaks(
        name=images.name,
        version=images.version,
        against=_title(others.name, others.version),
        images=len(images.names),
        flat=alike.count_flat(images.signatures) - images.unreadable,
        unreadable=images.unreadable + images.bad,
        distance=distance,
        pairs=tuple(sorted(pairs.values(), key=LeakPair.order)),
    )


def _nearest(
    images: Images, others: Images, distance: float, job: Job
) -> Iterator[tuple[int, LeakPair]]:
    [edges] = job.run(find_edges, [Search(images.signatures, distance, others.signatures)])
    rows = sorted(zip(*edges, strict=True), key=lambda row: (row[0], -row[2], -row[1]))
    for first, second, apart, is_mirrored in rows:  # the nearest of each comes last
        one, other = _image(images, first), _image(others, second)
        yield (
            first,
            LeakPair(Kind.AGAINST, one, other, round(apart, 3), bool(is_mirrored), is_exact=False),
        )


def _same(images: Images, others: Images) -> Iterator[tuple[int, LeakPair]]:
    """Yield the images that are the same as others, to the byte, with the first of those."""
    theirs = {value: place for place, value in reversed(list(enumerate(others.hashes)))}
    theirs.pop(b"", None)
    for place, value in enumerate(images.hashes):
        if value in theirs:
            one, other = _image(images, place), _image(others, theirs[value])
            yield place, LeakPair(Kind.AGAINST, one, other, 0.0, is_mirrored=False, is_exact=True)


def _contents(images: Images) -> list[bytes]:
    """Return a key for each image's bytes; one that cannot be read is like no other."""
    return [value or b"%d" % place for place, value in enumerate(images.hashes)]


def _image(images: Images, place: int) -> LeakedImage:
    return LeakedImage(
        images.names[place], images.splits[place], images.labels[place], images.where(place)
    )


def _kind(one: LeakedImage, other: LeakedImage) -> Kind:
    if one.split != other.split:
        return Kind.SPLITS
    # An image without a label contradicts none.
    are_labelled = one.labels and other.labels
    differ = are_labelled and set(one.labels) != set(other.labels)
    return Kind.CLASSES if differ else Kind.WITHIN
