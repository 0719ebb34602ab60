"""Finding signatures that are alike: what a search finds is what comparing all of them finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from imgrec.near.duplicates import Found, Images, NearPair, find_alike
from imgrec.near.search import CROWD, DISTANCE, Search, find_across, find_edges, find_pairs
from imgrec.near.signatures import popcount

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
    """How far apart two are by the definition, in thousandths; None if they are not alike."""
    (ours, colour), (theirs, other_colour) = one, other
    if not any(ours) or not any(theirs):
        return None
    is_grey = any(all(abs(part - 128) <= 2 for part in c) for c in (colour, other_colour))
    if not is_grey and any(abs(a - b) > 16 for a, b in zip(colour, other_colour, strict=True)):
        return None
    found = []
    for waves, others in (
        (ours, theirs),
        (turned(ours), theirs),
        (ours, turned(theirs)),
    ):
        if sum((a > 3) != (b > 3) for a, b in zip(waves, others, strict=True)) > 5:
            continue
        dot = sum(a * b for a, b in zip(waves, others, strict=True))
        lengths = sum(a * a for a in ours) * sum(b * b for b in theirs)
        found.append(round(max(1 - dot / lengths**0.5, 0) * 1000, 6))
    return min((apart for apart in found if apart <= DISTANCE), default=None)


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Signatures of which many are versions of each other, some of them mirrored or recoloured."""
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


@examples(150)
@given(rows())
def test_a_search_finds_what_comparing_all_pairs_finds(made: list[Row]) -> None:
    found = find_pairs(b"".join(map(signature, made)))
    expected = {
        (a, b): apart
        for a in range(len(made))
        for b in range(a + 1, len(made))
        if (apart := brute_force(made[a], made[b])) is not None
    }
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    distances = found.distances.tolist()
    assert dict(zip(pairs, distances, strict=True)) == pytest.approx(expected, abs=1e-4)


@examples(80)
@given(rows(), st.data())
def test_a_search_among_others_finds_what_comparing_all_pairs_finds(
    made: list[Row], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(made)))
    ours, others = made[:cut], made[cut:]
    found = find_across(b"".join(map(signature, ours)), b"".join(map(signature, others)))
    expected = {
        (a, b)
        for a in range(len(ours))
        for b in range(len(others))
        if brute_force(ours[a], others[b]) is not None
    }
    assert set(zip(found.first.tolist(), found.second.tolist(), strict=True)) == expected


def noisy(count: int, noise: float, seed: int = 0) -> list[bytes]:
    """Versions of one picture, all different."""
    chance = np.random.default_rng(seed)
    base = chance.integers(20, 90, 63) * chance.choice([-1, 1], 63)
    waves = np.clip(np.round(base + chance.normal(0, noise, (count, 63))), -127, 127)
    made = [bytes(row.astype(np.int8).view(np.uint8)) + b"\x80\x80" for row in waves]
    assert len(set(made)) == count
    return made


def test_copies_are_paired_with_the_first_of_them_only() -> None:
    one, other = noisy(2, 60)
    found = find_pairs(one + other + one + one)
    assert found.first.tolist() == [0, 0]
    assert found.second.tolist() == [2, 3]
    assert found.distances.tolist() == [0, 0]


def test_a_crowd_that_looks_alike_is_one_group_of_hardly_more_pairs_than_members() -> None:
    crowd = noisy(4 * CROWD, 1.5)
    found = find_pairs(b"".join(crowd))
    assert len(found.first) < 2 * len(crowd)
    images = Images(*named(crowd))
    assert set(find_alike(images, DISTANCE, here).groups()) == {images.names[0]}


def test_a_crowd_that_does_not_look_alike_is_compared_all_the_same() -> None:
    crowd = noisy(CROWD + 200, 14)
    twin = bytearray(crowd[700])
    twin[5] ^= 1
    found = find_pairs(b"".join([*crowd, bytes(twin)]))
    pairs = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert (700, len(crowd)) in pairs
    assert len(pairs) < 20


def test_counting_bits_without_a_new_numpy_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).integers(0, 1 << 63, (7, 9), dtype=np.uint64)
    expected = [[int(number).bit_count() for number in row] for row in numbers]
    assert popcount(numbers).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert popcount(numbers).tolist() == expected


def test_nothing_has_no_pairs() -> None:
    assert find_edges(Search(b"", DISTANCE)).first.tolist() == []
    assert find_edges(Search(b"", DISTANCE, b"")).first.tolist() == []


def named(signatures: Sequence[bytes]) -> tuple[list[str], list[bytes], bytes]:
    """Give each its own name and content."""
    names = [f"{number:05d}.jpg" for number in range(len(signatures))]
    return names, [name.encode() for name in names], b"".join(signatures)


@given(rows(), st.randoms(use_true_random=False))
def test_the_order_of_images_makes_no_difference(made: list[Row], chance: random.Random) -> None:
    names, contents, _ = named([b""] * len(made))
    signatures = [signature(row) for row in made]
    order = list(range(len(made)))
    chance.shuffle(order)

    def found(order: Sequence[int]) -> tuple[Found, dict[str, str], dict[str, str]]:
        images = Images(
            [names[place] for place in order],
            [contents[place] for place in order],
            b"".join([signatures[place] for place in order]),
        )
        alike = find_alike(images, DISTANCE, here)
        by_name = sorted(range(len(order)), key=images.names.__getitem__)
        spare = alike.to_drop(by_name, [0] * len(order))
        return (
            alike.found(),
            dict(zip(images.names, alike.groups(), strict=True)),
            {images.names[place]: images.names[twin] for place, twin in spare.items()},
        )

    assert found(order) == found(range(len(made)))


@given(rows(), st.randoms(use_true_random=False))
def test_what_is_dropped_is_like_one_that_is_kept_and_what_is_kept_is_not_alike(
    made: list[Row], chance: random.Random
) -> None:
    alike = find_alike(Images(*named([signature(row) for row in made])), DISTANCE, here)
    kinds = [chance.choice("ab") for _ in made]
    order = chance.sample(range(len(made)), len(made))
    spare = alike.to_drop(order, kinds)
    kept = [place for place in order if place not in spare]
    for place, twin in spare.items():
        assert twin in kept
        assert kinds[place] == kinds[twin]
        assert brute_force(made[place], made[twin]) is not None
    for a in kept:
        for b in kept:
            if a != b and kinds[a] == kinds[b]:
                assert brute_force(made[a], made[b]) is None


@given(rows(), st.data())
def test_whatever_has_its_like_on_another_side_is_in_a_pair_across(
    made: list[Row], data: st.DataObject
) -> None:
    sides = data.draw(
        st.lists(st.sampled_from("ab") | st.none(), min_size=len(made), max_size=len(made))
    )
    alike = find_alike(Images(*named([signature(row) for row in made])), DISTANCE, here)

    def are_across(one: int, other: int) -> bool:
        return sides[one] != sides[other] and None not in (sides[one], sides[other])

    more = list(alike.pairs_across(sides))
    told = [(pair.first, pair.second) for pair in (*alike.pairs(), *more)]
    assert len(set(map(frozenset, told))) == len(told)
    for pair in more:
        assert are_across(pair.first, pair.second)
    for one in range(len(made)):
        has_its_like = any(
            are_across(one, other) and brute_force(made[one], made[other]) is not None
            for other in range(len(made))
        )
        assert has_its_like == any(one in pair and are_across(*pair) for pair in told)


@given(rows())
def test_images_that_look_alike_are_in_one_group(made: list[Row]) -> None:
    groups = find_alike(Images(*named([signature(row) for row in made])), DISTANCE, here).groups()
    for a in range(len(made)):
        for b in range(a):
            if brute_force(made[a], made[b]) is not None:
                assert groups[a] == groups[b] != ""


def test_flat_images_are_like_their_copies_only() -> None:
    flat = bytes(65)
    images = Images(["a", "b", "c"], [b"1", b"2", b"1"], 3 * flat)
    alike = find_alike(images, DISTANCE, here)
    assert [(pair.first, pair.second) for pair in alike.pairs()] == [(0, 2)]
    assert alike.found() == Found(0, ())
    assert alike.groups() == ("a", "", "a")


def test_a_sum_names_leaks_first_and_then_conflicts() -> None:
    found = Found(
        9,
        (
            NearPair("a", "b", 0.5, False),
            NearPair("a", "c", 0.7, False),
            NearPair("b", "d", 3.0, True),
            NearPair("c", "gone", 0.0, False),
        ),
    )
    splits = {"a": "train", "b": "train", "c": "train", "d": "val"}
    labels = {"a": 0, "b": 0, "c": 1, "d": 1}
    summed = found.sum_up(splits, labels)
    assert summed[:4] == (9, 3, 1, 2)
    assert [pair.second for pair in summed.examples] == ["d", "c", "b"]
