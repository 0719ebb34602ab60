"""Near-duplicate images: the pairs, the groups they form, and the copies to drop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from imgrec.near.search import Edges, Search, find_edges
from imgrec.near.signatures import SIGNATURE_BYTES

T = TypeVar("T")
R = TypeVar("R")

_FLAT = bytes(SIGNATURE_BYTES)
_EXAMPLES = 100


class NearPair(NamedTuple):
    """Two files that look alike but have different bytes."""

    first: str
    second: str
    distance: float
    """In thousandths: 0 is the same picture, perhaps encoded differently."""
    is_mirrored: bool


class NearDuplicates(NamedTuple):
    """Counts of near-duplicates, with examples: there may be too many to list."""

    looked_at: int
    """The number of images compared."""
    pairs: int
    across_splits: int
    """Pairs with images in different splits: leaks."""
    across_classes: int
    """Pairs with different labels."""
    examples: tuple[NearPair, ...]
    """The most important pairs."""


class Found(NamedTuple):
    """All near-duplicates among some images."""

    looked_at: int
    """The number of images compared."""
    pairs: tuple[NearPair, ...]

    def sum_up(self, splits: Mapping[str, str], labels: Mapping[str, object]) -> NearDuplicates:
        """Count the pairs whose files both have a split. The label None means unlabelled."""
        leaks: list[NearPair] = []
        conflicts: list[NearPair] = []
        within: list[NearPair] = []
        across_classes = 0
        for pair in self.pairs:
            first, second = pair.first, pair.second
            if first not in splits or second not in splits:
                continue
            known = {labels[first], labels[second]} - {None}
            is_conflict = len(known) > 1
            across_classes += is_conflict
            is_leak = splits[first] != splits[second]
            (leaks if is_leak else conflicts if is_conflict else within).append(pair)
        ranked = [*_nearest_first(leaks), *_nearest_first(conflicts), *_nearest_first(within)]
        return NearDuplicates(
            looked_at=self.looked_at,
            pairs=len(ranked),
            across_splits=len(leaks),
            across_classes=across_classes,
            examples=tuple(ranked[:_EXAMPLES]),
        )


def _nearest_first(pairs: list[NearPair]) -> list[NearPair]:
    return sorted(pairs, key=lambda pair: (pair.distance, pair.first, pair.second))


class Run(Protocol):
    """Calls a picklable function on each of many tasks, somewhere."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results in any order."""
        ...


class Images(NamedTuple):
    """Images by column."""

    names: Sequence[str]
    contents: Sequence[bytes]
    """Equal for two images exactly if their bytes are."""
    signatures: bytes
    """65 bytes each: see `codec.phash`."""


class AlikePair(NamedTuple):
    """Two near-duplicates by their places."""

    first: int
    second: int
    distance: float
    is_mirrored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Images grouped by signature ("pictures"), and the pairs of similar pictures.

    It does not depend on the order of the images.
    """

    images: Images
    pictures: Sequence[Sequence[int]]
    """The places of the images of each picture, sorted by name."""
    edges: Edges
    """Pairs of similar pictures, by their numbers."""

    def found(self) -> Found:
        """Return the pairs of near-duplicates whose bytes differ."""
        names, contents = self.images.names, self.images.contents
        pairs = [
            NearPair(names[pair.first], names[pair.second], pair.distance, pair.is_mirrored)
            for pair in self.pairs()
            if contents[pair.first] != contents[pair.second]
        ]
        looked_at = len(names) - count_flat(self.images.signatures)
        return Found(looked_at, tuple(sorted(pairs)))

    def pairs(self) -> Iterator[AlikePair]:
        """Yield all pairs of near-duplicates, the first by name first.

        Of images with equal signatures, each is paired with the first, and only that with others.
        """
        for first, *rest in self.pictures:
            for place in rest:
                yield AlikePair(first, place, 0.0, is_mirrored=False)
        for one, other, distance, is_mirrored in zip(*self.edges, strict=True):
            # Pictures are numbered by the names of their first images.
            first, second = self.pictures[one][0], self.pictures[other][0]
            yield AlikePair(first, second, round(distance, 3), is_mirrored=bool(is_mirrored))

    def pairs_across(self, sides: Sequence[Hashable]) -> Iterator[AlikePair]:
        """Yield more pairs, so that each image with a near-duplicate on another side is in one.

        `sides` gives the side of each image (a split, or a label); None is on no side.
        """
        named = {
            place
            for first, second, _, _ in self.pairs()
            if sides[first] != sides[second] and None not in (sides[first], sides[second])
            for place in (first, second)
        }
        several = [number for number, places in enumerate(self.pictures) if len(places) > 1]
        itself = ((number, number, 0.0, 0) for number in several)
        concerned = {*several, *self.edges.first, *self.edges.second}
        by_side = {number: _by_side(self.pictures[number], sides) for number in concerned}
        unnamed = {number: dict(found) for number, found in by_side.items()}
        for one, other, distance, is_mirrored in chain(itself, zip(*self.edges, strict=True)):
            for own, theirs in ((one, other), (other, one)):
                for side in [*unnamed[own]]:
                    across = next((at[0] for on, at in by_side[theirs].items() if on != side), -1)
                    for place in unnamed[own].pop(side) if across >= 0 else ():
                        if place not in named:
                            named.update((place, across))
                            yield AlikePair(across, place, round(distance, 3), bool(is_mirrored))

    def groups(self) -> tuple[str, ...]:
        """Return the group of each image: near-duplicates, directly or through others.

        A group has the name of its first file; an image without near-duplicates has "".
        """
        parents = list(range(len(self.pictures)))
        for one, other in zip(self.edges.first, self.edges.second, strict=True):
            low, high = sorted((_root(parents, one), _root(parents, other)))
            parents[high] = low
        members: dict[int, list[int]] = defaultdict(list)
        for picture, places in enumerate(self.pictures):
            members[_root(parents, picture)].extend(places)
        groups = [""] * len(self.images.names)
        for places in members.values():
            group = min(self.images.names[place] for place in places)
            for place in places if len(places) > 1 else ():
                groups[place] = group
        return tuple(groups)

    def to_drop(self, order: Iterable[int], kinds: Sequence[Hashable]) -> dict[int, int]:
        """Return the images to drop, each with the one kept in its place.

        In `order`, an image is kept unless it is similar to a kept one of its own kind.
        """
        picture_of = {
            place: picture for picture, places in enumerate(self.pictures) for place in places
        }
        near: dict[int, list[int]] = defaultdict(list)
        for one, other in zip(self.edges.first, self.edges.second, strict=True):
            near[one].append(other)
            near[other].append(one)
        kept: dict[tuple[int, Hashable], int] = {}
        dropped = {}
        for place in order:
            picture, kind = picture_of[place], kinds[place]
            candidates = ((alike, kind) for alike in (picture, *sorted(near.get(picture, ()))))
            kept_place = next((kept[alike] for alike in candidates if alike in kept), None)
            if kept_place is None:
                kept[picture, kind] = place
            else:
                dropped[place] = kept_place
        return dropped


def find_alike(images: Images, distance: float, run: Run) -> Alike:
    """Find near-duplicates. The search runs wherever `run` runs its tasks."""
    signatures = _each(images.signatures)
    pictures: dict[bytes, list[int]] = {}
    for place in sorted(range(len(images.names)), key=images.names.__getitem__):
        # A flat image is only like its exact copies.
        signature = signatures[place]
        key = signature if signature != _FLAT else _FLAT + images.contents[place]
        pictures.setdefault(key, []).append(place)
    block = b"".join([key[:SIGNATURE_BYTES] for key in pictures])
    [edges] = run(find_edges, [Search(block, distance)])
    return Alike(images=images, pictures=list(pictures.values()), edges=edges)


def count_flat(signatures: bytes) -> int:
    """Count the signatures of flat images."""
    return _each(signatures).count(_FLAT)


def _each(signatures: bytes) -> list[bytes]:
    starts = range(0, len(signatures), SIGNATURE_BYTES)
    return [signatures[start : start + SIGNATURE_BYTES] for start in starts]


def _by_side(places: Iterable[int], sides: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the places on each side; those on no side are left out."""
    found: dict[Hashable, list[int]] = {}
    for place in places:
        if sides[place] is not None:
            found.setdefault(sides[place], []).append(place)
    return found


def _root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place
