"""Reading a dataset with damaged, missing or hostile files."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
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
IMAGE = png(1)
AGAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two shards, the first with four records."""
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
    """Return the error of reading all records."""
    with pytest.raises(DatasetError) as caught:
        images(folder)
    return caught.value


def flipped(data: bytes, at: int, change: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


def edit_json(path: Path, **change: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


# Shards


@AGAIN
@given(st.integers(0, 1 << 20), st.integers(1, 255), st.booleans())
@example(0, 1, True)
@example(100, 1, False)
def test_any_changed_byte_of_a_shard_is_found(
    whole: Path, folder: Path, at: int, change: int, has_index: bool
) -> None:
    content = (whole / SHARD).read_bytes()
    (folder / SHARD).write_bytes(flipped(content, at, change))
    (folder / INDEX).unlink(missing_ok=True)
    if has_index:
        shutil.copy(whole / INDEX, folder / INDEX)
    error = fault(folder)
    assert error.path == str(folder / SHARD)
    if has_index:
        starts = [int(line.split()[0]) for line in (folder / INDEX).read_text().splitlines()]
        assert isinstance(error, CorruptRecord)
        assert error.offset == max(start for start in starts if start <= at % len(content))
        assert str(error).startswith(f"{folder / SHARD}: ")
        assert str(error).endswith(f" at byte {error.offset}")
        assert "pack it again with --overwrite" in error.hint


def test_records_beside_a_damaged_one_are_read(whole: Path, folder: Path) -> None:
    (folder / SHARD).write_bytes(flipped((folder / SHARD).read_bytes(), 100, 1))
    before, after = imgrec.open_dataset(whole)["train"], imgrec.open_dataset(folder)["train"]
    with pytest.raises(CorruptRecord):
        after[0]
    assert list(after[1:]) == list(before[1:])


def test_a_shard_without_an_index_is_read(whole: Path, folder: Path) -> None:
    (folder / INDEX).unlink()
    assert images(folder) == images(whole)


@pytest.mark.parametrize("length", [0, 1, 12, 500])
def test_a_truncated_shard_is_found(folder: Path, length: int) -> None:
    content = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(content[:length])
    error = fault(folder)
    message = f"{folder / SHARD}: expected {len(content)} bytes (its index), found {length}"
    assert (str(error), error.path, error.offset) == (message, str(folder / SHARD), length)
    (folder / INDEX).unlink()
    assert str(folder / SHARD) in str(fault(folder))


def test_a_shard_with_one_more_record_is_found(folder: Path) -> None:
    content = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(content + b"".join(tfrecord.frame()))
    assert str(fault(folder)).endswith(f"(its index), found {len(content) + 16}")
    (folder / INDEX).unlink()
    message = f"{folder / SHARD}: expected 4 records (dataset_info.json), found 5"
    assert str(fault(folder)) == message


def test_a_shard_may_change_while_it_is_open(folder: Path) -> None:
    other = shard_filename("flowers", "train", 1, 2)
    train = imgrec.open_dataset(folder)["train"]
    before = list(train)
    shutil.copy(folder / other, folder / "new")
    (folder / "new").rename(folder / SHARD)
    assert list(train) == before  # the old file is still open
    assert isinstance(fault(folder), CorruptRecord)
    os.truncate(folder / other, 100)
    with pytest.raises(CorruptRecord) as caught:
        train[5]
    assert caught.value.path == str(folder / other)


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


not_a_file = pytest.mark.parametrize("change", [missing, a_folder, a_pipe, a_loop])


@not_a_file
@pytest.mark.parametrize("has_index", [True, False])
def test_a_shard_that_is_not_a_file_is_named(
    folder: Path,
    change: Callable[[Path], None],
    has_index: bool,
    recwarn: pytest.WarningsRecorder,
) -> None:
    change(folder / SHARD)
    if not has_index:
        (folder / INDEX).unlink()
    error = fault(folder)
    assert str(error).startswith(f"cannot read {folder / SHARD}: ")
    assert error.path == str(folder / SHARD)
    hint = (
        "a shard of the dataset is missing or cannot be opened: "
        "restore it, or pack it again with --overwrite"
    )
    assert error.hint == hint
    assert imgrec.open_dataset(folder)["train"][4].image
    assert list(recwarn) == []


# Indexes


def following(*lengths: int) -> str:
    return "".join(f"{sum(lengths[:n])} {length}\n" for n, length in enumerate(lengths))


WRONG: dict[str, Callable[[list[str]], str]] = {
    "empty": lambda _: "",
    "binary": lambda _: "\x00\x01\x7f",
    "a line less": lambda lines: "\n".join(lines[:-1]),
    "a line more": lambda lines: "\n".join([*lines, lines[-1]]),
    "half a line": lambda lines: "\n".join([*lines[:-1], lines[-1].split()[0]]),
    "a repeated line": lambda lines: "\n".join([lines[0], *lines[:-1]]),
    "another order": lambda lines: "\n".join(reversed(lines)),
    "negative offsets": lambda lines: "\n".join(["-5 20", *lines[1:]]),
    "no lengths": lambda lines: "\n".join(["0 0"] * len(lines)),
    "digits": lambda _: "9" * 5000,
    "a megabyte": lambda _: "0 16\n" * 200_000,
    "another size": lambda _: following(1000, 1000, 1000, 1000),
    "wrong places": lambda lines: following(16, 16, 16, sum(map(int, lines[-1].split())) - 48),
    "fractions": lambda lines: "\n".join(line.replace(" ", ".0 ") for line in lines),
}
IMPOSSIBLE = [(16, 16, 16, -16), (1 << 63, 16, 16, 16), (1 << 64, 16, 16, 16), (15, 16, 16, 16)]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_index_is_found_in_little_memory(folder: Path, wrong: str) -> None:
    (folder / INDEX).write_text(WRONG[wrong]((folder / INDEX).read_text().splitlines()))
    tracemalloc.start()
    try:
        error = fault(folder)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(folder / SHARD) in str(error)
    assert "\n" not in str(error)
    assert peak_bytes < 1 << 20


def test_a_wrong_index_is_named_with_a_way_out(folder: Path) -> None:
    (folder / INDEX).write_text("0 16\n")
    error = fault(folder)
    assert str(error) == f"{folder / INDEX} lists 1 records; expected 4"
    assert error.path == str(folder / INDEX)
    assert error.hint == "pack the dataset again, or delete that file"


@pytest.mark.parametrize("lengths", IMPOSSIBLE)
def test_impossible_lengths_in_an_index_are_found(folder: Path, lengths: tuple[int, ...]) -> None:
    (folder / INDEX).write_text(following(*lengths))
    assert str(fault(folder)) == f"{folder / INDEX} lists records that do not follow each other"


@AGAIN
@given(
    st.binary(max_size=100)
    | st.text("0123456789- \n", max_size=60).map(str.encode)
    | st.tuples(st.integers(0, 99), st.integers(1, 255))
)
def test_no_index_gives_a_wrong_record(
    whole: Path, folder: Path, content: bytes | tuple[int, int]
) -> None:
    if isinstance(content, tuple):
        content = flipped((whole / INDEX).read_bytes(), *content)
    (folder / INDEX).write_bytes(content)
    try:
        found = images(folder)
    except DatasetError:
        return
    assert found == images(whole)


def test_an_index_is_what_dali_would_write(whole: Path) -> None:
    shards = sorted(whole.glob("*.tfrecord-*-of-00002"))
    assert len(shards) == 2
    for shard in shards:
        # As DALI's tfrecord2idx: offset and length of each record with its frame.
        data, offset, expected = shard.read_bytes(), 0, ""
        while offset < len(data):
            length = 8 + 4 + int.from_bytes(data[offset : offset + 8], "little") + 4
            expected += f"{offset} {length}\n"
            offset += length
        assert Path(f"{shard}.idx").read_text() == expected


# samples.parquet


def test_without_samples_parquet_the_records_are_read(whole: Path, folder: Path) -> None:
    (folder / "samples.parquet").unlink()
    before, after = imgrec.open_dataset(whole)["train"], imgrec.open_dataset(folder)["train"]
    assert after.labels.tolist() == before.labels.tolist()
    assert after.filenames == before.filenames
    assert list(after.of_class("rose")) == list(before.of_class("rose"))
    assert after.find("rose/001.jpg") == before.find("rose/001.jpg")


UNKNOWN = "so names, labels and splits of its images are unknown"
WRONG_TABLE = f"is not as imgrec writes it, {UNKNOWN}"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda table: {**table, "label": ["daisy"] * 7}, WRONG_TABLE),
        (lambda table: {**table, "label": [None] * 7}, WRONG_TABLE),
        (
            lambda table: {name: cells[:5] for name, cells in table.items()},
            f"has 5 rows for 7 records, {UNKNOWN}",
        ),
    ],
)
def test_a_wrong_table_is_named(folder: Path, change: Callable[[Any], Any], what: str) -> None:
    path = folder / "samples.parquet"
    pq.write_table(pa.table(change(pq.read_table(path).to_pydict())), path)
    with pytest.raises(DatasetError) as caught:
        _ = imgrec.open_dataset(folder)["train"].labels
    assert str(caught.value) == f"{path} {what}"


def test_a_table_in_another_order_does_not_give_another_file(folder: Path) -> None:
    path = folder / "samples.parquet"
    table = pq.read_table(path).to_pydict()
    pq.write_table(pa.table({**table, "filename": table["filename"][::-1]}), path)
    train = imgrec.open_dataset(folder)["train"]
    with pytest.raises(DatasetError, match=r"samples\.parquet names .*, but the record is"):
        train.find(table["filename"][0])


# Documents


@not_a_file
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("dataset_info.json", read_info),
        ("report.json", read_report),
        ("features.json", lambda folder: read_documents(folder).imgrec_features()),
    ],
)
def test_a_document_that_is_not_a_file_is_named(
    folder: Path, name: str, read: Callable[[Path], object], change: Callable[[Path], None]
) -> None:
    change(folder / name)
    with pytest.raises(DatasetError) as caught:
        read(folder)
    assert caught.value.path == str(folder / name)


@pytest.mark.parametrize("read", [read_info, read_report, read_fingerprint])
def test_a_failing_disk_is_not_a_wrong_document(
    folder: Path, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched, pytest.raises(ExecutionError) as caught:
        patched.setattr(os, "open", fail)
        read(folder)
    assert caught.value.message == f"cannot read {caught.value.path}: Input/output error"
    assert caught.value.hint == "make sure that it can be read, and run this again"


@pytest.mark.parametrize(
    "content", ["", "[]", "5", "{}", "no JSON", "[" * 100_000, '{"name": "flowers"}', "\x00"]
)
def test_a_dataset_info_without_sense_is_named(folder: Path, content: str) -> None:
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
def test_impossible_values_in_a_dataset_info_are_named(
    folder: Path, change: dict[str, object]
) -> None:
    edit_json(folder / "dataset_info.json", **change)
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(folder)
    assert caught.value.path == str(folder / "dataset_info.json")


@pytest.mark.parametrize(
    ("lengths", "number", "message"),
    [
        (["5", "2"], 0, "lists 4 records; expected 5"),
        (["3", "4"], 0, "lists 4 records; expected 3"),
        ([str(1 << 40), "3"], 0, f"lists 4 records; expected {1 << 40}"),
        (["4", "2"], -1, "lists 3 records; expected 2"),
    ],
)
def test_wrong_shard_lengths_are_found(
    folder: Path, lengths: list[str], number: int, message: str
) -> None:
    split = {"name": "train", "shardLengths": lengths, "numBytes": "1"}
    edit_json(folder / "dataset_info.json", splits=[split])
    with pytest.raises(DatasetError, match=message):
        imgrec.open_dataset(folder)["train"][number]


def test_shards_with_other_names_are_left_to_tfds(folder: Path) -> None:
    template = "{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    split = {"name": "train", "shardLengths": ["4", "3"], "filepathTemplate": template}
    edit_json(folder / "dataset_info.json", splits=[split])
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(folder)
    assert str(caught.value) == f"{folder} has shards named {template}; imgrec cannot read them"


# Records with correct checksums, but unexpected contents


def write_shard(folder: Path, *payloads: bytes) -> Dataset:
    framed = [(*tfrecord.frame(payload), payload) for payload in payloads]
    data = b"".join(before + payload + after for before, after, payload in framed)
    (folder / SHARD).write_bytes(data)
    (folder / INDEX).unlink(missing_ok=True)
    return imgrec.open_dataset(folder)


def record(**features: Feature) -> bytes:
    before, after = encode_all_around(len(IMAGE), features=features)
    return before + IMAGE + after


def plain(label: int) -> bytes:
    before, after = encode_around(len(IMAGE), filename=b"a", label=label, shape=(16, 24, 3))
    return before + IMAGE + after


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
def test_a_record_without_an_image_or_class_is_named(
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
def test_any_other_payload_is_corrupt(folder: Path, payload: bytes) -> None:
    train = write_shard(folder, payload, *[plain(0)] * 3)["train"]
    with pytest.raises(CorruptRecord):
        train[0]


# Open files


def open_files(folder: Path) -> int:
    """Count this process's open files in a folder."""
    links = [f"/proc/self/fd/{descriptor}" for descriptor in os.listdir("/proc/self/fd")]
    return sum(
        os.readlink(link).startswith(f"{folder}/") for link in links if os.path.lexists(link)
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 400 shards of one record each."""
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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_at_most_256_shards_are_open_and_all_are_closed_at_last(many: Path) -> None:
    train = imgrec.open_dataset(many)["train"]
    for _ in range(2):
        assert [int(record.filename) for record in train] == list(range(400))
    assert open_files(many) == 256
    del train
    assert open_files(many) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_a_process_that_may_open_few_files_reads_all_shards(many: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    train = imgrec.open_dataset(many)["train"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        found = [int(record.filename) for record in train]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found == list(range(400))
