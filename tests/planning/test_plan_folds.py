"""Folds: `fold_0` to `fold_{K-1}` in the place of train."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from catalogs import catalog, grouped, pinned, sample, sample_lists, seeds, split_of
from hypothesis import assume, given
from hypothesis import strategies as st
from pictures import class_tree

import imgrec
from imgrec.errors import PlanError
from imgrec.model import Catalog, Plan, Sample, split_order
from imgrec.options import PackOptions
from imgrec.planning.build import make_plan

counts = st.integers(2, 7)


def planned(made: Catalog, options: PackOptions) -> Plan:
    """Plan a catalog that has images enough for its folds."""
    try:
        return make_plan(made, options)
    except PlanError as error:
        assume("folds cannot be made of" not in str(error))
        raise


def fold_names(folds: int) -> list[str]:
    return [f"fold_{fold}" for fold in range(folds)]


def sizes(plan: Plan, folds: int) -> dict[int, list[int]]:
    """Return how many images of each label are in each fold."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for task in plan.tasks:
        for label in task.samples.labels:
            found[label][task.split] += 1
    return {
        label: [counted[fold] for fold in fold_names(folds)] for label, counted in found.items()
    }


def with_test(samples: Sequence[Sample], every: int) -> list[Sample]:
    """Put every so many of the samples into a test split of the source."""
    return [
        made._replace(split="test" if number % every == 0 else "train")
        for number, made in enumerate(samples)
    ]


@given(sample_lists(distinct=True), counts, st.sampled_from([2, 3, 5, 100]))
def test_folds_differ_by_one_image_of_each_class_at_most_and_test_is_kept(
    samples: list[Sample], folds: int, every: int
) -> None:
    placed = with_test(samples, every)
    assume(any(made.split != "test" for made in placed))
    plan = planned(catalog(placed), PackOptions(folds=folds))
    splits = split_of(plan)
    assert all((splits[made.filename] == "test") == (made.split == "test") for made in placed)
    for found in sizes(plan, folds).values():
        assert max(found) - min(found) <= 1


@given(sample_lists(distinct=True), counts)
def test_one_image_more_moves_at_most_one_other_out_of_each_fold(
    samples: list[Sample], folds: int
) -> None:
    assume(max(Counter(made.class_name for made in samples).values()) >= folds)
    options = PackOptions(folds=folds)
    before = split_of(planned(catalog(samples), options))
    more = sample("more", samples[0].class_name, 10_000)
    after = split_of(planned(catalog([*samples, more]), options))
    moved = Counter(split for name, split in before.items() if after[name] != split)
    assert max(moved.values(), default=0) <= 1


EVEN = [sample(f"{n:03d}", f"class {n % 10}", n) for n in range(60)]


def test_odd_images_of_different_classes_go_to_different_folds() -> None:
    plan = make_plan(catalog(EVEN), PackOptions(folds=5))
    assert Counter(split_of(plan).values()) == dict.fromkeys(fold_names(5), 12)


def test_folds_without_a_class_are_one_warning(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"many": 10, "one": 1})
    (warning,) = [x for x in imgrec.plan(source, folds=5, yes=True).warnings if "no images" in x]
    assert re.fullmatch(
        r"(fold_\d, )+fold_\d have no images of one|fold_.*more splits have no images of one",
        warning,
    )


def test_splits_come_in_the_order_of_their_numbers() -> None:
    plan = make_plan(catalog(with_test(EVEN, 4)), PackOptions(folds=12))
    assert [task.split for task in plan.tasks] == [*fold_names(12), "test"]


def test_a_test_split_is_taken_before_the_folds() -> None:
    plan = make_plan(catalog(EVEN), PackOptions(folds=5, test_split=1 / 6))
    assert Counter(split_of(plan).values()) == {**dict.fromkeys(fold_names(5), 10), "test": 10}


@given(sample_lists(20, distinct=True), st.integers(8, 20), seeds)
def test_no_fold_is_empty_if_there_are_images_enough(
    samples: list[Sample], folds: int, seed: int
) -> None:
    plan = make_plan(catalog(samples), PackOptions(folds=folds, seed=seed))
    assert {task.split for task in plan.tasks} == set(fold_names(folds))
    for found in sizes(plan, folds).values():
        assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("count", "hint"), [(3, "give --folds 3 or less"), (1, "leave out --folds")]
)
def test_fewer_images_than_folds_are_an_error(count: int, hint: str) -> None:
    samples = [sample(f"{n}", "ash", n % count) for n in range(6)]
    with pytest.raises(PlanError) as caught:
        make_plan(catalog(samples), PackOptions(folds=4))
    assert str(caught.value) == f"4 folds cannot be made of {count} different images"
    assert caught.value.hint == hint


def test_a_copy_in_train_of_a_test_image_is_in_a_fold_and_a_leak() -> None:
    samples = [sample(f"{n}", "ash", n, "train") for n in range(6)]
    plan = make_plan(catalog([*samples, sample("copy", "ash", 0, "test")]), PackOptions(folds=3))
    assert split_of(plan)["train/ash/0.jpg"].startswith("fold_")
    assert [leak.filenames for leak in plan.leaks] == [("test/ash/copy.jpg", "train/ash/0.jpg")]


@given(sample_lists(20, distinct=True), st.integers(2, 4), st.integers(1, 4))
def test_folds_of_groups_differ_by_two_groups_of_images_at_most(
    samples: list[Sample], folds: int, size: int
) -> None:
    groups = [f"p{number // size}" for number in range(len(samples))]
    plan = planned(grouped(samples, groups), PackOptions(folds=folds))
    found = Counter(split_of(plan).values())
    counted = [found[fold] for fold in fold_names(folds)]
    assert max(counted) - min(counted) <= 2 * size


def test_folds_of_groups_leave_the_test_of_the_source_out_of_account() -> None:
    samples = [sample(f"{n:03d}", "ash", n, "test" if n >= 60 else "train") for n in range(160)]
    groups = [f"p{number // 4}" for number in range(len(samples))]
    plan = make_plan(grouped(samples, groups), PackOptions(folds=3))
    assert Counter(split_of(plan).values()) == {**dict.fromkeys(fold_names(3), 20), "test": 100}


@given(sample_lists(4, distinct=True), counts, st.integers(1, 4))
def test_images_added_to_folds_leave_them_even_and_the_others_where_they_are(
    samples: list[Sample], folds: int, part: int
) -> None:
    options = PackOptions(folds=folds)
    before = split_of(planned(catalog(samples[: -len(samples) // part // 2]), options))
    plan = planned(pinned(samples, before), options)
    assert split_of(plan).items() >= before.items()
    for found in sizes(plan, folds).values():
        assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("pin", "folds", "message"),
    [
        ("val", 2, "images that stay in val do not go together with others in 2 folds"),
        ("train", 2, "images that stay in train do not go together with others in 2 folds"),
        ("fold_2", 2, "images that stay in fold_2 do not go together with others in 2 folds"),
        ("fold_2", 0, "images that stay in fold_2 do not go together with others in train"),
    ],
)
def test_folds_and_images_that_stay_elsewhere_are_an_error(
    pin: str, folds: int, message: str
) -> None:
    made = pinned(EVEN, {EVEN[0].filename: pin})
    with pytest.raises(PlanError) as caught:
        make_plan(made, PackOptions(folds=folds))
    assert str(caught.value) == message


def test_folds_are_packed_as_splits(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "trees", {"ash": 6, "birch": 4})
    options = PackOptions(folds=2, data_dir=str(tmp_path / "datasets"), workers=1)
    info = imgrec.pack(source, options).info
    assert [(split.name, split.class_counts) for split in info.splits] == [
        ("fold_0", (3, 2)),
        ("fold_1", (3, 2)),
    ]
    assert 'split="fold_0"' in info.load


def test_a_million_folds_are_refused_as_soon_as_four_are() -> None:
    samples = [sample(f"{n}", "ash", n) for n in range(3)]
    with pytest.raises(PlanError, match="1000000000000 folds cannot be made of 3 different images"):
        make_plan(catalog(samples), PackOptions(folds=10**12))


def test_as_many_folds_as_images_are_planned_in_no_time() -> None:
    samples = [sample(f"{n}", f"class {n % 50}", n) for n in range(2000)]
    started = time.monotonic()
    plan = make_plan(catalog(samples), PackOptions(folds=2000))
    assert len(plan.tasks) == 2000
    assert time.monotonic() - started < 10  # it was 40 s


def test_splits_that_only_look_like_folds_are_sorted_by_name() -> None:
    names = ["train", "fold_0", "fold_", "fold_b", "fold_" + "9" * 5000]
    assert sorted(names, key=split_order)[-1] == "fold_0"
