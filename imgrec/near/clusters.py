"""Clusters: images that are alike, directly or through others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

M = TypeVar("M", str, int)

ALIKE = 93
"""How much near-duplicates are alike at least, in per cent, unless the user says otherwise."""
LEAST_ALIKE = 50
_MOST_FILES = 20_000
"""Groups are listed, the most important first, while they hold no more files than this."""
_LARGE_GROUP, _LARGE_SHARE = 20, 0.05


class NearPair(NamedTuple):
    """Two files that look alike, or have the same bytes."""

    first: str
    second: str
    alike: int
    """In per cent."""
    is_mirrored: bool
    is_exact: bool = False


class NearGroup(NamedTuple):
    """Files that look alike, directly or through others."""

    files: tuple[str, ...]
    """The one that most others look like comes first. Older reports have 12 at most."""
    size: int
    """How many files there are."""
    alike: int
    """In per cent: of the pair that is most alike, among those across splits if there are any,
    else among those across labels."""
    is_mirrored: bool
    """Whether that pair is mirrored."""


class NearDuplicates(NamedTuple):
    """Counts of groups of near-duplicates, with examples: there may be too many to list."""

    looked_at: int
    """The number of images compared."""
    groups: int
    across_splits: int
    """Groups with images in different splits: leaks."""
    across_classes: int
    """Groups with different labels."""
    large: int
    """Other groups, which hold too much of a class to be one picture."""
    examples: tuple[NearGroup, ...]
    """The most important groups: those across splits first, then those across labels."""
    embeddings: str = ""
    """A hash of the embeddings by which they were found; empty if there were none."""
    not_compared: int = 0
    """Pairs that may be alike, too, but were left to a thorough search."""

    def among(
        self, splits: Mapping[str, str], labels: Mapping[str, Hashable], removed: int
    ) -> NearDuplicates | None:
        """Return the groups after images were removed, moved or relabelled; None if unknown.

        Of a group, the files that are left stay together, and `alike` is as it was.
        """
        is_listed = all(len(group.files) == group.size for group in self.examples)
        if len(self.examples) < self.groups or not is_listed:
            return None
        ranked = []
        for group in self.examples:
            files = tuple(name for name in group.files if name in splits)
            if len(files) < 2:
                continue
            is_leak = len({splits[name] for name in files}) > 1
            is_conflict = len({labels[name] for name in files} - {None}) > 1
            left = group._replace(files=files, size=len(files))
            ranked.append((not is_leak, not is_conflict, -group.alike, left))
        ranked.sort()
        return self._replace(
            looked_at=max(0, self.looked_at - removed),
            groups=len(ranked),
            across_splits=sum(not row[0] for row in ranked),
            across_classes=sum(not row[1] for row in ranked),
            examples=tuple(row[-1] for row in ranked),
        )


class NearPairs(NamedTuple):
    """All pairs of near-duplicates among some images."""

    looked_at: int
    """The number of images compared."""
    pairs: tuple[NearPair, ...]
    """Of files with the same bytes, each is in a pair with the first."""
    embeddings: str = ""
    """A hash of the embeddings by which they were found; empty if there were none."""

    def sum_up(self, splits: Mapping[str, str], labels: Mapping[str, Hashable]) -> NearDuplicates:
        """Group the files that have a split. The label None means unlabelled."""
        pairs = [pair for pair in self.pairs if pair.first in splits and pair.second in splits]
        names = sorted({name for pair in pairs for name in pair[:2]})
        places = {name: place for place, name in enumerate(names)}
        roots = components(len(names), ((places[p.first], places[p.second]) for p in pairs))
        by_group: dict[int, list[NearPair]] = defaultdict(list)
        for pair in pairs:
            by_group[roots[places[pair.first]]].append(pair)
        totals = Counter(labels.values())
        across_splits = across_classes = large = 0
        ranked: list[tuple[int, int, NearGroup]] = []
        for members in by_group.values():
            if all(pair.is_exact for pair in members):
                continue
            files = {name for pair in members for name in pair[:2]}
            if is_large((labels[name] for name in files), totals):
                large += 1
                continue
            is_leak = len({splits[name] for name in files}) > 1
            is_conflict = len({labels[name] for name in files} - {None}) > 1
            across_splits += is_leak
            across_classes += is_conflict
            sides = splits if is_leak else labels
            group = _group(members, sides)
            ranked.append((0 if is_leak else 1 if is_conflict else 2, -group.alike, group))
        ranked.sort()
        sizes = accumulate(group.size for _, _, group in ranked)
        listed = sum(size <= _MOST_FILES for size in sizes)
        examples = tuple(group for _, _, group in ranked[:listed])
        return NearDuplicates(
            self.looked_at,
            len(ranked),
            across_splits,
            across_classes,
            large,
            examples,
            self.embeddings,
        )


def _group(pairs: Sequence[NearPair], sides: Mapping[str, object]) -> NearGroup:
    """Return a group, given its pairs and the side of each file that they may cross."""
    across = [pair for pair in pairs if sides[pair.first] != sides[pair.second]] or pairs
    top = min(across, key=lambda pair: (pair.is_exact, -pair.alike, pair))
    files = ranked_members(pairs)
    # The pair that counts must be among those shown.
    first = [name for name in files if name in (files[0], top.first, top.second)]
    shown = dict.fromkeys([*first, *files])
    return NearGroup(tuple(shown), len(files), top.alike, top.is_mirrored)


def ranked_members(pairs: Iterable[tuple[M, M, int, *tuple[object, ...]]]) -> list[M]:
    """Return the members of pairs, the one that the others are most like first."""
    likeness: dict[M, int] = defaultdict(int)
    for first, second, alike, *_ in pairs:
        likeness[first] += alike
        likeness[second] += alike
    return sorted(likeness, key=lambda member: (-likeness[member], member))


class Forest:
    """Places that links join into trees. The lowest place of a tree is its root."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, place: int) -> int:
        """Return the lowest place that links lead to."""
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    def link(self, one: int, other: int) -> bool:
        """Join the trees of two places; return whether they were different ones."""
        low, high = sorted((self.root(one), self.root(other)))
        self._parents[high] = low
        return low != high


def components(count: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """Return for each of `count` places the lowest that links lead to."""
    forest = Forest(count)
    for link in links:
        forest.link(*link)
    return [forest.root(place) for place in range(count)]


def is_large(labels: Iterable[Hashable], totals: Mapping[Hashable, int]) -> bool:
    """Return whether a group has more than 20 images of a label, and more than 5 % of all of them.

    Then what looks alike is the class, not a picture: digits on white paper, for example.
    """
    counts = Counter(labels).items()
    return any(count > max(_LARGE_GROUP, _LARGE_SHARE * totals[label]) for label, count in counts)
