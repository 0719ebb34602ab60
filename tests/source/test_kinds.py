"""Every kind of source, packed as a user types it, and read by the real TFDS."""

from __future__ import annotations

import csv
import gzip
import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cifar_files import python_files
from conftest import Cli
from pictures import class_tree, encode, jpeg, picture, write_tree
from trees import tarred, zipped

from imgrec.layout import legal_name


def packed(cli: Cli, *arguments: str | Path) -> Any:
    done = cli("pack", *arguments, "--json", "--workers", "2")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def shards(outcome: Any) -> dict[str, bytes]:
    folder = Path(outcome["path"])
    return {path.name: path.read_bytes() for path in folder.glob("*.tfrecord-*")}


def labels_in_tfds(outcome: Any, split: str) -> list[int]:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(outcome["path"])
    data = builder.as_dataset(split=split, as_supervised=True)
    return [int(label) for _, label in tfds.as_numpy(data)]


def examples_of(outcome: Any) -> dict[str, int]:
    return {name: split["examples"] for name, split in outcome["splits"].items()}


def make_nested(tree: Path, target: Path) -> None:
    inner = zipped(target.with_name("flowers_inner.zip"), files(tree))
    zipped(target, {"flowers.zip": inner.read_bytes()})


def make_manifest(tree: Path, target: Path) -> None:
    with open(target, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image_id", "species"])
        rows.writerows([name, name.split("/")[0]] for name in files(tree))


SAME: dict[str, Callable[[Path, Path], object]] = {
    "flowers.zip": lambda tree, target: zipped(target, files(tree)),
    "flowers.tar": lambda tree, target: tarred(target, files(tree)),
    "flowers.tgz": lambda tree, target: target.write_bytes(
        gzip.compress(tarred(target.with_suffix(".tar"), files(tree)).read_bytes())
    ),
    "flowers.nested.zip": make_nested,
    "labels.csv": make_manifest,
}


@pytest.mark.parametrize("name", SAME)
def test_an_archive_or_a_manifest_packs_to_the_same_bytes_as_its_folder(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    tree = class_tree(tmp_path / "flowers", {"rose": 6, "tulip": 6})
    SAME[name](tree, tmp_path / name)
    is_table = name.endswith("csv")
    options = ("--val-split", "0.2", "--name", "flowers")
    folder = packed(cli, tree, *options, "--data-dir", tmp_path / "a")
    more = ("--images", tree) if is_table else ()
    same = packed(cli, tmp_path / name, *more, *options, "--data-dir", tmp_path / "b")
    assert shards(same) == shards(folder)
    assert same["fingerprint"] == folder["fingerprint"]
    table = "CSV manifest: image_id -> image, species -> label"
    assert same["layout"] == (table if is_table else "archive of <class>/**/image")


@pytest.mark.parametrize("way", ["--images", "source"])
def test_a_manifest_may_be_an_option_and_its_images_an_archive(
    cli: Cli, tmp_path: Path, way: str
) -> None:
    tree = class_tree(tmp_path / "pictures", {"rose": 3, "tulip": 3})
    make_manifest(tree, tmp_path / "labels.csv")
    images = zipped(tmp_path / "pictures.zip", files(tree))
    arguments = ("--images", images) if way == "--images" else (images,)
    outcome = packed(cli, "--manifest", tmp_path / "labels.csv", *arguments)
    assert outcome["classes"] == ["rose", "tulip"]
    assert outcome["splits"]["train"]["examples"] == 6
    assert outcome["name"] == legal_name(tmp_path.name)


def test_an_archive_names_the_dataset_and_is_refused_after_a_change(
    cli: Cli, tmp_path: Path
) -> None:
    tree = class_tree(tmp_path / "t", {"rose": 2, "tulip": 2})
    archive = zipped(tmp_path / "My Flowers.zip", files(tree))
    first = packed(cli, archive)
    assert (first["name"], first["already_packed"]) == ("my_flowers", False)
    assert packed(cli, archive)["already_packed"]
    class_tree(tree, {"rose": 3}, start=50)
    zipped(archive, files(tree))
    done = cli("pack", archive)
    assert done.returncode == 5
    assert "already holds another dataset" in done.stderr


def test_kaggle_archives_in_a_folder_are_splits_with_unlabelled_test(
    cli: Cli, tmp_path: Path
) -> None:
    tree = class_tree(tmp_path / "t", {"cat": 3, "dog": 3})
    (tmp_path / "pets").mkdir()
    zipped(tmp_path / "pets" / "train.zip", {f"train/{k}": v for k, v in files(tree).items()})
    zipped(tmp_path / "pets" / "test.zip", {f"test/{n}.jpg": jpeg(70 + n) for n in range(4)})
    outcome = packed(cli, tmp_path / "pets")
    assert outcome["classes"] == ["cat", "dog"]
    assert examples_of(outcome) == {"train": 6, "test": 4}
    assert labels_in_tfds(outcome, "test") == [-1] * 4
    assert sorted(labels_in_tfds(outcome, "train")) == [0, 0, 0, 1, 1, 1]


def test_cifar_is_packed_with_its_own_classes_and_splits(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "cifar-10-batches-py", python_files())
    subprocess.run(["tar", "czf", "c.tar.gz", "cifar-10-batches-py"], cwd=tmp_path, check=True)
    for source in ("cifar-10-batches-py", "c.tar.gz"):
        outcome = packed(cli, tmp_path / source)
        assert outcome["layout"].startswith("CIFAR-10")
        assert list(outcome["splits"]) == ["train", "test"]
        assert labels_in_tfds(outcome, "test")


IDX = {
    "mnist/train-images-idx3-ubyte.gz": gzip.compress(
        struct.pack(">4B3I", 0, 0, 8, 3, 4, 4, 4)
        + bytes(n + at for n in range(4) for at in range(16))
    ),
    "mnist/train-labels-idx1-ubyte": struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes([0, 1, 0, 1]),
}
FACES = "emotion,pixels,Usage\n" + "".join(
    f"{n % 2},{' '.join(str(n + at) for at in range(16))},Training\n" for n in range(4)
)


@pytest.mark.parametrize("source", ["mnist", "fer/fer2013.csv"])
def test_pixels_are_packed_unchanged(cli: Cli, tmp_path: Path, source: str) -> None:
    import tensorflow_datasets as tfds

    write_tree(tmp_path, {**IDX, "fer/fer2013.csv": FACES.encode()})
    outcome = packed(cli, tmp_path / source)
    data = tfds.builder_from_directory(outcome["path"]).as_dataset(split="train")
    found = {(int(row["label"]), row["image"].tobytes()) for row in tfds.as_numpy(data)}
    assert found == {(n % 2, bytes(n + at for at in range(16))) for n in range(4)}


def test_labels_in_file_names(cli: Cli, tmp_path: Path) -> None:
    pets = [f"train/{pet}.{n}.jpg" for pet in ("cat", "dog") for n in range(6)]
    tree = {name: jpeg(at) for at, name in enumerate(pets)}
    tree |= {f"test/{n}.jpg": jpeg(40 + n) for n in range(3)}
    write_tree(tmp_path / "pets", {**tree, "train/Thing.jpg": jpeg(99)})
    outcome = packed(cli, tmp_path / "pets", "--label-regex", r"^(?P<label>[a-z]+)\.\d+")
    assert outcome["classes"] == ["cat", "dog"]
    assert examples_of(outcome) == {"train": 12, "test": 3}
    assert outcome["skipped"] == [
        {"file": "train/Thing.jpg", "reason": "its name does not match --label-regex"}
    ]


@pytest.mark.parametrize(
    ("depth", "classes"),
    [
        ("1", ["Greek", "Latin"]),
        ("2", ["Greek/a", "Latin/a", "Latin/b"]),
        ("leaf", ["Greek/a", "Latin/a", "Latin/b/old"]),
    ],
)
def test_nested_classes_join_the_names_of_their_folders(
    cli: Cli, tmp_path: Path, depth: str, classes: list[str]
) -> None:
    tree = {"Greek/a/1.jpg": jpeg(1), "Latin/a/2.jpg": jpeg(2), "Latin/b/old/3.jpg": jpeg(3)}
    write_tree(tmp_path / "alphabets", tree)
    assert packed(cli, tmp_path / "alphabets", "--class-depth", depth)["classes"] == classes


def test_folds_load_as_splits(cli: Cli, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    class_tree(tmp_path / "flowers", {"rose": 9, "tulip": 9})
    outcome = packed(cli, tmp_path / "flowers", "--folds", "3")
    builder = tfds.builder_from_directory(outcome["path"])
    assert examples_of(outcome) == {"fold_0": 6, "fold_1": 6, "fold_2": 6}
    assert len(list(builder.as_dataset(split="fold_0+fold_2"))) == 12


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pack"], 2, "no source given"),
        (["pack", "notes.docx"], 3, "notes.docx is not a source that imgrec knows"),
        (["pack", "flowers", "--kind", "idx"], 3, "flowers has no files of the kind idx"),
        (["pack", "flowers", "--kind", "cifar"], 3, "flowers has no files of the kind cifar"),
        (["pack", "notes.docx", "--kind", "cifar"], 3, "is neither a folder nor an archive"),
        (["pack", "notes.docx", "--kind", "idx"], 3, "is neither a folder nor an archive"),
        (["pack", "flowers", "--group-by", "("], 2, "--group-by '(' is not a regular expression"),
        (["pack", "flowers", "--folds", "1"], 2, "--folds must be at least 2"),
        (["pack", "flowers", "--class-depth", "no"], 2, "--class-depth cannot be 'no'"),
        (["pack", "flowers", "--exclude", "*"], 4, "nothing is left to pack"),
        (["pack", "flowers", "--split-from", "no"], 5, "no dataset 'no'"),
        (["pack", "flowers", "--split-file", "no.csv"], 3, "--split-file no.csv is not a file"),
        (["pack", "cut.zip"], 3, "cut.zip"),
        (["pack", "text.zip"], 3, "text.zip has an archive extension but is not a valid archive"),
        (["pack", "empty.csv"], 3, "empty.csv is an empty file"),
        (["pack", "flowers", "--label-sep", ","], 2, "--label-sep needs a table of labels"),
        (["pack", "flowers", "--column", "age"], 2, "--column needs a table of labels"),
        (["pack", "flowers", "--column", "age:bool"], 2, "bool is not a column type"),
        (["pack", "flowers", "--label-names", "names"], 2, "--label-names needs a table of labels"),
        (["pack", "flowers", "--min-side", "99"], 4, "everything is smaller than --min-side 99"),
        (
            ["plan", "flowers", "--cifar100-labels", "coarse"],
            2,
            "--cifar100-labels cannot be used with flowers, which is not CIFAR-100",
        ),
    ],
)
def test_bad_input_gets_one_sentence_and_its_exit_code(
    cli: Cli, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})
    (tmp_path / "notes.docx").write_bytes(b"\xd0\xcf\x11\xe0 old")
    (tmp_path / "text.zip").write_text("hello")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "names").write_text("a\nb\n")
    whole = zipped(tmp_path / "whole.zip", {"a/1.jpg": jpeg(1)}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    done = cli(*arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "datasets").exists()


def test_a_folder_is_read_by_the_table_in_it(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "dogs", {"train/1.jpg": jpeg(1), "train/2.jpg": jpeg(2)})
    (tmp_path / "dogs" / "labels.csv").write_text("id,breed\n1,poodle\n2,boxer\n")
    done = cli("pack", "dogs")
    assert "layout      labels.csv: id -> image, breed -> label" in done.stdout
    assert "2 classes: boxer, poodle" in done.stdout


def test_a_plan_shows_kind_classes_splits_and_first_rows(cli: Cli, tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "t", {"rose": 4})
    write_tree(tree, {"rose/odd.gif": encode(picture(5), "GIF"), "rose/bad.jpg": b""})
    zipped(tmp_path / "flowers.zip", files(tree))
    shown = cli("plan", "flowers.zip", "--val-split", "0.25", "--max-bad", "0.5").stdout
    assert shown.splitlines()[:4] == [
        "flowers 1.0.0: 5 images to pack",
        "layout      archive of <class>/**/image",
        *shown.splitlines()[2:4],
    ]
    assert "1 x empty file: rose/bad.jpg" in shown
    assert "first rows  train  rose/" in shown
    assert "80.0%" in shown
    assert not (tmp_path / "datasets").exists()


def test_a_plan_says_that_pack_would_refuse(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 4})
    write_tree(tmp_path / "flowers", {"rose/bad.jpg": b"", "rose/worse.jpg": b""})
    done = cli("plan", "flowers")
    assert done.returncode == cli("pack", "flowers").returncode == 3
    assert "warning     pack would refuse this: 2 of 6 images are bad" in done.stdout


def test_a_refusal_of_bad_images_names_a_fraction_that_works(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 4})
    write_tree(tmp_path / "flowers", {f"rose/{n}.jpg": b"" for n in range(9)})
    hint = "hint: repair or delete them, or pass --max-bad 0.7 to pack the rest"
    assert hint in cli("pack", "flowers").stderr
    assert cli("pack", "flowers", "--max-bad", "0.7").returncode == 0
    (listed,) = (tmp_path / "datasets").rglob("skipped.csv")
    assert listed.read_text().count("empty file") == 9


def test_a_plan_tells_where_the_rest_of_a_list_will_be(cli: Cli, tmp_path: Path) -> None:
    copies = {f"rose/{n}{x}.jpg": jpeg(n) for n in range(5) for x in "ab"}
    write_tree(tmp_path / "flowers", copies)
    rest = "            … 2 more images: "
    assert rest + "pack lists all in report.json" in cli("plan", "flowers").stdout
    assert rest + "see report.json" in cli("pack", "flowers").stdout


def test_leaks_are_told_with_what_can_be_done_or_was(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers" / "train", {"rose": 3})
    write_tree(tmp_path / "flowers", {"test/rose/copy.jpg": jpeg(0)})
    told = "leaks       1 image in more than one split"
    left = cli("plan", "flowers").stdout
    assert f"{told}: --on-leak drop leaves out the copies\n" in left
    dropped = cli("pack", "flowers", "--on-leak", "drop").stdout
    assert f"{told} of the source, packed in one\n" in dropped


def test_bad_rows_are_shown_with_their_lines(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "dogs", {f"{number}.jpg": jpeg(number) for number in range(3)})
    (tmp_path / "dogs" / "a.csv").write_text("id,breed\n0,pug\n1,pug\n2,pug\n7,pug\n")
    shown = cli("pack", "dogs/a.csv", "--max-bad", "0.5").stdout
    assert "1 x no such image: 7 (a.csv:5)" in shown


def test_columns_may_be_named_by_number_beside_a_header(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "dogs", {f"{number}.jpg": jpeg(number) for number in range(3)})
    (tmp_path / "dogs" / "a.csv").write_text("id,doggo_kind\n0,pug\n1,pug\n2,boxer\n")
    outcome = packed(cli, "dogs/a.csv", "--path-col", "1", "--label-col", "2")
    assert outcome["classes"] == ["boxer", "pug"]


def test_rows_that_repeat_others_are_listed_and_refused_on_demand(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "dogs", {f"{number}.jpg": jpeg(number) for number in range(3)})
    (tmp_path / "dogs" / "a.csv").write_text("id,breed\n0,pug\n1,pug\n1,pug\n")
    done = cli("pack", "dogs/a.csv", "--on-bad", "fail")
    assert done.returncode == 3
    assert "1 rows repeat others: 1 x a duplicate row (such as 1.jpg)" in done.stderr
    outcome = packed(cli, "dogs/a.csv")
    assert outcome["skipped"] == [{"file": "1.jpg", "reason": "a.csv:4: a duplicate row"}]
    assert "1 other image has no row in a.csv, such as 2.jpg" in outcome["warnings"]


def test_a_classes_file_that_cannot_be_used_is_named(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2})
    (tmp_path / "names.txt").write_text("rose \n")
    assert cli("plan", "flowers", "--classes", "names.txt").stderr == (
        "imgrec: --classes names.txt cannot be used: line 1 begins or ends with a blank\n"
        "  hint: write one class name per line, each once, with no blanks around it\n"
    )
    assert cli("plan", "flowers", "--classes", "none.txt").stderr == (
        "imgrec: cannot read --classes none.txt: No such file or directory\n"
        "  hint: give a file with one class name per line\n"
    )
