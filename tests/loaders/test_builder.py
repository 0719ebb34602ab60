"""`imgrec.builder`, through TFDS as its users call it."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import ROOT, Cli
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
from imgrec import errors
from imgrec.options import Check, ColumnKind, ColumnOption, PackOptions, SourceKind, SourceOptions
from imgrec.request import options_from, refuse_unknown, resolve_manifest

CLASSES = ("daisy", "rose", "天竺葵")


@pytest.fixture(scope="module")
def tfds() -> Iterator[ModuleType]:
    """TFDS with imgrec's builder, which is removed again for the tests of other modules."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets
    from tensorflow_datasets.core import registered

    import imgrec.builder

    yield tensorflow_datasets
    registered.reset_dataset_builder_providers()
    for name, kind in list(registered._DATASET_REGISTRY.items()):
        if issubclass(kind, imgrec.builder.Builder):
            del registered._DATASET_REGISTRY[name]


@pytest.fixture(scope="module")
def builder_cls(tfds: ModuleType) -> Any:
    import imgrec.builder

    return imgrec.builder.Builder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders with images of every kind that decodes differently."""
    root = class_tree(tmp_path_factory.mktemp("source") / "flowers", dict.fromkeys(CLASSES, 8))
    kinds = {
        "grey.jpg": jpeg(100, mode="L"),
        "ink.jpg": jpeg(101, mode="CMYK"),
        "alpha.png": png(102, mode="RGBA", size=(9, 7)),
        "grey_alpha.png": png(103, mode="LA"),
        "palette.png": png(104, mode="P"),
        "deep.png": png(105, mode="I;16"),
        "bits.png": png(106, mode="1"),
        "plain.bmp": encode(picture(107), "BMP"),
        "old.gif": encode(picture(108, "P"), "GIF"),
    }
    return write_tree(root / "daisy", kinds).parent


@pytest.fixture(scope="module")
def packed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pack, in a data directory of its own."""
    data_dir = tmp_path_factory.mktemp("datasets")
    options = PackOptions(data_dir=str(data_dir), val_split=0.25, shards=3, workers=1)
    return Path(imgrec.pack(source, options).info.path)


@pytest.fixture
def copy(packed: Path, tmp_path: Path) -> Path:
    """A pack that a test may change."""
    return Path(shutil.copytree(packed, tmp_path / "flowers" / "1.0.0"))


@pytest.fixture
def roses(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "roses", {"red": 4, "white": 4})


@pytest.fixture
def builder(tfds: ModuleType, packed: Path) -> Any:
    return tfds.builder("flowers", data_dir=packed.parent.parent)


def load(tfds: ModuleType, roses: Path, **options: object) -> Any:
    """Load as the README shows, into a data directory beside the source."""
    kwargs = {"source": roses, "workers": 1, **options}
    return tfds.load("imgrec", data_dir=roses.parent / "data", builder_kwargs=kwargs)


def ours(raised: pytest.ExceptionInfo[BaseException]) -> errors.ImgrecError:
    """Return the error of imgrec: TFDS wraps the errors of a constructor."""
    error = raised.value if isinstance(raised.value, errors.ImgrecError) else raised.value.__cause__
    assert isinstance(error, errors.ImgrecError)
    return error


def labels(examples: Any) -> dict[str, int]:
    return {example["filename"].decode(): int(example["label"]) for example in examples}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Packing


def test_a_source_is_packed_on_first_use_and_then_read(
    tfds: ModuleType, roses: Path, tmp_path: Path
) -> None:
    first = load(tfds, roses, val_split=0.25, seed=3)
    assert {split: len(list(data)) for split, data in first.items()} == {"train": 6, "val": 2}
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["roses"]  # no downloads
    folder = tmp_path / "data/roses/1.0.0"
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    load(tfds, roses, val_split=0.25, seed=3)
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == inodes
    options = PackOptions(data_dir=str(tmp_path / "alone"), val_split=0.25, seed=3)
    assert contents(folder) == contents(Path(imgrec.pack(roses, options).info.path))


def test_the_info_of_a_builder_is_filled_when_it_packs(
    tfds: ModuleType, roses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(roses.parent))
    builder = tfds.builder("imgrec:1.2.0", source=roses, data_dir="~/packs")
    info = builder.info
    assert (info.full_name, info.features, list(info.splits)) == ("roses/1.2.0", None, [])
    builder.download_and_prepare()
    assert builder.data_dir == str(roses.parent / "packs/roses/1.2.0")
    assert info.features["label"].names == ["red", "white"]
    assert info.splits["train"].num_examples == 8
    assert builder.info is info
    written = json.loads((Path(builder.data_dir) / "dataset_info.json").read_text())
    assert written["version"] == "1.2.0"


def test_options_may_be_in_the_name(tfds: ModuleType, roses: Path) -> None:
    name = f"imgrec/source={roses},val_split=0.25,name=petals"
    assert len(tfds.load(name, data_dir=roses.parent / "data", split="val")) == 2


def test_a_pack_of_other_options_or_files_is_an_error(tfds: ModuleType, roses: Path) -> None:
    load(tfds, roses, val_split=0.25)
    with pytest.raises(errors.DatasetExists, match="already holds another dataset") as raised:
        load(tfds, roses, val_split=0.5)
    (note,) = raised.value.__notes__
    assert note.startswith("hint: ") and "pass overwrite=True to replace it" in note
    write_tree(roses, {"red/new.jpg": jpeg(77)})
    with pytest.raises(errors.DatasetExists):
        load(tfds, roses, val_split=0.25)


def test_a_changed_source_replaces_the_pack_on_request(tfds: ModuleType, roses: Path) -> None:
    builder = tfds.builder("imgrec", source=roses, data_dir=roses.parent / "data")
    builder.download_and_prepare()
    write_tree(roses, {"yellow/new.jpg": jpeg(77)})
    config = tfds.download.DownloadConfig(download_mode=tfds.GenerateMode.REUSE_CACHE_IF_EXISTS)
    builder.download_and_prepare(download_config=config)
    assert builder.info.features["label"].names == ["red", "white", "yellow"]
    assert labels(builder.as_data_source("train"))["yellow/new.jpg"] == 2


def test_nothing_is_packed_without_download(tfds: ModuleType, roses: Path) -> None:
    options = {"data_dir": roses.parent / "data", "builder_kwargs": {"source": roses, "seed": 9}}
    with pytest.raises(AssertionError, match="could not find data"):
        tfds.load("imgrec", download=False, **options)
    with pytest.raises(errors.DatasetNotFound, match="roses is not packed yet"):
        tfds.data_source("imgrec", download=False, **options)
    assert not (roses.parent / "data").exists()
    load(tfds, roses)
    assert len(tfds.load("imgrec", download=False, split="train", **options)) == 8


def test_a_pack_without_its_source_is_read_with_a_warning(
    tfds: ModuleType, roses: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(tfds, roses, dataset="petals")
    shutil.rmtree(roses)
    assert len(load(tfds, roses, dataset="petals")["train"]) == 8
    assert f"{roses} no longer exists" in caplog.text
    assert len(tfds.load("petals", data_dir=roses.parent / "data", split="train")) == 8


def test_skipped_files_are_logged(
    tfds: ModuleType, roses: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tree(roses, {"red/cut.jpg": jpeg(77)[:-100]})
    load(tfds, roses, max_bad=1.0)
    path = roses.parent / "data/roses/1.0.0/skipped.csv"
    assert f"roses 1.0.0: 1 file skipped: see {path}" in caplog.messages


# Options


def test_every_option_of_pack_is_an_option_of_the_builder(cli: Cli) -> None:
    shown = set(re.findall(r"--([a-z][a-z0-9-]+)", cli("pack", "--help").stdout))
    others = {"help", "json", "quiet", "version", "data-dir", "engine", "spark-master"}
    others |= {"spark-conf", "verbose"}
    refuse_unknown(option.removeprefix("no-").replace("-", "_") for option in shown - others)
    assert len(shown) > 40


def test_options_are_those_of_the_command_line() -> None:
    given = {
        "val_split": 0.1, "shard_size": 1 << 20, "check": "header", "workers": None,
        "resume": False, "classes": ["b", "a"], "split_file": Path("splits.csv"), "fold_case": True,
        "class_depth": "leaf", "include": "rose/*", "onehot": "cat,dog", "label_col": 2,
        "column": ["age:int", ColumnOption("a:b")],
    }  # fmt: skip
    assert options_from(given) == PackOptions(
        val_split=0.1, shard_size=1 << 20, check=Check.HEADER, resume=False, classes=("b", "a"),
        split_file="splits.csv",
        source=SourceOptions(
            fold_case=True, class_depth=0, include=("rose/*",), onehot=("cat", "dog"),
            label_col="2", column=(ColumnOption("age", ColumnKind.INT), ColumnOption("a:b")),
        ),
    )  # fmt: skip


def test_options_may_name_files(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("white\nred\n")
    assert options_from({"classes": tmp_path / "classes.txt"}).classes == ("white", "red")
    (tmp_path / "table.csv").touch()
    outside = SourceOptions(manifest=str(tmp_path / "table.csv"))
    expected = SourceOptions(kind=SourceKind.MANIFEST, images="images")
    assert resolve_manifest("images", outside) == (outside.manifest, expected)
    inside = SourceOptions(manifest="labels/train.csv")
    assert resolve_manifest("images.zip", inside) == ("images.zip", inside)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"val_split": "much"}, "val_split cannot be 'much'"),
        ({"source": 1.5}, "source cannot be 1.5"),
        ({"source": ""}, "there is nothing to pack or to read"),
        ({"dataset": ["a"]}, "dataset cannot be ['a']"),
        ({"dataset": "A b"}, "--name 'A b' is not a name that tfds.load can find"),
        ({"classes": "/nowhere.txt"}, "cannot read classes /nowhere.txt: No such file"),
        ({"fold_case": "yes"}, "fold_case cannot be 'yes'"),
        ({"manifest": "*.csv", "images": "i"}, "images and the source both give the folder"),
        ({"compression": "gzip"}, "compression gzip makes shards that TFDS cannot read"),
        ({"config": "big"}, "imgrec has no config 'big'"),
        ({"file_format": "riegeli"}, "a pack has no riegeli files"),
        ({"version": "1.*.*"}, "version '1.*.*' is not a version that TFDS reads"),
        ({"data_dir": "gs://b"}, "imgrec.builder does not work on an object store: gs://b"),
    ],
)
def test_wrong_options_are_usage_errors(
    builder_cls: Any, given: dict[str, object], message: str
) -> None:
    with pytest.raises(errors.UsageError, match=re.escape(message)):
        builder_cls(**{"source": "s", **given})


def test_an_unknown_option_lists_all(tfds: ModuleType, roses: Path) -> None:
    with pytest.raises(Exception, match="there is no option 'val_spilt'") as raised:
        load(tfds, roses, val_spilt=0.1)
    error = ours(raised)
    assert isinstance(error, errors.UsageError)
    assert error.hint.startswith("did you mean val_split? There is alike, also, card, check, ")
    assert error.__notes__ == [f"hint: {error.hint}"]
    with pytest.raises(Exception, match=r"nowhere does not exist") as raised:
        load(tfds, roses.parent / "nowhere")
    assert isinstance(ours(raised), errors.SourceError)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"max_examples_per_split": 3}, "max_examples_per_split does not apply to packs"),
        ({"download_mode": "update_dataset_info"}, "the files of a pack are never rewritten"),
        ({"download_mode": "force_redownload"}, "flowers is a pack without a source"),
    ],
)
def test_unsupported_requests_of_tfds_are_errors(
    tfds: ModuleType, builder: Any, config: dict[str, Any], message: str
) -> None:
    if "download_mode" in config:
        config = {"download_mode": tfds.GenerateMode(config["download_mode"])}
    with pytest.raises(errors.UsageError, match=message):
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(**config))


# Opening packs


def test_a_pack_opens_under_its_own_name(
    tfds: ModuleType, builder: Any, builder_cls: Any, packed: Path
) -> None:
    from tensorflow_datasets.core.utils import file_utils

    assert isinstance(builder, builder_cls)
    assert (builder.name, str(builder.version)) == ("flowers", "1.0.0")
    assert builder.data_dir == str(packed)
    assert builder.info.features["label"].names == list(CLASSES)
    tfds.core.add_data_dir(packed.parent.parent)
    try:
        assert isinstance(tfds.builder("flowers"), builder_cls)
    finally:
        file_utils.clear_registered_data_dirs()


def test_the_highest_version_opens(tfds: ModuleType, copy: Path) -> None:
    older = Path(shutil.copytree(copy, copy.parent / "0.9.0"))
    info = older / "dataset_info.json"
    info.write_text(info.read_text().replace('"1.0.0"', '"0.9.0"'))
    data_dir = copy.parent.parent
    assert str(tfds.builder("flowers", data_dir=data_dir).version) == "1.0.0"
    other = tfds.builder("imgrec", dataset="flowers:0.9.0", data_dir=data_dir)
    assert (str(other.version), other.data_dir) == ("0.9.0", str(older))


@pytest.mark.parametrize("level", ["", "flowers", "flowers/1.0.0"])
def test_a_pack_opens_by_a_path_at_any_level(tfds: ModuleType, packed: Path, level: str) -> None:
    path = packed.parent.parent / level
    data = tfds.data_source("imgrec", builder_kwargs={"dataset": path}, split="val")
    assert len(data) == 8


def test_a_renamed_pack_opens_under_its_new_name(
    tfds: ModuleType, builder_cls: Any, copy: Path
) -> None:
    root = copy.parent.parent
    copy.parent.rename(root / "blumen")
    builder = tfds.builder("blumen", data_dir=root)
    assert builder.name == "flowers"
    assert len(builder.as_dataset(split="val")) == 8
    (root / "blumen").rename(root / "cifar10")  # a class of TFDS comes before a pack
    assert not isinstance(tfds.builder("cifar10", data_dir=root), builder_cls)


def test_other_datasets_stay_with_tfds(tfds: ModuleType, builder_cls: Any, copy: Path) -> None:
    (copy / "metadata.json").unlink()
    builder = tfds.builder("flowers", data_dir=copy.parent.parent)
    assert not isinstance(builder, builder_cls)
    assert len(builder.as_dataset(split="val")) == 8
    with pytest.raises(Exception, match="was not packed by imgrec"):
        tfds.builder("imgrec", dataset=copy)


def test_tfds_finds_nothing_and_too_much_as_without_imgrec(
    tfds: ModuleType, packed: Path, copy: Path
) -> None:
    from tensorflow_datasets.core.utils import file_utils

    with pytest.raises(tfds.core.DatasetNotFoundError, match=r"cifr10 -> cifar10"):
        tfds.builder("cifr10", data_dir=packed.parent.parent)
    with pytest.raises(tfds.core.DatasetNotFoundError):  # a data directory, not a dataset
        tfds.builder(copy.parent.parent.name, data_dir=copy.parent.parent.parent)
    tfds.core.add_data_dir(packed.parent.parent)
    tfds.core.add_data_dir(copy.parent.parent)
    try:
        with pytest.raises(ValueError, match="detected in multiple locations"):
            tfds.builder("flowers")
    finally:
        file_utils.clear_registered_data_dirs()


def test_options_of_packing_do_not_fit_a_pack(tfds: ModuleType, packed: Path) -> None:
    with pytest.raises(Exception, match="val_split is an option of packing, and "):
        tfds.builder("flowers", data_dir=packed.parent.parent, val_split=0.5)


def test_compressed_shards_are_an_error(tfds: ModuleType, roses: Path, tmp_path: Path) -> None:
    imgrec.pack(roses, PackOptions(data_dir=str(tmp_path / "data"), compression="gzip", workers=1))
    with pytest.raises(Exception, match=r"are compressed \(gzip\); TFDS cannot") as raised:
        tfds.load("roses", data_dir=tmp_path / "data")
    assert "imgrec.load" in ours(raised).hint


# Labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("daisy\nrose\n", "expected 3 classes (features.json), found 2"),
        ("daisy\nrose\ntulip\nmore\n", "expected 3 classes (features.json), found 4"),
        ("daisy\nrose\nrose \n", "line 3 is 'rose ', which TFDS would change"),
        ("daisy\n\ntulip\n", "expected 3 classes (features.json), found 2"),
        (None, "the file is missing"),
    ],
)
def test_labels_that_tfds_would_misread_are_an_error(
    tfds: ModuleType, copy: Path, text: str | None, message: str
) -> None:
    (copy / "label.labels.txt").write_text(text or "")
    if text is None:
        (copy / "label.labels.txt").unlink()
    with pytest.raises(Exception, match=re.escape(f"label.labels.txt: {message}")) as raised:
        tfds.builder("flowers", data_dir=copy.parent.parent)
    assert isinstance(ours(raised), errors.DatasetError)


def test_requested_classes_must_be_those_of_the_pack(
    tfds: ModuleType, packed: Path, roses: Path
) -> None:
    data_dir = packed.parent.parent
    options = {"classes": list(CLASSES)}
    data = tfds.load("flowers", split="val", data_dir=data_dir, builder_kwargs=options)
    assert len(data) == 8
    options = {"classes": ["rose", "daisy", "天竺葵"]}
    with pytest.raises(Exception, match="has other classes than rose, daisy, 天竺葵") as raised:
        tfds.load("flowers", data_dir=data_dir, builder_kwargs=options)
    assert ours(raised).hint == "it has daisy, rose, 天竺葵; labels come from the data"
    load(tfds, roses)
    options = {"source": roses, "classes": ["white", "red"]}
    builder = tfds.builder("imgrec", data_dir=roses.parent / "data", **options)
    for read in (builder.as_dataset, builder.as_data_source):
        with pytest.raises(errors.DatasetError, match="has other classes than white, red"):
            read(split="train")
    options = {"classes": ["white"], "classes_append": True, "dataset": "more"}
    assert labels(load(tfds, roses, **options)["train"].as_numpy_iterator())["red/000.jpg"] == 1


# Data sources


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def test_a_data_source_gives_the_examples_of_a_dataset(builder: Any) -> None:
    data = {example["filename"]: example for example in builder.as_data_source("all")}
    read = list(builder.as_dataset(split="all").as_numpy_iterator())
    assert len(read) == len(data) == 33
    assert [e["filename"] for e in read if not same(e, data[e["filename"]])] == []
    images = [example["image"] for example in data.values()]
    assert {(image.dtype.name, image.shape[2]) for image in images} == {("uint8", 3)}


def test_a_data_source_gives_the_types_of_array_record(
    tfds: ModuleType, roses: Path, tmp_path: Path
) -> None:
    data_dir = tmp_path / "twins"
    folder = imgrec.pack(roses, PackOptions(data_dir=str(data_dir), also="array_record")).info.path
    theirs = tfds.builder_from_directory(folder).as_data_source("train[1:]")
    mine = tfds.data_source("roses", data_dir=data_dir, split="train[1:]")
    assert len(mine) == len(theirs) == 7
    for one, other in zip(mine, theirs, strict=True):
        assert {key: type(one[key]) for key in one} == {key: type(other[key]) for key in other}
        one.pop("image"), other.pop("image")  # JPEGs, which Pillow decodes a little differently
        assert same(one, other)


@pytest.mark.parametrize("split", ["all", "train[:50%]", "train[1shard]", "train[10:20]+val[:2]"])
def test_a_split_of_a_data_source_is_that_of_tfds(builder: Any, split: str) -> None:
    data = builder.as_data_source(split)
    assert labels(data) == labels(builder.as_dataset(split=split).as_numpy_iterator())
    assert len(data) == builder.info.splits[split].num_examples


def test_a_data_source_takes_all_forms_of_splits(
    tfds: ModuleType, builder: Any, packed: Path
) -> None:
    parts = builder.as_data_source(tfds.even_splits("train", 2))
    assert [len(part) for part in parts] == [13, 12]
    instruction = tfds.core.ReadInstruction("val", to=50, unit="%")
    assert len(builder.as_data_source(instruction)) == 4
    nested = builder.as_data_source({"a": "train", "b": ["val", "val[:2]"]})
    assert (len(nested["a"]), [len(part) for part in nested["b"]]) == (25, [8, 2])
    everything = tfds.data_source("flowers", data_dir=packed.parent.parent)
    assert {name: len(data) for name, data in everything.items()} == {"train": 25, "val": 8}
    with pytest.raises(ValueError, match="Unknown split 'tset'"):
        builder.as_data_source("tset")


def test_decoders_choose_what_is_decoded(tfds: ModuleType, builder: Any, source: Path) -> None:
    skip = {"image": tfds.decode.SkipDecoding()}
    for example in builder.as_data_source("val", decoders=skip):
        name = example["filename"].decode()
        assert name.endswith(".gif") or example["image"] == (source / name).read_bytes()
    partial = tfds.decode.PartialDecoding({"label": True, "image": True})
    example = builder.as_data_source("val", decoders=partial)[0]
    assert example.keys() == {"label", "image"}
    assert example["image"].shape[2] == 3
    partial = tfds.decode.PartialDecoding({"image": True}, decoders=skip)
    assert isinstance(builder.as_data_source("val", decoders=partial)[0]["image"], bytes)
    methods = tfds.decode.DeserializeMethod
    raw = builder.as_data_source("val", deserialize_method=methods.RAW_BYTES)[0]
    whole = builder.as_data_source("val", deserialize_method=methods.DESERIALIZE_NO_DECODE)[0]
    assert whole.SerializeToString(deterministic=True) == raw


def test_examples_are_read_by_number(builder: Any) -> None:
    data = builder.as_data_source("train")
    names = [example["filename"] for example in data]
    found = [data[place] for place in (3, -1, np.int64(7))]
    found += data.__getitems__(np.array([4, 0, 4]))
    assert [example["filename"] for example in found] == [names[n] for n in (3, -1, 7, 4, 0, 4)]
    assert data.__getitems__([]) == []
    assert repr(data) == "PackDataSource(name=flowers, split='train', decoders=None)"
    for place in (25, -26):
        with pytest.raises(errors.OutOfRange, match=f"record {place} is out of range: there are"):
            data[place]


def test_a_damaged_shard_is_an_error(tfds: ModuleType, copy: Path) -> None:
    shard = copy / "flowers-val.tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    source = tfds.data_source("flowers", split="val", data_dir=copy.parent.parent)
    with pytest.raises(errors.CorruptRecord, match=r"flowers-val\.tfrecord-00000-of-00001"):
        list(source)


def test_data_sources_and_builders_are_pickled(tfds: ModuleType, builder: Any, roses: Path) -> None:
    data = builder.as_data_source("train[:4]")
    assert len(pickle.dumps(data)) < 1000
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        assert all(map(same, pool.map(data.__getitem__, range(4)), data))
    twin = pickle.loads(pickle.dumps(builder))
    assert labels(twin.as_data_source("val")) == labels(builder.as_data_source("val"))
    made = tfds.builder("imgrec", source=roses, data_dir=roses.parent / "data", seed=3)
    pickle.loads(pickle.dumps(made)).download_and_prepare()
    made.download_and_prepare()  # finds the pack of its twin, with the same options
    assert len(made.as_data_source("train")) == 8


def test_several_labels_and_columns_are_in_a_data_source(tfds: ModuleType, tmp_path: Path) -> None:
    write_tree(tmp_path / "tags", {f"{number}.jpg": jpeg(number) for number in range(3)})
    table = tmp_path / "tags/tags.csv"
    table.write_text("image,labels,age\n0.jpg,a b,7\n1.jpg,b,8\n2.jpg,,9\n")
    kwargs = {"source": table, "label_sep": " ", "column": "age:int"}
    data = tfds.data_source(
        "imgrec", split="train", data_dir=tmp_path / "data", builder_kwargs=kwargs
    )
    read = {item["filename"].decode(): (list(item["labels"]), item["age"]) for item in data}
    assert data.dataset_info.features["labels"].feature.names == ["a", "b"]
    assert read == {"0.jpg": ([0, 1], 7), "1.jpg": ([1], 8), "2.jpg": ([], 9)}


# With the rest of TFDS


def test_it_passes_the_tests_that_tfds_has_for_builders(
    tfds: ModuleType, builder_cls: Any, roses: Path
) -> None:
    pytest.importorskip("dill")  # TFDS's tests need it

    class ShippedRoses(builder_cls):  # type: ignore[misc]  # a class without types
        SOURCE = roses
        OPTIONS = PackOptions(val_split=0.25, version="1.1.0")
        pkg_dir_path = tfds.core.Path(roses.parent)  # TFDS looks for a package, and finds none

    class ShippedRosesTest(tfds.testing.DatasetBuilderTestCase):  # type: ignore[name-defined, misc]
        DATASET_CLASS = ShippedRoses
        EXAMPLE_DIR = roses
        SPLITS: ClassVar = {"train": 6, "val": 2}

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(ShippedRosesTest).run(result)
    assert result.errors + result.failures == []
    assert [reason for _, reason in result.skipped] == ["Not a test."]
    assert result.testsRun == 6


def test_a_class_of_a_project_is_found_by_its_name(
    tfds: ModuleType, builder_cls: Any, roses: Path
) -> None:
    class GardenRoses(builder_cls):  # type: ignore[misc]  # a class without types
        VERSION = tfds.core.Version("2.0.0")
        SOURCE = roses
        OPTIONS = PackOptions(val_split=0.25)

    loaded, info = tfds.load("garden_roses", data_dir=roses.parent / "data", with_info=True)
    assert {split: len(data) for split, data in loaded.items()} == {"train": 6, "val": 2}
    assert info.full_name == "garden_roses/2.0.0"
    assert "garden_roses" in tfds.list_builders()


def test_its_data_can_be_mocked(tfds: ModuleType, packed: Path) -> None:
    data_dir = packed.parent.parent
    with tfds.testing.mock_data(num_examples=5, data_dir=str(data_dir)):
        data = tfds.load("flowers", split="train", data_dir=data_dir)
        assert [example["image"].shape[2] for example in data] == [3] * 5


# In a process of its own


def run(code: str, data_dir: Path) -> str:
    environment = {**os.environ, "TFDS_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", text=True, capture_output=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_packs_and_reads_without_tensorflow_and_without_a_network(
    roses: Path, tmp_path: Path
) -> None:
    code = f"""
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"{{event}} {{arguments}}")
sys.addaudithook(refuse)
import imgrec.builder
import tensorflow_datasets as tfds
from tensorflow_datasets.core.utils import gcs_utils
gcs_utils._is_gcs_disabled = False
kwargs = {{"source": {str(roses)!r}, "val_split": 0.25}}
first = tfds.data_source("imgrec", builder_kwargs=kwargs, split="train")
again = tfds.data_source("roses", split="train")
images = [example["image"].shape for example in again]
print(type(tfds.builder("roses")).__module__, len(first), set(images), "tensorflow" in sys.modules)
"""
    printed = run(code, tmp_path / "data")
    assert printed == "imgrec.loaders.tfds_builder 6 {(16, 24, 3)} False\n"
    code = """
import sys
import tensorflow_datasets as tfds
info = tfds.builder("roses").info
print(info.splits["train"].num_examples, info.features["label"].names, "imgrec" in sys.modules)
"""
    assert run(code, tmp_path / "data") == "6 ['red', 'white'] False\n"


def test_without_tfds_the_pip_command_is_named(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["tensorflow_datasets"] = None
from imgrec import MissingExtra
try:
    import imgrec.builder
except MissingExtra as error:
    print(error.hint)
"""
    assert run(code, tmp_path) == "pip install 'imgrec[tfds]'\n"
