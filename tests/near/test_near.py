"""Near-duplicates: a search finds what comparing all pairs finds, and groups are what it found."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from sampling import examples

from imgrec.near import duplicates
from imgrec.near.align import Maps, align, ease, straight
from imgrec.near.clusters import NearPair, NearPairs
from imgrec.near.descriptor import BLANK, CLOSE_SIDE, FLAT, LENGTH, SIDE, describe, mirrored
from imgrec.near.duplicates import (
    Images,
    Large,
    Pair,
    Sight,
    SimilarImages,
    find_clear,
    find_similar,
)
from imgrec.near.search import QUICK, THOROUGH, Effort, find_candidates

Rows = NDArray[np.int8]


def here(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    return map(function, tasks)


def backwards(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    """As workers may: the last task is done first."""
    return map(function, reversed(list(tasks)))


def textures(count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Looks at different pictures."""
    chance = np.random.default_rng(seed)
    coarse = chance.integers(0, 256, (count, 8, 8))
    return np.kron(coarse, np.ones((1, 4, 4), int)).astype(np.uint8)


def versions(seed: int, groups: int = 4) -> list[bytes]:
    """Different looks, many of them versions of each other, some mirrored."""
    chance = np.random.default_rng(seed)
    made = []
    for base in textures(groups, seed):
        for _ in range(int(chance.integers(1, 5))):
            noisy = np.clip(base + chance.normal(0, 12, base.shape), 0, 255).astype(np.uint8)
            made.append((noisy[:, ::-1] if chance.random() < 0.4 else noisy).tobytes())
    if chance.random() < 0.3:
        made.append(BLANK)
    return [made[at] for at in chance.permutation(len(made))]


def images_of(looks: Sequence[bytes]) -> Images:
    """Give each its own name and content."""
    names = [f"{number:05d}.jpg" for number in range(len(looks))]
    return Images(names, [name.encode() for name in names], describe(looks))


def seen(looks: Sequence[bytes]) -> Sight:
    """Sees pictures closely as they are from afar, in grey."""

    def see_closely(places: Sequence[int]) -> bytes:
        greys = np.frombuffer(see(places), np.uint8).reshape(-1, 1, SIDE, SIDE)
        return np.repeat(np.kron(greys, np.ones((2, 2), np.uint8)), 2, axis=1).tobytes()

    def see(places: Sequence[int]) -> bytes:
        return b"".join([looks[place] for place in places])

    return Sight(see_closely, see)


def similar(looks: Sequence[bytes], alike: int = 90) -> SimilarImages:
    return find_similar(images_of(looks), alike, here, seen(looks))


@given(st.integers(0, 1 << 32))
def test_the_descriptor_of_a_mirrored_look_is_the_mirrored_descriptor(seed: int) -> None:
    (look,) = np.random.default_rng(seed).integers(0, 256, (1, SIDE, SIDE), dtype=np.uint8)
    row = np.frombuffer(describe([look.tobytes()]), np.int8)
    other = np.frombuffer(describe([look[:, ::-1].tobytes()]), np.int8)
    assert (mirrored(row[None])[0] == other).all()
    assert abs(float(np.linalg.norm(row.astype(float))) - LENGTH) < 8


def brute_force(rows: Rows, effort: Effort) -> set[tuple[int, int]]:
    """The candidates by their definition."""
    wide = rows.astype(np.int64)
    scores = np.maximum(wide @ wide.T, mirrored(rows).astype(np.int64) @ wide.T)
    found = set()
    for place, own in enumerate(scores):
        ranked = sorted((-score, other) for other, score in enumerate(own) if other != place)
        for score, other in ranked[: effort.neighbours]:
            is_near = -score >= effort.least_cosine * LENGTH * LENGTH
            if is_near and rows[place].any() and rows[other].any():
                found.add((min(place, other), max(place, other)))
    return found


@examples(40)
@given(st.integers(0, 1 << 32), st.sampled_from([THOROUGH, QUICK]))
def test_a_search_finds_what_comparing_all_pairs_finds(seed: int, effort: Effort) -> None:
    descriptors = describe(versions(seed, 6))
    found = find_candidates(descriptors, None, here, effort)
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    rows = np.frombuffer(descriptors, np.int8).reshape(-1, len(FLAT))
    assert pairs == sorted(brute_force(rows, effort))


def test_a_search_in_cells_finds_nearly_all_that_is_near() -> None:
    base = textures(1500)
    noise = np.random.default_rng(1).normal(0, 12, base.shape)
    noisy = np.clip(base + noise, 0, 255).astype(np.uint8)
    descriptors = describe([look.tobytes() for look in (*base, *noisy)])
    effort = THOROUGH._replace(exhaustive=100)
    one, other = (find_candidates(descriptors, None, run, effort) for run in (here, backwards))
    assert all((a == b).all() for a, b in zip(one, other, strict=True))
    pairs = {*zip(one.first.tolist(), one.second.tolist(), strict=True)}
    assert sum((at, at + 1500) in pairs for at in range(1500)) > 1450


def test_how_much_pictures_are_alike_does_not_depend_on_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = versions(3, 12)
    found = similar(looks, 50)
    assert found.edges
    for edge in found.edges:
        # The first of two pictures with equal names is the one that is mirrored, if one is.
        alone = similar([looks[edge.first], looks[edge.second]], 50).edges
        assert alone == [edge._replace(first=0, second=1)]
    monkeypatch.setattr(duplicates, "_SIFT_PAIRS", 3)
    monkeypatch.setattr(duplicates, "_LEAST_CLOSE_PAIRS", 2)
    monkeypatch.setattr(duplicates, "_PAIRS_AT_ONCE", 5)
    again = find_similar(images_of(looks), 50, backwards, seen(looks))
    assert again.edges == found.edges


def test_a_pack_compares_pairs_across_splits_first_and_counts_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = textures(6)
    faint = np.clip(base.astype(int) + np.arange(6)[:, None, None] % 3, 0, 255).astype(np.uint8)
    looks = [look.tobytes() for look in (*base, *faint)]
    splits = ["train"] * 9 + ["val", "train", "val"]
    monkeypatch.setattr(duplicates, "_LEAST_COMPARED", 2)
    found, not_compared = find_clear(images_of(looks), splits, 90, here, Sight(seen(looks)[0]))
    assert ([edge[:2] for edge in found.edges], not_compared) == ([(3, 9), (5, 11)], 4)


def photograph(seed: int) -> NDArray[np.uint8]:
    """A picture of soft shapes of all sizes, twice as large as a close look."""
    chance = np.random.default_rng(seed)
    side = 2 * CLOSE_SIDE
    made = np.zeros((side, side))
    for cells in (4, 8, 16, 32):
        coarse = Image.fromarray(chance.normal(0, 40, (cells, cells)).astype(np.float32))
        made += np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))
    return np.clip(128 + made, 0, 255).astype(np.uint8)


def part_of(whole: NDArray[np.uint8], box: tuple[float, float, float, float]) -> NDArray[np.uint8]:
    """A part of a picture, at the size of a close look."""
    side = CLOSE_SIDE
    picture = Image.fromarray(whole).resize((side, side), Image.Resampling.BOX, box)
    return np.asarray(picture)


@examples(20)
@given(
    st.integers(0, 1 << 32),
    st.tuples(*[st.floats(0, 0.06)] * 4),
    st.booleans(),
)
def test_a_part_of_a_picture_is_laid_where_it_belongs(
    seed: int, cut: tuple[float, float, float, float], is_negative: bool
) -> None:
    whole = photograph(seed)
    side = float(len(whole))
    top, left, bottom, right = (side * share for share in cut)
    part = part_of(whole, (left, top, side - right, side - bottom))
    frames = ease((255 - part if is_negative else part)[None])
    (alike,), maps = align(
        frames, part_of(whole, (0, 0, side, side))[None], straight(1), [0] * 12, 1
    )
    high, wide = 1 - cut[0] - cut[2], 1 - cut[1] - cut[3]
    middle = (cut[0] - cut[2]) / 2 * CLOSE_SIDE, (cut[1] - cut[3]) / 2 * CLOSE_SIDE
    assert alike > 0.95
    assert np.allclose(maps.matrix[0], [[high, 0], [0, wide]], atol=0.02)
    assert np.allclose(maps.shift[0], middle, atol=0.7)


def test_pictures_that_hardly_overlap_are_not_compared() -> None:
    whole = part_of(photograph(1), (0, 0, 128, 128))[None]
    away = Maps(np.eye(2)[None], np.array([[0.0, 50.0]]))
    assert align(ease(whole), whole, away, (), 1)[0].tolist() == [-1.0]
    assert align(ease(whole), whole, straight(1), (), 1)[0].tolist() == [1.0]


@examples(30)
@given(st.integers(0, 1 << 32), st.randoms(use_true_random=False))
def test_the_order_of_images_makes_no_difference(seed: int, chance: random.Random) -> None:
    looks = versions(seed)
    names, contents, *_ = images_of(looks)

    def found(order: Sequence[int]) -> tuple[NearPairs, dict[str, str], dict[str, str]]:
        own, some = [names[at] for at in order], [looks[at] for at in order]
        images = Images(own, [contents[at] for at in order], describe(some))
        one = find_similar(images, 90, here, seen(some))
        dropped = one.to_drop(sorted(range(len(own)), key=own.__getitem__), [0] * len(own))
        groups = dict(zip(own, one.groups(), strict=True))
        return one.near_pairs(), groups, {own[a]: own[b] for a, b in dropped.items()}

    order = chance.sample(range(len(looks)), len(looks))
    assert found(order) == found(range(len(looks)))


@examples(30)
@given(st.integers(0, 1 << 32), st.integers(50, 95))
def test_groups_are_the_same_without_the_pairs_that_they_do_not_need(seed: int, alike: int) -> None:
    looks = versions(seed)
    whole = similar(looks, alike)
    linked = find_similar(images_of(looks), alike, here, seen(looks), only_groups=True)
    assert linked.groups() == whole.groups()
    assert set(linked.edges) <= set(whole.edges)


@given(st.data())
def test_near_duplicates_are_grouped_and_dropped(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 9))
    links = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    drawn = {(a, b) for a, b in data.draw(st.lists(links, max_size=12)) if a < b}
    kinds = data.draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count))
    order = data.draw(st.permutations(range(count)))
    edges = [Pair(a, b, 95, is_mirrored=False) for a, b in sorted(drawn)]
    images = images_of([BLANK] * count)
    found = SimilarImages(images=images, pictures=[[n] for n in range(count)], edges=edges)
    groups = found.groups()
    assert all(groups[a] == groups[b] != "" for a, b in drawn)
    dropped = found.to_drop(order, kinds)
    kept = set(order) - set(dropped)
    for place, other in dropped.items():
        assert other in kept and kinds[place] == kinds[other]
        assert (min(place, other), max(place, other)) in drawn
    assert not [pair for pair in drawn if kept >= {*pair} and kinds[pair[0]] == kinds[pair[1]]]


def test_flat_images_are_similar_to_their_exact_copies_only() -> None:
    images = Images(["a", "b", "c"], [b"1", b"2", b"1"], 3 * FLAT)
    found = find_similar(images, 90, here, seen([BLANK] * 3))
    assert found.near_pairs() == NearPairs(0, ())
    assert found.groups() == ("a", "", "a")


def test_a_group_that_is_too_large_is_parted_but_not_from_its_copies() -> None:
    count = 30
    names = [f"{n:02d}" for n in range(count)]
    contents = [name.encode() for name in (*names[:-1], names[0])]
    pictures = [[0, count - 1], *([n] for n in range(1, count - 1))]
    edges = [Pair(n, n + 1, 95, is_mirrored=False) for n in range(count - 2)]
    images = Images(names, contents, count * FLAT)
    found = SimilarImages(images=images, pictures=pictures, edges=edges)
    kept = found.without_large(["x"] * count)
    assert (kept.edges, kept.large) == ([], (Large("00", 30),))
    assert kept.groups() == ("00", *[""] * (count - 2), "00")
    assert found.without_large([*["x"] * 20, *["y"] * 10]).edges == edges


def test_a_summary_lists_groups_across_splits_first_and_then_across_labels() -> None:
    pairs = [("a", "b", 99), ("a", "c", 98), ("d", "e", 91), ("f", "g", 97), ("h", "gone", 99)]
    found = NearPairs(9, tuple(NearPair(*pair, is_mirrored=False) for pair in pairs))
    splits = dict.fromkeys("abcdefgh", "train") | {"e": "val"}
    summary = found.sum_up(splits, dict.fromkeys("abcdefgh", 0) | {"g": 1})
    assert summary[:5] == (9, 3, 1, 1, 0)
    assert [group.files for group in summary.examples] == [("d", "e"), ("f", "g"), ("a", "b", "c")]
    assert [group.alike for group in summary.examples] == [91, 97, 99]
