"""Folders and tables of images are read right or refused: imgrec asks where it cannot know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from downloads import photo

import imgrec
from imgrec.errors import ImgrecError

pytestmark = pytest.mark.usefixtures("asking")

Splits = dict[str, dict[str, str]]


def tree(root: Path, *paths: str, **texts: str) -> Path:
    """Write pictures: `{n}` in a path means 0, 1 and 2, and a path that ends in / holds `{n}.jpg`.

    Texts are files, such as tables.
    """
    for path in paths:
        path += "{n}.jpg" * path.endswith("/")
        for number in range(3) if "{n}" in path else (0,):
            file = root / path.replace("{n}", str(number))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(photo(str(file.relative_to(root))))
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def table(header: str, *rows: str) -> str:
    """A table; `{n}` in a row means 0, 1 and 2."""
    lines = [row.replace("{n}", n) for row in rows for n in ("012" if "{n}" in row else "0")]
    return "\n".join([header, *lines, ""])


def read(source: Path, **options: object) -> Splits:
    """Plan, and return the class of each file by split."""
    plan = imgrec.plan(source, imgrec.PackOptions(name="d", source=imgrec.SourceOptions(**options)))
    found: Splits = {}
    for task in plan.tasks:
        for filename, label in zip(task.samples.filenames, task.samples.labels, strict=True):
            name = plan.classes[label] if label >= 0 else ""
            found.setdefault(task.split, {})[filename] = name
    return found


def refusal(source: Path, **options: object) -> str:
    with pytest.raises(ImgrecError) as error:
        read(source, **options)
    return f"{error.value}; {error.value.hint}"


def classes(found: Splits) -> dict[str, str]:
    return {split: " ".join(sorted(set(files.values()))) for split, files in found.items()}


def warnings(source: Path, **options: object) -> str:
    source_options = imgrec.SourceOptions(**options)
    return "; ".join(imgrec.plan(source, imgrec.PackOptions(source=source_options)).warnings)


def cases(values: dict[str, Any]) -> Any:
    """Parametrize over the values of a dict, whose keys name the facts."""
    return pytest.mark.parametrize("case", values.values(), ids=values)


PETS = {"train": "cat dog"}
FOLDERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "a container is not a class": (["Images/cat/", "Images/dog/"], PETS),
    "samples beside the dataset": (["dataset/cat/", "dataset/dog/", "sample_images/"], PETS),
    "annotations and docs": (
        ["images/cat/", "images/dog/", "annotations/{n}.png", "docs/{n}.png"], PETS
    ),
    "splits in a folder": (
        ["dataset/train/cat/", "dataset/train/dog/", "dataset/val/cat/", "dataset/val/dog/",
         "dataset/test/cat/"],
        {"train": "cat dog", "val": "cat dog", "test": "cat"},
    ),
    "classes that begin like splits": (
        ["train_station/", "test tube/", "bus/"], {"train": "bus test tube train_station"}
    ),
    "words that begin like splits": (
        ["valley/", "trainers/", "testudo/"], {"train": "testudo trainers valley"}
    ),
    "a wrapping folder": (["flower_photos/cat/", "flower_photos/dog/"], PETS),
    "images in a class and below it": (["cat/", "cat/garden/", "cat/wild/", "dog/"], PETS),
    "digits": ([f"{digit}/" for digit in range(5)], {"train": "0 1 2 3 4"}),
    "samples beside splits": (
        ["train/cat/", "train/dog/", "test/", "sample/cat/"], {"train": "cat dog", "test": ""}
    ),
    "numbered parts": (["part_1/cat/", "part_1/dog/", "part_2/cat/"], PETS),
    "files without a suffix": (["cat/x{n}", "dog/x{n}"], PETS),
}  # fmt: skip


@cases(FOLDERS)
def test_folders_are_read(case: Any, tmp_path: Path) -> None:
    paths, expected = case
    assert classes(read(tree(tmp_path / "s", *paths))) == expected


@pytest.mark.parametrize(
    ("train", "test"),
    [("hoh_train", "hoh_test"), ("train_images", "test-jpg"), ("Training Set", "Test Set"),
     ("seg_train/seg_train", "seg_test/seg_test"), ("train/train", "test/test")],
)  # fmt: skip
def test_split_words_may_have_other_words_beside_them(
    train: str, test: str, tmp_path: Path
) -> None:
    source = tree(tmp_path / "s", f"{train}/cat/", f"{train}/dog/", f"{test}/cat/")
    assert classes(read(source)) == {"train": "cat dog", "test": "cat"}


ALPHABETS = [f"images/{name}/" for name in ("Greek/alpha", "Greek/beta", "Latin/a", "Latin/b")]
FRUIT = [
    f"dataset/train/{name}/"
    for name in ("Fruit/Apple/Golden", "Fruit/Apple/Red", "Fruit/Banana", "Nut/Hazel")
]
ASKED: dict[str, tuple[list[str], str, dict[str, Any], dict[str, str]]] = {
    "two containers": (
        ["images/", "photos/"], "--exclude", {"yes": True}, {"train": "images photos"}
    ),
    "split folders of images alone": (
        ["train_images/a{n}.jpg", "test_images/b{n}.jpg"], "--label-regex",
        {"label_regex": "^[ab]"}, {"train": "a", "test": "b"},
    ),
    "camera names": (
        ["train/IMG_{n}.jpg", "train/DSC_{n}.jpg", "test/1.jpg"], "--label-regex",
        {"label_regex": "^[A-Z]+"}, {"train": "DSC IMG", "test": ""},
    ),
    "hashed folders": (
        [f"{a}/{b}/{c}/{a}{b}{c}9.jpg" for a in "01" for b in "ab" for c in "7f"], "--manifest",
        {"class_depth": 1}, {"train": "0 1"},
    ),
    "a single class": (["roses/"], "--yes", {"yes": True}, {"train": "roses"}),
    "a single class in train": (
        ["train/roses/", "test/"], "only class", {"yes": True}, {"train": "roses", "test": ""}
    ),
    "one or two folders deep": (
        ALPHABETS, "--class-depth 2", {"class_depth": 1}, {"train": "Greek Latin"}
    ),
    "leaves at two depths": (
        FRUIT, "--class-depth leaf", {"class_depth": "leaf"},
        {"train": "Fruit/Apple/Golden Fruit/Apple/Red Fruit/Banana Nut/Hazel"},
    ),
    "masks in a folder": (
        ["sick/images/{n}.png", "sick/masks/{n}.png", "well/"], "--exclude '*/masks/*'",
        {"exclude": "*/masks/*"}, {"train": "sick well"},
    ),
    "masks whose names hold the class": (
        ["images/cat_{n}.jpg", "images/dog_{n}.jpg", "annotations/trimaps/cat_{n}.png"],
        "--label-regex", {"label_regex": "^[a-z]+", "exclude": "*/trimaps/*"}, PETS,
    ),
    "masks beside images": (
        ["sick/x{n}.png", "sick/x{n}_mask.png", "well/"], "--exclude '*mask*'",
        {"exclude": "*mask*"}, {"train": "sick well"},
    ),
    "images in val beside classes": (
        ["cat/", "dog/", "val/"], "--exclude 'val/*'", {"exclude": "val/*"}, PETS
    ),
    "images in test_1 beside classes": (
        ["cat/", "dog/", "test_1/"], "--yes", {"layout": "classes"}, {"train": "cat dog test_1"}
    ),
    "images and folders in valid beside classes": (
        ["cat/", "dog/", "valid/", "valid/cat/"], "--yes", {"class_depth": 1},
        {"train": "cat dog valid"},
    ),
    "images in val beside the classes of train": (
        ["train/cat/", "train/dog/", "train/val/", "test/cat/"], "--exclude 'train/val/*'",
        {"exclude": "train/val/*"}, {"train": "cat dog", "test": "cat"},
    ),
    "a class called train": (
        ["train/", "car/", "bus/"], "--yes", {"yes": True}, {"train": "bus car train"}
    ),
    "samples among classes": (
        ["cat/", "dog/", "samples/"], "--exclude 'samples/*'", {"exclude": "samples/*"}, PETS
    ),
    "a container among classes": (
        ["images/", "myntradataset/"], "--exclude 'images/*'", {"yes": True},
        {"train": "images myntradataset"},
    ),
    "patients": (
        ["patient_01/", "patient_02/"], "--label-regex", {"yes": True},
        {"train": "patient_01 patient_02"},
    ),
    "folders that hold splits": (
        ["casting_512x512/ok/", "casting_data/data/train/ok/", "casting_data/data/train/bad/",
         "casting_data/data/test/ok/"],
        "casting_data/data instead", {"yes": True}, {"train": "casting_512x512 casting_data"},
    ),
    "a copy of the classes among them": (
        ["cat/", "dog/", "pets/cat/", "pets/dog/"], "--exclude 'pets/*'", {"exclude": "pets/*"},
        PETS,
    ),
    "a copy of the splits among them": (
        ["x/train/cat/", "x/train/dog/", "x/test/cat/", "x/x/train/cat/", "x/x/train/dog/",
         "x/x/test/cat/"],
        "--exclude 'x/*'", {"exclude": "x/*"}, {"train": "cat dog", "test": "cat"},
    ),
    "the same folders in colour and in grey": (
        ["colour/cat/", "colour/dog/", "grey/cat/", "grey/dog/"], "--exclude 'grey/*'",
        {"exclude": "grey/*"}, PETS,
    ),
    "names that differ only in a split": (
        ["box_train/", "box_test/", "query/"], "box_test may be a split", {"yes": True},
        {"train": "box_test box_train query"},
    ),
    "classes spelled otherwise in test": (
        ["train/Cat/", "train/Dog/", "test/cat/", "test/dog/"], "--fold-case",
        {"fold_case": True, "map": {"Cat": "cat", "Dog": "dog"}},
        {"train": "cat dog", "test": "cat dog"},
    ),
    "splits with other classes": (
        ["train/left_cat/", "train/left_dog/", "test/cat/", "test/dog/"], "--map",
        {"map": [("left_cat", "cat"), ("left_dog", "dog")]},
        {"train": "cat dog", "test": "cat dog"},
    ),
}  # fmt: skip


@cases(ASKED)
def test_unclear_folders_are_asked_about_and_an_option_answers(case: Any, tmp_path: Path) -> None:
    paths, asked, options, expected = case
    source = tree(tmp_path / "s", *paths)
    assert asked in refusal(source)
    assert classes(read(source, **options)) == expected


def test_masks_are_not_packed_beside_images_whose_names_hold_the_class(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "images/cat_{n}.jpg", "images/dog_{n}.jpg", "trimaps/cat_{n}.png")
    assert "--exclude '*/trimaps/*'" in refusal(source, label_regex="^[a-z]+")


# Lists of the images of each split


def test_lists_of_images_are_splits(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "images/apple_pie/", "images/sushi/",
        **{"meta/classes.txt": "apple_pie\nsushi\n",
           "meta/train.txt": "apple_pie/0\napple_pie/1\nsushi/0\n",
           "meta/test.txt": "apple_pie/2\nsushi/1\nsushi/2\n"},
    )  # fmt: skip
    assert {split: sorted(files) for split, files in read(source).items()} == {
        "train": ["images/apple_pie/0.jpg", "images/apple_pie/1.jpg", "images/sushi/0.jpg"],
        "test": ["images/apple_pie/2.jpg", "images/sushi/1.jpg", "images/sushi/2.jpg"],
    }


def test_several_lists_for_each_split_are_asked_about(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "images/cat/b_{n}.jpg", "images/dog/d_{n}.jpg")
    for number in (1, 2):
        for at, split in enumerate(("train", "test")):
            text = f"cat/b_{at}.jpg\ndog/d_{at}.jpg\n"
            tree(source, **{f"labels/{split}{number}.txt": text})
    assert "--kind folder" in refusal(source)
    assert classes(read(source, kind="folder")) == PETS


def test_lists_give_splits_to_images_that_a_table_labels(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "images_001/a{n}.png", "images_002/b{n}.png",
        **{"labels.csv": table("image,label", "a{n}.png,{n}", "b{n}.png,{n}"),
           "train_val_list.txt": "a0.png\na1.png\na2.png\n",
           "test_list.txt": "b0.png\nb1.png\nb2.png\n"},
    )  # fmt: skip
    assert {split: len(files) for split, files in read(source).items()} == {"train": 3, "test": 3}
    (source / "test_list.txt").write_text("b0.png\nb1.png\n")
    assert "--split-col" in refusal(source)


# Tables

ONEHOT = [table("filename, cat, dog", *(f"{s}{n}.jpg, {n % 2}, {1 - n % 2}" for n in range(3)))
          for s in "ab"]  # fmt: skip
TABLES: dict[str, tuple[list[str], dict[str, str], dict[str, str]]] = {
    "test images with labels": (
        ["Train/0/a{n}.png", "Train/1/b{n}.png", "Test/{n}.png", "Meta/0.png"],
        {"Train.csv": table("Path,ClassId", "Train/0/a{n}.png,0", "Train/1/b{n}.png,1"),
         "Test.csv": table("Path,ClassId", "Test/0.png,1", "Test/1.png,0", "Test/2.png,1"),
         "Meta.csv": table("Path,ClassId", "Meta/0.png,0")},
        {"train": "0 1", "test": "0 1"},
    ),
    "the sample's column wins over folders": (
        ["train_images/1/a{n}.jpg", "train_images/2/b{n}.jpg", "test_images/"],
        {"train.csv": table("image,chain,hotel_id", "a{n}.jpg,1,{n}", "b{n}.jpg,2,{n}"),
         "sample_submission.csv": table("image,hotel_id", "{n}.jpg,7")},
        {"train": "0 1 2", "test": ""},
    ),
    "no header": (["images/a{n}.jpg"], {"labels.csv": "a0,cat\na1,dog\na2,cat\n"}, PETS),
    "exactly one 1, by split": (
        ["train/a{n}.jpg", "valid/b{n}.jpg"],
        {"train/_classes.csv": ONEHOT[0], "valid/_classes.csv": ONEHOT[1]},
        {"train": "cat dog", "val": "cat dog"},
    ),
    "tables by split that agree with folders": (
        ["cat/f{n}.jpg", "dog/s{n}.jpg"],
        {f"{split}.csv": table(",Filename,Label,ClassName", f"0,cat/f{n}.jpg,0,cat",
                               f"0,dog/s{n}.jpg,1,dog")
         for n, split in enumerate(("train", "validation", "test"))},
        {"train": "cat dog", "val": "cat dog", "test": "cat dog"},
    ),
    "a table without labels": (
        ["cat/x{n}.jpg", "dog/y{n}.jpg"],
        {"sizes.csv": table("file,hash,score", "x{n}.jpg,x{n},0.{n}", "y{n}.jpg,y{n},0.{n}")}, PETS,
    ),
    "a column of splits by its cells": (
        ["images/a{n}.jpg"],
        {"labels.csv": table("id,label,part", "a0,cat,train", "a1,dog,valid", "a2,dog,train")},
        {"train": "cat dog", "val": "dog"},
    ),
    "paths that begin above the source": (
        ["v1/train/a{n}.jpg", "v1/valid/b{n}.jpg"],
        {"v1/train.csv": table("Path,target", "v1/train/a{n}.jpg,{n}"),
         "v1/valid.csv": table("Path,target", "v1/valid/b{n}.jpg,{n}")},
        {"train": "0 1 2", "val": "0 1 2"},
    ),
    "words that split folders share": (
        ["ISIC_Training_Input/a{n}.jpg", "ISIC_Test_Input/b{n}.jpg"],
        {"GroundTruth.csv": table("image,MEL,NV", "a0,1,0", "a1,0,1", "a2,1,0")},
        {"train": "MEL NV", "test": ""},
    ),
    "labels with spaces that are folders": (
        [f"{split}/{name}/" for split in ("train", "test") for name in ("air hockey", "polo")],
        {"sports.csv": table("filepaths,labels,data set", *(
            f"{split}/{name}/{{n}}.jpg,{name},{split}"
            for split in ("train", "test") for name in ("air hockey", "polo")))},
        {"train": "air hockey polo", "test": "air hockey polo"},
    ),
    "labels of val in a list": (
        ["train/cat/images/a{n}.jpg", "train/dog/images/b{n}.jpg", "val/images/v{n}.jpg",
         "test/images/t{n}.jpg"],
        {"val/val_annotations.txt": "v0.jpg\tdog\t0\t62\nv1.jpg\tcat\t0\t9\nv2.jpg\tdog\t3\t9\n"},
        {"train": "cat dog", "val": "cat dog", "test": ""},
    ),
    "labels of test in a table, without leading zeros": (
        ["train/00000/{n}.jpg", "train/00001/{n}.jpg", "test/images/{n}.jpg"],
        {"GT-test.csv": "Filename;X;ClassId\n0.jpg;0;1\n1.jpg;1;0\n2.jpg;0;1\n"},
        {"train": "00000 00001", "test": "00000 00001"},
    ),
    "paths in a bucket, splits, and no header": (
        ["flowers/cat/{n}.jpg", "flowers/dog/{n}.jpg"],
        {"import.csv": "".join(
            f"{split},gs://bucket/flowers/{name}/{n}.jpg,{name}\n" for name in ("cat", "dog")
            for n, split in enumerate(("TRAINING", "VALIDATION", "TEST")))},
        {"train": "cat dog", "val": "cat dog", "test": "cat dog"},
    ),
    "folders of another machine": (
        ["images/a{n}.jpg"],
        {"labels.csv": table("image,label", "/data/up%20load/1/a0.jpg,cat", r"C:\my\a1.jpg,dog",
                             "s3://bucket/a2.jpg,cat")},
        PETS,
    ),
    "names written as in URLs": (
        ["images/big cat {n}.jpg"], {"labels.csv": table("image,label", "big%20cat%20{n}.jpg,{n}")},
        {"train": "0 1 2"},
    ),
    "a table of the images of each label is not one of names": (
        ["images/a{n}.jpg", "images/b{n}.jpg"],
        {"train.csv": table("id,landmark_id", "a{n},7", "b{n},30"),
         "clean.csv": "landmark_id,images\n7,a0 a1 a2\n30,b0 b1 b2\n"},
        {"train": "30 7"},
    ),
    "JSON lines called json": (
        ["photos/a{n}.jpg"],
        {"photos.json": "".join(
            json.dumps({"photo_id": f"a{n}", "label": ["cat", "dog", "cat"][n]}) + "\n"
            for n in range(3))},
        PETS,
    ),
    "lists whose labels have blanks": (
        ["images/a{n}.jpg"],
        {"labels.csv": table("image,Finding Labels", "a0,No Finding", "a1,Mass",
                             "a2,Mass|No Finding")},
        {"train": "Mass No Finding"},
    ),
    "a JSON list of objects": (
        ["images/a{n}.jpg"],
        {"project-1.json": json.dumps([
            {"image": f"/data/upload/1/a{n}.jpg", "choice": "cat" if n else "dog", "class": n % 2}
            for n in range(3)])},
        {"train": "0 1"},
    ),
    "several tables of test images": (
        ["images/a{n}.jpg", "images/b{n}.jpg", "images/t{n}.jpg"],
        {"train.csv": table("id,label", "a{n},a", "b{n},b"), "test_1.csv": "id\nt0\nt1\n",
         "test_2.csv": "id\nt1\nt2\n"},
        {"train": "a b", "test": ""},
    ),
}  # fmt: skip


@cases(TABLES)
def test_tables_are_read(case: Any, tmp_path: Path) -> None:
    paths, texts, expected = case
    source = tree(tmp_path / "s", *paths, **texts)
    found = read(source)
    assert classes(found) == expected
    assert sum(map(len, found.values())) == sum(3 if path.endswith("/") or "{n}" in path else 0
                                                for path in paths)  # fmt: skip
    # Splits that two sources agree on are not dropped with --yes.
    assert read(source, yes=True) == found


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "amounts": (
        {"train.csv": table("Id,Eyes,Score", "a0,1,63", "a1,1,42", "a2,0,63"),
         "sample_submission.csv": table("Id,Score", "b0,33.1", "b1,40.2", "b2,12.9")},
        "not a classification task",
    ),
    "boxes": (
        {"labels.csv": table("id,label", "a0,n1 1 2 3 4", "a1,n2 1 2 3 4", "a2,n1 5 6 7 8")},
        "as of a box",
    ),
    "other words for splits": (
        {"labels.csv": table("id,label,split", "a0,cat,train", "a1,dog,id_val", "a2,cat,test")},
        "id_val",
    ),
    "two tables": (
        {"by_kind.csv": table("id,label", "a0,cat", "a1,dog", "a2,cat"),
         "by_colour.csv": table("id,label", "a0,red", "a1,red", "a2,blue")},
        "--manifest by_colour.csv",
    ),
    "the table that names most images": (
        {"boxes.csv": table("id,box", "a0,1"), "labels.csv": table("id,label", "a{n},{n}")},
        "--manifest labels.csv",
    ),
    "tables by split beside another": (
        {"x_train.csv": table("id,label", "a{n},{n}"), "x_test.csv": table("id,label", "b{n},{n}"),
         "groups.csv": table("id,group", "a{n},{n}")},
        "--exclude groups.csv",
    ),
    "links": ({"images.csv": table("id,link", "a{n},https://x/{n}")}, "holds URLs"),
    "labels in a format that is not read": ({"labels.xlsx": "PK"}, "does not read labels.xlsx"),
    "pixels beside pictures": (
        {"digits.csv": "label," + ",".join(f"pixel{n}" for n in range(64)) + "\n1" + ",0" * 64},
        "the pixels in digits.csv",
    ),
    "a list with labels": ({"labels.lst": "a0.jpg 1\na1.jpg 2\nb0.jpg 1\n"},
                           "--manifest labels.lst"),
    "one-hot columns have names": (
        {"t.csv": table("id,x,y", "a0,1,0", "a1,1,1", "a2,0,1"),
         "sample_submission.csv": table("id,x,y", "b0,0,0")},
        "",
    ),
}  # fmt: skip


@cases(REFUSED)
def test_unclear_tables_are_refused(case: Any, tmp_path: Path) -> None:
    texts, asked = case
    source = tree(tmp_path / "s", "train/a{n}.jpg", "test/b{n}.jpg", **texts)
    options = {} if asked else {"label_names": ("no", "yes")}
    assert (asked or "--onehot and --label-names do not go together") in refusal(source, **options)


def test_a_table_that_contradicts_class_folders_is_asked_about(tmp_path: Path) -> None:
    rows = table("id,label", "x0,cat", "x1,dog", "x2,cat", "y0,dog", "y1,cat", "y2,dog")
    source = tree(tmp_path / "s", "a/x{n}.jpg", "b/y{n}.jpg", **{"labels.csv": rows})
    assert "--label-col" in refusal(source)


def test_a_table_whose_ids_name_copies_does_not_agree_with_the_folders(tmp_path: Path) -> None:
    rows = table("image_id,dx", "a{n},nv", "b{n},df")
    paths = [f"{top}_{x}/{x}{{n}}.jpg" for top in ("ham", "twin") for x in "ab"]
    source = tree(tmp_path / "s", *paths, **{"meta.csv": rows})
    assert "--label-col dx" in refusal(source)
    assert "--exclude 'twin_a/*'" in refusal(source, label_col="dx")
    found = read(source, label_col="dx", exclude="twin_*")
    assert classes(found) == {"train": "df nv"}


@pytest.mark.parametrize(
    "lists",
    [
        {"val/a.txt": "v0 cat\nv1 cat\n"},
        {"val/a.txt": "v0 cat\nv1 cat\nv2 cow\n"},
        {"val/a.txt": "v0 cat\nv1 cat\nv2 dog\n", "val/b.txt": "v0 cat\nv1 cat\nv2 cat\n"},
    ],
    ids=["not all", "not a class", "two lists differ"],
)
def test_a_list_that_leaves_labels_of_val_open_is_asked_about(lists: Any, tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "train/cat/", "train/dog/", "val/v{n}.jpg", **lists)
    assert "--exclude 'val/*'" in refusal(source)


def test_images_in_class_folders_of_a_test_set_are_not_taken_as_unlabelled(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "original/a{n}.jpg", "original/b{n}.jpg", "fold/train/c/",
        "fold/test/big_cat/", "fold/test/dog/",
        **{"labels.csv": table("id,label", "a{n},Big Cat", "b{n},Dog")},
    )  # fmt: skip
    assert "--exclude 'fold/*'" in refusal(source)
    assert classes(read(source, exclude="fold/*")) == {"train": "Big Cat Dog"}


def test_a_table_beside_class_folders_that_may_hold_labels_is_asked_about(tmp_path: Path) -> None:
    rows = [f"{stem}{n}.jpg,{n % 2},{n}" for stem in "xy" for n in range(3)]
    text = table("file,tumour,stage", *rows)
    source = tree(tmp_path / "s", "berlin/x{n}.jpg", "paris/y{n}.jpg", **{"findings.csv": text})
    assert "--class-depth 1" in refusal(source)
    assert classes(read(source, class_depth=1)) == {"train": "berlin paris"}
    found = read(source, manifest="findings.csv", label_col="tumour")
    assert classes(found) == {"train": "0 1"}


def test_a_column_of_splits_can_be_named_or_left(tmp_path: Path) -> None:
    rows = ["a0,cat,train,test", "a1,dog,valid,train", "a2,cat,train,train"]
    text = table("id,label,train-valid,other", *rows)
    source = tree(tmp_path / "s", "images/a{n}.jpg", **{"labels.csv": text})
    assert set(read(source)) == {"train"}  # two columns may be meant
    assert set(read(source, split_col="train-valid")) == {"train", "val"}
    assert set(read(source, split_col="none")) == {"train"}
    assert "no such column" in refusal(source, split_col="nowhere")


def test_one_of_several_tables_can_be_named(tmp_path: Path, cli: Any) -> None:
    source = tree(tmp_path / "s", "jpegs/a{n}.jpg", **REFUSED["two tables"][0])
    assert classes(read(source, manifest="by_kind.csv")) == PETS
    done = cli("plan", source, "--manifest", "by_colour.csv", "--json", asking=True)
    assert json.loads(done.stdout)["classes"] == ["blue", "red"]
    assert "it has by_colour.csv, by_kind.csv" in refusal(source, manifest="by_size.csv")


def test_a_list_of_labels_can_be_named(tmp_path: Path) -> None:
    text = "p1 a0.jpg cat\np1 a1.jpg dog\np2 a2.jpg cat\n"
    source = tree(tmp_path / "s", "images/a{n}.jpg", **{"train.txt": text})
    found = read(source, manifest="train.txt", path_col="column_2", label_col="column_3")
    assert classes(found) == PETS


def test_rows_with_too_many_cells_are_bad_rows(tmp_path: Path) -> None:
    text = table("id,label,note", "a0,cat,x", "a1,dog,x, y", "a2,dog,x")
    source = tree(tmp_path / "s", "images/a{n}.jpg", **{"labels.csv": text})
    plan = imgrec.plan(source)
    assert [file.reason for file in plan.bad] == ["labels.csv:3: 4 cells instead of 3"]


def test_cells_may_be_lists_in_brackets(tmp_path: Path) -> None:
    text = table("id,label", "a0,['cat']", "a1,\"['cat', 'dog']\"", "a2,['dog']")
    source = tree(tmp_path / "s", "images/a{n}.jpg", **{"labels.csv": text})
    assert imgrec.plan(source).classes == ("cat", "dog")


def test_a_table_may_have_neither_splits_nor_lists(tmp_path: Path) -> None:
    rows = ["a0.jpg,wild dog,Casual", "a1.jpg,dog,Sport", "a2.jpg,wild dog,Sport"]
    source = tree(tmp_path / "s", "a{n}.jpg", **{"labels.csv": table("image,label,usage", *rows)})
    manifest = source / "labels.csv"
    assert "not splits" in refusal(manifest, label_sep="none")
    found = read(manifest, split_col="none", label_sep="none")
    assert classes(found) == {"train": "dog wild dog"}


def test_ids_of_a_manifest_become_names_by_a_template(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "a{n}_green.jpg", "b{n}_green.jpg", "a{n}_red.jpg",
        **{"labels.csv": table("id,label", "a{n},a", "b{n},b")},
    )  # fmt: skip
    found = read(source / "labels.csv", image_template="{id}_green.jpg")
    assert found == {"train": {f"{a}{n}_green.jpg": a for a in "ab" for n in range(3)}}
    assert "one table" in refusal(source / "*.csv", image_template="{id}_green.jpg")
    with pytest.raises(ImgrecError, match=r"has no \{id\}"):
        imgrec.SourceOptions(image_template="green.jpg")


# Images to predict


@pytest.mark.parametrize("form", ["inside", "outside", "absolute", "zip"])
def test_a_folder_of_test_images_can_be_named(form: str, tmp_path: Path) -> None:
    top = tree(tmp_path / "s", "train/cat/", "train/dog/", "more/z{n}.jpg")
    source, given = top, "more"
    if form == "outside":
        source, given = top / "train", str(top / "more")
    elif form == "absolute":
        given = str(top / "more")
    elif form == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "s"), "zip", top))
    found = read(source, test_images=given)
    assert classes(found) == {"train": "cat dog", "test": ""}
    assert sorted(found["test"]) == ["more/z0.jpg", "more/z1.jpg", "more/z2.jpg"]
    assert "neither a folder of images nor a table" in refusal(source, test_images="nowhere")


@pytest.mark.parametrize("form", ["folder", "table"])
def test_a_table_of_test_images_can_be_named(form: str, tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "jpegs/a{n}.jpg", "jpegs/b{n}.jpg",
        **{"labels.csv": table("id,label", "a0,cat", "a1,dog", "a2,cat"),
           "wanted.csv": table("id,size", "b{n},1")},
    )  # fmt: skip
    if form == "folder":
        found = read(source, test_images="wanted.csv")
    else:
        wanted = str(source / "wanted.csv")
        found = read(source / "labels.csv", images=str(source / "jpegs"), test_images=wanted)
    assert classes(found) == {"train": "cat dog", "test": ""}


def test_test_images_are_taken_although_the_sample_names_other_ids(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "train/a{n}.jpg", "test/b{n}.jpg",
        **{"train.csv": table("id,image,label", "7,a0.jpg,x", "8,a1.jpg,y", "9,a2.jpg,x"),
           "sample_submission.csv": table("id,label", "t{n},x")},
    )  # fmt: skip
    assert len(read(source, test_images="test", label_col="label")["test"]) == 3


INTEL = [
    "seg_train/seg_train/cat/", "seg_train/seg_train/dog/", "seg_test/seg_test/cat/",
    "seg_test/seg_test/dog/", "seg_pred/seg_pred/",
]  # fmt: skip


def test_images_without_labels_never_join_a_test_split_with_labels(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", *INTEL)
    asked = refusal(source, test_images="seg_pred")
    assert "seg_pred/ have no labels" in asked
    assert "but test has 6 images with labels" in asked
    assert "leave out --test-images, or leave out those with labels with --exclude 'seg_" in asked
    found = read(source, test_images="seg_pred", exclude="seg_test/*")
    assert classes(found) == {"train": "cat dog", "test": ""}


def test_unlabelled_images_of_a_sample_never_join_a_test_split_with_labels(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg", "images/c{n}.jpg",
        **{"labels.csv": table("id,label,split", "a{n},{n},train", "b{n},{n},test"),
           "sample_submission.csv": table("id,label", "c{n},0")},
    )  # fmt: skip
    asked = refusal(source)
    assert "the images of sample_submission.csv have no labels" in asked
    found = read(source, exclude="sample_submission.csv")
    assert classes(found) == {"train": "0 1 2", "test": "0 1 2"}


# Warnings


DRIVERS = {
    "drivers.csv": table(
        "subject,classname,img", *(f"p{{n}},c{c},img_{c}{{n}}.jpg" for c in range(2))
    )
}


def test_a_table_that_agrees_with_the_folders_is_named_with_its_groups(tmp_path: Path) -> None:
    paths = [f"imgs/train/c{c}/img_{c}{{n}}.jpg" for c in range(2)]
    source = tree(tmp_path / "s", *paths, "imgs/test/t{n}.jpg", **DRIVERS)
    assert warnings(source) == (
        "drivers.csv is not used: its labels are those of the folders; --group-col subject would "
        "keep images of one subject in one split"
    )
    assert classes(read(source, group_col="subject")) == {"train": "c0 c1", "test": ""}


@pytest.mark.parametrize("paths", [["cat/", "dog/", "val/"], ["roses/"]])
def test_a_glob_without_a_match_is_named_beside_a_refusal(paths: list[str], tmp_path: Path) -> None:
    source = tree(tmp_path / "s", *paths)
    first = min(path.relative_to(source).as_posix() for path in source.rglob("*.jpg"))
    asked = refusal(source, exclude="s/val/*")
    assert f"; --exclude s/val/* matches no file: paths are such as {first}" in asked
    assert "matches no file" not in refusal(source, exclude=first)


def test_files_that_name_labels_or_splits_are_not_counted_as_ignored(tmp_path: Path) -> None:
    source = tree(
        tmp_path / "s", "images/a{n}.jpg",
        **{"train.csv": table("id,label", "a0,0", "a1,1", "a2,1"),
           "names.json": json.dumps({"0": "cat", "1": "dog"}), "notes.md": "x"},
    )  # fmt: skip
    plan = imgrec.plan(source)
    assert plan.classes == ("cat", "dog")
    assert [(kind.kind, kind.examples) for kind in plan.ignored] == [
        ("not an image", ("notes.md",))
    ]


def test_a_folder_of_unlabelled_images_is_offered_as_test_images(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", *INTEL)
    assert "pass --test-images seg_pred --exclude 'seg_test/seg_test/*'; if all" in warnings(source)
    shutil.rmtree(source / "seg_test")
    assert "pass --test-images seg_pred; if all are classes" in warnings(source)


def test_an_excluded_folder_counts_as_matched(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "train/a/", "train/b/", "more/c/")
    assert "matches no file" not in warnings(source, exclude="more/*")


def test_the_number_of_a_class_is_not_offered_as_a_group(tmp_path: Path) -> None:
    text = table("image,label,class id,patient id", "a{n},a,0,{n}", "b{n},b,1,{n}")
    source = tree(tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg", **{"labels.csv": text})
    offered = warnings(source, label_col="label")
    assert "--group-col 'patient id'" in offered
    assert "class id" not in offered


def test_tables_are_read_in_the_encoding_that_is_named(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg")
    text = table("id,label", "a{n},猫", "b{n},犬")
    (source / "labels.csv").write_bytes(text.encode("shift_jis"))
    assert classes(read(source, encoding="shift_jis")) == {"train": "犬 猫"}


MANY = ",".join(f"c{number}" for number in range(20_000))
UNREAD = {
    "no images": ({"m.csv": "site,scanner\nx,p\n"}, "m.csv is not used: none of its columns names"),
    "the 61st": (
        {f"{number:02}.csv": "x,y\n1,2\n" for number in range(62)},
        "60.csv was not read: it is one of 2 beyond the first 60",
    ),
    "many columns": (
        {"t.csv": f"{MANY}\n{MANY}\n"}, "t.csv was not read: it has more than 10,000 columns"
    ),
    "many values": (
        {"t.json": "[" + "0," * 10_000_001 + "0]"},
        "t.json was not read: it has more than 10,000,000 values",
    ),
    "a gibibyte": ({"t.csv": ""}, "t.csv was not read: it is larger than 1 GiB"),
}  # fmt: skip


@cases(UNREAD)
def test_files_that_are_not_used_are_named(case: Any, tmp_path: Path) -> None:
    texts, message = case
    source = tree(tmp_path / "s", "cat/", "dog/", **texts)
    if "GiB" in message:
        with open(source / "t.csv", "wb") as file:
            file.truncate((1 << 30) + 1)
    assert message in warnings(source)


def test_a_refusal_names_what_was_not_read(tmp_path: Path) -> None:
    source = tree(tmp_path / "s", "images/", **{"labels.csv": f"{MANY}\n{MANY}\n"})
    assert "labels.csv was not read" in refusal(source)


@pytest.mark.parametrize(
    ("paths", "options", "classes"),
    [
        (("train/a/x/", "val/a/x/", "train/b/x/", "val/b/x/"), {"class_depth": 2}, {"a/x", "b/x"}),
        (("train/cat_{n}.jpg", "train/dog_{n}.jpg", "val/cat_{n}.jpg", "val/dog_{n}.jpg"),
         {"label_regex": "[a-z]+"}, {"cat", "dog"}),
    ],
)  # fmt: skip
def test_layout_splits_goes_with_the_options_that_name_the_class(
    tmp_path: Path, paths: tuple[str, ...], options: dict[str, object], classes: set[str]
) -> None:
    found = read(tree(tmp_path, *paths), layout="splits", **options)
    assert found.keys() == {"train", "val"}
    assert {name for files in found.values() for name in files.values()} == classes


def test_a_class_that_is_misspelled_in_one_split_is_asked_about(tmp_path: Path) -> None:
    root = tree(tmp_path, "train/cat/", "train/dog/", "valid/cat/", "valid/dgo/")
    assert "valid/dgo has no images in train, which has dog" in refusal(root)
    assert read(root, yes=True)["val"]["valid/dgo/0.jpg"] == "dgo"
    merged = read(root, map={"dgo": "dog"})
    assert merged["val"]["valid/dgo/0.jpg"] == "dog"


def test_many_classes_that_only_one_split_has_are_not_compared_one_by_one(tmp_path: Path) -> None:
    shared = [f"both_{n}/0.jpg" for n in range(120)]
    train = [f"train/{path}" for path in (*shared, *(f"old_{n}/0.jpg" for n in range(60)))]
    val = [f"val/{path}" for path in (*shared, *(f"odd_{n}/0.jpg" for n in range(60)))]
    assert len(set(read(tree(tmp_path, *train, *val))["val"].values())) == 180
