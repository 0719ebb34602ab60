"""Near-duplicates: a search finds exactly what comparing all pairs finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from imgrec.near.duplicates import Images, NearPair, NearPairs, find_similar
from imgrec.near.search import CROWD, DISTANCE, Search, find_pairs, popcount

T = TypeVar("T")
R = TypeVar("R")
Row = tuple[tuple[int, ...], tuple[int, int]]
"""Waves and colour."""

MIRRORED = [-1 if (wave + 1) % 8 % 2 else 1 for wave in range(63)]


def here(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    return map(function, tasks)


def turned(waves: Sequence[int]) -> tuple[int, ...]:
    """The waves of the mirrored picture."""
    return tuple(sign * wave for sign, wave in zip(MIRRORED, waves, strict=True))


def signature(row: Row) -> bytes:
    waves, colour = row
    return bytes(value & 0xFF for value in waves) + bytes(colour)


def brute_force(one: Row, other: Row) -> float | None:
    """The distance of two signatures by the definition; None if they are not near-duplicates."""
    (ours, colour), (theirs, other_colour) = one, other
    if not any(ours) or not any(theirs):
        return None
    is_grey = any(all(abs(part - 128) <= 2 for part in c) for c in (colour, other_colour))
    if not is_grey and any(abs(a - b) > 16 for a, b in zip(colour, other_colour, strict=True)):
        return None
    found = []
    for waves, others in ((ours, theirs), (turned(ours), theirs), (ours, turned(theirs))):
        if sum((a > 3) != (b > 3) for a, b in zip(waves, others, strict=True)) > 5:
            continue
        dot = sum(a * b for a, b in zip(waves, others, strict=True))
        lengths = sum(a * a for a in ours) * sum(b * b for b in theirs)
        found.append(round(max(1 - dot / lengths**0.5, 0) * 1000, 6))
    return min((apart for apart in found if apart <= DISTANCE), default=None)


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Distinct signatures, many of them versions of each other, some mirrored or recoloured."""
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    made: list[Row] = []
    for _ in range(draw(st.integers(0, 4))):
        base = [chance.randint(-127, 127) if chance.random() < 0.9 else 0 for _ in range(63)]
        for _ in range(draw(st.integers(1, 5))):
            blur = chance.choice([0, 1, 3, 6, 10])
            waves = [max(-127, min(127, wave + chance.randint(-blur, blur))) for wave in base]
            if chance.random() < 0.3:
                waves = list(turned(waves))
            colour = chance.choice([(128, 128), (130, 127), (100, 140), (116, 140), (150, 90)])
            made.append((tuple(waves), colour))
    if draw(st.booleans()):
        made.append(((0,) * 63, (0, 0)))
    chance.shuffle(made)
    return list(dict.fromkeys(made))


def joined(made: Sequence[Row]) -> bytes:
    return b"".join(map(signature, made))


def near(made: Sequence[Row], numbers: Iterable[tuple[int, int]]) -> dict[tuple[int, int], float]:
    found = {(a, b): brute_force(made[a], made[b]) for a, b in numbers}
    return {pair: distance for pair, distance in found.items() if distance is not None}


@examples(150)
@given(rows())
def test_a_search_finds_what_comparing_all_pairs_finds(made: list[Row]) -> None:
    found = {pair[:2]: pair.distance for pair in find_pairs(Search(joined(made)))}
    expected = near(made, combinations(range(len(made)), 2))
    assert found == pytest.approx(expected, abs=1e-4)


@examples(80)
@given(rows(), st.data())
def test_a_search_among_others_finds_what_comparing_all_pairs_finds(
    made: list[Row], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(made)))
    found = find_pairs(Search(joined(made[:cut]), others=joined(made[cut:])))
    expected = near(made, product(range(cut), range(cut, len(made))))
    assert {(pair.first, pair.second + cut) for pair in found} == set(expected)


def noisy(count: int, noise: float) -> list[bytes]:
    """Versions of one picture, all different."""
    chance = np.random.default_rng(0)
    base = chance.integers(20, 90, 63) * chance.choice([-1, 1], 63)
    waves = np.clip(np.round(base + chance.normal(0, noise, (count, 63))), -127, 127)
    made = [bytes(row.astype(np.int8).view(np.uint8)) + b"\x80\x80" for row in waves]
    assert len(set(made)) == count
    return made


def test_copies_are_paired_with_the_first_of_them_only() -> None:
    one, other = noisy(2, 60)
    assert find_pairs(Search(one + other + one + one)) == [(0, 2, 0, False), (0, 3, 0, False)]


def test_a_crowd_of_similar_images_is_one_group_with_few_pairs() -> None:
    crowd = noisy(4 * CROWD, 1.5)
    similar = find_similar(named(crowd), DISTANCE, here)
    assert len(similar.edges) < 2 * len(crowd)
    assert set(similar.groups()) == {similar.images.names[0]}


def test_members_of_a_crowd_that_differ_are_still_compared() -> None:
    crowd = noisy(CROWD + 200, 14)
    changed = bytearray(crowd[700])
    changed[5] ^= 1
    pairs = [pair[:2] for pair in find_pairs(Search(b"".join([*crowd, changed])))]
    assert (700, len(crowd)) in pairs
    assert len(pairs) < 20


def test_bits_are_counted_without_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).integers(0, 1 << 63, (7, 9), dtype=np.uint64)
    expected = [[int(number).bit_count() for number in row] for row in numbers]
    assert popcount(numbers).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert popcount(numbers).tolist() == expected


def named(signatures: Sequence[bytes]) -> Images:
    """Give each its own name and content."""
    names = [f"{number:05d}.jpg" for number in range(len(signatures))]
    return Images(names, [name.encode() for name in names], b"".join(signatures))


@given(rows(), st.randoms(use_true_random=False))
def test_the_order_of_images_makes_no_difference(made: list[Row], chance: random.Random) -> None:
    names, contents, _ = named([signature(row) for row in made])

    def found(order: Sequence[int]) -> tuple[NearPairs, dict[str, str], dict[str, str]]:
        own = [names[place] for place in order]
        images = Images(own, [contents[place] for place in order], joined([made[n] for n in order]))
        similar = find_similar(images, DISTANCE, here)
        dropped = similar.to_drop(sorted(range(len(own)), key=own.__getitem__), [0] * len(own))
        groups = dict(zip(own, similar.groups(), strict=True))
        return similar.near_pairs(), groups, {own[a]: own[b] for a, b in dropped.items()}

    order = chance.sample(range(len(made)), len(made))
    assert found(order) == found(range(len(made)))


@given(rows(), st.data())
def test_near_duplicates_are_grouped_dropped_and_paired_across_sides(
    made: list[Row], data: st.DataObject
) -> None:
    count = len(made)
    kinds = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)))
    similar = find_similar(named([signature(row) for row in made]), DISTANCE, here)
    expected = near(made, combinations(range(count), 2))

    groups = similar.groups()
    assert all(groups[a] == groups[b] != "" for a, b in expected)

    dropped = similar.to_drop(order, kinds)
    kept = set(order) - set(dropped)
    for place, other in dropped.items():
        assert other in kept and kinds[place] == kinds[other]
        assert (min(place, other), max(place, other)) in expected
    assert not [pair for pair in expected if kept >= {*pair} and kinds[pair[0]] == kinds[pair[1]]]

    more = list(similar.pairs_across(kinds))
    pairs = [frozenset(pair[:2]) for pair in (*similar.pairs(), *more)]
    assert len(set(pairs)) == len(pairs)

    def across(some: Iterable[Iterable[int]]) -> set[int]:
        sides = [(pair, {kinds[place] for place in pair}) for pair in map(tuple, some)]
        return {place for pair, found in sides if found == {"a", "b"} for place in pair}

    assert across(pairs) == across(expected)
    assert all({kinds[pair.first], kinds[pair.second]} == {"a", "b"} for pair in more)


def test_flat_images_are_similar_to_their_exact_copies_only() -> None:
    similar = find_similar(Images(["a", "b", "c"], [b"1", b"2", b"1"], bytes(3 * 65)), 4, here)
    assert [pair[:2] for pair in similar.pairs()] == [(0, 2)]
    assert similar.near_pairs() == NearPairs(0, ())
    assert similar.groups() == ("a", "", "a")


def test_a_summary_lists_leaks_first_and_then_conflicts() -> None:
    pairs = [("a", "b", 0.5, False), ("a", "c", 0.7, False), ("b", "d", 3.0, True)]
    found = NearPairs(9, tuple(map(NearPair._make, [*pairs, ("c", "gone", 0.0, False)])))
    splits = {"a": "train", "b": "train", "c": "train", "d": "val"}
    summary = found.sum_up(splits, {"a": 0, "b": 0, "c": 1, "d": 1})
    assert summary[:4] == (9, 3, 1, 2)
    assert [pair.second for pair in summary.examples] == ["d", "c", "b"]
