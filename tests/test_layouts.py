"""Folders of images are read right or refused: containers are not classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from downloads import photo

import imgrec
from imgrec.errors import ImgrecError

pytestmark = pytest.mark.usefixtures("asking")

Splits = dict[str, dict[str, str]]


def tree(root: Path, *paths: str, **texts: str) -> Path:
    """Write a picture at each path; `{n}` in a path is replaced by 0, 1 and 2."""
    for path in paths:
        for number in range(3) if "{n}" in path else (0,):
            file = root / path.replace("{n}", str(number))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(photo(str(file)))
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def read(source: Path, **options: object) -> dict[str, dict[str, str]]:
    """Plan, and return the class of each file by split."""
    plan = imgrec.dry_run(
        source, imgrec.PackOptions(name="d", source=imgrec.SourceOptions(**options))
    )
    found: Splits = {}
    for task in plan.tasks:
        for filename, label in zip(task.filenames, task.labels, strict=True):
            name = plan.classes[label] if label >= 0 else ""
            found.setdefault(task.split, {})[filename] = name
    return found


def refusal(source: Path, **options: object) -> str:
    with pytest.raises(ImgrecError) as error:
        read(source, **options)
    return f"{error.value}; {error.value.hint}"


def classes(found: Splits) -> dict[str, list[str]]:
    return {split: sorted(set(files.values())) for split, files in found.items()}


def test_a_container_is_not_a_class(tmp_path):
    source = tree(tmp_path / "s", "Images/cat/{n}.jpg", "Images/dog/{n}.jpg")
    assert classes(read(source)) == {"train": ["cat", "dog"]}


def test_samples_beside_the_dataset_are_left_alone(tmp_path):
    source = tree(
        tmp_path / "s", "dataset/cat/{n}.jpg", "dataset/dog/{n}.jpg", "sample_images/{n}.jpg"
    )
    assert classes(read(source)) == {"train": ["cat", "dog"]}


def test_annotations_and_docs_are_left_alone(tmp_path):
    source = tree(
        tmp_path / "s", "images/cat/{n}.jpg", "images/dog/{n}.jpg", "annotations/{n}.png",
        "docs/{n}.png",
    )  # fmt: skip
    assert classes(read(source)) == {"train": ["cat", "dog"]}


def test_two_containers_of_images_are_asked_about(tmp_path):
    source = tree(tmp_path / "s", "images/{n}.jpg", "photos/{n}.jpg")
    assert "--exclude" in refusal(source)


def test_splits_may_be_in_a_folder(tmp_path):
    source = tree(
        tmp_path / "s", "dataset/train/cat/{n}.jpg", "dataset/train/dog/{n}.jpg",
        "dataset/val/cat/{n}.jpg", "dataset/val/dog/{n}.jpg", "dataset/test/cat/{n}.jpg",
    )  # fmt: skip
    found = read(source)
    assert classes(found) == {"train": ["cat", "dog"], "val": ["cat", "dog"], "test": ["cat"]}


@pytest.mark.parametrize(
    ("train", "test"),
    [("hoh_train", "hoh_test"), ("train_images", "test-jpg"), ("Training Set", "Test Set"),
     ("seg_train/seg_train", "seg_test/seg_test"), ("train/train", "test/test")],
)  # fmt: skip
def test_split_words_may_have_other_words_beside_them(train, test, tmp_path):
    source = tree(
        tmp_path / "s", f"{train}/cat/{{n}}.jpg", f"{train}/dog/{{n}}.jpg", f"{test}/cat/{{n}}.jpg",
    )  # fmt: skip
    assert classes(read(source)) == {"train": ["cat", "dog"], "test": ["cat"]}


def test_a_folder_called_train_beside_other_classes_is_a_class(tmp_path):
    source = tree(tmp_path / "s", "train/{n}.jpg", "car/{n}.jpg", "bus/{n}.jpg")
    assert classes(read(source)) == {"train": ["bus", "car", "train"]}


def test_words_that_begin_like_splits_are_classes(tmp_path):
    source = tree(tmp_path / "s", "valley/{n}.jpg", "trainers/{n}.jpg", "testudo/{n}.jpg")
    assert classes(read(source)) == {"train": ["testudo", "trainers", "valley"]}


def test_split_folders_of_images_alone_are_refused(tmp_path):
    source = tree(tmp_path / "s", "train_images/a{n}.jpg", "test_images/b{n}.jpg")
    assert "--label-regex" in refusal(source)


def test_camera_names_are_not_classes(tmp_path):
    source = tree(
        tmp_path / "s", "train/IMG_{n}.jpg", "train/DSC_{n}.jpg", "test/1.jpg", "test/2.jpg"
    )
    assert "--label-regex" in refusal(source)


def test_a_wrapping_folder_is_looked_into(tmp_path):
    source = tree(tmp_path / "s", "flower_photos/rose/{n}.jpg", "flower_photos/tulip/{n}.jpg")
    (source / "README.md").write_text("flowers")
    assert classes(read(source)) == {"train": ["rose", "tulip"]}


def test_images_right_in_a_class_and_below_it_are_of_that_class(tmp_path):
    source = tree(
        tmp_path / "s", "daisy/{n}.jpg", "daisy/garden/{n}.jpg", "daisy/wild/{n}.jpg",
        "rose/{n}.jpg",
    )  # fmt: skip
    assert classes(read(source)) == {"train": ["daisy", "rose"]}


def test_hashed_folders_are_not_classes(tmp_path):
    paths = [f"{a}/{b}/{c}/{a}{b}{c}9.jpg" for a in "01" for b in "ab" for c in "7f"]
    assert "--manifest" in refusal(tree(tmp_path / "s", *paths))


def test_digits_are_classes(tmp_path):
    source = tree(tmp_path / "s", *(f"{digit}/{{n}}.jpg" for digit in range(10)))
    assert classes(read(source)) == {"train": [str(digit) for digit in range(10)]}


def test_a_sample_folder_beside_the_splits_is_left_alone(tmp_path):
    source = tree(
        tmp_path / "s", "train/cat/{n}.jpg", "train/dog/{n}.jpg", "test/{n}.jpg",
        "sample/cat/{n}.jpg",
    )  # fmt: skip
    assert classes(read(source)) == {"train": ["cat", "dog"], "test": [""]}


def test_lists_of_images_are_splits(tmp_path):
    source = tree(tmp_path / "s", "images/apple_pie/{n}.jpg", "images/sushi/{n}.jpg")
    (source / "meta").mkdir()
    (source / "meta/classes.txt").write_text("apple_pie\nsushi\n")
    (source / "meta/train.txt").write_text("apple_pie/0\napple_pie/1\nsushi/0\n")
    (source / "meta/test.txt").write_text("apple_pie/2\nsushi/1\nsushi/2\n")
    found = read(source)
    assert classes(found) == {"train": ["apple_pie", "sushi"], "test": ["apple_pie", "sushi"]}
    assert set(found["test"]) == {
        "images/apple_pie/2.jpg",
        "images/sushi/1.jpg",
        "images/sushi/2.jpg",
    }


def test_several_lists_for_each_split_are_asked_about(tmp_path):
    source = tree(tmp_path / "s", "images/banded/b_{n}.jpg", "images/dotted/d_{n}.jpg")
    (source / "labels").mkdir()
    for number in (1, 2):
        (source / f"labels/train{number}.txt").write_text("banded/b_0.jpg\ndotted/d_0.jpg\n")
        (source / f"labels/test{number}.txt").write_text("banded/b_1.jpg\ndotted/d_1.jpg\n")
    assert "--kind folder" in refusal(source)
    assert classes(read(source, kind="folder")) == {"train": ["banded", "dotted"]}


def test_a_table_beside_class_folders_that_says_otherwise_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "a/x{n}.jpg", "b/y{n}.jpg")
    rows = [f"{stem}{n},{'cat' if n % 2 else 'dog'}" for stem in "xy" for n in range(3)]
    (source / "labels.csv").write_text("\n".join(["id,label", *rows]))
    assert "--label-col" in refusal(source)


def test_a_table_without_labels_beside_class_folders_is_left_alone(tmp_path):
    source = tree(tmp_path / "s", "a/x{n}.jpg", "b/y{n}.jpg")
    rows = [f"{stem}{n}.jpg,{stem}{n},0.{n}" for stem in "xy" for n in range(3)]
    (source / "sizes.csv").write_text("\n".join(["file,hash,score", *rows]))
    assert classes(read(source)) == {"train": ["a", "b"]}


def test_a_table_beside_class_folders_that_may_hold_labels_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "patient1/x{n}.jpg", "patient2/y{n}.jpg")
    rows = [f"{stem}{n}.jpg,{n % 2},{n}" for stem in "xy" for n in range(3)]
    (source / "findings.csv").write_text("\n".join(["file,tumour,stage", *rows]))
    assert "--class-depth 1" in refusal(source)
    assert classes(read(source, class_depth=1)) == {"train": ["patient1", "patient2"]}
    found = read(source, table="findings.csv", label_col="tumour")
    assert classes(found) == {"train": ["0", "1"]}
