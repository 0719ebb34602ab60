"""A packed dataset as sequences of records."""

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

CLASSES = ("daisy", "rose", "天竺葵")


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
    }
    write_tree(root, extra)
    os.chdir(root)  # so that what follows must not depend on where it runs
    (root / "train/rose" / os.fsdecode(b"caf\xe9.png")).write_bytes(png(204))
    (root / "train/rose/caf\\udce9.png").write_bytes(png(205))
    os.chdir(ROOT)
    return root


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


# What there is.


def test_a_dataset_is_a_mapping_of_its_splits(dataset: Dataset) -> None:
    assert {name: len(split) for name, split in dataset.items()} == {
        "train": 29,
        "val": 9,
        "test": 1,
    }


def test_a_dataset_knows_its_classes_in_the_order_of_their_labels(dataset: Dataset) -> None:
    assert dataset.classes == CLASSES


def test_every_record_is_a_file_of_the_source(source: Path, dataset: Dataset) -> None:
    for record in dataset["all"]:
        original = (source / record.filename).read_bytes()
        if record.filename != "train/daisy/old.gif":
            assert record.image == original, record
        split, _, name = record.filename.partition("/")
        expected = name.partition("/")[0] if split != "test" else ""
        assert record.class_name == expected


def test_a_record_tells_all_that_is_known_of_its_image(source: Path, train: Split) -> None:
    record = train.find("train/rose/alpha.png")
    assert record == Record(
        image=(source / "train/rose/alpha.png").read_bytes(),
        label=1,
        shape=(7, 9, 4),
        filename="train/rose/alpha.png",
        labels=(1,),
        columns={},
        classes=CLASSES,
    )
    assert (record.class_name, record.class_names) == ("rose", ("rose",))


def test_an_image_without_a_label_has_label_minus_one_and_no_class(dataset: Dataset) -> None:
    (record,) = dataset["test"]
    assert (record.label, record.labels, record.class_name, record.class_names) == (-1, (), "", ())


def test_a_record_decodes_with_pillow_in_its_own_mode(train: Split) -> None:
    picture = train.find("train/rose/grey.jpg").pil()
    assert (picture.mode, picture.size) == ("L", (24, 16))


def test_a_record_decodes_to_an_array_of_its_shape(dataset: Dataset) -> None:
    for record in dataset["all"]:
        assert record.numpy().shape == record.shape


# Reading by number.


@given(st.data())
def test_a_split_is_indexed_as_a_list_is(folder: Path, data: st.DataObject) -> None:
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


@pytest.mark.parametrize(
    "kind", [np.int64, np.int32, np.uint8, np.array, lambda number: np.array([number])[0]]
)
def test_a_split_is_indexed_by_numbers_of_numpy(train: Split, kind: Any) -> None:
    assert train[kind(3)] == train[3]


@pytest.mark.parametrize(
    "kind",
    [tuple, np.array, lambda some: array("q", some), iter, lambda some: np.array(some, "u1")],
)
def test_a_split_is_indexed_by_anything_that_lists_numbers(train: Split, kind: Any) -> None:
    assert names(train[kind([2, 5, 2])]) == names([train[2], train[5], train[2]])


def test_negative_numbers_in_an_array_count_from_the_end(train: Split) -> None:
    assert names(train[np.array([-1, -29])]) == names([train[28], train[0]])


@pytest.mark.parametrize("kind", [list, np.array])
def test_a_split_is_indexed_by_a_mask(train: Split, kind: Any) -> None:
    mask = kind([label == 1 for label in train.labels])
    assert names(train[mask]) == names([record for record in train if record.label == 1])


@pytest.mark.parametrize("empty", [[], (), np.array([]), slice(5, 5), slice(0)])
def test_a_part_may_be_empty(train: Split, empty: Any) -> None:
    part = train[empty]
    assert (len(part), list(part), list(part.labels)) == (0, [], [])


def test_a_split_is_read_backwards(train: Split) -> None:
    assert names(list(reversed(train))) == names(list(train))[::-1]


def test_a_record_is_found_in_its_split(dataset: Dataset, train: Split) -> None:
    record = train[7]
    assert record in train
    assert (train.index(record), train.count(record)) == (7, 1)
    assert record not in dataset["val"]


def test_splits_are_cut_and_joined_in_the_words_of_tfds(dataset: Dataset) -> None:
    train, val = names(list(dataset["train"])), names(list(dataset["val"]))
    assert names(list(dataset["val+train[:50%]"])) == val + train[:14]
    assert names(list(dataset["train[3:5]+train[5:9]"])) == train[3:9]
    assert names(list(dataset["all"])) == train + val + ["test/unknown.png"]


def test_only_its_splits_are_in_a_dataset(dataset: Dataset) -> None:
    found = {name: name in dataset for name in ("train", "val[:2]", "all", "trian", "train[", 3)}
    assert found == {
        "train": True, "val[:2]": True, "all": True, "trian": False, "train[": False, 3: False,
    }  # fmt: skip


def test_a_split_that_is_not_there_gets_a_default(dataset: Dataset) -> None:
    assert dataset.get("validation") is None


# Labels, classes and names, known without reading the images.


def test_labels_are_those_of_the_records(dataset: Dataset) -> None:
    for spec in ("train", "val", "all", "val+train[:5]"):
        split = dataset[spec]
        assert list(split.labels) == [record.label for record in split]


def test_labels_of_a_part_are_those_of_its_records(train: Split) -> None:
    part = train[::-3]
    assert list(part.labels) == [record.label for record in part]


def test_the_records_of_a_class_are_chosen(train: Split) -> None:
    roses = train.of_class("rose")
    assert names(roses) == [record.filename for record in train if record.class_name == "rose"]
    assert len(roses) == 12


def test_every_file_is_found_by_the_name_of_its_record(train: Split) -> None:
    assert [train.find(record.filename) for record in train] == list(train)


def test_a_name_that_is_not_utf8_is_found_as_it_is_shown_too(source: Path, train: Split) -> None:
    raw = train.find("train/rose/caf\udce9.png")
    assert raw.image == png(204)
    assert train.find("train/rose/caf\\udce9.png").image == png(205)
    part = train[[number for number, record in enumerate(train) if record == raw]]
    assert part.find("train/rose/caf\\udce9.png") == raw


def test_a_part_finds_only_its_own_files(train: Split) -> None:
    part = train[:5]
    assert part.find(train[3].filename) == train[3]
    with pytest.raises(UnknownName) as caught:
        part.find(train[8].filename)
    assert str(caught.value) == f"part of train has no file {train[8].filename}".replace(
        "\udce9", "\\udce9"
    )
    assert caught.value.hint == "it is in train"


# Wrong use.


@pytest.mark.parametrize("number", [29, -30, 1 << 70, -(1 << 70)])
def test_a_number_out_of_range_says_how_many_there_are(train: Split, number: int) -> None:
    for split, place in ((train, number), (train, [0, number]), (train[::2][:3], number)):
        with pytest.raises(OutOfRange) as caught:
            split[place]
        assert str(caught.value) == (
            f"{split.name} has {len(split)} records; {number} is out of range"
        )
        assert caught.value.hint == f"count from 0 to {len(split) - 1}"


def test_an_empty_part_says_that_it_is_empty(train: Split) -> None:
    with pytest.raises(OutOfRange) as caught:
        train[:0][0]
    assert caught.value.hint == "it is empty"


@pytest.mark.parametrize("place", ["rose/1.jpg", 1.5, None, [1.5], [[1, 2]], ["a"], np.array(1.5)])
def test_what_numbers_no_records_says_what_would(train: Split, place: Any) -> None:
    with pytest.raises(UsageError, match="does not number records") as caught:
        train[place]
    assert "find() takes a file's name" in caught.value.hint


def test_a_mask_of_another_length_is_refused(train: Split) -> None:
    with pytest.raises(UsageError, match=r"^a mask of 2 does not fit 29 records"):
        train[[True, False]]


def test_a_class_that_is_not_there_is_answered_with_those_that_are(train: Split) -> None:
    with pytest.raises(UnknownName) as caught:
        train.of_class("Roses")
    assert str(caught.value) == "flowers has no class 'Roses'"
    assert caught.value.hint == "did you mean rose? There is daisy, rose, 天竺葵"


def test_a_split_that_is_not_there_is_answered_with_those_that_are(dataset: Dataset) -> None:
    with pytest.raises(UnknownName) as caught:
        dataset["validation"]
    assert caught.value.hint == "there is train, val, test"


def test_a_number_in_place_of_a_split_is_answered_with_splits(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match=r"^0 is not a split"):
        dataset[0]  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("val/rose/001.jpg", "it is in val"),
        ("roses/grey.jpg", "did you mean train/rose/grey.jpg?"),
        ("grey.jpg", "did you mean train/rose/grey.jpg?"),
    ],
)
def test_a_file_that_is_not_there_is_answered_with_one_that_is(
    train: Split, name: str, hint: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        train.find(name)
    assert str(caught.value) == f"train has no file {name}"
    assert caught.value.hint == hint


def test_a_file_unlike_any_is_answered_with_one_of_those_there_are(train: Split) -> None:
    with pytest.raises(UnknownName) as caught:
        train.find("nothing")
    example = caught.value.hint.removeprefix("one of its files is ")
    assert train.find(example).filename


# Values.


def test_nothing_shows_the_bytes_of_an_image(dataset: Dataset, train: Split) -> None:
    assert repr(dataset) == "<Dataset flowers 1.0.0: train: 29, val: 9, test: 1>"
    assert repr(train) == "<Split train of flowers: 29 records>"
    assert repr(train[:3]) == "<Split part of train of flowers: 3 records>"
    assert repr(train.find("train/rose/alpha.png")) == (
        f"<Record 'train/rose/alpha.png': shape (7, 9, 4), {len(png(201, (9, 7), 'RGBA'))} bytes, "
        "label 1 (rose)>"
    )


def test_records_are_equal_by_value_and_may_be_in_a_set(train: Split) -> None:
    assert train[3] == train[3]
    assert train[3] != train[4]
    assert len({*train, *train}) == len(train)


def test_a_dataset_is_itself_and_no_other(folder: Path, dataset: Dataset) -> None:
    assert dataset == dataset
    assert dataset != imgrec.open_dataset(folder)
    assert len({dataset, dataset}) == 1


def test_a_dataset_is_pickled_without_its_columns(dataset: Dataset, train: Split) -> None:
    before = len(pickle.dumps(train))
    train.find(train[0].filename)
    assert len(pickle.dumps(train)) == before
    copy = pickle.loads(pickle.dumps(train))
    assert list(copy) == list(train)
    assert copy.find(train[5].filename) == train[5]


# Several labels, and columns of the source.


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    root = tmp_path_factory.mktemp("scans")
    write_tree(root, {f"{number}.png": png(300 + number) for number in range(4)})
    rows = ["0.png,cat dog,7,0.5,Zürich", "1.png,,-3,1e-3,", "2.png,dog,0,nan,x", "3.png,cat,1,2,y"]
    (root / "scans.csv").write_text("\n".join(["image,tags,age,dose,clinic", *rows]))
    options = SourceOptions(
        label_col="tags",
        label_sep=" ",
        column=(
            ColumnOption(name="age", kind=ColumnKind.INT),
            ColumnOption(name="dose", kind=ColumnKind.FLOAT),
            ColumnOption(name="clinic", kind=ColumnKind.TEXT),
        ),
    )
    data_dir = str(root / "datasets")
    made = PackOptions(name="scans", data_dir=data_dir, source=options, workers=1)
    imgrec.pack(root / "scans.csv", made)
    return imgrec.open_dataset("scans", data_dir=data_dir)


def test_an_image_of_several_labels_has_them_all_and_none_in_particular(scans: Dataset) -> None:
    record = scans["train"].find("0.png")
    assert (record.label, record.labels) == (-1, (0, 1))
    assert (record.class_name, record.class_names) == ("", ("cat", "dog"))
    assert "label [0, 1] (cat, dog)" in repr(record)


def test_an_image_of_no_label_among_those_of_several_has_none(scans: Dataset) -> None:
    record = scans["train"].find("1.png")
    assert (record.label, record.labels) == (-1, ())


def test_a_class_is_chosen_among_several_labels(scans: Dataset) -> None:
    assert sorted(names(scans["train"].of_class("dog"))) == ["0.png", "2.png"]
    assert list(scans["train"].labels) == [-1] * 4


def test_columns_of_the_source_come_as_numbers_and_text(scans: Dataset) -> None:
    train = scans["train"]
    assert train.find("0.png").columns == {"age": 7, "dose": 0.5, "clinic": "Zürich"}
    assert train.find("1.png").columns == {
        "age": -3, "dose": pytest.approx(1e-3), "clinic": "",
    }  # fmt: skip
    assert np.isnan(train.find("2.png").columns["dose"])


# Finding a dataset.


def copied(folder: Path, data_dir: Path, *places: str) -> Path:
    for place in places:
        shutil.copytree(folder, data_dir / place)
    return data_dir


def test_a_dataset_is_opened_by_name_and_by_a_path_at_any_level(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = folder.parent.parent
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    monkeypatch.chdir(folder.parent)
    for place in ("flowers", "flowers:1.0.0", folder, folder.parent, data_dir, "1.0.0", ".."):
        assert os.path.samefile(imgrec.open_dataset(place).info.path, folder), place
    monkeypatch.setenv("HOME", str(data_dir))
    assert len(imgrec.open_dataset("flowers", data_dir="~")) == 3


def test_the_highest_version_is_opened(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path, "flowers/1.9.0", "flowers/1.10.0", "flowers/notes")
    assert imgrec.open_dataset("flowers", data_dir=tmp_path).info.path.endswith("/1.10.0")
    assert imgrec.open_dataset("flowers:1.9.0", data_dir=tmp_path).info.path.endswith("/1.9.0")


def test_an_opened_dataset_does_not_mind_where_the_process_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(folder.parent)
    train = imgrec.open_dataset("1.0.0")["train"]
    monkeypatch.chdir(tmp_path)
    assert len(list(train)) == 29


def not_found(place: str | Path, data_dir: Path) -> tuple[str, str]:
    with pytest.raises(DatasetNotFound) as caught:
        imgrec.open_dataset(place, data_dir=data_dir)
    return str(caught.value), caught.value.hint


def test_a_name_that_is_not_there_is_answered_with_those_that_are(
    folder: Path, tmp_path: Path
) -> None:
    copied(folder, tmp_path, "flowers/1.0.0", "leaves/1.0.0")
    what, hint = not_found("flower", tmp_path)
    assert what == (
        f"no dataset 'flower': it is neither a dataset's folder nor a name in {tmp_path}"
    )
    assert hint == (
        f"did you mean flowers? There is flowers, leaves in {tmp_path}; "
        "give --data-dir or a path if it is elsewhere"
    )


def test_a_version_that_is_not_there_is_answered_with_those_that_are(
    folder: Path, tmp_path: Path
) -> None:
    copied(folder, tmp_path, "flowers/1.0.0", "flowers/1.1.0")
    what, hint = not_found("flowers:3.1.0", tmp_path)
    assert what == f"no version 3.1.0 of flowers in {tmp_path}"
    assert hint == "there is 1.0.0, 1.1.0"


def test_a_data_directory_of_several_datasets_asks_which(folder: Path, tmp_path: Path) -> None:
    copied(folder, tmp_path, "flowers/1.0.0", "leaves/1.0.0")
    assert not_found(tmp_path, tmp_path) == (
        f"{tmp_path} has more than one dataset: flowers, leaves",
        f"give one of them, such as {tmp_path / 'flowers'}",
    )


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be 'a"):
        imgrec.open_dataset("a\0b", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["", "x" * 300, "~nobody-of-that-name/a", "/", "a:b"])
def test_no_name_at_all_is_not_found(tmp_path: Path, name: str) -> None:
    what, _ = not_found(name, tmp_path)
    assert what.startswith(f"no dataset {name!r}: ")


@pytest.mark.parametrize("gone", ["features.json", "dataset_info.json"])
def test_a_dataset_without_one_of_its_files_says_which(
    folder: Path, tmp_path: Path, gone: str
) -> None:
    copied(folder, tmp_path, "flowers/1.0.0")
    (tmp_path / "flowers/1.0.0" / gone).unlink()
    for place in (tmp_path / "flowers/1.0.0", tmp_path / "flowers", "flowers", "flowers:1.0.0"):
        what, hint = not_found(place, tmp_path)
        assert what == f"{tmp_path / 'flowers/1.0.0'} has no {gone}"
        assert hint == "restore it, or pack the dataset again with --overwrite"


@pytest.mark.parametrize(
    "name", ["data-00000-of-00001.tfrecord", "train.tfrecords", "ld00-16.tfrec", "a.tfrecord.gz"]
)
def test_tfrecords_that_nothing_describes_are_no_dataset(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    what, hint = not_found(tmp_path, tmp_path / "data")
    assert what == (
        f"{tmp_path} has TFRecords, but no dataset_info.json and no features.json to describe them"
    )
    assert "tfds.folder_dataset.write_metadata" in hint


def test_a_shard_in_place_of_its_dataset_is_answered_with_the_folder(folder: Path) -> None:
    path = folder / shard_filename("flowers", "train", 0, 4)
    assert not_found(path, folder) == (
        f"{path} is a file",
        f"give the folder of the dataset, such as {folder}",
    )


# Datasets that TFDS itself wrote.


def petals(tfds: ModuleType, *, has_names: bool) -> Any:
    """Return a builder class whose records have more, and less, than ours."""

    with tfds.core.registered.skip_registration():

        class Petals(tfds.core.GeneratorBasedBuilder):  # type: ignore[name-defined, misc]
            VERSION = tfds.core.Version("1.0.0")
            name = "petals"

            def _info(self) -> Any:
                label = {"names": ["ash", "oak"]} if has_names else {"num_classes": 2}
                return tfds.core.DatasetInfo(
                    builder=self,
                    features=tfds.features.FeaturesDict(
                        {
                            "image": tfds.features.Image(),
                            "label": tfds.features.ClassLabel(**label),
                            "id": tfds.features.Text(),
                            "boxes": tfds.features.Sequence(np.int64),
                            "raw": tfds.features.Text(),
                        }
                    ),
                )

            def _split_generators(self, dl_manager: Any) -> Any:
                return {"train": self._generate_examples(6), "test": self._generate_examples(2)}

            def _generate_examples(self, count: int) -> Any:
                for number in range(count):
                    yield (
                        number,
                        {
                            "image": _array(number),
                            "label": number % 2,
                            "id": f"nummer-{number}",
                            "boxes": list(range(number)),
                            "raw": b"\xff\xfe",
                        },
                    )

    return Petals


def _array(number: int) -> np.ndarray:
    return np.asarray(picture(number, "RGB", (10 + number, 8)))


@pytest.fixture(scope="module")
def tfds() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets

    return tensorflow_datasets


def prepared(tfds: ModuleType, data_dir: Path, file_format: str, *, has_names: bool = True) -> Path:
    builder = petals(tfds, has_names=has_names)(data_dir=data_dir, file_format=file_format)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(try_download_gcs=False)
    )
    return data_dir / "petals" / "1.0.0"


@pytest.fixture(scope="module")
def foreign(tfds: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return imgrec.open_dataset(prepared(tfds, tmp_path_factory.mktemp("tfds"), "tfrecord"))


def test_a_dataset_that_tfds_wrote_is_read_at_random(foreign: Dataset) -> None:
    assert {name: len(split) for name, split in foreign.items()} == {"test": 2, "train": 6}
    train = foreign["train"]
    numbers = [int(str(record.columns["id"]).removeprefix("nummer-")) for record in train]
    assert sorted(numbers) == list(range(6))
    for place in (5, 0, 3):
        record, number = train[place], numbers[place]
        assert record.shape == (8, 10 + number, 3)
        assert np.array_equal(record.numpy(), _array(number))
        assert record.class_name == ("ash", "oak")[number % 2]
        assert record.filename == ""


def test_features_of_other_kinds_come_as_they_are(foreign: Dataset) -> None:
    boxes = {record.columns["id"]: record.columns["boxes"] for record in foreign["train"]}
    assert [boxes[f"nummer-{number}"] for number in range(4)] == [(), 0, (0, 1), (0, 1, 2)]
    assert foreign["train"][0].columns["raw"] == b"\xff\xfe"


def test_labels_of_a_dataset_that_tfds_wrote_are_found_by_reading_it(foreign: Dataset) -> None:
    train = foreign["train"]
    assert list(train.labels) == [record.label for record in train]
    assert list(train.of_class("oak")) == [record for record in train if record.label == 1]


def test_a_file_of_a_dataset_without_names_is_not_found(foreign: Dataset) -> None:
    with pytest.raises(UnknownName) as caught:
        foreign["train"].find("a.jpg")
    assert caught.value.hint == "its records have no names"


def test_classes_without_names_are_called_by_their_numbers(
    tfds: ModuleType, tmp_path: Path
) -> None:
    dataset = imgrec.open_dataset(prepared(tfds, tmp_path, "tfrecord", has_names=False))
    assert dataset.classes == ("0", "1")
    assert {record.class_name for record in dataset["train"]} == {"0", "1"}


def test_a_dataset_of_array_record_files_is_answered_with_who_reads_it(
    tfds: ModuleType, tmp_path: Path
) -> None:
    path = prepared(tfds, tmp_path, "array_record")
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(path)
    assert str(caught.value) == f"{path} has array_record files; imgrec reads TFRecords only"
    assert caught.value.hint == "read it with tfds.load or tfds.data_source"
    assert imgrec.info(path).name == "petals"


# What is not imported.

HEAVY = ("tensorflow", "tensorflow_datasets", "torch", "grain", "numpy", "pyarrow", "PIL")


def run(code: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("train[0], list(train)", []),
        ("train.labels, train.of_class('rose')", ["numpy", "pyarrow"]),
        ("train[0].pil()", ["PIL"]),
        ("train.find('train/rose/grey.jpg').numpy()", ["numpy", "pyarrow"]),
    ],
)
def test_only_what_is_needed_is_imported(folder: Path, code: str, imported: list[str]) -> None:
    code = (
        f"import sys, imgrec; train = imgrec.open_dataset(sys.argv[1])['train']; {code}; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert run(code, folder) == f"{imported}\n"


def test_a_name_is_looked_for_in_the_data_directory_that_is_given_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = class_tree(tmp_path / "signs", {"a": 2, "b": 2})
    imgrec.pack(source, imgrec.PackOptions(data_dir=str(tmp_path / "here"), workers=1))
    other = class_tree(tmp_path / "other", {"a": 3}, start=90)
    options = imgrec.PackOptions(data_dir=str(tmp_path / "there"), name="signs", workers=1)
    imgrec.pack(other, options)
    monkeypatch.chdir(tmp_path / "here")
    assert len(imgrec.open_dataset("signs", data_dir=tmp_path / "there")["train"]) == 3
    assert len(imgrec.open_dataset("./signs", data_dir=tmp_path / "there")["train"]) == 4
    assert len(imgrec.open_dataset("signs")["train"]) == 4
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "there"))
    assert len(imgrec.open_dataset("signs")["train"]) == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(imgrec.DatasetNotFound, match=r"no dataset 'signs' in ") as caught:
        imgrec.open_dataset("signs", data_dir=tmp_path / "empty")
    assert caught.value.hint == "for the folder of that name here, write ./signs"


def test_a_dataset_that_a_pack_put_aside_is_told_from_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    source = class_tree(tmp_path / "signs", {"a": 2})
    imgrec.pack(source, imgrec.PackOptions(data_dir=str(tmp_path / "data"), workers=1))
    folder = tmp_path / "data/signs"
    (folder / "1.0.0").rename(folder / ".1.0.0.replaced")
    with pytest.raises(
        imgrec.DatasetNotFound, match="would have replaced it was interrupted"
    ) as caught:
        imgrec.open_dataset("signs", data_dir=tmp_path / "data")
    assert "imgrec clean" in caught.value.hint
    imgrec.clean(data_dir=tmp_path / "data")
    assert len(imgrec.open_dataset("signs", data_dir=tmp_path / "data")["train"]) == 2
