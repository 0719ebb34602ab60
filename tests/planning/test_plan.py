"""The plan by example: names, labels, splits, leaks and shards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from catalogs import catalog, sample, sample_lists
from hypothesis import given
from hypothesis import strategies as st

from imgrec.errors import PlanError, SourceError, UsageError
from imgrec.layout import legal_name, shard_filename
from imgrec.model import Sample
from imgrec.notes import Note, NoteKind, SameImage
from imgrec.options import ClassOrder, OnLeak, PackOptions, SourceOptions
from imgrec.planning.build import make_plan
from imgrec.planning.classes import FoundClasses, number_classes, parse_classes
from imgrec.planning.shards import cut as cut_at


def cut(sizes: Sequence[int], max_bytes: int) -> list[int]:
    return cut_at(list(accumulate(sizes)), None, max_bytes)


def labels(*folders: str, **options: object) -> tuple[str, ...]:
    found = FoundClasses(
        folders={folder: (folder,) for folder in folders},
        images=dict.fromkeys(folders, 1),
    )
    return number_classes(found, PackOptions(**options)).classes  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("folders", "options", "expected"),
    [
        (("10", "2", "b", "a10", "a9"), {}, ("2", "10", "a9", "a10", "b")),
        (("10", "2", "B", "a"), {"class_order": ClassOrder.LEXICAL}, ("10", "2", "B", "a")),
        (("cat", "dog"), {"classes": ("dog", "bird", "cat")}, ("dog", "bird", "cat")),
        (("cafe\u0301",), {}, ("caf\u00e9",)),
    ],
    ids=["natural", "lexical", "classes file", "composed"],
)
def test_labels_are_in_the_order_asked_for(
    folders: tuple[str, ...], options: dict[str, object], expected: tuple[str, ...]
) -> None:
    assert labels(*folders, **options) == expected


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (("a ", "b "), "'a ' begins or ends with a blank; 'b ' begins"),
        ((" ",), "' ' is blank"),
        (("a\nb",), "'a\\nb' contains a line break"),
        (("caf\udce9",), "is not valid UTF-8"),
    ],
)
def test_a_class_name_that_tfds_or_a_disk_would_change_is_an_error(
    folders: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        labels(*folders)
    assert message in str(caught.value)
    assert caught.value.hint == "rename them"


def test_a_classes_file_may_have_a_byte_order_mark_and_a_last_line_break() -> None:
    assert parse_classes("\ufeffrose\ntulip\n\n") == ("rose", "tulip")


def test_all_bad_lines_of_a_classes_file_are_named() -> None:
    with pytest.raises(PlanError, match=r"line 2 is blank; line 3 repeats line 1 \(rose\)"):
        parse_classes("rose\n\nrose\n")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("flowers", "flowers"),
        ("My-Flowers 2024", "my_flowers_2024"),
        ("102flowers", "dataset_102flowers"),
        ("Blüten", "bluten"),
        ("花", "dataset"),
    ],
)
def test_a_folder_name_is_made_a_name_that_tfds_finds(folder: str, name: str) -> None:
    assert legal_name(folder) == name


def test_shards_are_numbered_with_as_many_digits_as_tfds_uses() -> None:
    assert shard_filename("a", "val", 7, 120_000) == "a-val.tfrecord-000007-of-120000"


@pytest.mark.parametrize(
    ("splits", "options", "message"),
    [
        ("val", {"val_split": 0.1}, "has a val split of its own, so --val-split cannot make"),
        ("val", {"folds": 2}, "has a val split of its own, so --folds cannot make another"),
        ("test", {"folds": 2}, "no train images to take a split from"),
    ],
)
def test_a_split_that_the_source_leaves_no_room_for_is_refused(
    splits: str, options: dict[str, float], message: str
) -> None:
    samples = [sample("1", "a", 1, "train"), sample("2", "a", 2, "val")]
    if splits == "test":
        samples = [sample("1", "a", 1, "test")]
    with pytest.raises(PlanError, match=message):
        make_plan(catalog(samples), PackOptions(**options))  # type: ignore[arg-type]


def test_val_is_taken_from_train_only() -> None:
    samples = [sample(f"{n}", "a", n, "train" if n < 8 else "test") for n in range(10)]
    plan = make_plan(catalog(samples), PackOptions(val_split=0.25))
    counts = {task.split: len(task.samples.filenames) for task in plan.tasks}
    assert counts == {"train": 6, "val": 2, "test": 2}


def test_a_class_missing_from_a_split_is_a_warning_and_shifts_no_label() -> None:
    samples = [
        sample("1", "a", 1, "train"),
        sample("2", "b", 2, "train"),
        sample("3", "b", 3, "val"),
    ]
    plan = make_plan(catalog(samples), PackOptions())
    assert plan.classes == ("a", "b")
    assert plan.tasks[1].samples.labels == (1,)
    assert plan.warnings == ("val has no images of a",)


LEAKY = [
    sample("1", "a", 1, "train"),
    sample("2", "a", 2, "train"),
    sample("copy", "a", 1, "val"),
    sample("copy", "b", 2, "test"),
]


def test_one_image_in_two_splits_of_the_source_is_named_as_a_leak() -> None:
    plan = make_plan(catalog(LEAKY), PackOptions())
    assert plan.leaks == (
        SameImage(("test/b/copy.jpg", "train/a/2.jpg")),
        SameImage(("train/a/1.jpg", "val/a/copy.jpg")),
    )
    assert plan.conflicts == (SameImage(("test/b/copy.jpg", "train/a/2.jpg")),)
    assert plan.planned == 4


def test_dropping_leaks_leaves_out_the_train_copy() -> None:
    samples = [*LEAKY, sample("3", "a", 3, "train")]
    plan = make_plan(catalog(samples), PackOptions(on_leak=OnLeak.DROP))
    assert plan.left_out == (
        Note(
            "train/a/1.jpg",
            "leak: the same image as val/a/copy.jpg in val",
            NoteKind.LEFT_OUT,
            "val/a/copy.jpg",
        ),
        Note(
            "train/a/2.jpg",
            "leak: the same image as test/b/copy.jpg in test",
            NoteKind.LEFT_OUT,
            "test/b/copy.jpg",
        ),
    )
    assert plan.planned == 3


def test_failing_on_leaks_names_them() -> None:
    with pytest.raises(
        PlanError, match=r"2 images are in more than one split: test/b/copy\.jpg = "
    ):
        make_plan(catalog(LEAKY), PackOptions(on_leak=OnLeak.FAIL))


@pytest.mark.parametrize(("count", "shards"), [(15, 1), (16, 8), (1100, 16)])
def test_from_16_mib_there_are_a_multiple_of_8_shards(count: int, shards: int) -> None:
    assert len(cut([1 << 20] * count, 128 << 20)) == shards


def test_a_record_larger_than_a_shard_is_alone_in_one_and_leaves_the_others_as_they_are() -> None:
    photos = [20_000] * 4000
    lengths = cut([*photos, 200 << 20, *photos], 128 << 20)
    assert len(lengths) == 8
    assert 1 in lengths
    assert sum(lengths) == 8001


def test_a_shard_that_only_one_record_fits_into_is_cut_in_no_time() -> None:
    records = [990_000 if n % 50 == 0 else 7_000 for n in range(20_000)]
    started = time.monotonic()
    lengths = cut(records, 1_000_000)
    assert time.monotonic() - started < 15  # it was 60 s
    assert len(lengths) < 1000  # it was 19,992


def test_records_of_which_each_is_larger_than_a_shard_have_a_shard_each() -> None:
    assert cut([300, 200, 1, 1], 100) == [1, 1, 2]


def test_other_splits_get_shards_in_proportion() -> None:
    samples = [sample(f"{number}", "a", number) for number in range(100)]
    plan = make_plan(catalog(samples), PackOptions(val_split=0.25, shards=6))
    counts = [task.split for task in plan.tasks]
    assert (counts.count("train"), counts.count("val")) == (6, 2)


def test_more_shards_than_images_are_refused() -> None:
    with pytest.raises(PlanError, match="--shards 3 is more than the 1 images of train"):
        make_plan(catalog([sample("1", "a", 1)]), PackOptions(shards=3))


def test_a_split_that_imgrec_makes_takes_nothing_that_the_source_has_in_another() -> None:
    samples = [sample(f"{n}", "a", n, "train") for n in range(10)]
    samples += [sample(f"copy{n}", "a", n, "val") for n in range(8)]
    plan = make_plan(catalog(samples), PackOptions(test_split=0.9))
    (test,) = [task for task in plan.tasks if task.split == "test"]
    assert set(test.samples.filenames) < {"train/a/8.jpg", "train/a/9.jpg"}


def test_a_split_that_cannot_be_made_is_a_warning() -> None:
    samples = [sample(f"{n}", "a", 1) for n in range(6)]
    plan = make_plan(catalog(samples), PackOptions(val_split=0.5))
    assert plan.warnings == ("there is no val: no class has images or groups enough to spare one",)


def test_a_name_that_tfds_cannot_find_is_refused_with_one_that_it_can() -> None:
    with pytest.raises(UsageError) as caught:
        make_plan(catalog([sample("1", "a", 1)]), PackOptions(name="My-Set"))
    assert caught.value.hint.endswith("such as my_set")


def test_an_option_that_is_no_choice_names_the_choices() -> None:
    with pytest.raises(UsageError) as caught:
        PackOptions(check="pixels")  # type: ignore[arg-type]
    assert str(caught.value) == "check cannot be 'pixels'"
    assert caught.value.hint == "choose from decode, structure, header"


@pytest.mark.parametrize(
    "options",
    [
        {"val_split": 1.0},
        {"val_split": -0.1},
        {"val_split": float("nan")},
        {"val_split": 0.6, "test_split": 0.4},
        {"version": "1.0"},
        {"version": "01.0.0"},
        {"shards": 0},
        {"shard_size": 0},
        {"workers": 0},
        {"max_bad": 1.5},
        {"val_split": "0.1"},
        {"shards": 2.5},
        {"seed": "a"},
        {"folds": 1},
        {"folds": -2},
        {"folds": 3, "val_split": 0.1},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        PackOptions(**options)  # type: ignore[arg-type]


def equal_neighbours(labels: Sequence[int]) -> float:
    """Return the part of the records that follow one of their own class."""
    return sum(one == other for one, other in pairwise(labels)) / (len(labels) - 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"val_split": 0.1},
        {"val_split": 0.1, "test_split": 0.2},
        {"folds": 5},
        {"val_split": 0.1, "source": SourceOptions(group_by=r"(\d+)\d\.jpg")},
        {"source": SourceOptions(limit_per_class=760)},
    ],
    ids=["none", "val", "val and test", "folds", "groups", "limit"],
)
def test_records_are_class_mixed_from_the_first_to_the_last_however_they_are_split(
    options: dict[str, object],
) -> None:
    samples = [sample(f"{n:05d}", f"{n % 10}", n) for n in range(8_000)]
    samples += [sample(f"{n:05d}", "10", n) for n in range(8_000, 8_160)]
    plan = make_plan(catalog(samples), PackOptions(shards=1, **options))  # type: ignore[arg-type]
    for task in plan.tasks:
        chance = sum(
            (count / len(task.samples.labels)) ** 2
            for count in Counter(task.samples.labels).values()
        )
        for labels in (task.samples.labels[:200], task.samples.labels[-200:]):
            assert set(labels) >= set(range(10)), task.split
            assert abs(equal_neighbours(labels) - chance) < 0.06, task.split
            assert labels.count(10) < 15, task.split


@given(sample_lists(distinct=True), st.integers(0, 3))
def test_a_split_does_not_change_the_order_of_what_it_leaves(
    samples: list[Sample], seed: int
) -> None:
    whole = make_plan(catalog(samples), PackOptions(seed=seed))
    parted = make_plan(catalog(samples), PackOptions(seed=seed, val_split=0.3))
    order = [name for task in whole.tasks for name in task.samples.filenames]
    for task in parted.tasks:
        assert [name for name in order if name in task.samples.filenames] == list(
            task.samples.filenames
        )


@pytest.mark.parametrize(
    ("source", "name", "is_told"),
    [("日本", "", True), ("日本", "japan", False), ("dataset", "", False), ("Ash", "", False)],
)
def test_a_source_of_which_no_letter_can_be_in_a_name_is_told(
    source: str, name: str, is_told: bool
) -> None:
    made = replace(catalog([sample("1", "ash", 1)]), name=source)
    warnings = make_plan(made, PackOptions(name=name)).warnings
    assert [said for said in warnings if "--name" in said] == (
        [f"no letter of {source} can be in a name: pass --name for a better one"] * is_told
    )
