"""Which images look alike, and what follows: groups that belong together, and copies to drop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from imgrec.near.found import Found, NearPair
from imgrec.near.search import Edges, Search, find_edges
from imgrec.near.table import SIGNATURE_BYTES

T = TypeVar("T")
R = TypeVar("R")

_FLAT = bytes(SIGNATURE_BYTES)


class Run(Protocol):
    """Calls a picklable function on each of many tasks, somewhere."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results in any order."""
        ...


class Images(NamedTuple):
    """What is known of some images, by column."""

    names: Sequence[str]
    contents: Sequence[bytes]
    """Equal for two images exactly when their bytes are."""
    signatures: bytes
    """65 bytes each: see `codec.phash`."""


class AlikePair(NamedTuple):
    """Two images that look alike, by their places."""

    first: int
    second: int
    distance: float
    is_mirrored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Images by picture: the same ones together, and which pictures are like which.

    The same in whatever order the images come.
    """

    images: Images
    pictures: Sequence[Sequence[int]]
    """The images of each picture, by their places, in order of their names."""
    edges: Edges
    """Which pictures are like which, by their numbers."""

    def found(self) -> Found:
        """Return the pairs of images that look alike but are not the same to the byte."""
        names, contents = self.images.names, self.images.contents
        pairs = [
            NearPair(names[pair.first], names[pair.second], pair.distance, pair.is_mirrored)
            for pair in self.pairs()
            if contents[pair.first] != contents[pair.second]
        ]
        looked_at = len(names) - count_flat(self.images.signatures)
        return Found(looked_at, tuple(sorted(pairs)))

    def pairs(self) -> Iterator[AlikePair]:
        """Yield all pairs of images that look alike, the first by name first.

        Of several with one signature, each is paired with the first, and only that with others.
        """
        for first, *rest in self.pictures:
            for place in rest:
                yield AlikePair(first, place, 0.0, is_mirrored=False)
        for one, other, distance, is_mirrored in zip(*self.edges, strict=True):
            # Pictures are numbered by the names of their first images.
            first, second = self.pictures[one][0], self.pictures[other][0]
            yield AlikePair(first, second, round(distance, 3), is_mirrored=bool(is_mirrored))

    def pairs_across(self, sides: Sequence[Hashable]) -> Iterator[AlikePair]:
        """Yield more pairs, so that each image that has its like on another side is in one.

        `sides` tells for each image on which it is; one on side None is across from none.
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
        """Return for each image the group of what looks alike, directly or by others between.

        A group is called by its first file; "" is for an image that is like no other picture.
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
            called = min(self.images.names[place] for place in places)
            for place in places if len(places) > 1 else ():
                groups[place] = called
        return tuple(groups)

    def spare(self, order: Iterable[int], kinds: Sequence[Hashable]) -> dict[int, int]:
        """Return which images can be dropped, each with the one that is kept in its place.

        They are judged in `order`: one is kept unless it is like one of its own kind that is kept.
        """
        picture_of = {
            place: picture for picture, places in enumerate(self.pictures) for place in places
        }
        near: dict[int, list[int]] = defaultdict(list)
        for one, other in zip(self.edges.first, self.edges.second, strict=True):
            near[one].append(other)
            near[other].append(one)
        kept: dict[tuple[int, Hashable], int] = {}
        spare = {}
        for place in order:
            picture, kind = picture_of[place], kinds[place]
            twins = ((alike, kind) for alike in (picture, *sorted(near.get(picture, ()))))
            twin = next((kept[alike] for alike in twins if alike in kept), None)
            if twin is None:
                kept[picture, kind] = place
            else:
                spare[place] = twin
        return spare


def find_alike(images: Images, distance: float, run: Run) -> Alike:
    """Find out which images look alike. The search is done wherever `run` does things."""
    signatures = _each(images.signatures)
    pictures: dict[bytes, list[int]] = {}
    for place in sorted(range(len(images.names)), key=images.names.__getitem__):
        # One that is flat is like its copies only.
        signature = signatures[place]
        key = signature if signature != _FLAT else _FLAT + images.contents[place]
        pictures.setdefault(key, []).append(place)
    block = b"".join([key[:SIGNATURE_BYTES] for key in pictures])
    [edges] = run(find_edges, [Search(block, distance)])
    return Alike(images=images, pictures=list(pictures.values()), edges=edges)


def count_flat(signatures: bytes) -> int:
    """Count the signatures that say nothing."""
    return _each(signatures).count(_FLAT)


def _each(signatures: bytes) -> list[bytes]:
    starts = range(0, len(signatures), SIGNATURE_BYTES)
    return [signatures[start : start + SIGNATURE_BYTES] for start in starts]


def _by_side(places: Iterable[int], sides: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the places on each side, but for those that are on none."""
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
