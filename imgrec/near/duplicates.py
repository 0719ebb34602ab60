"""Near-duplicate images: the pairs, the groups they form, and the copies to drop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias

from imgrec.near.search import SIGNATURE_BYTES, Pair, Search, find_pairs

Run: TypeAlias = Callable[[Callable[[Search], list[Pair]], Sequence[Search]], Iterator[list[Pair]]]
"""Calls a function on each of some tasks, perhaps in another process."""
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


class NearPairs(NamedTuple):
    """All pairs of near-duplicates among some images."""

    looked_at: int
    """The number of images compared."""
    pairs: tuple[NearPair, ...]

    def sum_up(self, splits: Mapping[str, str], labels: Mapping[str, object]) -> NearDuplicates:
        """Count the pairs whose files both have a split. The label None means unlabelled."""
        across_classes = 0
        ranked: list[tuple[int, float, NearPair]] = []
        for pair in self.pairs:
            first, second = pair.first, pair.second
            if first not in splits or second not in splits:
                continue
            is_leak = splits[first] != splits[second]
            is_conflict = len({labels[first], labels[second]} - {None}) > 1
            across_classes += is_conflict
            rank = 0 if is_leak else 1 if is_conflict else 2
            ranked.append((rank, pair.distance, pair))
        ranked.sort()
        return NearDuplicates(
            looked_at=self.looked_at,
            pairs=len(ranked),
            across_splits=sum(rank == 0 for rank, _, _ in ranked),
            across_classes=across_classes,
            examples=tuple(pair for _, _, pair in ranked[:_EXAMPLES]),
        )


class Images(NamedTuple):
    """Images by column."""

    names: Sequence[str]
    contents: Sequence[bytes]
    """Equal for two images exactly if their bytes are."""
    signatures: bytes
    """65 bytes each: see `codec.descriptor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarImages:
    """Images grouped by signature ("pictures"), and the pairs of similar pictures.

    It does not depend on the order of the images.
    """

    images: Images
    pictures: Sequence[Sequence[int]]
    """The images of each picture, sorted by name. Pictures are sorted by their first names."""
    edges: Sequence[Pair]
    """Pairs of similar pictures."""

    def near_pairs(self) -> NearPairs:
        """Return the pairs of near-duplicates whose bytes differ."""
        names, contents, signatures = self.images
        pairs = [
            NearPair(names[first], names[second], distance, is_mirrored)
            for first, second, distance, is_mirrored in self.pairs()
            if contents[first] != contents[second]
        ]
        return NearPairs(len(names) - count_flat(signatures), tuple(sorted(pairs)))

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of near-duplicates, the first by name first.

        Of images with equal signatures, each is paired with the first, and only that with others.
        """
        for first, *rest in self.pictures:
            for place in rest:
                yield Pair(first, place, 0.0, is_mirrored=False)
        for one, other, distance, is_mirrored in self.edges:
            yield Pair(
                self.pictures[one][0], self.pictures[other][0], round(distance, 3), is_mirrored
            )

    def pairs_across(self, sides: Sequence[Hashable]) -> Iterator[Pair]:
        """Yield more pairs, so that each image with a near-duplicate on another side is in one.

        `sides` gives the side of each image (a split, or a label); None is on no side.
        """
        paired = {
            place
            for first, second, _, _ in self.pairs()
            if sides[first] != sides[second] and None not in (sides[first], sides[second])
            for place in (first, second)
        }
        several = [number for number, places in enumerate(self.pictures) if len(places) > 1]
        concerned = {*several, *(number for edge in self.edges for number in edge[:2])}
        by_side = {number: _by_side(self.pictures[number], sides) for number in concerned}
        waiting = {number: dict(found) for number, found in by_side.items()}
        copies = (Pair(number, number, 0.0, is_mirrored=False) for number in several)
        for one, other, distance, is_mirrored in chain(copies, self.edges):
            for own, theirs in ((one, other), (other, one)):
                for side in [*waiting[own]]:
                    across = next((at[0] for on, at in by_side[theirs].items() if on != side), -1)
                    for place in waiting[own].pop(side) if across >= 0 else ():
                        if place not in paired:
                            paired.update((place, across))
                            yield Pair(across, place, round(distance, 3), is_mirrored)

    def groups(self) -> tuple[str, ...]:
        """Return the group of each image: near-duplicates, directly or through others.

        A group has the name of its first file; an image without near-duplicates has "".
        """
        parents = list(range(len(self.pictures)))
        for edge in self.edges:
            low, high = sorted((_root(parents, edge.first), _root(parents, edge.second)))
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
        for one, other, _, _ in self.edges:
            near[one].append(other)
            near[other].append(one)
        kept: dict[tuple[int, Hashable], int] = {}
        dropped = {}
        for place in order:
            picture, kind = picture_of[place], kinds[place]
            similar = ((one, kind) for one in (picture, *sorted(near.get(picture, ()))))
            kept_place = next((kept[one] for one in similar if one in kept), None)
            if kept_place is None:
                kept[picture, kind] = place
            else:
                dropped[place] = kept_place
        return dropped


def find_similar(images: Images, distance: float, run: Run) -> SimilarImages:
    """Find near-duplicates. The search runs wherever `run` runs its tasks."""
    signatures = _split(images.signatures)
    pictures: dict[bytes, list[int]] = {}
    for place in sorted(range(len(images.names)), key=images.names.__getitem__):
        signature = signatures[place]
        # A flat image is only similar to its exact copies.
        key = signature if signature != _FLAT else _FLAT + images.contents[place]
        pictures.setdefault(key, []).append(place)
    joined = b"".join([key[:SIGNATURE_BYTES] for key in pictures])
    [edges] = run(find_pairs, [Search(joined, distance)])
    return SimilarImages(images=images, pictures=list(pictures.values()), edges=edges)


def count_flat(signatures: bytes) -> int:
    """Count the signatures of flat images."""
    return _split(signatures).count(_FLAT)


def _split(signatures: bytes) -> list[bytes]:
    starts = range(0, len(signatures), SIGNATURE_BYTES)
    return [signatures[start : start + SIGNATURE_BYTES] for start in starts]


def _by_side(places: Iterable[int], sides: Sequence[Hashable]) -> dict[Hashable, list[int]]:
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
