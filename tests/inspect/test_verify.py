"""Verifying datasets: a sound one has no fault, and each kind of damage has its own."""

from __future__ import annotations

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
from pictures import encode, jpeg, picture, png, write_tree

import imgrec
from imgrec.api import verify


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def flowers(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(pristine, tmp_path / "flowers" / "1.0.0"))


def test_a_sound_dataset_has_no_faults(pristine: Path) -> None:
    verified = verify(pristine, decode=True, engine=ENGINE)
    assert verified.faults == ()
    assert verified.not_checked == ()
    assert (verified.records, verified.shards, verified.files) == (13, 2, 12)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_a_sound_compressed_dataset_has_no_faults(
    pristine: Path, tmp_path: Path, compression: str
) -> None:
    folder = pack(source_of(pristine), tmp_path, compression=compression)
    assert faults_of(folder, source=source_of(pristine)) == []
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    change(shard, -1)
    reseal(folder)
    assert "stream" in whats(folder, shard.name)[0]


def test_a_compressed_shard_that_is_cut_is_a_fault(pristine: Path, tmp_path: Path) -> None:
    folder = pack(source_of(pristine), tmp_path, compression="gzip")
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    shard.write_bytes(shard.read_bytes()[:1000])
    assert any("is truncated at byte 1000" in what for what in whats(folder, shard.name))


def test_a_sound_dataset_of_shrunk_images_has_no_faults(tmp_path: Path) -> None:
    files = {f"a/{seed}.jpg": jpeg(seed, size=(80, 60)) for seed in range(3)}
    files |= {"b/0.jpg": jpeg(9, size=(20, 10)), "b/1.png": png(8, size=(64, 64))}
    source = write_tree(tmp_path / "x", files)
    folder = pack(source, tmp_path / "out", short_side=32)
    assert faults_of(folder, source=source) == []


def test_more_shrunk_images_than_the_report_knows_are_a_fault(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {"a/0.jpg": jpeg(0, size=(80, 60)), "a/1.jpg": jpeg(1)})
    folder = pack(source, tmp_path / "out", short_side=32)
    edit_json(folder / "report.json", lambda value: value["resized"].update(count=0, examples=[]))  # type: ignore[attr-defined]
    (what,) = whats(folder, "samples.parquet")
    assert what == (
        "1 images differ from the hashes of their files, but report.json counts only 0 that were "
        "shrunk"
    )


def idx_files() -> dict[str, bytes]:
    images = struct.pack(">IIII", 0x803, 3, 16, 16) + bytes(range(256)) * 3
    labels = struct.pack(">II", 0x801, 3) + bytes([0, 1, 1])
    return {"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": labels}


def split_files() -> dict[str, bytes]:
    pairs = enumerate(("train", "val"))
    return {f"{split}/a/{n}.jpg": jpeg(n) for n, split in pairs} | {"test/5.jpg": jpeg(5)}


@pytest.mark.parametrize("files", [idx_files, python_files, binary_files, split_files])
def test_a_sound_dataset_of_any_kind_has_no_faults(
    tmp_path: Path, files: Callable[[], dict[str, bytes]]
) -> None:
    source = write_tree(tmp_path / "x", files())
    folder = pack(source, tmp_path / "out")
    assert faults_of(folder, decode=True, source=source) == []


@pytest.mark.parametrize(
    "options",
    [
        imgrec.SourceOptions(label_sep=" "),
        imgrec.SourceOptions(column=(imgrec.ColumnOption("age"),)),
    ],
)
def test_a_sound_dataset_of_a_manifest_has_no_faults(
    tmp_path: Path, options: imgrec.SourceOptions
) -> None:
    source = write_tree(tmp_path / "x", {f"{n}.jpg": jpeg(n) for n in range(3)})
    (source / "table.csv").write_text("file,tags,age\n0.jpg,a b,1.5\n1.jpg,b,2\n2.jpg,a,3\n")
    folder = pack(source / "table.csv", tmp_path / "out", source=options)
    assert faults_of(folder, decode=True, source=source / "table.csv") == []


def test_files_that_become_the_same_png_are_no_leak(tmp_path: Path) -> None:
    pictures = {
        f"{name}/{n}.{extension}": encode(picture(n + 50 * (name == "b")), image_format, **options)
        for name in "ab" for n in range(10)
        for extension, image_format, options in (
            ("webp", "WEBP", {"lossless": True}), ("tif", "TIFF", {})
        )
    }  # fmt: skip
    folder = pack(write_tree(tmp_path / "x", pictures), tmp_path / "out", val_split=0.3)
    train, val = (
        {record["image"] for record in read_shard(folder / f"x-{split}.tfrecord-00000-of-00001")}
        for split in ("train", "val")
    )
    assert train & val
    assert faults_of(folder, decode=True) == []


@pytest.mark.parametrize(("more", "faults"), [(4, 0), (3, 1)])
def test_transcoded_files_that_are_counted_but_not_named_have_other_hashes(
    tmp_path: Path, more: int, faults: int
) -> None:
    files = {f"a/{n}.gif": encode(picture(n, "P"), "GIF") for n in range(6)}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out")
    report = json.loads((folder / "report.json").read_text())
    report |= {"transcoded": report["transcoded"][:2], "unlisted_transcoded": more}
    (folder / "report.json").write_text(json.dumps(report))
    reseal(folder)
    assert len(faults_of(folder)) == faults


@pytest.fixture
def twins(pristine: Path, tmp_path: Path) -> Path:
    return pack(source_of(pristine), tmp_path / "twins", also="array_record", val_split=0.25)


def test_a_twin_of_other_records_is_a_fault(twins: Path) -> None:
    assert faults_of(twins) == []
    train, val = sorted(path.name for path in twins.glob("*.array_record-*"))
    shutil.copy(twins / val, twins / train)
    reseal(twins)
    found = whats(twins, train)
    shard = train.replace("array_record", "tfrecord")
    assert f"record 0 differs from that of {shard}" in found
    assert f"it has 4 records, and {shard} has 9" in found


@pytest.mark.parametrize("data", [b"", b"nonsense" * 1000])
def test_a_twin_that_is_none_is_a_fault(twins: Path, data: bytes) -> None:
    twin = min(path.name for path in twins.glob("*.array_record-*"))
    (twins / twin).write_bytes(data)
    reseal(twins)
    assert whats(twins, twin)
    assert any("array_record files of train" in what for what in whats(twins, "metadata.json"))


def test_a_twin_that_is_missing_is_a_fault(twins: Path) -> None:
    twin = min(path.name for path in twins.glob("*.array_record-*"))
    (twins / twin).unlink()
    reseal(twins)
    assert whats(twins, twin) == ["the file is missing"]


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
    for name in ("samples.parquet", "SHA256SUMS", "report.json", "skipped.csv", "metadata.json"):
        (flowers / name).unlink()
    for name in flowers.glob("*.idx"):
        name.unlink()
    info = json.loads((flowers / "dataset_info.json").read_text())
    info["moduleName"] = "tfds"
    (flowers / "dataset_info.json").write_text(json.dumps(info))
    verified = verify(flowers, engine=ENGINE)
    assert verified.faults == ()
    assert verified.not_checked == (
        "SHA256SUMS: the dataset has none",
        "samples.parquet: the dataset has none",
    )
    change(flowers / SHARD, 100)
    assert faults_of(flowers) == [(SHARD, 0, "wrong checksum of a record")]


@pytest.mark.parametrize(
    "name",
    ["dataset_info.json", "features.json", "label.labels.txt", "metadata.json", "report.html",
     "report.json", "samples.parquet", "skipped.csv", "SHA256SUMS", SHARD, f"{SHARD}.idx"],
)  # fmt: skip
def test_a_missing_file_is_a_fault(flowers: Path, name: str) -> None:
    (flowers / name).unlink()
    assert (name, None, "the file is missing") in faults_of(flowers)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A dataset of three shards for train and one for test, of 30 images each."""
    files = {f"train/{name}/{n}.jpg": jpeg(n) for n in range(90) for name in "ab"[n % 2]}
    files |= {f"test/{name}/{n}.jpg": jpeg(n) for n in range(90, 120) for name in "ab"[n % 2]}
    return pack(write_tree(tmp_path / "many", files), tmp_path / "datasets", shards=3)


def test_a_missing_shard_is_the_only_fault_that_it_causes(shards: Path) -> None:
    for number in range(3):
        name = f"many-train.tfrecord-0000{number}-of-00003"
        (shards / name).rename(shards / "aside")
        assert faults_of(shards) == [(name, None, "the file is missing")]
        (shards / "aside").rename(shards / name)
    assert faults_of(shards) == []


def test_a_missing_file_comes_before_all_other_faults(shards: Path) -> None:
    name = "many-train.tfrecord-00001-of-00003"
    (shards / name).unlink()
    change(shards / "dataset_info.json", -2)
    change(shards / "many-test.tfrecord-00000-of-00001", 100)
    assert faults_of(shards)[0] == (name, None, "the file is missing")


def test_rows_that_moved_are_no_leaks(shards: Path) -> None:
    table = pq.read_table(shards / "samples.parquet")
    pq.write_table(table.slice(1), shards / "samples.parquet")
    reseal(shards)
    found = whats(shards, "samples.parquet")
    assert "it has 119 rows for 120 records" in found
    assert all(": offset is" in what or ": shard is" in what for what in found[1:])
    assert faults_of(shards) == [("samples.parquet", None, what) for what in found]


def test_text_shows_the_first_faults_of_a_kind_and_json_all(cli: Cli, shards: Path) -> None:
    rows = pq.read_table(shards / "samples.parquet").to_pylist()
    for row in rows:
        row["height"], row["filename"] = 1, f"it's {row['filename']}"
    pq.write_table(pa.Table.from_pylist(rows), shards / "samples.parquet")
    reseal(shards)
    lines = cli("verify", shards).stdout.splitlines()
    assert lines[0].startswith("many 1.0.0: 240 faults; ")
    more = "samples.parquet: … and 100 more of this kind: --json lists all"
    assert (len(lines), lines.count(more)) == (1 + 2 * 21, 2)
    assert len(json.loads(cli("verify", shards, "--json").stdout)["faults"]) == 240


def test_a_dataset_without_any_document_is_looked_at_all_the_same(flowers: Path) -> None:
    for path in flowers.iterdir():
        if "tfrecord" not in path.name:
            path.unlink()
    change(flowers / SHARD, 100)
    faults = faults_of(flowers)
    assert ("dataset_info.json", None, "the file is missing") in faults
    assert (SHARD, 0, "wrong checksum of a record") in faults


def test_a_folder_in_place_of_a_file_is_a_fault(flowers: Path) -> None:
    (flowers / SHARD).unlink()
    (flowers / SHARD).mkdir()
    assert "the file cannot be read: not a regular file" in whats(flowers, SHARD)


def test_only_a_dataset_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(imgrec.DatasetNotFound):
            verify(place, engine=ENGINE)


def test_a_damaged_record_does_not_hide_the_next(flowers: Path) -> None:
    offsets = [int(line.split()[0]) for line in (flowers / f"{SHARD}.idx").read_text().splitlines()]
    for number in (1, 3):
        change(flowers / SHARD, offsets[number] + 50)
    faults = [fault for fault in faults_of(flowers) if fault[0] == SHARD and fault[1] is not None]
    assert faults == [(SHARD, offsets[number], "wrong checksum of a record") for number in (1, 3)]


def test_a_damaged_length_does_not_hide_the_next_record_if_there_is_an_index(flowers: Path) -> None:
    offsets = [int(line.split()[0]) for line in (flowers / f"{SHARD}.idx").read_text().splitlines()]
    change(flowers / SHARD, offsets[1] + 7, 0x7F)  # a length of 2^63
    change(flowers / SHARD, offsets[3] + 50)
    faults = [fault for fault in faults_of(flowers) if fault[0] == SHARD and fault[1] is not None]
    assert faults == [
        (SHARD, offsets[1], "wrong checksum of a record's length"),
        (SHARD, offsets[3], "wrong checksum of a record"),
    ]


def test_bytes_behind_the_last_record_are_a_fault(flowers: Path) -> None:
    size = (flowers / SHARD).stat().st_size
    with (flowers / SHARD).open("ab") as file:
        file.write(b"tail")
    reseal(flowers)
    assert (SHARD, size, "truncated record") in faults_of(flowers)


def test_a_shard_that_is_cut_is_a_fault(flowers: Path) -> None:
    last = int((flowers / f"{SHARD}.idx").read_text().splitlines()[-1].split()[0])
    data = (flowers / SHARD).read_bytes()
    (flowers / SHARD).write_bytes(data[:-10])
    reseal(flowers)
    (fault,) = [fault for fault in faults_of(flowers) if fault[:2] == (SHARD, last)]
    assert fault[2] == "truncated record"


def test_a_record_more_or_less_than_the_metadata_tells_is_a_fault(flowers: Path) -> None:
    change_records(flowers, lambda records: records.pop())
    assert "expected 9 records (dataset_info.json), found 8" in whats(flowers, SHARD)
    assert any("class_counts of train" in what for what in whats(flowers, "metadata.json"))
    assert any("numBytes of train" in what for what in whats(flowers, "dataset_info.json"))
    assert "it has 12 rows for 13 records" not in whats(flowers, "samples.parquet")
    assert "it has 13 rows for 12 records" in whats(flowers, "samples.parquet")


def test_a_label_that_is_no_class_is_a_fault(flowers: Path) -> None:
    change_records(flowers, lambda records: records[0].update(label=(2,)))
    assert (SHARD, 0, "its label is 2, and there are 2 classes") in faults_of(flowers)


def test_labels_that_are_not_those_of_their_class_folders_are_faults(flowers: Path) -> None:
    def swap(records: list[dict[str, object]]) -> None:
        rose = next(record for record in records if record["label"] == (0,))
        tulip = next(record for record in records if record["label"] == (1,))
        rose["label"], tulip["label"] = tulip["label"], rose["label"]

    change_records(flowers, swap)
    found = [what for what in whats(flowers, SHARD) if "has the label of" in what]
    assert [what.partition("/")[0] for what in found] in (["rose", "tulip"], ["tulip", "rose"])


def test_a_label_of_no_class_at_all_is_none(flowers: Path) -> None:
    change_records(flowers, lambda records: records[0].update(label=(-1,)))
    assert whats(flowers, SHARD) == []
    assert any("label is" in what for what in whats(flowers, "samples.parquet"))


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda record: record.pop("label"), "the record has no label"),
        (lambda record: record.update(label=(b"x",)), "its label is not whole numbers"),
        (lambda record: record.update(label=(1, 2)), "its label has 2 values instead of 1"),
        (lambda record: record.update(shape=(1, 2)), "its shape has 2 values instead of 3"),
        (lambda record: record.update(filename=(b"",)), "its filename is empty"),
        (
            lambda record: record.update(shape=(9, 24, 3)),
            "its shape is 9x24x3, and the image's is 16x24x3",
        ),
        (lambda record: record.update(image=(b"",)), "its image: empty file"),
        (lambda record: record.update(image=(b"hello",)), "its image: text, not an image"),
        (
            lambda record: record.update(image=(encode(picture(1), "GIF"),)),
            "its image: GIF, which TensorFlow does not decode to a picture",
        ),
        (
            lambda record: record.update(image=(png(1, size=(20, 20)),)),
            "its shape is 16x24x3, and the image's is 20x20x3",
        ),
    ],
)
def test_a_record_that_is_not_what_it_should_be_is_a_fault(
    flowers: Path, edit: Callable[[dict[str, object]], object], what: str
) -> None:
    edit_json(flowers / "features.json", any_size)
    change_records(flowers, lambda records: edit(records[0]))
    assert (SHARD, 0, what) in faults_of(flowers)


def test_an_image_of_another_size_than_features_json_tells_is_a_fault(flowers: Path) -> None:
    other = {"image": (png(1, size=(20, 20)),), "shape": (20, 20, 3)}
    change_records(flowers, lambda records: records[0].update(other))
    assert "its image: 20x20x3, but features.json declares 16x24" in whats(flowers, SHARD)


def test_a_record_that_is_no_example_is_a_fault(flowers: Path) -> None:
    write_shard(flowers / SHARD, [b"\xff" * 30, *read_shard(flowers / SHARD)[1:]])
    reseal(flowers)
    assert any("not a tf.train.Example" in what for what in whats(flowers, SHARD))


def test_decode_finds_what_headers_do_not_tell(flowers: Path) -> None:
    broken = bytearray(png(1))
    broken[60] ^= 0xFF  # in its pixels, whose checksum it has still
    for image, what in (
        (jpeg(1)[:-20], "truncated JPEG"),
        (bytes(broken), "PNG with a wrong checksum of its IDAT chunk"),
    ):
        change_records(flowers, lambda records, image=image: records[0].update(image=(image,)))
        assert whats(flowers, SHARD) == []
        assert any(what in found for found in whats(flowers, SHARD, decode=True))


def declare(flowers: Path, **image: object) -> None:
    """Let features.json declare another kind of image."""

    def edit(value: dict[str, object]) -> None:
        value["featuresDict"]["features"]["image"]["image"].update(image)  # type: ignore[index]

    edit_json(flowers / "features.json", edit)


@pytest.mark.parametrize(
    ("channels", "dtype", "image", "what"),
    [
        ("1", "uint8", encode(picture(1, "L"), "BMP"), "BMP, which .* not decode to 1 channel"),
        ("4", "uint8", jpeg(1), "JPEG, which .* not decode to 4 channels"),
        ("2", "uint8", png(1, mode="LA"), "PNG, which .* not decode to 2 channels"),
        ("1", "float32", jpeg(1, mode="L"), "JPEG, which .* not decode to 4 channels"),
        ("3", "uint8", encode(picture(1, "L"), "BMP"), ""),
        ("-1", "uint8", encode(picture(1, "L"), "BMP"), ""),
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
    assert whats(flowers, "features.json") == ["the feature 'image' is not what TFDS writes there"]


def test_two_records_of_one_name_are_a_fault(flowers: Path) -> None:
    def rename(records: list[dict[str, object]]) -> None:
        records[1]["filename"] = records[0]["filename"]

    change_records(flowers, rename)
    name = bytes(read_shard(flowers / SHARD)[0]["filename"][0]).decode()
    assert f"{name} is also the name of the record at byte 0 of {SHARD}" in whats(flowers, SHARD)


def test_one_image_in_two_splits_is_a_fault(flowers: Path) -> None:
    image = read_shard(flowers / VAL)[0]["image"]
    change_records(flowers, lambda records: records[0].update(image=image))
    assert any("in val is the same image as" in what for what in whats(flowers, VAL))


def test_one_file_of_the_source_in_two_splits_is_a_fault_by_its_hash(flowers: Path) -> None:
    rows = pq.read_table(flowers / "samples.parquet").to_pylist()
    gif = next(row for row in rows if row["filename"] == "tulip/x.gif")
    other = next(row for row in rows if row["split"] != gif["split"])
    other["xxh3"] = gif["xxh3"]
    pq.write_table(pa.Table.from_pylist(rows), flowers / "samples.parquet")
    reseal(flowers)
    found = [what for _, _, what in faults_of(flowers)]
    assert any("is the same image as" in what for what in found)
    assert any("the xxh3 of" in what and "is not that of record" in what for what in found)


@pytest.mark.parametrize(
    ("column", "value"),
    [("offset", 5), ("length", 5), ("label", 7), ("filename", "x"), ("height", 1), ("width", 1),
     ("channels", 1), ("format", "BMP"), ("split", "test"), ("shard", "x"), ("xxh3", "00" * 16)],
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
    pq.write_table(table.drop_columns(["label"]), flowers / "samples.parquet")
    reseal(flowers)
    assert whats(flowers, "samples.parquet") == ["it has no column label"]
    pq.write_table(pa.concat_tables([table, table]), flowers / "samples.parquet")
    reseal(flowers)
    assert whats(flowers, "samples.parquet") == ["it has 26 rows for 13 records"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0 99999\n", "for record 0, which is at"),
        ("", "nothing for record 0, which is at"),
        ("x" * 100, "nothing for record 0, which is at"),
        ("9" * 5000 + "\n", "for record 0, which is at"),
    ],
)
def test_an_index_that_lies_is_a_fault(flowers: Path, text: str, what: str) -> None:
    (flowers / f"{SHARD}.idx").write_text(text)
    reseal(flowers)
    assert what in whats(flowers, f"{SHARD}.idx")[0]
    assert whats(flowers, SHARD) == []


def test_lines_behind_those_of_an_index_are_a_fault(flowers: Path) -> None:
    size = (flowers / f"{SHARD}.idx").stat().st_size
    with (flowers / f"{SHARD}.idx").open("a") as file:
        file.write("7 7\n")
    reseal(flowers)
    wanted = (f"{SHARD}.idx", size, "'7 7\\n' after the line of the last record")
    assert wanted in faults_of(flowers)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("rose\n", "expected 2 classes (features.json), found 1"),
        ("rose\ntulip\nlily\n", "expected 2 classes (features.json), found 3"),
        ("rose\nrose\n", "line 2 repeats line 1: rose"),
        ("rose \ntulip\n", "line 1 is 'rose ', which TFDS would change"),
        ("\ntulip\n", "line 1 is blank, which shifts all labels after it"),
    ],
)
def test_class_names_that_tfds_would_change_are_a_fault(
    flowers: Path, text: str, what: str
) -> None:
    (flowers / "label.labels.txt").write_text(text)
    reseal(flowers)
    assert what in whats(flowers, "label.labels.txt")


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda value: value.update(imgrec=1), "TFDS does not know the key 'imgrec'"),
        (lambda value: value.pop("name"), "it has no name"),
        (lambda value: value.update(version="1.0"), "the version '1.0' is not three numbers"),
        (lambda value: value.update(fileFormat="zip"), "TFDS does not know the fileFormat 'zip'"),
        (lambda value: value.update(splits=[]), "it has no splits"),
        (lambda value: value["splits"][0].update(name="all"), "'all' is not a split name"),
        (lambda value: value["splits"][0].update(shardLengths=["x"]), "shardLengths of train are"),
        (lambda value: value["splits"][0].update(shardLengths=[]), "the split train is empty"),
        (
            lambda value: value["splits"][0].update(filepathTemplate="../{SPLIT}"),
            "the filepathTemplate of train does not make file names",
        ),
        (
            lambda value: value["splits"][0].update(numBytes="1"),
            "numBytes of train is 1, but",
        ),
        (
            lambda value: value.update(supervisedKeys={"x": 1}),
            "supervisedKeys is not what TFDS",
        ),
        (
            lambda value: value["supervisedKeys"]["tuple"]["items"][0].update(featureKey="img"),
            "supervisedKeys names 'img', which features.json does not have",
        ),
    ],
)
def test_what_tfds_would_not_read_in_dataset_info_is_a_fault(
    flowers: Path, edit: Callable[[dict[str, object]], object], what: str
) -> None:
    edit_json(flowers / "dataset_info.json", edit)
    assert any(what in found for found in whats(flowers, "dataset_info.json"))


def test_features_that_tfds_would_not_read_are_a_fault(flowers: Path) -> None:
    edit_json(flowers / "features.json", lambda value: value.pop("featuresDict"))
    assert whats(flowers, "features.json") == ["the file is not a FeaturesDict of TFDS"]


def test_a_document_that_is_no_json_is_a_fault_at_its_byte(flowers: Path) -> None:
    (flowers / "features.json").write_text('{"\u00e9": nonsense}')
    reseal(flowers)
    assert ("features.json", 7, "the file is not JSON: Expecting value") in faults_of(flowers)
    (flowers / "features.json").write_text("[" * 100_000)
    assert any("the file is not JSON" in what for what in whats(flowers, "features.json"))


def test_a_shard_that_no_document_knows_is_a_fault(flowers: Path) -> None:
    stray = "flowers-test.tfrecord-00000-of-00001"
    shutil.copy(flowers / VAL, flowers / stray)
    faults = faults_of(flowers)
    assert (stray, None, "dataset_info.json does not name this shard") in faults
    assert (stray, None, "SHA256SUMS does not list it") in faults


def test_a_file_that_is_not_listed_is_named(flowers: Path) -> None:
    (flowers / "notes.txt").write_text("hello")
    verified = verify(flowers, engine=ENGINE)
    assert verified.faults == ()
    assert verified.not_checked == ("notes.txt: SHA256SUMS does not list it",)


def test_a_listed_file_that_is_not_there_is_a_fault(flowers: Path) -> None:
    with (flowers / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  gone.txt\n")
    assert faults_of(flowers) == [("gone.txt", None, "the file is missing")]


def test_a_report_of_another_dataset_is_a_fault(flowers: Path) -> None:
    edit_json(flowers / "report.json", lambda value: value.update(name="other"))
    assert whats(flowers, "report.json") == ["its name and the dataset's differ"]


def test_all_faults_are_listed_by_file_and_offset(flowers: Path) -> None:
    for name in (SHARD, VAL, "skipped.csv"):
        change(flowers / name, 1)
    faults = faults_of(flowers)
    assert faults == sorted(faults, key=lambda f: (f[0], -1 if f[1] is None else f[1]))
    assert {path for path, _, _ in faults} >= {SHARD, VAL, "skipped.csv"}


@pytest.mark.processes
def test_the_workers_do_not_change_what_is_found(flowers: Path) -> None:
    change(flowers / SHARD, 100)
    change(flowers / VAL, 200)
    assert [(f.path, f.offset, f.what) for f in verify(flowers).faults] == faults_of(flowers)


def test_the_command_says_ok_in_one_line(cli: Cli, pristine: Path) -> None:
    done = cli("verify", pristine)
    assert (done.returncode, done.stderr) == (0, "")
    size = sum((pristine / name).stat().st_size for name in (SHARD, VAL)) / 1024
    assert done.stdout == (
        f"flowers 1.0.0: ok; checked 13 records in 2 shards ({size:.1f} KiB) and 12 files\n"
    )


def test_the_command_lists_faults_and_exits_with_1(cli: Cli, flowers: Path) -> None:
    change(flowers / SHARD, 100)
    done = cli("verify", flowers)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("flowers 1.0.0: 2 faults; checked 13 records")
    assert lines[1:] == [
        f"{SHARD}: {CHECKSUM}",
        f"{SHARD}, byte 0: wrong checksum of a record",
    ]


def test_json_holds_all_of_it(cli: Cli, flowers: Path) -> None:
    change(flowers / SHARD, 100)
    done = cli("verify", flowers, "--json", "--decode", "--workers", "1", "--quiet")
    value = json.loads(done.stdout)
    assert (done.returncode, value["ok"], value["records"]) == (1, False, 13)
    assert value["faults"] == [
        {"file": SHARD, "offset": None, "fault": CHECKSUM},
        {"file": SHARD, "offset": 0, "fault": "wrong checksum of a record"},
    ]
    assert value["path"] == str(flowers)


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


def edit_lengths(path: Path) -> None:
    value = json.loads(path.read_text())
    value["splits"][0]["shardLengths"] = ["7"]
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("name", "damage", "others"),
    [
        ("features.json", Path.unlink, set()),
        ("features.json", lambda path: path.write_text("{}"), set()),
        ("report.json", Path.unlink, set()),
        ("dataset_info.json", Path.unlink, {SHARD, VAL}),
        ("dataset_info.json", lambda path: path.write_text("{}"), {SHARD, VAL}),
        ("dataset_info.json", edit_lengths, {SHARD, "report.json"}),
    ],
)
def test_what_a_damaged_document_does_not_tell_is_not_held_against_the_rest(
    flowers: Path, name: str, damage: Callable[[Path], object], others: set[str]
) -> None:
    damage(flowers / name)
    assert {path for path, _, _ in faults_of(flowers)} == {name, *others}


def test_shards_that_were_swapped_are_named_first_and_each_for_what_it_is(flowers: Path) -> None:
    (flowers / SHARD).rename(flowers / "aside")
    (flowers / VAL).rename(flowers / SHARD)
    (flowers / "aside").rename(flowers / VAL)
    faults = faults_of(flowers)
    assert {path for path, _, _ in faults[:4]} == {SHARD, VAL}
    assert (SHARD, None, f"{CHECKSUM}: it is that of {VAL}") in faults
    assert not any("is the same image" in what for _, _, what in faults)


def test_a_class_folder_is_its_class_however_its_accents_are_written(tmp_path: Path) -> None:
    files = {"cafe\u0301/1.jpg": jpeg(1), "tea/2.jpg": jpeg(2)}
    assert faults_of(pack(write_tree(tmp_path / "x", files), tmp_path / "out")) == []
