"""Near-duplicate images: the pairs, the groups they form, and the copies to drop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from imgrec.near.clusters import NearPair, NearPairs, components, is_large
from imgrec.near.confirm import Confirm, confirm
from imgrec.near.descriptor import DESCRIPTOR_BYTES, FLAT, LOOK_BYTES
from imgrec.near.search import THOROUGH, Candidates, Effort, Run, find_candidates

_TASK_PAIRS = 4096

See: TypeAlias = Callable[[Sequence[int]], bytes]
"""Returns the looks of the images at some places, one after another (`codec.look`)."""


class Pair(NamedTuple):
    """Two images, by their places."""

    first: int
    second: int
    alike: int
    """In per cent."""
    is_mirrored: bool


class Images(NamedTuple):
    """Images by column."""

    names: Sequence[str]
    contents: Sequence[bytes]
    """Equal for two images exactly if their bytes are."""
    descriptors: bytes
    """200 bytes each: see `near.descriptor`."""


class Large(NamedTuple):
    """A group that holds too much of a class to be versions of one picture."""

    first: str
    """Its first file."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarImages:
    """Images grouped by content ("pictures"), and the pairs of pictures that are alike.

    It does not depend on the order of the images.
    """

    images: Images
    pictures: Sequence[Sequence[int]]
    """The images of each picture, sorted by name. Pictures are sorted by their first names."""
    edges: Sequence[Pair]
    """Pairs of pictures that are alike."""
    large: tuple[Large, ...] = ()
    """Groups whose edges were left out, the largest first."""

    def near_pairs(self) -> NearPairs:
        """Return the pairs of near-duplicates, and of copies of them."""
        names, _, descriptors = self.images
        concerned = {picture for edge in self.edges for picture in edge[:2]}
        pairs = [
            NearPair(names[pair.first], names[pair.second], pair.alike, pair.is_mirrored)
            for pair in self.pairs()
        ]
        pairs += [
            NearPair(names[pair.first], names[pair.second], 100, False, is_exact=True)
            for pair in self.copies(concerned)
        ]
        return NearPairs(len(names) - count_flat(descriptors), tuple(sorted(pairs)))

    def copies(self, pictures: Iterable[int]) -> Iterator[Pair]:
        """Yield the first image of pictures with each of its copies."""
        for picture in pictures:
            first, *rest = self.pictures[picture]
            for place in rest:
                yield Pair(first, place, 100, is_mirrored=False)

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs of near-duplicates, each by the first images of two pictures."""
        for one, other, alike, is_mirrored in self.edges:
            yield Pair(self.pictures[one][0], self.pictures[other][0], alike, is_mirrored)

    def members(self) -> dict[int, list[int]]:
        """Return the images of each group of two or more, by the first picture in it."""
        groups: dict[int, list[int]] = defaultdict(list)
        roots = components(len(self.pictures), (edge[:2] for edge in self.edges))
        for root, places in zip(roots, self.pictures, strict=True):
            groups[root].extend(places)
        return {root: places for root, places in groups.items() if len(places) > 1}

    def groups(self) -> tuple[str, ...]:
        """Return the group of each image: its near-duplicates, directly or through others.

        A group has the name of its first file; an image without near-duplicates has "".
        """
        groups = [""] * len(self.images.names)
        for places in self.members().values():
            group = min(self.images.names[place] for place in places)
            for place in places:
                groups[place] = group
        return tuple(groups)

    def without_large(self, kinds: Sequence[Hashable]) -> SimilarImages:
        """Leave out groups that hold too much of a kind: what is alike there is the kind.

        Digits on white paper look alike, directly or through others. `kinds` gives the kind of
        each image: its labels. Copies stay together.
        """
        totals = Counter(kinds)
        large = {}
        for root, places in self.members().items():
            if is_large((kinds[place] for place in places), totals):
                first = min(self.images.names[place] for place in places)
                large[root] = Large(first, len(places))
        if not large:
            return self
        roots = components(len(self.pictures), (edge[:2] for edge in self.edges))
        edges = [edge for edge in self.edges if roots[edge.first] not in large]
        found = sorted(large.values(), key=lambda one: (-one.size, one.first))
        return replace(self, edges=edges, large=tuple(found))

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


def find_similar(
    images: Images, alike: int, run: Run, see: See, effort: Effort = THOROUGH
) -> SimilarImages:
    """Find near-duplicates: images that are alike by `alike` per cent or more.

    The work is done wherever `run` runs its tasks; `see` is called for images that may be alike.
    """
    descriptors = _split(images.descriptors, DESCRIPTOR_BYTES)
    by_content: dict[bytes, list[int]] = {}
    for place in sorted(range(len(images.names)), key=images.names.__getitem__):
        by_content.setdefault(images.contents[place], []).append(place)
    pictures = list(by_content.values())
    joined = b"".join([descriptors[places[0]] for places in pictures])
    candidates = find_candidates(joined, None, run, effort)

    def see_pictures(numbers: Sequence[int]) -> bytes:
        return see([pictures[number][0] for number in numbers])

    edges = confirmed(candidates, alike, run, (see_pictures, None))
    return SimilarImages(images=images, pictures=pictures, edges=edges)


def find_among(
    descriptors: bytes, others: bytes, alike: int, run: Run, sees: tuple[See, See]
) -> list[Pair]:
    """Return the pairs of an image and one of others that are alike, sorted.

    `sees` looks at images, and at others.
    """
    return confirmed(find_candidates(descriptors, others, run), alike, run, sees)


def confirmed(
    candidates: Candidates, alike: int, run: Run, sees: tuple[See, See | None]
) -> list[Pair]:
    """Return the candidates that are alike by their pixels, in their order.

    Without a second way to see, both pictures of a candidate are of one set.
    """
    import numpy as np

    first, second, _, is_mirrored = candidates
    if not len(first):
        return []
    see, see_others = sees
    if see_others is None:
        known = np.unique(np.concatenate([first, second]))
        looks = _split(see(known.tolist()), LOOK_BYTES)
        own, other = np.searchsorted(known, first), np.searchsorted(known, second)
    else:
        ours, own = np.unique(first, return_inverse=True)
        theirs, other = np.unique(second, return_inverse=True)
        other = other + len(ours)
        seen = see(ours.tolist()) + see_others(theirs.tolist())
        looks = _split(seen, LOOK_BYTES)
    tasks = []
    for start in range(0, len(first), _TASK_PAIRS):
        part = slice(start, start + _TASK_PAIRS)
        used, numbers = np.unique(np.stack([own[part], other[part]]), return_inverse=True)
        pairs = np.column_stack([*numbers.reshape(2, -1), is_mirrored[part]]).astype(np.int32)
        tasks.append(Confirm(start, pairs, b"".join([looks[at] for at in used.tolist()])))
    found = dict(run(confirm, tasks))
    scores = np.concatenate([found[start] for start in sorted(found)])
    is_alike = scores >= alike
    columns = (first, second, scores, is_mirrored)
    rows = zip(*(column[is_alike].tolist() for column in columns), strict=True)
    return [Pair(one, other, score, bool(mirror)) for one, other, score, mirror in rows]


def count_flat(descriptors: bytes) -> int:
    """Count the descriptors of flat images."""
    return _split(descriptors, DESCRIPTOR_BYTES).count(FLAT)


def _split(joined: bytes, size: int) -> list[bytes]:
    return [joined[start : start + size] for start in range(0, len(joined), size)]
