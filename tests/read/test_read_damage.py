"""Reading a dataset whose files are not as they were."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import class_tree, png

import imgrec
from imgrec.codec import tfrecord
from imgrec.codec.example import Feature, encode_all_around, encode_around
from imgrec.errors import CorruptRecord, DatasetError, ExecutionError
from imgrec.layout import shard_filename
from imgrec.options import PackOptions
from imgrec.read.dataset import Dataset
from imgrec.read.documents import read_documents, read_fingerprint, read_info, read_report

SHARD = shard_filename("flowers", "train", 0, 2)
INDEX = f"{SHARD}.idx"
AGAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = class_tree(tmp_path_factory.mktemp("source") / "flowers", {"daisy": 3, "rose": 4})
    data_dir = str(tmp_path_factory.mktemp("datasets"))
    packed = imgrec.pack(source, PackOptions(data_dir=data_dir, shards=2, workers=1))
    return Path(packed.info.path)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "flowers" / "1.0.0"))


def images(folder: Path) -> list[bytes]:
    return [record.image for record in imgrec.open_dataset(folder)["train"]]


def fault(folder: Path) -> DatasetError:
    """Return what reading all records raises."""
    with pytest.raises(DatasetError) as caught:
        images(folder)
    return caught.value


def flipped(data: bytes, at: int, change: int) -> bytes:
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


# Bytes of a shard.


@AGAIN
@given(st.data(), st.integers(1, 255))
def test_any_changed_byte_of_a_shard_is_found_where_it_is(
    whole: Path, folder: Path, data: st.DataObject, change: int
) -> None:
    content = (whole / SHARD).read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    (folder / SHARD).write_bytes(flipped(content, at, change))
    error = fault(folder)
    starts = [int(line.split()[0]) for line in (folder / INDEX).read_text().splitlines()]
    assert isinstance(error, CorruptRecord)
    assert error.path == str(folder / SHARD)
    assert error.offset == max(start for start in starts if start <= at)
    assert str(error).startswith(f"{folder / SHARD}: ")
    assert str(error).endswith(f" at byte {error.offset}")
    assert "pack it again" in error.hint


@AGAIN
@given(st.data(), st.integers(1, 255))
def test_any_changed_byte_of_a_shard_without_an_index_is_found(
    whole: Path, folder: Path, data: st.DataObject, change: int
) -> None:
    content = (whole / SHARD).read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    (folder / SHARD).write_bytes(flipped(content, at, change))
    (folder / INDEX).unlink(missing_ok=True)
    assert fault(folder).path == str(folder / SHARD)


def test_records_beside_a_changed_one_are_read(whole: Path, folder: Path) -> None:
    content = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(flipped(content, 100, 1))
    before, after = imgrec.open_dataset(whole)["train"], imgrec.open_dataset(folder)["train"]
    with pytest.raises(CorruptRecord):
        after[0]
    assert list(after[1:]) == list(before[1:])


def test_a_shard_without_an_index_is_read(whole: Path, folder: Path) -> None:
    (folder / INDEX).unlink()
    assert images(folder) == images(whole)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 500])
def test_a_cut_shard_is_found(folder: Path, length: int) -> None:
    content = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(content[:length])
    error = fault(folder)
    assert str(error) == (
        f"{folder / SHARD}: expected {len(content)} bytes (its index), found {length}"
    )
    assert (error.path, error.offset) == (str(folder / SHARD), length)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 500])
def test_a_cut_shard_without_an_index_is_found(folder: Path, length: int) -> None:
    (folder / SHARD).write_bytes((folder / SHARD).read_bytes()[:length])
    (folder / INDEX).unlink()
    assert str(folder / SHARD) in str(fault(folder))


def test_a_shard_of_one_more_record_is_found(folder: Path) -> None:
    content = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(content + b"".join(tfrecord.frame()))
    assert str(fault(folder)).endswith(f"(its index), found {len(content) + 16}")
    (folder / INDEX).unlink()
    assert str(fault(folder)) == (
        f"{folder / SHARD}: expected 4 records (dataset_info.json), found 5"
    )


def test_a_shard_in_the_place_of_another_is_found(folder: Path) -> None:
    other = shard_filename("flowers", "train", 1, 2)
    shutil.copy(folder / other, folder / SHARD)
    assert isinstance(fault(folder), CorruptRecord)


def test_a_shard_that_is_cut_while_it_is_open_is_found(folder: Path) -> None:
    train = imgrec.open_dataset(folder)["train"]
    assert train[0].image
    os.truncate(folder / SHARD, 100)
    with pytest.raises(CorruptRecord) as caught:
        train[1]
    assert caught.value.path == str(folder / SHARD)


def test_a_shard_that_is_replaced_while_it_is_open_reads_as_it_was(folder: Path) -> None:
    train = imgrec.open_dataset(folder)["train"]
    before = list(train)
    (folder / "new").write_bytes(b"something else")
    (folder / "new").rename(folder / SHARD)
    assert list(train) == before


def missing(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def imgrec_features(folder: Path) -> object:
    return read_documents(folder).imgrec_features()


@pytest.mark.parametrize("change", [missing, a_folder, a_pipe, a_loop])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("dataset_info.json", read_info),
        ("report.json", read_report),
        ("features.json", imgrec_features),
    ],
)
def test_a_document_that_is_no_file_is_named(
    folder: Path, name: str, read: Callable[[Path], object], change: Callable[[Path], None]
) -> None:
    change(folder / name)
    with pytest.raises(DatasetError) as caught:
        read(folder)
    assert caught.value.path == str(folder / name)


@pytest.mark.parametrize("read", [read_info, read_report, read_fingerprint])
def test_a_disk_that_fails_is_not_taken_for_a_wrong_document(
    folder: Path, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched, pytest.raises(ExecutionError) as caught:
        patched.setattr(os, "open", fail)
        read(folder)
    assert caught.value.message == f"cannot read {caught.value.path}: Input/output error"
    assert caught.value.hint == "make sure that it can be read, and run this again"


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("change", [missing, a_folder, a_pipe, a_loop])
def test_a_shard_that_cannot_be_read_is_named(
    folder: Path, change: Callable[[Path], None], has_index: bool
) -> None:
    change(folder / SHARD)
    if not has_index:
        (folder / INDEX).unlink()
    error = fault(folder)
    assert str(error).startswith(f"cannot read {folder / SHARD}: ")
    assert error.path == str(folder / SHARD)
    assert error.hint == (
        "a shard of the dataset is missing or cannot be opened: restore it, or pack it again"
    )


def test_a_shard_that_could_not_be_opened_leaves_no_trace(
    folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (folder / SHARD).unlink()
    train = imgrec.open_dataset(folder)["train"]
    for _ in range(3):
        with pytest.raises(DatasetError):
            train[0]
    assert len(train[4].image) > 0
    assert [str(warning.message) for warning in recwarn] == []


# Lies of an index.


def lines(folder: Path) -> list[str]:
    return (folder / INDEX).read_text().splitlines()


LIES: dict[str, Callable[[list[str]], str]] = {
    "empty": lambda _: "",
    "text": lambda _: "no index at all",
    "binary": lambda _: "\x00\x01\x7f",
    "a line short": lambda found: "\n".join(found[:-1]),
    "a line more": lambda found: "\n".join([*found, found[-1]]),
    "half a line": lambda found: "\n".join([*found[:-1], found[-1].split()[0]]),
    "a line twice": lambda found: "\n".join([found[0], *found[:-1]]),
    "another order": lambda found: "\n".join(reversed(found)),
    "negative lengths": lambda _: "0 20\n20 -20\n0 20\n20 20",
    "negative offsets": lambda found: "\n".join(["-5 20", *found[1:]]),
    "no lengths": lambda found: "\n".join(["0 0"] * len(found)),
    "lengths less than a frame's": lambda _: _following(15, 15, 15, 15),
    "2 ** 63": lambda _: _following(1 << 62, 1 << 62, 16, 16),
    "2 ** 64": lambda _: _following((1 << 64) - 1, 16, 16, 16),
    "numbers of 5000 digits": lambda _: "9" * 5000,
    "a megabyte of lines": lambda _: "0 16\n" * 200_000,
    "another size": lambda _: "0 1000\n1000 1000\n2000 1000\n3000 1000",
    "another cut": lambda found: "\n".join(_cut_elsewhere(found)),
    "fractions": lambda found: "\n".join(line.replace(" ", ".0 ") for line in found),
}


def _following(*lengths: int) -> str:
    return "".join(f"{sum(lengths[:n])} {length}\n" for n, length in enumerate(lengths))


def _cut_elsewhere(found: list[str]) -> Iterator[str]:
    """Tell of records that follow each other to the shard's end, but are not there."""
    end = sum(map(int, found[-1].split()))
    yield from ("0 16", "16 16", "32 16", f"48 {end - 48}")


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_lies_is_found_out(folder: Path, lie: str) -> None:
    (folder / INDEX).write_text(LIES[lie](lines(folder)))
    tracemalloc.start()
    try:
        error = fault(folder)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(folder / SHARD) in str(error)
    assert "\n" not in str(error)
    assert peak_bytes < 1 << 20


def test_an_index_that_lies_is_named_with_a_way_out(folder: Path) -> None:
    (folder / INDEX).write_text("".join(lines(folder)[:1]))
    error = fault(folder)
    assert str(error) == f"{folder / INDEX} lists 1 records; expected 4"
    assert (error.path, error.hint) == (
        str(folder / INDEX),
        "pack the dataset again, or delete that file",
    )


@pytest.mark.parametrize(
    "lengths", [(16, 16, 16, -16), (1 << 63, 16, 16, 16), (1 << 64, 16, 16, 16), (15, 16, 16, 16)]
)
def test_lengths_that_no_records_have_are_told_from_a_shard_that_changed(
    folder: Path, lengths: tuple[int, ...]
) -> None:
    (folder / INDEX).write_text(_following(*lengths))
    assert str(fault(folder)) == f"{folder / INDEX} lists records that do not follow each other"


@AGAIN
@given(st.binary(max_size=100) | st.text("0123456789- \n", max_size=60).map(str.encode))
def test_no_index_makes_a_wrong_record(whole: Path, folder: Path, content: bytes) -> None:
    (folder / INDEX).write_bytes(content)
    try:
        found = images(folder)
    except DatasetError:
        return
    assert found == images(whole)


@AGAIN
@given(st.data(), st.integers(1, 255))
def test_no_changed_byte_of_an_index_makes_a_wrong_record(
    whole: Path, folder: Path, data: st.DataObject, change: int
) -> None:
    content = (whole / INDEX).read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    (folder / INDEX).write_bytes(flipped(content, at, change))
    try:
        found = images(folder)
    except DatasetError:
        return
    assert found == images(whole)


# The index, as NVIDIA DALI's reader of TFRecords wants it.


def walked(shard: Path) -> str:
    """List records as DALI's tfrecord2idx does: offset and length, with all that frames them."""
    data, offset, listed = shard.read_bytes(), 0, ""
    while offset < len(data):
        length = 8 + 4 + int.from_bytes(data[offset : offset + 8], "little") + 4
        listed += f"{offset} {length}\n"
        offset += length
    return listed


def test_every_index_is_what_dali_would_make_itself(whole: Path) -> None:
    shards = sorted(whole.glob("*.tfrecord-*-of-00002"))
    assert len(shards) == 2
    for shard in shards:
        assert Path(f"{shard}.idx").read_bytes() == walked(shard).encode()


# The table of samples.


def test_a_dataset_without_its_table_reads_its_records_instead(whole: Path, folder: Path) -> None:
    (folder / "samples.parquet").unlink()
    before, after = imgrec.open_dataset(whole)["train"], imgrec.open_dataset(folder)["train"]
    assert after.labels == before.labels
    assert list(after.of_class("rose")) == list(before.of_class("rose"))
    assert after.find("rose/001.jpg") == before.find("rose/001.jpg")


def rewrite(folder: Path, **columns: Any) -> None:
    table = pq.read_table(folder / "samples.parquet").to_pydict()
    pq.write_table(pa.table({**table, **columns}), folder / "samples.parquet")


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            {"label": ["daisy"] * 7},
            "is not as imgrec writes it, so names, labels and splits of its images are unknown",
        ),
        (
            {"label": [None] * 7},
            "is not as imgrec writes it, so names, labels and splits of its images are unknown",
        ),
    ],
)
def test_a_table_of_something_else_is_named(folder: Path, columns: Any, what: str) -> None:
    rewrite(folder, **columns)
    with pytest.raises(DatasetError) as caught:
        _ = imgrec.open_dataset(folder)["train"].labels
    assert str(caught.value) == f"{folder / 'samples.parquet'} {what}"


def test_a_table_of_other_records_is_named(folder: Path) -> None:
    table = pq.read_table(folder / "samples.parquet")
    pq.write_table(table.slice(0, 5), folder / "samples.parquet")
    with pytest.raises(DatasetError, match="has 5 rows for 7 records"):
        _ = imgrec.open_dataset(folder)["train"].labels


def test_a_table_in_another_order_does_not_find_another_file(folder: Path) -> None:
    names = pq.read_table(folder / "samples.parquet").column("filename").to_pylist()
    rewrite(folder, filename=names[::-1])
    train = imgrec.open_dataset(folder)["train"]
    with pytest.raises(DatasetError, match=r"samples\.parquet names .*, but the record is"):
        train.find(names[0])


# What describes a dataset.

NONSENSE = ["", "[]", "5", "{}", "no JSON", "[" * 100_000, '{"name": "flowers"}', "\x00"]


@pytest.mark.parametrize("content", NONSENSE)
def test_a_dataset_info_of_something_else_is_named(folder: Path, content: str) -> None:
    (folder / "dataset_info.json").write_text(content)
    for function in (imgrec.open_dataset, imgrec.info):
        with pytest.raises(DatasetError) as caught:
            function(folder)
        assert str(folder / "dataset_info.json") in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"name": 5},
        {"name": "../../etc/flowers"},
        {"name": "flow\0ers"},
        {"splits": 5},
        {"splits": None},
        {"splits": [5]},
        {"splits": [{"name": "train", "shardLengths": ["-4", "3"]}]},
        {"splits": [{"name": "train", "shardLengths": [str(1 << 70)]}]},
        {"splits": [{"name": "train", "shardLengths": ["9" * 5000]}]},
        {"splits": [{"name": "train", "shardLengths": ["four"]}]},
        {"splits": [{"name": "a/b", "shardLengths": ["4"]}]},
        {"splits": [{"shardLengths": ["4"]}]},
    ],
)
def test_a_dataset_info_that_cannot_be_is_named(folder: Path, change: dict[str, object]) -> None:
    value = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps({**value, **change}))
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(folder)
    assert caught.value.path == str(folder / "dataset_info.json")


@pytest.mark.parametrize("lengths", [["5", "2"], ["3", "4"], ["4", "2"], [str(1 << 40), "3"]])
def test_shards_of_other_lengths_than_told_are_found(folder: Path, lengths: list[str]) -> None:
    value = json.loads((folder / "dataset_info.json").read_text())
    value["splits"][0]["shardLengths"] = lengths
    (folder / "dataset_info.json").write_text(json.dumps(value))
    train = imgrec.open_dataset(folder)["train"]
    for number in (0, len(train) - 1):
        try:
            train[number]
        except DatasetError as error:
            assert f"; expected {lengths[number > 0]}" in str(error)
            break
    else:
        pytest.fail("nothing was found")


def test_shards_of_other_names_are_answered_with_who_knows_them(folder: Path) -> None:
    value = json.loads((folder / "dataset_info.json").read_text())
    value["splits"][0]["filepathTemplate"] = "{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    (folder / "dataset_info.json").write_text(json.dumps(value))
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(folder)
    assert str(caught.value) == (
        f"{folder} has shards named {{SPLIT}}.{{FILEFORMAT}}-{{SHARD_X_OF_Y}}; "
        "imgrec cannot read them"
    )


# Records that are whole, and are not records of images.


def write_shard(folder: Path, *payloads: bytes) -> Dataset:
    """Make the first shard one of four other records, checksums and all."""
    framed = [(*tfrecord.frame(payload), payload) for payload in payloads]
    data = b"".join(before + payload + after for before, after, payload in framed)
    (folder / SHARD).write_bytes(data)
    (folder / INDEX).unlink()
    return imgrec.open_dataset(folder)


@cache
def image() -> bytes:
    return png(1)


def record(**features: Feature) -> bytes:
    before, after = encode_all_around(len(image()), features=features)
    return before + image() + after


def plain(label: int) -> bytes:
    before, after = encode_around(len(image()), filename=b"a", label=label, shape=(16, 24, 3))
    return before + image() + after


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"", "the record has no feature `image` with one image, but nothing"),
        (b"\xff", "not a tf.train.Example: "),
        (plain(2), "the record has label 2, but there are 2 classes"),
        (record(label=(9,), shape=(1, 1, 3)), "the record has label 9, but there are 2 classes"),
        (record(labels=(0, 2), shape=(1, 1, 3)), "the record has label 2, but there are 2 classes"),
        (
            record(filename=(b"a",)).replace(b"image", b"photo"),
            "the record has no feature `image` with one image, but filename, photo",
        ),
    ],
)
def test_a_record_that_is_none_of_an_image_is_named(
    folder: Path, payload: bytes, what: str
) -> None:
    train = write_shard(folder, plain(0), payload, plain(0), plain(0))["train"]
    assert train[0].label == 0
    with pytest.raises(CorruptRecord) as caught:
        train[1]
    assert str(caught.value).startswith(f"{folder / SHARD}: record 1: {what}")
    assert caught.value.path == str(folder / SHARD)


def test_features_of_unexpected_kinds_are_columns(folder: Path) -> None:
    payload = record(label=(b"12",), shape=(1.5, 2.5, 3.5), filename=(7,), weights=(1.5, 2.5))
    found = write_shard(folder, payload, *[plain(0)] * 3)["train"][0]
    assert (found.label, found.labels, found.filename) == (-1, (), "")
    assert found.shape == (16, 24, 3)
    assert found.columns == {"label": "12", "weights": (1.5, 2.5)}


@AGAIN
@given(st.binary(max_size=60))
def test_any_record_is_read_or_corrupt(whole: Path, folder: Path, payload: bytes) -> None:
    shutil.copy(whole / INDEX, folder / INDEX)
    train = write_shard(folder, payload, *[plain(0)] * 3)["train"]
    with pytest.raises(CorruptRecord):
        train[0]


# Handles.


def open_shards(folder: Path) -> int:
    """Count this process's open files in a folder: other tests' files come and go."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:  # the listing's own descriptor
            continue
        found += target.startswith(f"{folder}/")
    return found


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a dataset of 400 shards of one record each."""
    folder = tmp_path_factory.mktemp("many") / "many" / "1.0.0"
    folder.mkdir(parents=True)
    for number in range(400):
        before, after = encode_around(2, filename=b"%d" % number, label=0, shape=(1, 1, 1))
        payload = before + b"ab" + after
        head, foot = tfrecord.frame(payload)
        (folder / shard_filename("many", "train", number, 400)).write_bytes(head + payload + foot)
    split = {"name": "train", "shardLengths": ["1"] * 400, "numBytes": "1"}
    info = {"name": "many", "version": "1.0.0", "splits": [split]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text("{}")
    return folder


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")


@needs_proc
def test_no_more_than_256_shards_are_open_and_all_are_read(many: Path) -> None:
    train = imgrec.open_dataset(many)["train"]
    for _ in range(2):
        assert [int(record.filename) for record in train] == list(range(400))
    assert open_shards(many) == 256


@needs_proc
def test_a_dataset_that_nobody_holds_closes_its_files(many: Path) -> None:
    train = imgrec.open_dataset(many)["train"]
    assert len(list(train[:100])) == 100
    assert open_shards(many) == 100
    del train
    assert open_shards(many) == 0


@needs_proc
def test_a_process_that_may_open_few_files_reads_all_shards(many: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    train = imgrec.open_dataset(many)["train"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        found = [int(record.filename) for record in train]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found == list(range(400))
