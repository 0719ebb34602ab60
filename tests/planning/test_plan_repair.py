"""Splits of images with several labels: every label is where it should be, and sizes hold."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from catalogs import fractions, labelled
from hypothesis import example, given
from hypothesis import strategies as st

from imgrec.model import Plan
from imgrec.options import PackOptions
from imgrec.planning.build import make_plan

NAMES = tuple("abcdefg")
LabelSets = Sequence[frozenset[str]]
sets_of_labels = st.lists(st.frozensets(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=9)


def split_of(plan: Plan) -> list[str]:
    found = {name: task.split for task in plan.tasks for name in task.samples.filenames}
    return [found[name] for name in sorted(found)]


def missing(sets: LabelSets, splits: Sequence[str], *wanted: str) -> list[int]:
    """Count the labels that each of some splits has no image of."""
    there: dict[str, set[str]] = defaultdict(set)
    for labels, split in zip(sets, splits, strict=True):
        there[split] |= labels
    every = frozenset[str]().union(*sets)
    return [len(every - there[split]) for split in wanted]


def units_of(sets: LabelSets, groups: Sequence[object]) -> dict[object, frozenset[str]]:
    units: dict[object, frozenset[str]] = defaultdict(frozenset)
    for labels, group in zip(sets, groups, strict=True):
        units[group] |= labels
    return units


def best(sets: LabelSets) -> list[int]:
    """Return how many labels train, and then val, must be without, whatever goes where."""
    return min(
        missing(sets, splits, "train", "val")
        for splits in itertools.product(("train", "val"), repeat=len(sets))
    )


def of(*sets: str) -> list[frozenset[str]]:
    return list(map(frozenset, sets))


# Each of these needs more than one exchange.
CHAIN = of("ad", "d", "bce", "ac")
LONG_CHAIN = of("cf", "bcfg", "beg", "acf", "deg", "fg")


@given(sets_of_labels, fractions)
@example(of("ab", "ab"), 0.1)
@example(CHAIN, 0.2)
@example(LONG_CHAIN, 0.2)
def test_no_label_is_missing_from_train_or_val_where_that_is_avoidable(
    sets: list[frozenset[str]], fraction: float
) -> None:
    splits = split_of(make_plan(labelled(sets), PackOptions(val_split=fraction)))
    assert missing(sets, splits, "train", "val") == best(sets)


@given(sets_of_labels, st.data(), fractions)
def test_nor_where_images_stay_together(
    sets: list[frozenset[str]], data: st.DataObject, fraction: float
) -> None:
    count = len(sets)
    contents = data.draw(st.lists(st.integers(0, count), min_size=count, max_size=count))
    splits = split_of(make_plan(labelled(sets, contents), PackOptions(val_split=fraction)))
    units = units_of(sets, contents)
    homes = dict(zip(contents, splits, strict=True))
    assert [homes[content] for content in contents] == splits  # no copy is in another split
    found = missing(list(units.values()), [homes[unit] for unit in units], "train", "val")
    assert found == best(list(units.values()))


def tags(count: int, chance: random.Random, names: int = 40) -> list[frozenset[str]]:
    """Draw label sets as tagged photos have them: few common labels, many rare ones."""
    every = [f"t{number}" for number in range(names)]
    weights = [1 / (rank + 1) for rank in range(names)]
    return [frozenset(chance.choices(every, weights, k=chance.randint(1, 5))) for _ in range(count)]


def shares(sets: LabelSets, splits: Sequence[str]) -> Mapping[str, float]:
    in_val = Counter(
        label
        for labels, split in zip(sets, splits, strict=True)
        if split == "val"
        for label in labels
    )
    every = Counter(label for labels in sets for label in labels)
    return {label: in_val[label] / count for label, count in every.items()}


@pytest.mark.parametrize("seed", range(4))
def test_val_has_its_fraction_of_tagged_photos_and_every_tag(seed: int) -> None:
    sets = tags(600, random.Random(seed))
    splits = split_of(make_plan(labelled(sets), PackOptions(val_split=0.1, test_split=0.1)))
    counts = Counter(splits)
    assert counts["val"] == pytest.approx(60, abs=15)
    assert counts["test"] == pytest.approx(60, abs=15)
    every = Counter(label for labels in sets for label in labels)
    for split, least in (("train", 1), ("val", 2), ("test", 3)):
        there = frozenset().union(
            *(labels for labels, at in zip(sets, splits, strict=True) if at == split)
        )
        assert {label for label, count in every.items() if count >= least} <= there
    assert all(share < 0.6 for label, share in shares(sets, splits).items() if every[label] > 4)


@pytest.mark.parametrize("seed", range(4))
def test_every_fold_has_every_tag_with_enough_photos(seed: int) -> None:
    sets = tags(200, random.Random(seed), names=20)
    splits = split_of(make_plan(labelled(sets), PackOptions(folds=4)))
    every = Counter(label for labels in sets for label in labels)
    homes = defaultdict(set)
    for labels, split in zip(sets, splits, strict=True):
        for label in labels:
            homes[label].add(split)
    assert all(len(homes[label]) == min(count, 4) for label, count in every.items())
    assert max(Counter(splits).values()) - min(Counter(splits).values()) <= 20


def test_one_image_more_moves_few_others() -> None:
    chance = random.Random(7)
    sets = tags(420, chance, names=60)
    options = PackOptions(val_split=0.1)
    before = split_of(make_plan(labelled(sets[:400]), options))
    moved = []
    for count in range(401, 421):
        after = split_of(make_plan(labelled(sets[:count]), options))
        moved.append(sum(one != other for one, other in zip(before, after, strict=False)))
        before = after
    assert max(moved) <= 12
    assert sum(moved) / len(moved) <= 3


def test_images_of_one_label_each_are_divided_as_single_labels_are() -> None:
    names = random.Random(3).choices(NAMES, k=50)
    several = make_plan(labelled([frozenset(name) for name in names]), PackOptions(folds=3))
    made = labelled([frozenset(name) for name in names])
    single = replace(made, samples=replace(made.samples, class_sets=()))
    assert split_of(several) == split_of(make_plan(single, PackOptions(folds=3)))


def test_a_pinned_image_stays_even_if_a_label_is_missing_then() -> None:
    made = labelled(of("ab", "b", "a", "a", "a"))
    made = replace(made, samples=replace(made.samples, pinned=("train", "train", "", "", "")))
    splits = split_of(make_plan(made, PackOptions(val_split=0.2)))
    assert splits[:2] == ["train", "train"]
    assert missing(of("ab", "b", "a", "a", "a"), splits, "val") == [1]
