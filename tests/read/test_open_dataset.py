"""`imgrec.open_dataset`: a packed dataset as sequences of records."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
from imgrec.errors import DatasetError, DatasetNotFound, OutOfRange, UnknownName, UsageError
from imgrec.layout import shard_filename
from imgrec.options import ColumnKind, ColumnOption, PackOptions, SourceOptions
from imgrec.read.dataset import Dataset, Split
from imgrec.read.record import Record
from imgrec.text import printable

CLASSES = ("daisy", "rose", "天竺葵")
NOT_UTF8 = "train/rose/caf\udce9.png"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "flowers"
    class_tree(root / "train", dict.fromkeys(CLASSES, 8))
    class_tree(root / "val", dict.fromkeys(CLASSES, 3), start=100)
    extra = {
        "train/rose/grey.jpg": jpeg(200, mode="L"),
        "train/rose/alpha.png": png(201, mode="RGBA", size=(9, 7)),
        "train/daisy/old.gif": encode(picture(202, "P"), "GIF"),
        "test/unknown.png": png(203),
        NOT_UTF8: png(204),
        "train/rose/caf\\udce9.png": png(205),  # looks the same when it is printed
    }
    return write_tree(root, extra)


@pytest.fixture(scope="module")
def folder(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("datasets")
    packed = imgrec.pack(source, PackOptions(data_dir=str(data_dir), shards=4, workers=1))
    return Path(packed.info.path)


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return imgrec.open_dataset(folder)


@pytest.fixture
def train(dataset: Dataset) -> Split:
    return dataset["train"]


def names(records: Sequence[Record]) -> list[str]:
    return [record.filename for record in records]


# Records


def test_a_dataset_is_a_mapping_of_its_splits(dataset: Dataset) -> None:
    assert {name: len(split) for name, split in dataset.items()} == {
        "train": 29, "val": 9, "test": 1,
    }  # fmt: skip
    assert dataset.classes == CLASSES
    assert dataset.get("fold_0") is None
    specs = ("train", "val[:2]", "all", "trian", "train[", 3)
    assert [spec in dataset for spec in specs] == [True, True, True, False, False, False]


def test_every_record_is_a_file_of_the_source(source: Path, dataset: Dataset) -> None:
    for record in dataset["all"]:
        original = (source / record.filename).read_bytes()
        assert record.image == original or record.filename == "train/daisy/old.gif"
        split, _, name = record.filename.partition("/")
        assert record.class_name == (name.partition("/")[0] if split != "test" else "")
        assert record.numpy().shape == record.shape


def test_a_record_has_all_facts_about_its_image(source: Path, train: Split) -> None:
    record = train.find("train/rose/alpha.png")
    image = (source / "train/rose/alpha.png").read_bytes()
    assert record == Record(image, 1, (7, 9, 4), "train/rose/alpha.png", (1,), {}, CLASSES)
    assert (record.class_name, record.class_names) == ("rose", ("rose",))
    assert repr(record) == (
        f"<Record 'train/rose/alpha.png': shape (7, 9, 4), {len(image)} bytes, label 1 (rose)>"
    )
    grey = train.find("train/rose/grey.jpg").pil()
    assert (grey.mode, grey.size) == ("L", (24, 16))


def test_an_image_without_a_label_has_label_minus_one_and_no_class(dataset: Dataset) -> None:
    (record,) = dataset["test"]
    assert (record.label, record.labels, record.class_name, record.class_names) == (-1, (), "", ())


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Split:
    root = tmp_path_factory.mktemp("scans")
    write_tree(root, {f"{number}.png": png(300 + number) for number in range(4)})
    rows = ["0.png,cat dog,7,0.5,Zürich", "1.png,,-3,1e-3,", "2.png,dog,0,nan,x", "3.png,cat,1,2,y"]
    (root / "scans.csv").write_text("\n".join(["image,tags,age,dose,clinic", *rows]))
    kinds = {"age": ColumnKind.INT, "dose": ColumnKind.FLOAT, "clinic": ColumnKind.TEXT}
    columns = tuple(ColumnOption(name=name, kind=kind) for name, kind in kinds.items())
    options = SourceOptions(label_col="tags", label_sep=" ", column=columns)
    made = PackOptions(name="scans", data_dir=str(root / "data"), source=options, workers=1)
    imgrec.pack(root / "scans.csv", made)
    return imgrec.open_dataset("scans", data_dir=root / "data")["train"]


def test_an_image_may_have_several_labels_and_columns(scans: Split) -> None:
    both, none, nan = (scans.find(f"{number}.png") for number in range(3))
    assert (both.label, both.labels, none.labels) == (-1, (0, 1), ())
    assert (both.class_name, both.class_names) == ("", ("cat", "dog"))
    assert "label [0, 1] (cat, dog)" in repr(both)
    assert sorted(names(scans.of_class("dog"))) == ["0.png", "2.png"]
    assert list(scans.labels) == [-1] * 4
    assert scans.class_counts() == (2, 2)
    assert both.columns == {"age": 7, "dose": 0.5, "clinic": "Zürich"}
    assert none.columns == {"age": -3, "dose": pytest.approx(1e-3), "clinic": ""}
    assert np.isnan(nan.columns["dose"])


# Reading by number


@given(st.data())
def test_a_split_is_indexed_like_a_list(folder: Path, data: st.DataObject) -> None:
    train = imgrec.open_dataset(folder)["train"]
    expected = names(list(train))
    number = data.draw(st.integers(-len(train), len(train) - 1))
    assert train[number].filename == expected[number]
    cut = data.draw(st.slices(len(train)))
    assert names(train[cut]) == expected[cut]
    some = data.draw(st.lists(st.integers(-len(train), len(train) - 1), max_size=10))
    assert names(train[some]) == [expected[number] for number in some]
    again = data.draw(st.slices(len(expected[cut])))
    assert names(train[cut][again]) == expected[cut][again]


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array, lambda n: np.array([n])[0]])
def test_an_index_may_be_a_number_of_numpy(train: Split, kind: Any) -> None:
    assert train[kind(3)] == train[3]


@pytest.mark.parametrize(
    "kind",
    [tuple, np.array, lambda some: array("q", some), iter, lambda some: np.array(some, "i1")],
)
def test_several_indexes_may_come_in_any_container(train: Split, kind: Any) -> None:
    assert names(train[kind([2, -1, 2])]) == names([train[2], train[28], train[2]])


@pytest.mark.parametrize("kind", [list, np.array])
def test_a_mask_selects_records(train: Split, kind: Any) -> None:
    mask = kind([label == 1 for label in train.labels])
    assert names(train[mask]) == [record.filename for record in train if record.label == 1]


@pytest.mark.parametrize("empty", [[], np.array([]), slice(5, 5)])
def test_a_part_may_be_empty(train: Split, empty: Any) -> None:
    part = train[empty]
    assert (len(part), list(part), list(part.labels)) == (0, [], [])
    with pytest.raises(OutOfRange) as caught:
        part[0]
    assert caught.value.hint == "it is empty"


def test_a_split_is_a_sequence(dataset: Dataset, train: Split) -> None:
    assert names(list(reversed(train))) == names(list(train))[::-1]
    record = train[7]
    assert (record in train, train.index(record), train.count(record)) == (True, 7, 1)
    assert record not in dataset["val"]
    assert len({*train, *train}) == len(train)
    assert repr(train) == "<Split train of flowers: 29 records>"
    assert repr(train[:3]) == "<Split part of train of flowers: 3 records>"


def test_splits_are_cut_and_joined_as_in_tfds(dataset: Dataset) -> None:
    train, val = names(list(dataset["train"])), names(list(dataset["val"]))
    assert names(list(dataset["val+train[:50%]"])) == val + train[:14]
    assert names(list(dataset["train[3:5]+train[5:9]"])) == train[3:9]
    assert names(list(dataset["all"])) == [*train, *val, "test/unknown.png"]


def test_labels_are_known_without_reading_records(dataset: Dataset) -> None:
    for split in (dataset["all"], dataset["val+train[:5]"], dataset["train"][::-3]):
        assert list(split.labels) == [record.label for record in split]
    roses = dataset["train"].of_class("rose")
    assert names(roses) == [r.filename for r in dataset["train"] if r.class_name == "rose"]
    assert len(roses) == 12


def test_every_file_is_found_by_name(train: Split) -> None:
    assert [train.find(record.filename) for record in train] == list(train)
    assert train.find(NOT_UTF8).image == png(204)
    assert train.find("train/rose/caf\\udce9.png").image == png(205)
    part = train[[train.index(train.find(NOT_UTF8))]]
    assert part.find("train/rose/caf\\udce9.png").image == png(204)  # as it is printed


def test_a_file_is_found_by_the_bytes_of_its_name(train: Split) -> None:
    assert train.find(b"train/rose/grey.jpg") == train.find("train/rose/grey.jpg")
    assert train.find(b"train/rose/caf\xe9.png").image == png(204)
    with pytest.raises(UsageError, match="7 is not the path of a file"):
        train.find(7)  # type: ignore[arg-type]


def test_filenames_and_labels_are_those_of_the_records(train: Split) -> None:
    part = train[3:20:2]
    assert part.filenames == [printable(name) for name in names(part)]
    assert isinstance(part.labels, np.ndarray)
    assert part.labels.tolist() == [record.label for record in part]
    assert names(train[train.labels == 1]) == names(train.of_class("rose"))


def test_a_label_chooses_a_class_as_its_name_does(train: Split) -> None:
    for label in (1, np.int64(1)):
        assert names(train.of_class(label)) == names(train.of_class("rose"))
    for label in (3, -1):
        with pytest.raises(UnknownName, match=f"flowers has no label {label}") as caught:
            train.of_class(label)
        assert caught.value.hint == "labels are 0 to 2"


def test_index_returns_the_place_of_a_file_or_record(train: Split) -> None:
    assert train.index(train.filenames[7]) == train.index(train[7]) == 7
    with pytest.raises(UnknownName, match="train has no file nothing"):
        train.index("nothing")
    with pytest.raises(UsageError, match=r"^<Record .* is not in train"):
        train.index(train.dataset["val"][0])
    with pytest.raises(UsageError, match=r"is not in train"):
        train.index(train[7], 8)


def test_a_dataset_equals_only_itself(folder: Path, dataset: Dataset) -> None:
    assert dataset == dataset
    assert dataset != imgrec.open_dataset(folder)
    assert len({dataset, dataset}) == 1
    assert repr(dataset) == "<Dataset flowers 1.0.0: train: 29, val: 9, test: 1>"


def test_a_pickle_has_no_columns(train: Split) -> None:
    before = len(pickle.dumps(train))
    train.find(train[0].filename)
    assert len(pickle.dumps(train)) == before
    copy = pickle.loads(pickle.dumps(train))
    assert list(copy) == list(train)
    assert copy.find(train[5].filename) == train[5]


# Wrong use


@pytest.mark.parametrize("number", [29, -30, 1 << 70])
def test_a_number_out_of_range_is_an_error(train: Split, number: int) -> None:
    for split, place in ((train, number), (train, [0, number]), (train[::2][:3], number)):
        with pytest.raises(OutOfRange) as caught:
            split[place]
        message = f"{split.name} has {len(split)} records; {number} is out of range"
        assert str(caught.value) == message
        assert caught.value.hint == f"count from 0 to {len(split) - 1}"


@pytest.mark.parametrize("place", ["rose/1.jpg", 1.5, None, [1.5], [[1, 2]], ["a"], np.array(1.5)])
def test_other_indexes_are_errors(train: Split, place: Any) -> None:
    with pytest.raises(UsageError, match="does not number records") as caught:
        train[place]
    assert "find() takes a file's name" in caught.value.hint
    with pytest.raises(UsageError, match=r"^a mask of 2 does not fit 29 records"):
        train[[True, False]]
    with pytest.raises(UsageError, match=r"^0 is not a split"):
        train.dataset[0]  # type: ignore[index]


def test_unknown_classes_and_splits_list_the_known_ones(train: Split) -> None:
    with pytest.raises(UnknownName, match="flowers has no class 'Roses'") as caught:
        train.of_class("Roses")
    assert caught.value.hint == "did you mean rose? There is daisy, rose, 天竺葵"
    with pytest.raises(UnknownName) as caught:
        train.dataset["fold_0"]
    assert caught.value.hint == "there is train, val, test"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("val/rose/001.jpg", "it is in val"),
        ("roses/grey.jpg", "did you mean train/rose/grey.jpg?"),
        ("grey.jpg", "did you mean train/rose/grey.jpg?"),
        ("GREY.JPG", "did you mean train/rose/grey.jpg?"),
        ("Grey", "did you mean train/rose/grey.jpg?"),
        ("train/rose/GREY.jpg", "did you mean train/rose/grey.jpg?"),
        ("nothing", "one of its files is train/"),
    ],
)
def test_an_unknown_file_suggests_a_known_one(train: Split, name: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        train.find(name)
    assert str(caught.value) == f"train has no file {name}"
    assert caught.value.hint.startswith(hint)


def test_a_part_finds_only_its_own_files(train: Split) -> None:
    part = train[train.labels == 0][:1]
    assert part.find(part[0].filename) == part[0]
    with pytest.raises(UnknownName, match=r"^part of train has no file train/rose/grey.jpg"):
        part.find("train/rose/grey.jpg")


# Finding a dataset


def copied(folder: Path, data_dir: Path, *places: str) -> None:
    for place in places:
        shutil.copytree(folder, data_dir / place)


def not_found(place: str | Path, data_dir: Path) -> tuple[str, str]:
    with pytest.raises(DatasetNotFound) as caught:
        imgrec.open_dataset(place, data_dir=data_dir)
    return str(caught.value), caught.value.hint


def test_a_dataset_is_found_by_name_and_by_a_path_at_any_level(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_dir = folder.parent.parent
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    monkeypatch.chdir(folder.parent)
    for place in ("flowers", "flowers:1.0.0", folder, folder.parent, data_dir, "1.0.0", ".."):
        assert os.path.samefile(imgrec.open_dataset(place).info.path, folder), place
    monkeypatch.setenv("HOME", str(data_dir))
    assert len(imgrec.open_dataset("flowers", data_dir="~")) == 3
    train = imgrec.open_dataset("1.0.0")["train"]
    monkeypatch.chdir(tmp_path)
    assert len(list(train)) == 29  # wherever the process goes


def test_the_highest_version_is_opened(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path, "flowers/1.9.0", "flowers/1.10.0", "flowers/notes")
    assert imgrec.open_dataset("flowers", data_dir=tmp_path).info.path.endswith("/1.10.0")
    assert imgrec.open_dataset("flowers:1.9.0", data_dir=tmp_path).info.path.endswith("/1.9.0")
    assert not_found("flowers:3.1.0", tmp_path) == (
        f"no version 3.1.0 of flowers in {tmp_path}", "there is 1.9.0, 1.10.0",
    )  # fmt: skip


def test_a_name_is_searched_only_in_the_given_data_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(folder, tmp_path, "here/signs/1.0.0", "there/signs/2.0.0")
    monkeypatch.chdir(tmp_path / "here")

    def version(dataset: str, **options: Any) -> str:
        return Path(imgrec.open_dataset(dataset, **options).info.path).name

    assert version("signs", data_dir=tmp_path / "there") == "2.0.0"
    assert version("./signs", data_dir=tmp_path / "there") == "1.0.0"
    assert version("signs") == "1.0.0"
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "there"))
    assert version("signs") == "2.0.0"
    (tmp_path / "empty").mkdir()
    what, hint = not_found("signs", tmp_path / "empty")
    assert what == f"no dataset 'signs' in {tmp_path / 'empty'}"
    assert hint == "for the folder of that name here, write ./signs"


def test_several_datasets_are_listed(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path, "flowers/1.0.0", "leaves/1.0.0")
    assert not_found("flower", tmp_path) == (
        f"no dataset 'flower': it is neither a dataset's folder nor a name in {tmp_path}",
        (
            f"did you mean flowers? There is flowers, leaves in {tmp_path}; "
            "give --data-dir or a path if it is elsewhere"
        ),
    )
    assert not_found(tmp_path, tmp_path) == (
        f"{tmp_path} has more than one dataset: flowers, leaves",
        f"give one of them, such as {tmp_path / 'flowers'}",
    )


@pytest.mark.parametrize("name", ["", "x" * 300, "~nobody-of-that-name/a", "/", "a:b"])
def test_an_impossible_name_is_not_found(tmp_path: Path, name: str) -> None:
    assert not_found(name, tmp_path)[0].startswith(f"no dataset {name!r}: ")
    with pytest.raises(UsageError, match="cannot be 'a"):
        imgrec.open_dataset("a\0b", data_dir=tmp_path)


@pytest.mark.parametrize("gone", ["features.json", "dataset_info.json"])
def test_a_missing_document_is_named(folder: Path, tmp_path: Path, gone: str) -> None:
    copied(folder, tmp_path, "flowers/1.0.0")
    (tmp_path / "flowers/1.0.0" / gone).unlink()
    for place in (tmp_path / "flowers/1.0.0", tmp_path / "flowers", "flowers", "flowers:1.0.0"):
        assert not_found(place, tmp_path) == (
            f"{tmp_path / 'flowers/1.0.0'} has no {gone}",
            "restore it, or pack the dataset again with --overwrite",
        )


@pytest.mark.parametrize("name", ["data-00000-of-00001.tfrecord", "ld00-16.tfrec", "a.tfrecord.gz"])
def test_tfrecords_alone_are_not_a_dataset(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    what, hint = not_found(tmp_path, tmp_path / "data")
    assert what == (
        f"{tmp_path} has TFRecords, but no dataset_info.json and no features.json to describe them"
    )
    assert "tfds.folder_dataset.write_metadata" in hint


def test_a_shard_is_not_a_dataset(folder: Path) -> None:
    path = folder / shard_filename("flowers", "train", 0, 4)
    hint = f"give the folder of the dataset, such as {folder}"
    assert not_found(path, folder) == (f"{path} is a file", hint)


def test_a_dataset_put_aside_by_an_interrupted_pack_is_named(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path, "flowers/.1.0.0.replaced")
    what, hint = not_found("flowers", tmp_path)
    assert "would have replaced it was interrupted" in what
    assert "imgrec clean" in hint


# Datasets that TFDS wrote


def array_of(number: int) -> np.ndarray:
    return np.asarray(picture(number, "RGB", (10 + number, 8)))


@pytest.fixture(scope="module")
def tfds() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets

    return tensorflow_datasets


def write_petals(
    tfds: ModuleType, data_dir: Path, file_format: str = "tfrecord", **label: Any
) -> Path:
    """Write records with other features than ours."""
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(),
            "label": tfds.features.ClassLabel(**(label or {"names": ["ash", "oak"]})),
            "id": tfds.features.Text(),
            "boxes": tfds.features.Sequence(np.int64),
            "raw": tfds.features.Text(),
        }
    )
    examples = {
        number: {
            "image": array_of(number), "label": number % 2, "id": str(number),
            "boxes": list(range(number)), "raw": b"\xff\xfe",
        }
        for number in range(6)
    }  # fmt: skip
    with tfds.core.registered.skip_registration():

        class Petals(tfds.core.GeneratorBasedBuilder):  # type: ignore[name-defined, misc]
            VERSION = tfds.core.Version("1.0.0")
            name = "petals"

            def _info(self) -> Any:
                return tfds.core.DatasetInfo(builder=self, features=features)

            def _split_generators(self, dl_manager: Any) -> Any:
                return {"train": examples.items(), "test": [*examples.items()][:2]}

            def _generate_examples(self) -> Any:
                raise NotImplementedError

    config = tfds.download.DownloadConfig(try_download_gcs=False)
    builder = Petals(data_dir=data_dir, file_format=file_format)
    builder.download_and_prepare(download_config=config)
    return data_dir / "petals" / "1.0.0"


def test_a_dataset_of_tfds_is_read(tfds: ModuleType, tmp_path: Path) -> None:
    dataset = imgrec.open_dataset(write_petals(tfds, tmp_path))
    assert {name: len(split) for name, split in dataset.items()} == {"test": 2, "train": 6}
    train = dataset["train"]
    numbers = [int(str(record.columns["id"])) for record in train]
    assert sorted(numbers) == list(range(6))
    for place in (5, 0, 3):
        record, number = train[place], numbers[place]
        assert np.array_equal(record.numpy(), array_of(number))
        assert (record.shape, record.filename) == ((8, 10 + number, 3), "")
        assert record.class_name == ("ash", "oak")[number % 2]
        boxes = tuple(range(number))
        assert record.columns["boxes"] == (boxes[0] if number == 1 else boxes)
        assert record.columns["raw"] == b"\xff\xfe"
    assert list(train.labels) == [record.label for record in train]
    assert list(train.of_class("oak")) == [record for record in train if record.label == 1]
    with pytest.raises(UnknownName) as caught:
        train.find("a.jpg")
    assert caught.value.hint == "its records have no names"


def test_classes_without_names_are_named_by_number(tfds: ModuleType, tmp_path: Path) -> None:
    dataset = imgrec.open_dataset(write_petals(tfds, tmp_path, num_classes=2))
    assert dataset.classes == ("0", "1")
    assert {record.class_name for record in dataset["train"]} == {"0", "1"}


def test_array_record_files_are_left_to_tfds(tfds: ModuleType, tmp_path: Path) -> None:
    path = write_petals(tfds, tmp_path, "array_record")
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(path)
    assert str(caught.value) == f"{path} has array_record files; imgrec reads TFRecords only"
    assert caught.value.hint == "read it with tfds.load or tfds.data_source"
    assert imgrec.info(path).name == "petals"


def test_only_needed_packages_are_imported(folder: Path) -> None:
    code = """
import sys, imgrec
train = imgrec.open_dataset(sys.argv[1])["train"]
def show():
    names = ("tensorflow", "tensorflow_datasets", "torch", "numpy", "pyarrow", "PIL")
    print(*(name for name in names if name in sys.modules))
train[0], list(train)
show()
train[0].pil()
show()
train.labels, train.of_class("rose"), train.find("train/rose/grey.jpg").numpy()
show()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, folder], env=environment, text=True, capture_output=True
    )
    assert (done.stdout, done.stderr) == ("\nPIL\nnumpy pyarrow PIL\n", "")


def test_names_are_found_in_any_unicode_form(tmp_path: Path) -> None:
    names = {form: normalize(form, "Sch\u00f6ne Rose") for form in ("NFC", "NFD")}
    root = class_tree(tmp_path / "s", {names["NFD"]: 3, "tulip": 3})
    opened = imgrec.open_dataset(imgrec.pack(root, data_dir=tmp_path / "data", workers=1).info.path)
    train = opened["train"]
    for name in names.values():
        assert len(train.of_class(name)) == 3
        assert train.find(f"{name}/000.jpg").class_name == names["NFC"]
        sheet = imgrec.preview(opened.info.path, class_name=name, path=tmp_path / "p.png")
        assert sheet.total == 3
