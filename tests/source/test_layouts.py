"""Folders of images are read right or refused: containers are not classes."""

from __future__ import annotations

import json
import shutil
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
        for filename, label in zip(task.samples.filenames, task.samples.labels, strict=True):
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
    source = tree(tmp_path / "s", "berlin/x{n}.jpg", "paris/y{n}.jpg")
    rows = [f"{stem}{n}.jpg,{n % 2},{n}" for stem in "xy" for n in range(3)]
    (source / "findings.csv").write_text("\n".join(["file,tumour,stage", *rows]))
    assert "--class-depth 1" in refusal(source)
    assert classes(read(source, class_depth=1)) == {"train": ["berlin", "paris"]}
    found = read(source, manifest="findings.csv", label_col="tumour")
    assert classes(found) == {"train": ["0", "1"]}


def table(root: Path, name: str, header: str, *rows: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("\n".join([header, *rows, ""]))


def test_a_single_class_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "roses/{n}.jpg")
    assert "--yes" in refusal(source)
    assert classes(read(source, yes=True)) == {"train": ["roses"]}


def test_a_single_class_in_train_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "train/images/{n}.jpg", "train/roses/{n}.jpg", "test/{n}.jpg")
    assert classes(read(source, yes=True))["train"] == ["images", "roses"]
    source = tree(tmp_path / "t", "train/roses/{n}.jpg", "test/{n}.jpg")
    assert "only class" in refusal(source)


def test_classes_that_may_be_one_or_two_folders_deep_are_asked_about(tmp_path):
    names = ["Greek/alpha", "Greek/beta", "Latin/a", "Latin/b"]
    source = tree(tmp_path / "s", *(f"images/{name}/{{n}}.png" for name in names))
    assert "--class-depth 2" in refusal(source)
    assert classes(read(source, class_depth=1)) == {"train": ["Greek", "Latin"]}
    assert classes(read(source, class_depth=2)) == {"train": names}


def test_leaves_at_two_depths_are_asked_about(tmp_path):
    source = tree(
        tmp_path / "s", "dataset/train/Fruit/Apple/Golden/{n}.jpg",
        "dataset/train/Fruit/Apple/Red/{n}.jpg", "dataset/train/Fruit/Banana/{n}.jpg",
        "dataset/train/Nut/Hazel/{n}.jpg",
    )  # fmt: skip
    assert "--class-depth leaf" in refusal(source)
    assert classes(read(source, class_depth="leaf")) == {
        "train": ["Fruit/Apple/Golden", "Fruit/Apple/Red", "Fruit/Banana", "Nut/Hazel"]
    }


@pytest.mark.parametrize("mask", ["sick/masks/{n}.png", "sick/x{n}_mask.png"])
def test_masks_among_the_images_of_a_class_are_asked_about(mask, tmp_path):
    folder = "sick/images" if "masks" in mask else "sick"
    source = tree(tmp_path / "s", f"{folder}/x{{n}}.png", mask, "well/{n}.png")
    message = refusal(source)
    glob = message.partition("--exclude '")[2].partition("'")[0]
    assert len(read(source, exclude=glob)["train"]) == 6


def test_numbered_parts_are_one(tmp_path):
    source = tree(
        tmp_path / "s", "part_1/cat/{n}.jpg", "part_1/dog/{n}.jpg", "part_2/cat/{n}.jpg",
    )  # fmt: skip
    found = read(source)
    assert classes(found) == {"train": ["cat", "dog"]}
    assert len(found["train"]) == 9


def test_a_sample_folder_among_classes_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "cat/{n}.jpg", "dog/{n}.jpg", "samples/{n}.jpg")
    assert "--exclude 'samples/*'" in refusal(source)


def test_tables_that_label_the_test_images_too_are_taken(tmp_path):
    source = tree(
        tmp_path / "s", "Train/0/a{n}.png", "Train/1/b{n}.png", "Test/{n}.png", "Meta/0.png"
    )
    rows = [f"Train/{label}/{stem}{n}.png,{label}" for label, stem in ("0a", "1b") for n in "012"]
    table(source, "Train.csv", "Path,ClassId", *rows)
    table(source, "Test.csv", "Path,ClassId", "Test/0.png,1", "Test/1.png,0", "Test/2.png,1")
    table(source, "Meta.csv", "Path,ClassId", "Meta/0.png,0")
    found = read(source)
    assert classes(found) == {"train": ["0", "1"], "test": ["0", "1"]}
    assert found["test"]["Test/1.png"] == "0"


def test_the_column_that_the_sample_asks_for_wins_over_folders(tmp_path):
    source = tree(
        tmp_path / "s", "train_images/1/a{n}.jpg", "train_images/2/b{n}.jpg", "test_images/{n}.jpg"
    )
    rows = [f"{stem}{n}.jpg,{chain},{n % 2}" for stem, chain in ("a1", "b2") for n in range(3)]
    table(source, "train.csv", "image,chain,hotel_id", *rows)
    table(source, "sample_submission.csv", "image,hotel_id", "0.jpg,7", "1.jpg,7", "2.jpg,7")
    found = read(source)
    assert found["train"]["train_images/2/b1.jpg"] == "1"
    assert found["train"]["train_images/1/a0.jpg"] == "0"


def test_amounts_are_no_classes(tmp_path):
    source = tree(tmp_path / "s", "train/a{n}.jpg", "test/b{n}.jpg")
    table(source, "train.csv", "Id,Eyes,Score", "a0,1,63", "a1,1,42", "a2,0,63")
    table(source, "sample_submission.csv", "Id,Score", "b0,33.1", "b1,40.2", "b2,12.9")
    assert "not a classification task" in refusal(source)


def test_a_table_without_a_header_keeps_its_first_row(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    table(source, "labels.csv", "a0,cat", "a1,dog", "a2,cat")
    assert read(source)["train"]["images/a0.jpg"] == "cat"


def test_columns_with_exactly_one_1_are_the_classes_in_a_table_for_each_split(tmp_path):
    source = tree(tmp_path / "s", "train/a{n}.jpg", "valid/b{n}.jpg")
    for split, stem in (("train", "a"), ("valid", "b")):
        rows = [f"{stem}{n}.jpg, {n % 2}, {1 - n % 2}" for n in range(3)]
        table(source, f"{split}/_classes.csv", "filename, cat, dog", *rows)
    found = read(source)
    assert classes(found) == {"train": ["cat", "dog"], "val": ["cat", "dog"]}
    assert found["val"]["valid/b1.jpg"] == "cat"


def test_lists_give_splits_to_images_that_a_table_labels(tmp_path):
    source = tree(tmp_path / "s", "images_001/a{n}.png", "images_002/b{n}.png")
    rows = [f"{stem}{n}.png,{n % 2}" for stem in "ab" for n in range(3)]
    table(source, "labels.csv", "image,label", *rows)
    (source / "train_val_list.txt").write_text("a0.png\na1.png\na2.png\n")
    (source / "test_list.txt").write_text("b0.png\nb1.png\nb2.png\n")
    assert {split: len(files) for split, files in read(source).items()} == {"train": 3, "test": 3}
    (source / "test_list.txt").write_text("b0.png\nb1.png\n")
    assert "--split-col" in refusal(source)


@pytest.mark.parametrize("form", ["inside", "outside", "absolute", "zip"])
def test_a_folder_of_test_images_can_be_named(form, tmp_path):
    top = tree(tmp_path / "s", "train/cat/{n}.jpg", "train/dog/{n}.jpg", "more/z{n}.jpg")
    source, given = top, "more"
    if form == "outside":
        source, given = top / "train", str(top / "more")
    elif form == "absolute":
        given = str(top / "more")
    elif form == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "s"), "zip", top))
    found = read(source, test_images=given)
    assert classes(found) == {"train": ["cat", "dog"], "test": [""]}
    assert sorted(found["test"]) == ["more/z0.jpg", "more/z1.jpg", "more/z2.jpg"]


@pytest.mark.parametrize("form", ["folder", "table"])
def test_a_table_of_test_images_can_be_named(form, tmp_path):
    source = tree(tmp_path / "s", "jpegs/a{n}.jpg", "jpegs/b{n}.jpg")
    table(source, "labels.csv", "id,label", "a0,cat", "a1,dog", "a2,cat")
    table(source, "wanted.csv", "id,size", "b0,1", "b1,1", "b2,1")
    if form == "folder":
        found = read(source, test_images="wanted.csv")
    else:
        wanted = str(source / "wanted.csv")
        found = read(source / "labels.csv", images=str(source / "jpegs"), test_images=wanted)
    assert classes(found) == {"train": ["cat", "dog"], "test": [""]}


def test_test_images_that_are_not_there_are_one_sentence(tmp_path):
    source = tree(tmp_path / "s", "cat/{n}.jpg", "dog/{n}.jpg")
    assert "neither a folder of images nor a table" in refusal(source, test_images="nowhere")


def test_one_of_several_tables_can_be_named(tmp_path, cli):
    source = tree(tmp_path / "s", "jpegs/a{n}.jpg")
    table(source, "by_kind.csv", "id,label", "a0,cat", "a1,dog", "a2,cat")
    table(source, "by_colour.csv", "id,label", "a0,red", "a1,red", "a2,blue")
    assert "--manifest by_colour.csv" in refusal(source)
    assert classes(read(source, manifest="by_kind.csv")) == {"train": ["cat", "dog"]}
    done = cli("plan", source, "--manifest", "by_colour.csv", "--json", asking=True)
    assert json.loads(done.stdout)["classes"] == ["blue", "red"]
    assert "it has by_colour.csv, by_kind.csv" in refusal(source, manifest="by_size.csv")


def test_an_excluded_folder_counts_as_matched(tmp_path):
    source = tree(tmp_path / "s", "train/a/{n}.jpg", "train/b/{n}.jpg", "more/c/{n}.jpg")
    options = imgrec.SourceOptions(exclude="more/*")
    plan = imgrec.dry_run(source, imgrec.PackOptions(source=options))
    assert not any("matches no file" in warning for warning in plan.warnings)


def test_folders_of_patients_are_asked_about(tmp_path):
    source = tree(tmp_path / "s", "patient_01/{n}.jpg", "patient_02/{n}.jpg")
    assert "--label-regex" in refusal(source)
    assert classes(read(source, yes=True)) == {"train": ["patient_01", "patient_02"]}


def test_folders_that_hold_splits_are_no_classes(tmp_path):
    source = tree(
        tmp_path / "s", "casting_512x512/ok/{n}.jpg", "casting_data/data/train/ok/{n}.jpg",
        "casting_data/data/train/bad/{n}.jpg", "casting_data/data/test/ok/{n}.jpg",
    )  # fmt: skip
    assert "casting_data/data instead" in refusal(source)


def test_a_container_among_classes_is_asked_about(tmp_path):
    source = tree(tmp_path / "s", "images/{n}.jpg", "myntradataset/{n}.jpg")
    assert "--exclude 'images/*'" in refusal(source)


def test_tables_for_each_split_that_say_what_folders_say_give_the_splits(tmp_path):
    source = tree(tmp_path / "s", "Forest/f{n}.jpg", "SeaLake/s{n}.jpg")
    for at, split in enumerate(("train", "validation", "test")):
        rows = [f"{at},Forest/f{at}.jpg,0,Forest", f"{at},SeaLake/s{at}.jpg,1,SeaLake"]
        table(source, f"{split}.csv", ",Filename,Label,ClassName", *rows)
    found = read(source)
    assert classes(found) == {name: ["Forest", "SeaLake"] for name in ("train", "val", "test")}
    assert "SeaLake/s2.jpg" in found["test"]


def test_a_column_of_splits_is_found_by_its_cells_or_named_or_left(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    rows = ["a0,cat,train,test", "a1,dog,valid,train", "a2,cat,train,train"]
    table(source, "labels.csv", "id,label,train-valid,other", *rows)
    assert set(read(source)) == {"train"}  # two columns may be meant
    assert set(read(source, split_col="train-valid")) == {"train", "val"}
    assert set(read(source, split_col="none")) == {"train"}
    assert "no such column" in refusal(source, split_col="nowhere")
    table(source, "labels.csv", "id,label,part", "a0,cat,train", "a1,dog,valid", "a2,cat,train")
    assert set(read(source)) == {"train", "val"}
    table(source, "labels.csv", "id,label,split", "a0,cat,train", "a1,dog,id_val", "a2,cat,test")
    assert "id_val" in refusal(source)


def test_rows_with_too_many_cells_are_bad_rows(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    table(source, "labels.csv", "id,label,note", "a0,cat,x", "a1,dog,x, y", "a2,dog,x")
    plan = imgrec.dry_run(source)
    assert [file.reason for file in plan.bad] == ["labels.csv:3: 4 cells instead of 3"]


def test_cells_may_be_lists_in_brackets(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    table(source, "labels.csv", "id,label", "a0,['cat']", "a1,\"['cat', 'dog']\"", "a2,['dog']")
    plan = imgrec.dry_run(source)
    assert plan.classes == ("cat", "dog")


def test_paths_may_begin_above_the_source(tmp_path):
    source = tree(tmp_path / "s", "v1/train/a{n}.jpg", "v1/valid/b{n}.jpg")
    for split, stem in (("train", "a"), ("valid", "b")):
        rows = [f"v1/{split}/{stem}{n}.jpg,{n % 2}" for n in range(3)]
        table(source, f"v1/{split}.csv", "Path,target", *rows)
    assert classes(read(source)) == {"train": ["0", "1"], "val": ["0", "1"]}


def test_boxes_are_no_labels(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    table(source, "labels.csv", "id,label", "a0,n1 1 2 3 4", "a1,n2 1 2 3 4", "a2,n1 5 6 7 8")
    assert "as of a box" in refusal(source)


def test_tables_that_name_no_images_are_said_to_be_unused(tmp_path):
    source = tree(tmp_path / "s", "a/{n}.jpg", "b/{n}.jpg")
    table(source, "metadata.csv", "site,scanner", "x,p", "y,q")
    warnings = imgrec.dry_run(source).warnings
    assert any("metadata.csv is not used" in warning for warning in warnings)


def test_test_images_are_taken_although_the_sample_names_other_ids(tmp_path):
    source = tree(tmp_path / "s", "train/a{n}.jpg", "test/b{n}.jpg")
    table(source, "train.csv", "id,image,label", "7,a0.jpg,x", "8,a1.jpg,y", "9,a2.jpg,x")
    table(source, "sample_submission.csv", "id,label", "t1,x", "t2,x", "t3,x")
    assert len(read(source, test_images="test", label_col="label")["test"]) == 3


def test_splits_with_other_classes_are_asked_about(tmp_path):
    source = tree(
        tmp_path / "s", "train/adeno_left/{n}.jpg", "train/large_left/{n}.jpg",
        "test/adeno/{n}.jpg", "test/large/{n}.jpg",
    )  # fmt: skip
    assert "--map" in refusal(source)
    same = [("adeno_left", "adeno"), ("large_left", "large")]
    assert classes(read(source, map=same)) == {
        "train": ["adeno", "large"],
        "test": ["adeno", "large"],
    }


def test_words_that_folders_share_do_not_hide_splits_from_tables(tmp_path):
    source = tree(tmp_path / "s", "ISIC_Training_Input/a{n}.jpg", "ISIC_Test_Input/b{n}.jpg")
    table(source, "GroundTruth.csv", "image,MEL,NV", "a0,1,0", "a1,0,1", "a2,1,0")
    assert classes(read(source)) == {"train": ["MEL", "NV"], "test": [""]}


def test_a_list_of_labels_can_be_named(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg")
    (source / "train.txt").write_text("p1 a0.jpg cat\np1 a1.jpg dog\np2 a2.jpg cat\n")
    found = read(source, manifest="train.txt", path_col="column_2", label_col="column_3")
    assert classes(found) == {"train": ["cat", "dog"]}


def test_a_table_may_have_no_splits_and_no_lists(tmp_path):
    source = tree(tmp_path / "s", "a{n}.jpg")
    rows = ["a0.jpg,wild dog,Casual", "a1.jpg,dog,Sport", "a2.jpg,wild dog,Sport"]
    table(source, "labels.csv", "image,label,usage", *rows)
    manifest = source / "labels.csv"
    assert "not splits" in refusal(manifest, label_sep="none")
    found = read(manifest, split_col="none", label_sep="none")
    assert classes(found) == {"train": ["dog", "wild dog"]}


def test_labels_that_are_names_of_folders_may_have_blanks(tmp_path):
    names = ["air hockey", "baseball", "field hockey"]
    splits = ("train", "valid", "test")
    paths = [f"{split}/{name}/{{n}}.jpg" for split in splits for name in names]
    source = tree(tmp_path / "s", *paths)
    rows = [
        f"{path.replace('{n}', str(n))},{path.split('/')[1]},{path.split('/')[0]}"
        for path in paths
        for n in range(3)
    ]
    table(source, "sports.csv", "filepaths,labels,data set", *rows)
    assert classes(read(source)) == {"train": names, "val": names, "test": names}


def labelled(root: Path, *names: str) -> Path:
    """Class folders, three images each."""
    return tree(root, *(f"{name}/{{n}}.jpg" for name in names))


def warnings(source: Path, **options: object) -> str:
    source_options = imgrec.SourceOptions(**options)
    return "; ".join(imgrec.dry_run(source, imgrec.PackOptions(source=source_options)).warnings)


def test_the_tables_of_a_download_are_read_in_the_encoding_that_is_named(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg")
    rows = [f"{name}{n},{label}" for name, label in (("a", "猫"), ("b", "犬")) for n in range(3)]
    (source / "labels.csv").write_bytes("\n".join(["id,label", *rows]).encode("shift_jis"))
    assert classes(read(source, encoding="shift_jis")) == {"train": ["犬", "猫"]}


def test_tables_beyond_the_first_60_are_named_as_not_read(tmp_path):
    source = labelled(tmp_path / "s", "cat", "dog")
    for number in range(62):
        (source / f"{number:02}.csv").write_text("x,y\n1,2\n")
    assert "60.csv was not read: it is one of 2 beyond the first 60" in warnings(source)


def test_a_table_of_more_than_a_gibibyte_is_named_as_not_read(tmp_path):
    source = labelled(tmp_path / "s", "cat", "dog")
    with open(source / "labels.csv", "wb") as file:
        file.truncate((1 << 30) + 1)
    assert "labels.csv was not read: it is larger than 1 GiB" in warnings(source)


def test_a_table_of_very_many_columns_is_named_as_not_read(tmp_path):
    source = labelled(tmp_path / "s", "cat", "dog")
    cells = ",".join(f"c{number}" for number in range(20_000))
    (source / "labels.csv").write_text(f"{cells}\n{cells}\n")
    assert "labels.csv was not read: it has more than 10,000 columns" in warnings(source)


def test_json_of_very_many_values_is_named_as_not_read(tmp_path):
    source = labelled(tmp_path / "s", "cat", "dog")
    (source / "labels.json").write_text("[" + "0," * 10_000_001 + "0]")
    assert "labels.json was not read: it has more than 10,000,000 values" in warnings(source)


def test_a_refusal_names_what_was_not_read(tmp_path):
    source = tree(tmp_path / "s", "images/{n}.jpg")
    (source / "labels.json").write_text("[" + "0," * 10_000_001 + "0]")
    assert "labels.json was not read" in refusal(source)


def test_yes_keeps_the_splits_of_tables_that_agree_with_the_folders(tmp_path):
    source = tree(tmp_path / "s", "images/cat/c{n}.jpg", "images/dog/d{n}.jpg")
    for number, split in enumerate(("train", "validation", "test")):
        rows = f"path,label\ncat/c{number}.jpg,cat\ndog/d{number}.jpg,dog\n"
        (source / f"{split}.csv").write_text(rows)
    found = read(source, yes=True)
    assert found == read(source)
    assert classes(found) == {split: ["cat", "dog"] for split in ("train", "val", "test")}


def test_test_images_of_several_tables_are_all_taken(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg", "images/t{n}.jpg")
    rows = [f"{name}{n},{name}" for name in "ab" for n in range(3)]
    (source / "train.csv").write_text("\n".join(["id,label", *rows]))
    (source / "test_1.csv").write_text("id\nt0\nt1\n")
    (source / "test_2.csv").write_text("id\nt1\nt2\n")
    found = read(source)
    assert sorted(found["test"]) == ["images/t0.jpg", "images/t1.jpg", "images/t2.jpg"]
    assert len(found["train"]) == 6


def test_the_number_of_a_class_is_not_offered_as_a_group(tmp_path):
    source = tree(tmp_path / "s", "images/a{n}.jpg", "images/b{n}.jpg")
    rows = [f"{name}{n},{name},{number},{n}" for number, name in enumerate("ab") for n in range(3)]
    (source / "labels.csv").write_text("\n".join(["image,label,class id,patient id", *rows]))
    offered = warnings(source, label_col="label")
    assert "--group-col patient id" in offered
    assert "class id" not in offered


def test_ids_of_a_manifest_become_names_by_a_template(tmp_path):
    source = tree(tmp_path / "s", "a{n}_green.jpg", "b{n}_green.jpg", "a{n}_red.jpg")
    rows = [f"{name}{n},{name}" for name in "ab" for n in range(3)]
    (source / "labels.csv").write_text("\n".join(["id,label", *rows]))
    found = read(source / "labels.csv", image_template="{id}_green.jpg")
    assert found == {"train": {f"{a}{n}_green.jpg": a for a in "ab" for n in range(3)}}
    assert "one table" in refusal(source / "*.csv", image_template="{id}_green.jpg")


def test_a_template_needs_the_id(tmp_path):
    with pytest.raises(ImgrecError, match=r"has no \{id\}"):
        imgrec.SourceOptions(image_template="green.jpg")
