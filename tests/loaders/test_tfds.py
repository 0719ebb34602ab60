"""A packed dataset in the real TFDS, without imgrec's builder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
from imgrec.layout import tfds_catalogue
from imgrec.options import PackOptions
from imgrec.outcome import Packed

CLASSES = ("daisy", "rose", "天竺葵")


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def tfds(tf: ModuleType) -> ModuleType:
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "flowers"
    class_tree(root, dict.fromkeys(CLASSES, 8))
    for number, name in enumerate(CLASSES):
        extra = {
            "grey.jpg": jpeg(100 + number, mode="L"),
            "alpha.png": png(110 + number, mode="RGBA", size=(9, 7)),
            "palette.png": png(120 + number, mode="P"),
            "old.gif": encode(picture(130 + number, "P"), "GIF"),
        }
        write_tree(root / name, extra)
    return write_tree(root, {"daisy/gänseblümchen ✿.png": png(140)})


@pytest.fixture(scope="module")
def packed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    data_dir = tmp_path_factory.mktemp("datasets")
    return imgrec.pack(source, PackOptions(data_dir=str(data_dir), val_split=0.2, shards=3))


@pytest.fixture(scope="module")
def builder(tfds: ModuleType, packed: Packed) -> Any:
    return tfds.builder_from_directory(packed.info.path)


def records(dataset: Any) -> list[Any]:
    return list(dataset.as_numpy_iterator())


def names(dataset: Any) -> list[str]:
    return [record["filename"].decode() for record in records(dataset)]


def test_tfds_loads_it_by_name_without_imgrec(packed: Packed) -> None:
    code = """
import collections, json, sys
import tensorflow_datasets as tfds
loaded, info = tfds.load("flowers", with_info=True)
labels = {
    split: collections.Counter(int(record["label"]) for record in dataset.as_numpy_iterator())
    for split, dataset in loaded.items()
}
assert "imgrec" not in sys.modules
json.dump([labels, info.features["label"].names], sys.stdout)
"""
    data_dir = str(Path(packed.info.path).parent.parent)
    environment = {**os.environ, "TFDS_DATA_DIR": data_dir, "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, check=True
    )
    labels, class_names = json.loads(run.stdout)
    assert labels == {"train": {"0": 10, "1": 10, "2": 10}, "val": {"0": 3, "1": 2, "2": 2}}
    assert class_names == list(CLASSES)


def test_the_printed_line_gives_pictures_in_colour_and_labels(
    tfds: ModuleType, packed: Packed
) -> None:
    pairs = records(eval(packed.info.load, {"tfds": tfds}))
    assert {(image.dtype.name, image.shape[2]) for image, _ in pairs} == {("uint8", 3)}
    assert Counter(int(label) for _, label in pairs) == {0: 10, 1: 10, 2: 10}


def test_every_file_of_the_source_is_in_one_record(builder: Any, source: Path) -> None:
    files = sorted(str(path.relative_to(source)) for path in source.rglob("*.*"))
    for split in ("train+val", "all", "val+train[:50%]+train[50%:]"):
        assert sorted(names(builder.as_dataset(split=split))) == files


def test_every_record_has_the_file_its_label_and_its_shape(
    tf: ModuleType, tfds: ModuleType, builder: Any, source: Path
) -> None:
    skip = {"image": tfds.decode.SkipDecoding()}
    changed = set()
    for record in records(builder.as_dataset(split="all", decoders=skip)):
        name = record["filename"].decode()
        assert CLASSES[record["label"]] == name.split("/")[0]
        if record["image"] != (source / name).read_bytes():
            changed.add(name)
        image = tf.io.decode_image(record["image"], expand_animations=False)
        assert list(image.shape) == record["shape"].tolist()
    assert changed == {f"{name}/old.gif" for name in CLASSES}  # transcoded


def test_plain_tensorflow_parses_it(tf: ModuleType, packed: Packed) -> None:
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "shape": tf.io.FixedLenFeature([3], tf.int64),
        "filename": tf.io.FixedLenFeature([], tf.string),
    }
    shards = sorted(map(str, Path(packed.info.path).glob("flowers-train.tfrecord-*-of-00003")))
    dataset = tf.data.TFRecordDataset(shards).map(
        lambda record: tf.io.parse_single_example(record, features)
    )
    labels = Counter(int(record["label"]) for record in records(dataset))
    assert labels == {0: 10, 1: 10, 2: 10}


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_tfds_loads_a_grey_bmp_among_other_images(
    tfds: ModuleType, tmp_path: Path, mode: str
) -> None:
    files = {"a/1.bmp": encode(picture(1, "L"), "BMP"), "a/2.png": png(2, mode=mode)}
    write_tree(tmp_path / "mixed", {**files, "b/3.jpg": jpeg(3, mode=mode)})
    packed = imgrec.pack(tmp_path / "mixed", PackOptions(data_dir=str(tmp_path)))
    loaded = records(eval(packed.info.load, {"tfds": tfds}))
    assert [image.shape for image, _ in loaded] == [(16, 24, 1 if mode == "L" else 3)] * 3


def test_tfds_makes_a_data_frame_of_it(tfds: ModuleType, builder: Any) -> None:
    pytest.importorskip("jinja2")  # pandas needs it to show the pictures
    frame = tfds.as_dataframe(builder.as_dataset(split="val"), builder.info)
    assert list(frame.columns) == ["filename", "image", "label", "shape"]
    assert sorted(frame["label"]) == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_tfds_shows_examples_with_their_class_names(tfds: ModuleType, builder: Any) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    figure = tfds.show_examples(builder.as_dataset(split="val"), builder.info, rows=2, cols=3)
    titles = [axes.get_xlabel() for axes in figure.axes]
    pyplot.close(figure)
    val = records(builder.as_dataset(split="val"))
    assert titles == [f"{CLASSES[record['label']]} ({record['label']})" for record in val[:6]]


def test_documents_are_written_as_tfds_writes_them(
    tfds: ModuleType, packed: Packed, builder: Any, tmp_path: Path
) -> None:
    features = tfds.features.FeaturesDict(
        {
            "filename": tfds.features.Text(),
            "image": tfds.features.Image(),
            "label": tfds.features.ClassLabel(names=CLASSES),
            "shape": tfds.features.Tensor(shape=(3,), dtype=np.int64),
        }
    )
    theirs = tmp_path / "flowers" / "1.0.0"
    shutil.copytree(packed.info.path, theirs, ignore=shutil.ignore_patterns("*.json", "*.txt"))
    splits = [
        tfds.core.SplitInfo(
            name=split.name, shard_lengths=list(split.shard_lengths), num_bytes=split.num_bytes
        )
        for split in packed.info.splits
    ]
    tfds.folder_dataset.write_metadata(
        data_dir=theirs, features=features, split_infos=splits,
        supervised_keys=("image", "label"), check_data=False,
    )  # fmt: skip
    written = tfds.builder_from_directory(theirs).info
    for field in ("name", "version", "splits", "supervised_keys", "file_format"):
        assert getattr(builder.info.as_proto, field) == getattr(written.as_proto, field), field
    assert builder.info.features.to_json() == features.to_json()
    documents = [Path(root) / "features.json" for root in (packed.info.path, theirs)]
    assert json.loads(documents[0].read_bytes()) == json.loads(documents[1].read_bytes())
    shards = Path(packed.info.path).glob("*.tfrecord-?????-of-?????")
    assert builder.info.dataset_size == sum(shard.stat().st_size for shard in shards)
    assert builder.info.metadata["imgrec"]["fingerprint"] == packed.info.fingerprint


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        ([png(seed, mode="I;16") for seed in range(4)], (16, 24, 1)),
        ([jpeg(mode="L"), jpeg(), png(mode="RGBA")], (16, 24, 3)),
        ([jpeg(size=(24, height)) for height in (16, 17)], (None, 24, 3)),
        ([jpeg(mode="L"), jpeg(size=(8, 9))], (None, None, 3)),
    ],
    ids=["16-bit grey", "mixed colours", "one width", "mixed"],
)
def test_images_have_the_most_exact_shape_that_all_share(
    tfds: ModuleType, tmp_path: Path, images: list[bytes], shape: tuple[int | None, ...]
) -> None:
    source = write_tree(tmp_path / "a", {f"b/{i}.img.jpg": data for i, data in enumerate(images)})
    path = imgrec.pack(source, PackOptions(data_dir=str(tmp_path / "d"), workers=1)).info.path
    dataset = tfds.builder_from_directory(path).as_dataset(split="train")
    assert tuple(dataset.element_spec["image"].shape) == shape
    assert len(records(dataset)) == len(images)


def test_a_name_of_the_catalogue_loads_our_files(
    tfds: ModuleType, source: Path, tmp_path: Path
) -> None:
    options = PackOptions(name="cifar10", data_dir=str(tmp_path), workers=1)
    dataset = eval(imgrec.pack(source, options).info.load, {"tfds": tfds})
    assert Counter(int(label) for _, label in records(dataset)) == {0: 13, 1: 12, 2: 12}


def test_the_catalogue_has_every_name_of_tfds(tfds: ModuleType) -> None:
    # Builders that other tests of this process have registered are not TFDS's own.
    missing = {
        name
        for name in tfds.list_builders(with_community_datasets=False)
        if name not in tfds_catalogue()
        and tfds.builder_cls(name).__module__.startswith("tensorflow_datasets")
    }
    assert missing == set()
    assert "cifar10" in tfds_catalogue()


def test_a_shard_with_only_bad_images_loads(tfds: ModuleType, tmp_path: Path) -> None:
    source = class_tree(tmp_path / "roses", {"rose": 6})
    write_tree(source, {"rose/cut.jpg": jpeg(99)[:-100]})
    options = PackOptions(data_dir=str(tmp_path), shards=7, max_bad=1.0, workers=1)
    packed = imgrec.pack(source, options)
    assert sorted(packed.info.splits[0].shard_lengths) == [0, 1, 1, 1, 1, 1, 1]
    dataset = tfds.load("roses", split="train", data_dir=tmp_path)
    assert sorted(names(dataset)) == [f"rose/00{number}.jpg" for number in range(6)]
