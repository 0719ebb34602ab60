"""A part of a source: `--include`, `--exclude`, `--limit-per-class` and `--min-side`."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from catalogs import CLASSES, catalog, sample, sample_lists
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE
from pictures import class_tree, jpeg, png, write_tree
from stores import Store

import imgrec
from imgrec.errors import PlanError, SourceError, UsageError
from imgrec.model import Catalog, Plan, Sample
from imgrec.notes import Ignored, Note
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.build import make_plan


def chosen(made: Catalog, **options: object) -> Plan:
    source = SourceOptions(**options)  # type: ignore[arg-type]
    return make_plan(made, PackOptions(source=source))


def names(plan: Plan) -> list[str]:
    return sorted(name for task in plan.tasks for name in task.samples.filenames)


TREES = [
    sample(f"{n}", name, 10 * number + n) for number, name in enumerate(CLASSES) for n in (1, 2)
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include": ("ash/*",)}, ["ash/1.jpg", "ash/2.jpg"]),
        ({"include": ("*1.jpg",)}, ["10/1.jpg", "2/1.jpg", "ash/1.jpg", "birch/1.jpg"]),
        ({"include": ("ash/1*", "birch/[!1]*")}, ["ash/1.jpg", "birch/2.jpg"]),
        ({"exclude": ("?*h/*", "*/2.jpg")}, ["10/1.jpg", "2/1.jpg"]),
        ({"include": ("ash/*",), "exclude": ("*/2.*",)}, ["ash/1.jpg"]),
    ],
)
def test_globs_choose_files_by_their_whole_path(
    options: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    assert names(chosen(catalog(TREES), **options)) == expected


def test_what_globs_leave_out_is_counted_with_examples() -> None:
    plan = chosen(catalog(TREES), include=("[ab]*",), exclude=("*/1.jpg",))
    assert plan.ignored == (
        Ignored(
            kind="left out by --include [ab]*",
            count=4,
            examples=("10/1.jpg", "10/2.jpg", "2/1.jpg", "2/2.jpg"),
        ),
        Ignored(
            kind="left out by --exclude */1.jpg", count=2, examples=("ash/1.jpg", "birch/1.jpg")
        ),
    )


BAD = (Note("ash/empty.jpg", "empty file"), Note("oak/text.jpg", "text, not an image"))


def with_bad(samples: Sequence[Sample]) -> Catalog:
    made = catalog(samples, notes=BAD)
    return replace(made, class_folders={**made.class_folders, "oak": ("oak",)})


def test_bad_files_that_globs_leave_out_are_counted_and_no_longer_bad() -> None:
    plan = chosen(with_bad(TREES), exclude=("ash/e*",))
    assert plan.bad == BAD[1:]
    assert [(ignored.count, ignored.examples) for ignored in plan.ignored] == [
        (1, ("ash/empty.jpg",))
    ]


@pytest.mark.parametrize(
    ("bad", "exclude", "classes"),
    [
        (False, ("birch/*", "2/*"), ("10", "ash")),
        (True, ("birch/*",), ("2", "10", "ash", "oak")),
        (True, ("*/empty.jpg", "oak/*"), ("2", "10", "ash", "birch")),
    ],
)
def test_an_excluded_class_gets_no_label(
    bad: bool, exclude: tuple[str, ...], classes: tuple[str, ...]
) -> None:
    made = with_bad(TREES) if bad else catalog(TREES)
    assert chosen(made, exclude=exclude).classes == classes


def test_a_class_keeps_its_label_where_the_source_fixes_the_order() -> None:
    made = catalog(TREES, class_order=("birch", "10", "ash", "2"))
    plan = chosen(made, include=("ash/*",))
    assert plan.classes == ("birch", "10", "ash", "2")
    assert plan.tasks[0].samples.labels == (2, 2)


def test_a_class_of_which_only_other_labels_are_left_keeps_its_label() -> None:
    made = catalog([sample("1", "ash", 1), sample("2", "birch", 2)])
    sets = (("ash", "birch"), ("birch",))
    made = replace(made, samples=replace(made.samples, class_sets=sets))
    assert chosen(made, exclude=("birch/*",)).classes == ("ash", "birch")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"include": ("*.png",)}, ""),
        ({"exclude": ("*",)}, ""),
        (
            {"include": ("ash",)},
            "globs are for whole paths such as 10/1.jpg: write 'ash/*' for all that is in a folder",
        ),
    ],
)
def test_nothing_left_is_an_error(options: dict[str, tuple[str, ...]], hint: str) -> None:
    with pytest.raises(PlanError, match="nothing is left to pack: everything is left") as caught:
        chosen(catalog(TREES), **options)
    assert hint in caught.value.hint


def test_a_glob_that_matches_nothing_is_a_warning() -> None:
    plan = chosen(catalog(TREES), exclude=("ash/1*", "Birch/*"))
    assert plan.warnings == ("--exclude Birch/* matches no file: paths are such as 10/1.jpg",)


globs = st.lists(st.sampled_from(["ash/*", "*1*", "[0-9]*", "*/0[0-4]?.jpg", "x"]), max_size=3)


@given(sample_lists(), globs, globs, st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_file_is_packed_or_counted_whatever_the_order_of_the_catalog(
    samples: list[Sample],
    include: list[str],
    exclude: list[str],
    most: int,
    chance: random.Random,
) -> None:
    options = {"include": tuple(include), "exclude": tuple(exclude), "limit_per_class": most}
    try:
        plan = chosen(catalog(samples), **options)
    except PlanError as error:
        assert "nothing is left" in str(error)
        return
    left_out = sum(ignored.count for ignored in plan.ignored)
    assert plan.planned + left_out == len(samples)
    shuffled = list(samples)
    chance.shuffle(shuffled)
    assert chosen(catalog(shuffled), **options) == plan


@given(sample_lists(), st.integers(1, 20))
def test_a_limit_keeps_as_many_of_each_class_and_those_of_a_lower_one(
    samples: list[Sample], most: int
) -> None:
    kept, more = (names(chosen(catalog(samples), limit_per_class=n)) for n in (most, most + 1))
    there = Counter(made.class_name for made in samples)
    left = Counter(name.split("/")[0] for name in kept)
    assert left == {name: min(count, most) for name, count in there.items()}
    assert {*kept} <= {*more}


def test_the_limit_holds_in_each_split_of_the_source() -> None:
    samples = [sample(f"{n}", "ash", n, "test" if n % 3 == 0 else "train") for n in range(30)]
    plan = chosen(catalog(samples), limit_per_class=4)
    assert [(task.split, len(task.samples.filenames)) for task in plan.tasks] == [
        ("train", 4),
        ("test", 4),
    ]
    assert [(ignored.kind, ignored.count) for ignored in plan.ignored] == [
        ("beyond --limit-per-class 4", 22)
    ]


def test_the_seed_changes_which_images_are_within_the_limit() -> None:
    made = catalog([sample(f"{n}", "ash", n) for n in range(40)])
    source = SourceOptions(limit_per_class=10)
    plans = [make_plan(made, PackOptions(source=source, seed=seed)) for seed in range(2)]
    assert names(plans[0]) != names(plans[1])


label_sets = st.lists(st.sets(st.sampled_from(CLASSES)), min_size=1, max_size=30)


@given(label_sets, st.integers(1, 6))
def test_each_of_several_labels_has_as_many_images_as_the_limit_or_all_that_there_are(
    sets: list[set[str]], most: int
) -> None:
    made = catalog(
        [sample(f"{n}", "ash", n) for n in range(len(sets))],
        class_folders={name: (name,) for name in CLASSES},
    )
    made = replace(made, samples=replace(made.samples, class_sets=tuple(map(tuple, sets))))
    plan = chosen(made, limit_per_class=most)
    there = Counter(name for labels in sets for name in labels)
    left: Counter[str] = Counter()
    for task in plan.tasks:
        left.update(plan.classes[label] for labels in task.samples.label_sets for label in labels)
    for name, count in there.items():
        assert min(count, most) <= left[name] <= count
    assert plan.planned <= most * (len(CLASSES) + 1)


@pytest.mark.parametrize("options", [{"limit_per_class": 0}, {"min_side": -1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        SourceOptions(**options)  # type: ignore[arg-type]


# --min-side, on real images.


def smallest(source: Path | str, data_dir: Path, min_side: int, **options: object) -> Plan:
    choice = SourceOptions(min_side=min_side, **options)  # type: ignore[arg-type]
    return imgrec.plan(
        str(source), PackOptions(source=choice, data_dir=str(data_dir)), engine=ENGINE
    )


SIZES = {
    "a/flat.jpg": jpeg(1, size=(40, 19)),
    "a/right.png": png(2, size=(20, 20)),
    "a/tall.png": png(3, size=(19, 90)),
    "b/large.jpg": jpeg(4, size=(50, 60)),
    "c/small.jpg": jpeg(5, size=(5, 5)),
}


def test_images_with_a_short_side_are_left_out_and_counted(tmp_path: Path) -> None:
    cut = {"a/cut.png": png(1)[:20]}  # the writer reports it
    plan = smallest(write_tree(tmp_path / "x", SIZES | cut), tmp_path, 20)
    assert names(plan) == ["a/cut.png", "a/right.png", "b/large.jpg"]
    assert plan.classes == ("a", "b")
    (ignored,) = plan.ignored
    assert (ignored.kind, ignored.count) == ("smaller than --min-side 20", 3)
    assert ignored.examples == ("a/flat.jpg", "a/tall.png", "c/small.jpg")
    with pytest.raises(PlanError, match="everything is smaller than --min-side 500"):
        smallest(write_tree(tmp_path / "y", SIZES), tmp_path, 500)


def test_many_images_are_measured_in_batches(tmp_path: Path) -> None:
    small, large = png(1, size=(4, 4)), png(2, size=(9, 9))
    contents = {f"a/{n:03d}.png": large if n % 3 else small for n in range(700)}
    plan = smallest(write_tree(tmp_path / "x", contents), tmp_path, 5)
    assert names(plan) == [name for name in contents if contents[name] == large]


@pytest.mark.stores
def test_excluded_files_on_a_store_do_not_shift_the_sizes_of_others(
    store: Store, tmp_path: Path
) -> None:
    for name, data in SIZES.items():
        store.put(f"in/{name}", data)
    plan = smallest(store / "in", tmp_path, 20, exclude=("a/flat*",))
    assert names(plan) == ["a/right.png", "b/large.jpg"]


def test_all_choices_together_are_packed_and_reported(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "trees", {"ash": 6, "birch": 6, "oak": 2})
    write_tree(source, {"ash/small.jpg": jpeg(90, size=(9, 9)), "ash/draft.jpg": jpeg(91)})
    choice = SourceOptions(include=("*h/*",), exclude=("*draft*",), limit_per_class=5, min_side=10)
    options = PackOptions(source=choice, data_dir=str(tmp_path / "datasets"), workers=1)
    report = imgrec.pack(source, options).report
    assert report.classes == ("ash", "birch")
    assert report.splits[0].class_counts == (5, 5)
    assert {ignored.kind: ignored.count for ignored in report.ignored} == {
        "smaller than --min-side 10": 1,
        "left out by --include *h/*": 2,
        "left out by --exclude *draft*": 1,
        "beyond --limit-per-class 5": 2,
    }


@given(sample_lists(), st.integers(1, 3))
def test_copies_left_by_a_limit_are_still_in_one_split(samples: list[Sample], most: int) -> None:
    source = SourceOptions(limit_per_class=most)
    plan = make_plan(catalog(samples), PackOptions(source=source, val_split=0.5))
    homes = defaultdict(set)
    content = {made.filename: made.content for made in samples}
    for task in plan.tasks:
        for name in task.samples.filenames:
            homes[content[name]].add(task.split)
    assert all(len(found) == 1 for found in homes.values())


def test_a_limit_does_not_make_the_share_of_bad_files_larger(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "trees", {"ash": 9, "birch": 9})
    write_tree(source, {"ash/empty.jpg": b""})
    choice = SourceOptions(limit_per_class=2)
    options = PackOptions(source=choice, data_dir=str(tmp_path / "datasets"), workers=1)
    assert imgrec.plan(source, options).warnings == ()
    report = imgrec.pack(source, options).report
    assert sum(split.examples for split in report.splits) == 4
    assert report.skipped == (Note("ash/empty.jpg", "empty file"),)


def test_files_that_globs_leave_out_do_not_count_for_the_share_of_bad_ones(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "trees", {"ash": 9, "birch": 1})
    write_tree(source, {"birch/empty.jpg": b""})
    data_dir = str(tmp_path / "datasets")
    birches = PackOptions(source=SourceOptions(include=("birch/*",)), data_dir=data_dir, workers=1)
    with pytest.raises(SourceError, match=r"1 of 2 images is bad"):
        imgrec.pack(source, birches)
    sound = PackOptions(source=SourceOptions(exclude=("*/empty*",)), data_dir=data_dir, workers=1)
    assert imgrec.pack(source, sound).report.skipped == ()
