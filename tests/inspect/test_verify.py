"""Verifying datasets: a sound one has no fault, and each kind of damage has its own."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cifar_files import binary_files, python_files
from conftest import ROOT, Cli
from damage import (
    CHECKSUM,
    SHARD,
    VAL,
    any_size,
    change,
    change_records,
    edit_json,
    make_flowers,
    source_of,
    whats,
)
from inline import ENGINE, faults_of, pack, read_shard, reseal, write_shard
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
import imgrec.inspect.verify as verify_module
from imgrec.api import verify
from imgrec.inspect.verify.shard import ShardFacts
from imgrec.read.samples import SamplesFile

Damage = Callable[[Path], object]
ONLY_IMGREC = ("samples.parquet", "SHA256SUMS", "report.json", "skipped.csv", "metadata.json")
GIF, BMP = encode(picture(1), "GIF"), encode(picture(1, "L"), "BMP")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def flowers(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(pristine, tmp_path / "flowers" / "1.0.0"))


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A dataset of three shards for train and one for test, of 30 images each."""
    files = {f"train/{name}/{n}.jpg": jpeg(n) for n in range(90) for name in "ab"[n % 2]}
    files |= {f"test/{name}/{n}.jpg": jpeg(n) for n in range(90, 120) for name in "ab"[n % 2]}
    return pack(write_tree(tmp_path / "many", files), tmp_path / "datasets", shards=3)


# Sound datasets


def test_a_sound_dataset_has_no_faults(pristine: Path) -> None:
    verified = verify(pristine, decode=True, engine=ENGINE)
    assert verified.faults == verified.not_checked == ()
    assert (verified.records, verified.shards, verified.files) == (13, 2, 12)


def idx_files() -> dict[str, bytes]:
    images = struct.pack(">IIII", 0x803, 3, 16, 16) + bytes(range(256)) * 3
    labels = struct.pack(">II", 0x801, 3) + bytes([0, 1, 1])
    return {"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": labels}


TABLE = b"file,tags,age\n0.jpg,a b,1.5\n1.jpg,b,2\n2.jpg,a,3\n"
TABLE_FILES = {f"{n}.jpg": jpeg(n) for n in range(3)} | {"table.csv": TABLE}
SOUND: dict[str, tuple[Callable[[], dict[str, bytes]], dict[str, object]]] = {
    "idx": (idx_files, {}),
    "cifar of python": (python_files, {}),
    "cifar of bytes": (binary_files, {}),
    "splits": (
        lambda: {"train/a/1.jpg": jpeg(1), "val/a/2.jpg": jpeg(2), "test/5.jpg": jpeg(5)},
        {},
    ),
    "shrunk": (
        lambda: (
            {f"a/{n}.jpg": jpeg(n, size=(80, 60)) for n in range(3)}
            | {"b/0.jpg": jpeg(9, size=(20, 10)), "b/1.png": png(8, size=(64, 64))}
        ),
        {"short_side": 32},
    ),
    "accents": (lambda: {"cafe\u0301/1.jpg": jpeg(1), "tea/2.jpg": jpeg(2)}, {}),
    "gzip": (lambda: {f"a/{n}.jpg": jpeg(n) for n in range(3)}, {"compression": "gzip"}),
    "zlib": (lambda: {f"a/{n}.jpg": jpeg(n) for n in range(3)}, {"compression": "zlib"}),
    "several labels": (lambda: TABLE_FILES, {"source": imgrec.SourceOptions(label_sep=" ")}),
    "a column": (
        lambda: TABLE_FILES,
        {"source": imgrec.SourceOptions(column=(imgrec.ColumnOption("age"),))},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_dataset_of_any_kind_has_no_faults(tmp_path: Path, name: str) -> None:
    files, options = SOUND[name]
    source = write_tree(tmp_path / "x", files())
    source = source / "table.csv" if (source / "table.csv").exists() else source
    folder = pack(source, tmp_path / "out", name="x", **options)
    assert faults_of(folder, decode=True, source=source) == []


def test_files_that_become_the_same_png_are_no_leak(tmp_path: Path) -> None:
    kinds = (("webp", "WEBP", {"lossless": True}), ("tif", "TIFF", {}))
    pictures = {
        f"a/{n}.{extension}": encode(picture(n), image_format, **options)
        for n in range(20)
        for extension, image_format, options in kinds
    }
    folder = pack(write_tree(tmp_path / "x", pictures), tmp_path / "out", val_split=0.3)
    shards = [folder / f"x-{split}.tfrecord-00000-of-00001" for split in ("train", "val")]
    train, val = ({record["image"] for record in read_shard(shard)} for shard in shards)
    assert train & val
    assert faults_of(folder, decode=True) == []


def test_a_dataset_that_tfds_made_has_no_faults(tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    class Petals(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> object:
            label = tfds.features.ClassLabel(names=["rose", "tulip"])
            features = {"image": tfds.features.Image(), "label": label, "id": tfds.features.Text()}
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                supervised_keys=("image", "label"),
            )

        def _split_generators(self, _: object) -> dict[str, object]:
            return {"train": self._examples(0, 8), "validation": self._examples(8, 12)}

        def _generate_examples(self) -> object: ...

        def _examples(self, start: int, end: int) -> Iterator[tuple[int, object]]:
            for seed in range(start, end):
                image = io.BytesIO(jpeg(seed))
                yield seed, {"image": image, "label": seed % 2, "id": f"n{seed}"}

    Petals(data_dir=str(tmp_path)).download_and_prepare()
    verified = verify(tmp_path / "petals", decode=True, engine=ENGINE)
    assert verified.faults == ()
    assert (verified.records, verified.files) == (12, 0)
    assert verified.not_checked == (
        "SHA256SUMS: the dataset has none",
        "names of files: records have none",
        "samples.parquet: the dataset has none",
    )


def test_a_dataset_without_what_only_imgrec_writes_is_verified_as_far_as_it_goes(
    flowers: Path,
) -> None:
    for path in (*(flowers / name for name in ONLY_IMGREC), *flowers.glob("*.idx")):
        path.unlink()
    info = json.loads((flowers / "dataset_info.json").read_text())
    (flowers / "dataset_info.json").write_text(json.dumps({**info, "moduleName": "tfds"}))
    verified = verify(flowers, engine=ENGINE)
    assert verified.faults == ()
    assert [what.partition(":")[0] for what in verified.not_checked] == list(ONLY_IMGREC[1::-1])
    change(flowers / SHARD, 100)
    assert faults_of(flowers) == [(SHARD, 0, "wrong checksum of a record")]


# Damage


def text(name: str, content: str) -> Damage:
    return lambda folder: ((folder / name).write_text(content), reseal(folder))


def extended(name: str, more: str) -> Damage:
    return lambda folder: ((folder / name).open("a").write(more), reseal(folder))


def document(name: str, edit: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda folder: edit_json(folder / name, edit)


def info(**values: object) -> Damage:
    return document("dataset_info.json", lambda value: value.update(values))


def train(**values: object) -> Damage:
    return document("dataset_info.json", lambda value: value["splits"][0].update(values))


def first(**values: object) -> Damage:
    """Change the first record; images of any size may be in the dataset."""

    def damage(folder: Path) -> None:
        edit_json(folder / "features.json", any_size)
        change_records(folder, lambda records: records[0].update(values))

    return damage


def without_label(folder: Path) -> None:
    change_records(folder, lambda records: records[0].pop("label"))


def supervised(value: dict[str, Any]) -> None:
    value["supervisedKeys"]["tuple"]["items"][0].update(featureKey="img")


INFO, FEATURES, LABELS, INDEX = (
    "dataset_info.json", "features.json", "label.labels.txt", f"{SHARD}.idx",
)  # fmt: skip
DAMAGES: list[tuple[str, Damage, str]] = [
    (SHARD, without_label, "the record has no label"),
    (SHARD, first(label=(2,)), "its label is 2, and there are 2 classes"),
    (SHARD, first(label=(b"x",)), "its label is not whole numbers"),
    (SHARD, first(label=(1, 2)), "its label has 2 values instead of 1"),
    (SHARD, first(shape=(1, 2)), "its shape has 2 values instead of 3"),
    (SHARD, first(filename=(b"",)), "its filename is empty"),
    (SHARD, first(shape=(9, 24, 3)), "its shape is 9x24x3, and the image's is 16x24x3"),
    (SHARD, first(image=(b"",)), "its image: empty file"),
    (SHARD, first(image=(b"hello",)), "its image: text, not an image"),
    (SHARD, first(image=(GIF,)), "its image: GIF, which TensorFlow does not decode to a picture"),
    (SHARD, first(image=(png(1, size=(20, 20)),)), "and the image's is 20x20x3"),
    ("samples.parquet", first(label=(-1,)), "label is"),
    (INDEX, text(INDEX, "0 99999\n"), "for record 0, which is at"),
    (INDEX, text(INDEX, ""), "nothing for record 0, which is at"),
    (INDEX, text(INDEX, "x" * 100), "nothing for record 0, which is at"),
    (INDEX, text(INDEX, "9" * 5000 + "\n"), "for record 0, which is at"),
    (INDEX, extended(INDEX, "7 7\n"), "'7 7\\n' after the line of the last record"),
    (LABELS, text(LABELS, "rose\n"), "expected 2 classes (features.json), found 1"),
    (LABELS, text(LABELS, "a\nb\nc\n"), "expected 2 classes (features.json), found 3"),
    (LABELS, text(LABELS, "rose\nrose\n"), "line 2 repeats line 1: rose"),
    (LABELS, text(LABELS, "rose \ntulip\n"), "line 1 is 'rose ', which TFDS would change"),
    (LABELS, text(LABELS, "\ntulip\n"), "line 1 is blank, which shifts all labels after it"),
    (INFO, info(imgrec=1), "TFDS does not know the key 'imgrec'"),
    (INFO, document(INFO, lambda value: value.pop("name")), "it has no name"),
    (INFO, info(version="1.0"), "the version '1.0' is not three numbers"),
    (INFO, info(fileFormat="zip"), "TFDS does not know the fileFormat 'zip'"),
    (INFO, info(splits=[]), "it has no splits"),
    (INFO, info(supervisedKeys={"x": 1}), "supervisedKeys is not what TFDS"),
    (INFO, document(INFO, supervised), "supervisedKeys names 'img', which features.json does"),
    (INFO, train(name="all"), "'all' is not a split name"),
    (INFO, train(shardLengths=["x"]), "shardLengths of train are"),
    (INFO, train(shardLengths=[]), "the split train is empty"),
    (INFO, train(filepathTemplate="../{SPLIT}"), "filepathTemplate of train does not make"),
    (INFO, train(numBytes="1"), "numBytes of train is 1, but"),
    (FEATURES, text(FEATURES, "{}"), "the file is not a FeaturesDict of TFDS"),
    (FEATURES, text(FEATURES, "[" * 100_000), "the file is not JSON"),
    ("report.json", document("report.json", lambda v: v.update(name="x")), "its name and the data"),
]


@pytest.mark.parametrize(("path", "damage", "what"), DAMAGES, ids=[what for *_, what in DAMAGES])
def test_each_damage_is_a_fault_of_its_file(
    flowers: Path, path: str, damage: Damage, what: str
) -> None:
    damage(flowers)
    found = whats(flowers, path)
    assert any(what in each for each in found), found
    assert path != INDEX or whats(flowers, SHARD) == []


def test_an_image_of_another_size_than_features_json_declares_is_a_fault(flowers: Path) -> None:
    other = {"image": (png(1, size=(20, 20)),), "shape": (20, 20, 3)}
    change_records(flowers, lambda records: records[0].update(other))
    assert "its image: 20x20x3, but features.json declares 16x24" in whats(flowers, SHARD)


def test_a_document_that_is_no_json_is_a_fault_at_its_byte(flowers: Path) -> None:
    text(FEATURES, '{"\u00e9": nonsense}')(flowers)
    assert (FEATURES, 7, "the file is not JSON: Expecting value") in faults_of(flowers)


@pytest.mark.parametrize(
    "name", [INFO, FEATURES, LABELS, *ONLY_IMGREC, "report.html", SHARD, INDEX]
)
def test_a_missing_file_is_a_fault(flowers: Path, name: str) -> None:
    (flowers / name).unlink()
    assert (name, None, "the file is missing") in faults_of(flowers)


def test_a_missing_shard_is_the_only_fault_that_it_causes(many: Path) -> None:
    for number in range(3):
        name = f"many-train.tfrecord-0000{number}-of-00003"
        (many / name).rename(many / "aside")
        assert faults_of(many) == [(name, None, "the file is missing")]
        (many / "aside").rename(many / name)


def test_faults_are_listed_by_file_and_offset_but_missing_files_come_first(flowers: Path) -> None:
    for name in (SHARD, VAL, "skipped.csv"):
        change(flowers / name, 1)
    faults = faults_of(flowers)
    assert faults == sorted(faults, key=lambda f: (f[0], -1 if f[1] is None else f[1]))
    assert {path for path, _, _ in faults} >= {SHARD, VAL, "skipped.csv"}
    (flowers / VAL).unlink()
    assert faults_of(flowers)[0] == (VAL, None, "the file is missing")


@pytest.mark.parametrize(
    ("name", "damage", "others"),
    [
        (FEATURES, Path.unlink, set()),
        (FEATURES, lambda path: path.write_text("{}"), set()),
        ("report.json", Path.unlink, set()),
        (INFO, Path.unlink, {SHARD, VAL}),
        (INFO, lambda path: path.write_text("{}"), {SHARD, VAL}),
        (INFO, lambda path: train(shardLengths=["7"])(path.parent), {SHARD, "report.json"}),
    ],
)
def test_a_damaged_document_is_not_held_against_the_rest(
    flowers: Path, name: str, damage: Damage, others: set[str]
) -> None:
    sums = (flowers / "SHA256SUMS").read_bytes()
    damage(flowers / name)
    (flowers / "SHA256SUMS").write_bytes(sums)
    assert {path for path, _, _ in faults_of(flowers)} == {name, *others}


def test_a_dataset_without_any_document_is_checked_all_the_same(flowers: Path) -> None:
    for path in flowers.iterdir():
        if "tfrecord" not in path.name:
            path.unlink()
    change(flowers / SHARD, 100)
    faults = faults_of(flowers)
    assert (INFO, None, "the file is missing") in faults
    assert (SHARD, 0, "wrong checksum of a record") in faults


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_folder_or_a_pipe_in_place_of_a_file_is_a_fault(flowers: Path, make: Damage) -> None:
    (flowers / SHARD).unlink()
    make(flowers / SHARD)
    assert "the file cannot be read: not a regular file" in whats(flowers, SHARD)


def test_only_a_dataset_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(imgrec.DatasetNotFound):
            verify(place, engine=ENGINE)


@pytest.mark.parametrize(("at", "flip", "what"), [(50, 1, ""), (7, 0x7F, "'s length")])
def test_a_damaged_record_does_not_hide_the_next(
    flowers: Path, at: int, flip: int, what: str
) -> None:
    """Even if its length is damaged: the index leads to the next record."""
    offsets = [int(line.split()[0]) for line in (flowers / INDEX).read_text().splitlines()]
    change(flowers / SHARD, offsets[1] + at, flip)
    change(flowers / SHARD, offsets[3] + 50)
    faults = [fault for fault in faults_of(flowers) if fault[0] == SHARD and fault[1] is not None]
    assert faults == [
        (SHARD, offsets[1], f"wrong checksum of a record{what}"),
        (SHARD, offsets[3], "wrong checksum of a record"),
    ]


def test_a_shard_that_is_cut_or_has_a_tail_is_a_fault(flowers: Path) -> None:
    data = (flowers / SHARD).read_bytes()
    last = int((flowers / INDEX).read_text().splitlines()[-1].split()[0])
    for changed, offset in ((data + b"tail", len(data)), (data[:-10], last)):
        (flowers / SHARD).write_bytes(changed)
        reseal(flowers)
        assert (SHARD, offset, "truncated record") in faults_of(flowers)


def test_a_compressed_shard_that_is_damaged_or_cut_is_a_fault(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 9}), tmp_path, compression="gzip")
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    change(shard, -1)
    assert any("stream" in what for what in whats(folder, shard.name))
    shard.write_bytes(shard.read_bytes()[:1000])
    assert any("is truncated at byte 1000" in what for what in whats(folder, shard.name))


def test_a_record_less_than_the_metadata_declares_is_a_fault(flowers: Path) -> None:
    change_records(flowers, lambda records: records.pop())
    assert "expected 9 records (dataset_info.json), found 8" in whats(flowers, SHARD)
    assert any("class_counts of train" in what for what in whats(flowers, "metadata.json"))
    assert any("numBytes of train" in what for what in whats(flowers, INFO))
    assert "it has 13 rows for 12 records" in whats(flowers, "samples.parquet")


def test_labels_that_are_not_those_of_their_class_folders_are_faults(flowers: Path) -> None:
    def swap(records: list[dict[str, object]]) -> None:
        rose = next(record for record in records if record["label"] == (0,))
        tulip = next(record for record in records if record["label"] == (1,))
        rose["label"], tulip["label"] = tulip["label"], rose["label"]

    change_records(flowers, swap)
    found = [what for what in whats(flowers, SHARD) if "has the label of" in what]
    assert sorted(what.partition("/")[0] for what in found) == ["rose", "tulip"]


def test_a_record_that_is_no_example_is_a_fault(flowers: Path) -> None:
    write_shard(flowers / SHARD, [b"\xff" * 30, *read_shard(flowers / SHARD)[1:]])
    reseal(flowers)
    assert any("not a tf.train.Example" in what for what in whats(flowers, SHARD))


def test_decode_finds_what_headers_do_not_show(flowers: Path) -> None:
    broken = bytearray(png(1))
    broken[60] ^= 0xFF  # in its pixels
    for image, what in (
        (jpeg(1)[:-20], "truncated JPEG"),
        (bytes(broken), "PNG with a wrong checksum of its IDAT chunk"),
    ):
        change_records(flowers, lambda records, image=image: records[0].update(image=(image,)))
        assert whats(flowers, SHARD) == []
        assert any(what in found for found in whats(flowers, SHARD, decode=True))


def declare(folder: Path, **image: object) -> None:
    """Let features.json declare another kind of image."""
    features = ("featuresDict", "features", "image", "image")

    def edit(value: dict[str, Any]) -> None:
        for key in features:
            value = value[key]
        value.update(image)

    edit_json(folder / FEATURES, edit)


@pytest.mark.parametrize(
    ("channels", "dtype", "image", "what"),
    [
        ("1", "uint8", BMP, "BMP, which .* not decode to 1 channel"),
        ("4", "uint8", jpeg(1), "JPEG, which .* not decode to 4 channels"),
        ("2", "uint8", png(1, mode="LA"), "PNG, which .* not decode to 2 channels"),
        ("1", "float32", jpeg(1, mode="L"), "JPEG, which .* not decode to 4 channels"),
        ("3", "uint8", BMP, ""),
        ("-1", "uint8", BMP, ""),
        ("1", "uint16", png(1, mode="I;16"), ""),
    ],
)
def test_an_image_must_decode_to_what_features_json_declares(
    flowers: Path, channels: str, dtype: str, image: bytes, what: str
) -> None:
    declare(flowers, shape={"dimensions": ["-1", "-1", channels]}, dtype=dtype)
    change_records(flowers, lambda records: records[0].update(image=(image,)))
    found = [one for one in whats(flowers, SHARD, decode=True) if "decode" in one]
    formats = {re.split(r"[ ,:]+", one)[2] for one in found}
    assert any(re.match(f"its image: {what}", one) for one in found) is bool(what), found
    assert what or "BMP" not in formats, found


def test_a_dtype_that_no_image_has_is_a_fault(flowers: Path) -> None:
    declare(flowers, dtype="int64")
    assert whats(flowers, FEATURES) == ["the feature 'image' is not what TFDS writes there"]


def test_a_name_or_an_image_in_two_shards_is_a_fault(many: Path) -> None:
    train, test = (
        many / "many-train.tfrecord-00000-of-00003", many / "many-test.tfrecord-00000-of-00001",
    )  # fmt: skip
    write_shard(test, [read_shard(train)[0], *read_shard(test)[1:]])
    reseal(many)
    found = "\n".join(whats(many, train.name) + whats(many, test.name))
    assert "is also the name of the record at byte 0 of many-" in found
    assert "is the same image as" in found


def test_one_file_of_the_source_in_two_splits_is_a_fault_by_its_hash(flowers: Path) -> None:
    rows = pq.read_table(flowers / "samples.parquet").to_pylist()
    gif = next(row for row in rows if row["filename"] == "tulip/x.gif")
    next(row for row in rows if row["split"] != gif["split"])["xxh3"] = gif["xxh3"]
    pq.write_table(pa.Table.from_pylist(rows), flowers / "samples.parquet")
    reseal(flowers)
    found = [what for _, _, what in faults_of(flowers)]
    assert any("is the same image as" in what for what in found)
    assert any("the xxh3 of" in what and "is not that of record" in what for what in found)


def test_shards_that_were_swapped_are_named_first_and_each_for_what_it_is(flowers: Path) -> None:
    for one, other in ((SHARD, "aside"), (VAL, SHARD), ("aside", VAL)):
        (flowers / one).rename(flowers / other)
    faults = faults_of(flowers)
    assert {path for path, _, _ in faults[:4]} == {SHARD, VAL}
    assert (SHARD, None, f"{CHECKSUM}: it is that of {VAL}") in faults
    assert not any("is the same image" in what for _, _, what in faults)


# samples.parquet


@pytest.mark.parametrize(
    ("column", "value"),
    [("offset", 5), ("length", 5), ("label", 7), ("filename", "x"), ("height", 1), ("width", 1),
     ("channels", 1), ("format", "BMP"), ("split", "test"), ("shard", "x"), ("xxh3", "00" * 16),
     ("xxh3", "none")],
)  # fmt: skip
def test_each_column_of_the_table_is_compared(flowers: Path, column: str, value: object) -> None:
    rows = pq.read_table(flowers / "samples.parquet").to_pylist()
    rows[2][column] = value
    pq.write_table(pa.Table.from_pylist(rows), flowers / "samples.parquet")
    reseal(flowers)
    (what,) = whats(flowers, "samples.parquet")
    wanted = "the xxh3 of" if column == "xxh3" else f"row 2: {column} is {value!r}"
    assert what.startswith(wanted)


def test_a_table_without_a_column_or_with_more_rows_is_a_fault(flowers: Path) -> None:
    table = pq.read_table(flowers / "samples.parquet")
    for changed, what in (
        (table.drop_columns(["label"]), "it has no column label"),
        (pa.concat_tables([table, table]), "it has 26 rows for 13 records"),
    ):
        pq.write_table(changed, flowers / "samples.parquet")
        reseal(flowers)
        assert whats(flowers, "samples.parquet") == [what]


def test_rows_that_moved_are_no_leaks(many: Path) -> None:
    table = pq.read_table(many / "samples.parquet")
    pq.write_table(table.slice(1), many / "samples.parquet")
    reseal(many)
    found = whats(many, "samples.parquet")
    assert "it has 119 rows for 120 records" in found
    assert all(": offset is" in what or ": shard is" in what for what in found[1:])
    assert faults_of(many) == [("samples.parquet", None, what) for what in found]


def test_more_shrunk_images_than_the_report_counts_are_a_fault(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {"a/0.jpg": jpeg(0, size=(80, 60)), "a/1.jpg": jpeg(1)})
    folder = pack(source, tmp_path / "out", short_side=32)
    edit_json(folder / "report.json", lambda value: value["resized"].update(count=0, examples=[]))  # type: ignore[attr-defined]
    (what,) = whats(folder, "samples.parquet")
    assert what.endswith("but report.json counts only 0 that were shrunk")


@pytest.mark.parametrize(("more", "faults"), [(4, 0), (3, 1)])
def test_transcoded_files_that_are_counted_but_not_named_have_other_hashes(
    tmp_path: Path, more: int, faults: int
) -> None:
    files = {f"a/{n}.gif": encode(picture(n, "P"), "GIF") for n in range(6)}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out")

    def edit(report: dict[str, Any]) -> None:
        report |= {"transcoded": report["transcoded"][:2], "unlisted_transcoded": more}

    edit_json(folder / "report.json", edit)
    assert len(faults_of(folder)) == faults


def test_rows_of_a_table_are_those_of_a_slice_in_any_order(many: Path) -> None:
    wanted = pq.read_table(many / "samples.parquet")
    table = SamplesFile(many)
    for start, count in ((0, 7), (7, 0), (7, 30), (50, 20), (3, 4), (120, 5), (0, 120)):
        assert table.rows(start, count).to_pylist() == wanted.slice(start, count).to_pylist()
    shards = wanted.column("shard").to_pylist()
    assert table.first_rows("shard") == {name: shards.index(name) for name in set(shards)}


def test_only_some_shards_are_in_memory_at_a_time(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.inspect.verify.state._MEMORY_BYTES", 0)
    counts = []

    def counting(check: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            counts.append(sum(type(each) is ShardFacts for each in gc.get_objects()))
            return check(*arguments)

        return counted

    for name in ("check_samples", "check_names", "check_folders", "check_leaks", "check_counts"):
        monkeypatch.setattr(verify_module, name, counting(getattr(verify_module, name)))
    assert verify(many, engine=ENGINE).faults == ()
    assert len(counts) == 5
    assert max(counts) <= 3


# Other files


@pytest.fixture
def copies(pristine: Path, tmp_path: Path) -> Path:
    return pack(source_of(pristine), tmp_path / "copies", also="array_record", val_split=0.25)


def test_a_copy_with_other_records_is_a_fault(copies: Path) -> None:
    assert faults_of(copies) == []
    train, val = sorted(path.name for path in copies.glob("*.array_record-*"))
    shutil.copy(copies / val, copies / train)
    reseal(copies)
    found = whats(copies, train)
    shard = train.replace("array_record", "tfrecord")
    assert f"record 0 differs from that of {shard}" in found
    assert f"it has 4 records, and {shard} has 9" in found


def test_a_copy_that_is_missing_or_none_is_a_fault(copies: Path) -> None:
    copy = min(path.name for path in copies.glob("*.array_record-*"))
    for data in (b"", b"nonsense" * 1000):
        (copies / copy).write_bytes(data)
        reseal(copies)
        assert whats(copies, copy)
        assert any("array_record files of train" in what for what in whats(copies, "metadata.json"))
    (copies / copy).unlink()
    reseal(copies)
    assert whats(copies, copy) == ["the file is missing"]


def test_a_shard_that_no_document_names_is_a_fault(flowers: Path) -> None:
    stray = "flowers-test.tfrecord-00000-of-00001"
    shutil.copy(flowers / VAL, flowers / stray)
    faults = faults_of(flowers)
    assert (stray, None, "dataset_info.json does not name this shard") in faults
    assert (stray, None, "SHA256SUMS does not list it") in faults


def test_a_file_that_is_not_listed_and_one_that_is_only_listed_are_named(flowers: Path) -> None:
    (flowers / "notes.txt").write_text("hello")
    with (flowers / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  gone.txt\n")
    verified = verify(flowers, engine=ENGINE)
    assert [fault.path for fault in verified.faults] == ["gone.txt"]
    assert verified.not_checked == ("notes.txt: SHA256SUMS does not list it",)


# The source


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    """A copy of what the dataset was packed from."""
    return Path(shutil.copytree(source_of(pristine), tmp_path / "source"))


SOURCE_CHANGES: list[tuple[Damage, str]] = [
    (lambda source: change(source / "rose/000.jpg", -3), "differs from the source: they differ f"),
    (
        lambda source: (source / "tulip/x.gif").write_bytes(encode(picture(98), "GIF")),
        "tulip/x.gif differs from the source: its pixels differ",
    ),
    (lambda source: (source / "rose/000.jpg").unlink(), "there is no rose/000.jpg in "),
    (
        lambda source: write_tree(source, {"rose/new.jpg": jpeg(77), "rose/notes.txt": b"x"}),
        "but in no record",
    ),
]


@pytest.mark.parametrize(("edit", "what"), SOURCE_CHANGES)
def test_a_source_that_changed_is_a_fault(
    pristine: Path, source: Path, edit: Damage, what: str
) -> None:
    assert faults_of(pristine, source=source) == []
    edit(source)
    (fault,) = faults_of(pristine, source=source)
    assert what in fault[2]


def test_what_was_skipped_or_left_out_is_not_missed(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    write_tree(tree, {"a/half.jpg": jpeg(5)[:300], "a/thumb.jpg": jpeg(50)})
    chosen = imgrec.SourceOptions(exclude=("*thumb*",))
    verified = verify(
        pack(tree, tmp_path / "out", source=chosen, max_bad=0.5), source=tree, engine=ENGINE
    )
    assert verified.faults == verified.not_checked == ()
    limited = imgrec.SourceOptions(limit_per_class=2)
    verified = verify(
        pack(tree, tmp_path / "other", source=limited, max_bad=0.5), source=tree, engine=ENGINE
    )
    assert verified.faults == ()
    assert "images are not packed" in verified.not_checked[0]


def test_a_source_of_other_files_is_an_error(pristine: Path, tmp_path: Path) -> None:
    other = class_tree(tmp_path / "other", {"cat": 1})
    with pytest.raises(imgrec.SourceError, match="has none of the dataset's files"):
        verify(pristine, source=other, engine=ENGINE)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_is_compared_member_by_member(tmp_path: Path, kind: str) -> None:
    tree = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    path = tmp_path / f"x.{kind}"
    shutil.make_archive(str(tmp_path / "x"), kind, tree)
    folder = pack(path, tmp_path / "out")
    assert faults_of(folder, source=path) == []
    (tree / "a/000.jpg").write_bytes(jpeg(99))
    shutil.make_archive(str(tmp_path / "x"), kind, tree)
    (fault,) = faults_of(folder, source=path)
    assert "a/000.jpg differs from the source" in fault[2]


def test_pixels_of_another_image_are_a_fault(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", binary_files())
    folder = pack(source, tmp_path / "out")
    change(next(source.glob("data_batch_1*")), 100)
    (fault,) = faults_of(folder, source=source)
    assert fault[2].endswith("differs from the source: its pixels differ")


def test_records_without_names_cannot_be_compared(flowers: Path, source: Path) -> None:
    edit_json(flowers / FEATURES, lambda value: value["featuresDict"]["features"].pop("filename"))  # type: ignore[index]
    what = f"records have no filename, so none can be compared with {source}"
    assert what in whats(flowers, FEATURES, source=source)


@pytest.mark.parametrize("linked", [["b"], ["a", "b"]])
def test_files_behind_links_are_compared(tmp_path: Path, linked: list[str]) -> None:
    source = class_tree(tmp_path / "x", {"a": 2, "b": 2})
    for name in linked:
        (source / name).rename(tmp_path / name)
        (source / name).symlink_to(tmp_path / name)
    options = imgrec.SourceOptions(follow_links=True)
    folder = pack(source, tmp_path / "out", source=options)
    assert faults_of(folder, source=source) == []


# The command


@pytest.mark.processes
def test_the_workers_do_not_change_what_is_found(flowers: Path) -> None:
    change(flowers / SHARD, 100)
    change(flowers / VAL, 200)
    assert [(f.path, f.offset, f.what) for f in verify(flowers).faults] == faults_of(flowers)


def test_the_command_prints_one_line_or_the_faults(cli: Cli, flowers: Path) -> None:
    size = sum((flowers / name).stat().st_size for name in (SHARD, VAL)) / 1024
    done = cli("verify", flowers)
    checked = f"checked 13 records in 2 shards ({size:.1f} KiB) and 12 files"
    assert (done.returncode, done.stdout) == (0, f"flowers 1.0.0: ok; {checked}\n")
    change(flowers / SHARD, 100)
    done = cli("verify", flowers)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        f"flowers 1.0.0: 2 faults; {checked}",
        f"{SHARD}: {CHECKSUM}",
        f"{SHARD}, byte 0: wrong checksum of a record",
        "hint        restore these files from a copy, or make it again: imgrec help verify",
    ]
    done = cli("verify", flowers, "--json", "--decode", "--workers", "1", "--quiet")
    value = json.loads(done.stdout)
    assert (done.returncode, value["ok"], value["records"]) == (1, False, 13)
    assert value["faults"] == [
        {"file": SHARD, "offset": None, "fault": CHECKSUM},
        {"file": SHARD, "offset": 0, "fault": "wrong checksum of a record"},
    ]
    assert value["path"] == str(flowers)


def test_text_shows_the_first_faults_of_a_kind_and_json_all(cli: Cli, many: Path) -> None:
    rows = pq.read_table(many / "samples.parquet").to_pylist()
    for row in rows:
        row["height"], row["filename"] = 1, f"it's {row['filename']}"
    pq.write_table(pa.Table.from_pylist(rows), many / "samples.parquet")
    reseal(many)
    lines = cli("verify", many).stdout.splitlines()
    assert lines[0].startswith("many 1.0.0: 240 faults; ")
    more = "samples.parquet: … and 100 more of this kind: --json lists all"
    assert (len(lines), lines.count(more)) == (1 + 2 * 21 + 1, 2)
    assert len(json.loads(cli("verify", many, "--json").stdout)["faults"]) == 240


def test_wrong_use_of_the_command_is_one_sentence(cli: Cli, pristine: Path) -> None:
    done = cli("verify", "nothing")
    assert done.returncode == 5
    assert done.stderr.startswith("imgrec: no dataset 'nothing'")
    done = cli("verify", pristine, "--source", "nowhere")
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "imgrec: nowhere does not exist")
    assert cli("verify", pristine, "--workers", "0").returncode == 2


def test_no_framework_is_imported(pristine: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from imgrec.api import unpack, verify\n"
        "verify(sys.argv[1], decode=True); unpack(sys.argv[1], sys.argv[2])\n"
        "frameworks = {'tensorflow', 'tensorflow_datasets', 'torch', 'grain', 'array_record'}\n"
        "assert not frameworks & set(sys.modules), frameworks & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", code, pristine, tmp_path / "tree"], env=environment, check=True
    )
