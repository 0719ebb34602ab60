"""Near-duplicate images: the pairs, the groups they form, and the copies to drop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from imgrec.near.clusters import Forest, NearPair, NearPairs, components, is_large
from imgrec.near.confirm import Confirm, Sift, Sifted, confirm, join_sifted, sift
from imgrec.near.descriptor import CLOSE_BYTES, DESCRIPTOR_BYTES, FLAT, LOOK_BYTES
from imgrec.near.embeddings import digest_rows, embedded_candidates
from imgrec.near.search import QUICK, THOROUGH, Candidates, Effort, Run, find_candidates, numbered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.search import Rows

    Numbers: TypeAlias = NDArray[np.int32]

_SIFT_PAIRS, _MOST_CLOSE_PAIRS, _LEAST_CLOSE_PAIRS = 2048, 256, 32
"""Pairs that one task compares. With 32, the few pairs of a default pack reach all workers: 100
pairs of photographs take 0.15 s instead of 0.3. With more, fewer looks are prepared twice."""
_CLOSE_TASKS = 16
"""Close looks are shared out to this many tasks, if there are enough pairs."""
_PAIRS_AT_ONCE = 8192
"""Pairs whose close looks are in memory at one time: up to 134 MB."""
_LEAST_COMPARED, _IMAGES_PER_COMPARED = 30, 400
"""A default pack compares so many pairs at least, or one for so many images. Each takes as long as
packing three images."""

See: TypeAlias = Callable[[Sequence[int]], bytes]


class Sight(NamedTuple):
    """How to look at images, by their places: both return the looks one after another."""

    see_closely: See
    """8,192 bytes each: see `codec.look`."""
    see: See | None = None
    """1,024 bytes each. Without it, pictures are compared as they are: not as parts, or turned."""


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
    embeddings: Rows | None = None
    """A row for each image, to search by these instead: see `near.embeddings`."""


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
        names, _, descriptors, embeddings = self.images
        concerned = {picture for edge in self.edges for picture in edge[:2]}
        pairs = [
            NearPair(names[pair.first], names[pair.second], pair.alike, pair.is_mirrored)
            for pair in self.pairs()
        ]
        pairs += [
            NearPair(names[pair.first], names[pair.second], 100, False, is_exact=True)
            for pair in self.copies(concerned)
        ]
        looked_at = len(names) - count_flat(descriptors)
        digest = "" if embeddings is None else digest_rows(names, embeddings)
        return NearPairs(looked_at, tuple(sorted(pairs)), digest)

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
    images: Images, alike: int, run: Run, sight: Sight, *, only_groups: bool = False
) -> SimilarImages:
    """Find near-duplicates: images that are alike by `alike` per cent or more.

    The work is done wherever `run` runs its tasks; `sight` is used for images that may be alike.
    With `only_groups`, the edges are those that make the groups: others in a group are left out.
    """
    pictures = _pictures(images)
    candidates = _candidates(images, pictures, run, THOROUGH)
    sights = _of_pictures(sight, pictures), None
    compare = partial(confirmed, alike=alike, run=run, sights=sights)
    edges = _linking(candidates, len(pictures), compare) if only_groups else compare(candidates)
    return SimilarImages(images=images, pictures=pictures, edges=_each_once(edges))


def _linking(
    candidates: Candidates, count: int, compare: Callable[[Candidates], list[Pair]]
) -> list[Pair]:
    """Return the pairs that are alike, without those that others link already.

    The most similar candidates that would link all pictures come first. If they are alike, most
    others need not be compared: a pack of 20,000 photographs of few scenes takes 31 s, not 45.
    """
    import numpy as np

    first, second, score, _ = candidates
    forest = Forest(count)
    order = np.lexsort((second, first, -score)).tolist()
    ends = list(zip(first.tolist(), second.tolist(), strict=True))
    is_link = np.zeros(len(ends), bool)
    is_link[[at for at in order if forest.link(*ends[at])]] = True
    edges = compare(_pick(candidates, is_link))
    roots = np.array(components(count, (edge[:2] for edge in edges)), np.int64)
    is_open = ~is_link & (roots[first] != roots[second])
    return edges + compare(_pick(candidates, is_open))


def _pick(candidates: Candidates, rows: NDArray[Any]) -> Candidates:
    return Candidates(*(column[rows] for column in candidates))


def find_clear(
    images: Images, splits: Sequence[str], alike: int, run: Run, sight: Sight
) -> tuple[SimilarImages, int]:
    """Find the clear near-duplicates quickly; return also how many pairs were not compared.

    Pairs across splits are compared first, then those with the most similar descriptors.
    """
    import numpy as np

    pictures = _pictures(images)
    candidates = _candidates(images, pictures, run, QUICK)
    known = {split: number for number, split in enumerate(dict.fromkeys(splits))}
    sides = np.array([known[splits[places[0]]] for places in pictures], np.int32)
    is_within = sides[candidates.first] == sides[candidates.second]
    most = max(_LEAST_COMPARED, len(pictures) // _IMAGES_PER_COMPARED)
    chosen = np.sort(np.lexsort((-candidates.score, is_within))[:most])
    clear = _pick(candidates, chosen)
    edges = confirmed(clear, alike, run, (_of_pictures(sight, pictures), None))
    found = SimilarImages(images=images, pictures=pictures, edges=edges)
    return found, len(candidates.first) - len(chosen)


def _pictures(images: Images) -> list[list[int]]:
    """Return the images of each content, sorted by name."""
    by_content: dict[bytes, list[int]] = {}
    for place in sorted(range(len(images.names)), key=images.names.__getitem__):
        by_content.setdefault(images.contents[place], []).append(place)
    return list(by_content.values())


def _candidates(
    images: Images, pictures: Sequence[Sequence[int]], run: Run, effort: Effort
) -> Candidates:
    if images.embeddings is not None:
        firsts = [places[0] for places in pictures]
        return embedded_candidates(images.embeddings[firsts], None, run)
    descriptors = _split(images.descriptors, DESCRIPTOR_BYTES)
    joined = b"".join([descriptors[places[0]] for places in pictures])
    return find_candidates(joined, None, run, effort)


def _of_pictures(sight: Sight, pictures: Sequence[Sequence[int]]) -> Sight:
    """Return how to look at pictures, by their numbers."""

    def of_pictures(see: See) -> See:
        return lambda numbers: see([pictures[number][0] for number in numbers])

    return Sight(of_pictures(sight.see_closely), sight.see and of_pictures(sight.see))


def find_among(
    images: Images, others: Images, alike: int, run: Run, sights: tuple[Sight, Sight]
) -> list[Pair]:
    """Return the pairs of an image and one of others that are alike, sorted.

    `sights` look at images, and at others.
    """
    if images.embeddings is None or others.embeddings is None:
        candidates = find_candidates(images.descriptors, others.descriptors, run)
    else:
        candidates = embedded_candidates(images.embeddings, others.embeddings, run)
    return _each_once(confirmed(candidates, alike, run, sights))


def confirmed(
    candidates: Candidates, alike: int, run: Run, sights: tuple[Sight, Sight | None]
) -> list[Pair]:
    """Return the candidates that are alike by their pixels, in their order.

    Without a second sight, both pictures of a candidate are of one set.
    """
    own, others = sights
    sifted: Sifted | None = None
    if own.see:
        pairs, looks = _looked_at(candidates, own.see, others and others.see, LOOK_BYTES)
        tasks = (Sift(*part, alike) for part in _parts(pairs, looks, _SIFT_PAIRS))
        sifted = join_sifted(list(run(sift, tasks)))
        candidates = _pick(candidates, sifted.rows)
    sees = own.see_closely, others and others.see_closely
    scores = _score(candidates, sifted, alike, run, sees)
    is_alike = scores >= alike
    columns = (candidates.first, candidates.second, scores, candidates.is_mirrored)
    rows = zip(*(column[is_alike].tolist() for column in columns), strict=True)
    return [Pair(one, other, score, bool(mirror)) for one, other, score, mirror in rows]


def _score(
    candidates: Candidates,
    sifted: Sifted | None,
    alike: int,
    run: Run,
    sees: tuple[See, See | None],
) -> NDArray[np.uint8]:
    """Return how much the pictures of candidates are alike, in per cent, looking closely."""
    import numpy as np

    scores = [np.zeros(0, np.uint8)]
    for start in range(0, len(candidates.first), _PAIRS_AT_ONCE):
        rows = slice(start, start + _PAIRS_AT_ONCE)
        some = Candidates(*(column[rows] for column in candidates))
        pairs, looks = _looked_at(some, *sees, CLOSE_BYTES)
        size = min(max(len(pairs) // _CLOSE_TASKS, _LEAST_CLOSE_PAIRS), _MOST_CLOSE_PAIRS)
        closely = (
            Confirm(*part, alike, sifted and sifted.part(start + part[0], len(part[1])))
            for part in _parts(pairs, looks, size)
        )
        found = dict(run(confirm, closely))
        scores += [found[at] for at in sorted(found)]
    return np.concatenate(scores)


def _each_once(pairs: Iterable[Pair]) -> list[Pair]:
    """Return each pair once: of one that is alike as it is and mirrored, what is more alike."""
    best: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        known = best.setdefault((pair.first, pair.second), pair)
        if pair.alike > known.alike:
            best[pair.first, pair.second] = pair
    return list(best.values())


def _looked_at(
    candidates: Candidates, see: See, see_others: See | None, size: int
) -> tuple[Numbers, list[bytes]]:
    """Look at the pictures of candidates; return the pairs by the numbers of their looks."""
    import numpy as np

    first, second = candidates.first, candidates.second
    if see_others is None:
        known, (own, other) = numbered(np.stack([first, second]))
        looks = see(known.tolist()) if len(known) else b""
    else:
        (ours, own), (theirs, other) = numbered(first), numbered(second)
        other = other + len(ours)
        looks = see(ours.tolist()) + see_others(theirs.tolist()) if len(ours) else b""
    pairs: Numbers = np.column_stack([own, other, candidates.is_mirrored]).astype(np.int32)
    return pairs, _split(looks, size)


def _parts(
    pairs: Numbers, looks: Sequence[bytes], size: int
) -> Iterator[tuple[int, Numbers, bytes]]:
    """Yield pairs a few at a time: the position of the first, the pairs, and their looks."""
    import numpy as np

    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        used, numbers = numbered(part[:, :2])
        own = np.column_stack([numbers, part[:, 2]]).astype(np.int32)
        yield start, own, b"".join([looks[at] for at in used.tolist()])


def count_flat(descriptors: bytes) -> int:
    """Count the descriptors of flat images."""
    return _split(descriptors, DESCRIPTOR_BYTES).count(FLAT)


def detailed(descriptors: bytes) -> list[int]:
    """Return the places of images that are not flat."""
    split = _split(descriptors, DESCRIPTOR_BYTES)
    return [place for place, descriptor in enumerate(split) if descriptor != FLAT]


def _split(joined: bytes, size: int) -> list[bytes]:
    return [joined[start : start + size] for start in range(0, len(joined), size)]
