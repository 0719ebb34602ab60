"""Verifying datasets in which anything may be wrong: every damage is found, and none hurts."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli
from damage import SHARD, any_size, change, change_records, edit_json, make_flowers, whats
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, read_shard, reseal, serialized, write_shard
from pictures import class_tree, png, write_tree
from sampling import examples, some_of

import imgrec
from imgrec.api import unpack
from imgrec.codec import tfrecord
from imgrec.codec.example import varint
from imgrec.codec.tfrecord import compressor

DOCUMENTS = ("dataset_info.json", "features.json", "metadata.json", "report.json")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def flowers(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(pristine, tmp_path / "flowers" / "1.0.0"))


@contextmanager
def damaged(folder: Path, name: str, data: bytes, *, is_sealed: bool = True) -> Iterator[None]:
    """Replace a file, and let SHA256SUMS fit it, for a while."""
    before = {path: path.read_bytes() for path in (folder / name, folder / "SHA256SUMS")}
    try:
        (folder / name).write_bytes(data)
        if is_sealed and name != "SHA256SUMS":
            reseal(folder)
        yield
    finally:
        for path, content in before.items():
            path.write_bytes(content)


# Sweeps


def test_a_flipped_bit_of_any_file_is_found(tmp_path: Path) -> None:
    """Of the page, which is long and never parsed, every 31st byte is changed."""
    files = {"a/1.png": png(1, size=(3, 2)), "b/2.png": png(2, size=(3, 2))}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out")
    for name in sorted(os.listdir(folder)):
        data = (folder / name).read_bytes()
        step = 8 * 31 if name == "report.html" else 1
        for bit in some_of(range(0, 8 * len(data), step), 60):
            change(folder / name, bit // 8, 1 << bit % 8)
            found = {path for path, _, _ in faults_of(folder)}
            assert name in found or (name == "SHA256SUMS" and found), (name, bit)
            (folder / name).write_bytes(data)


@examples(100)
@given(data=st.data())
def test_any_changed_byte_of_a_shard_or_its_index_is_found_without_checksums(
    pristine: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([SHARD, f"{SHARD}.idx"]))
    content = bytearray((pristine / name).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with damaged(pristine, name, bytes(content)):
        assert whats(pristine, name)


@examples(100)
@given(data=st.data())
def test_whatever_a_file_holds_is_never_an_error(pristine: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(os.listdir(pristine))))
    content = (pristine / name).read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    with damaged(pristine, name, content[:cut] + data.draw(st.binary(max_size=40))):
        faults_of(pristine)


@examples(150)
@given(data=st.data(), decode=st.booleans())
def test_whatever_a_record_holds_is_never_an_error(
    pristine: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, decode: bool
) -> None:
    folder = tmp_path_factory.mktemp("record") / "flowers"
    shutil.copytree(pristine, folder)
    (record, *rest) = map(serialized, read_shard(folder / SHARD))
    at = data.draw(st.integers(0, len(record)))
    cut = data.draw(st.integers(0, 8))
    junk = data.draw(st.binary(max_size=8))
    write_shard(folder / SHARD, [record[:at] + junk + record[at + cut :], *rest])
    reseal(folder)
    faults_of(folder, decode=decode)
    with suppress(imgrec.ImgrecError):
        unpack(folder, folder.parent / "tree", engine=ENGINE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(10**30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@examples(200)
@given(data=st.data(), junk=json_values)
def test_whatever_a_document_says_is_never_an_error(
    pristine: Path, data: st.DataObject, junk: object
) -> None:
    name = data.draw(st.sampled_from(DOCUMENTS))
    value = json.loads((pristine / name).read_bytes())
    inner = value
    while isinstance(inner, dict | list) and inner:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inner[key], dict | list) or data.draw(st.booleans()):
            inner[key] = junk
            break
        inner = inner[key]
    with damaged(pristine, name, json.dumps(value).encode()):
        faults_of(pristine)


# Bombs


def test_a_record_of_2_to_the_63_bytes_is_not_read(flowers: Path) -> None:
    length = struct.pack("<Q", 1 << 63)
    (flowers / SHARD).write_bytes(length + tfrecord.frame(length)[1] + bytes(100))
    assert (SHARD, 0, "truncated record") in faults_of(flowers)


@pytest.mark.parametrize("decode", [False, True])
def test_an_image_bomb_is_a_fault_and_is_not_decoded(flowers: Path, decode: bool) -> None:
    ihdr = struct.pack(">IIBBBBB", 1 << 18, 1 << 18, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I4s", 13, b"IHDR") + ihdr
    bomb = b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(chunk[4:]))
    edit_json(flowers / "features.json", any_size)
    change_records(flowers, lambda records: records[0].update(image=(bomb,)))
    assert any("262144x262144 pixels" in what for what in whats(flowers, SHARD, decode=decode))


def test_a_table_that_unpacks_to_gigabytes_is_not_read(flowers: Path) -> None:
    column = pa.chunked_array([pa.array([0] * 1000)] * 50_000)
    pq.write_table(pa.table({"offset": column}), flowers / "samples.parquet", compression="zstd")
    assert (flowers / "samples.parquet").stat().st_size < 1 << 21
    reseal(flowers)
    assert whats(flowers, "samples.parquet") == ["it unpacks to far more than 13 rows can take"]


def test_an_index_larger_than_any_is_not_kept_in_memory(flowers: Path) -> None:
    os.truncate(flowers / f"{SHARD}.idx", 1 << 26)
    reseal(flowers)
    assert "it is longer than any index of this shard" in whats(flowers, f"{SHARD}.idx")


def test_crafted_records_do_not_break_it(flowers: Path) -> None:
    record = read_shard(flowers / SHARD)[0]
    crafted = [
        serialized({**record, "label": tuple(range(100_000))}),
        serialized({**record, "shape": (1 << 62, 1 << 62, 3)}),
        serialized({**record, "filename": (b"\xff\x00\x1b[31m" * 1000,)}),
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x0a" * 10_000,
        b"",
    ]
    write_shard(flowers / SHARD, crafted)
    reseal(flowers)
    assert len({offset for path, offset, _ in faults_of(flowers) if path == SHARD}) >= 6


@pytest.mark.parametrize(
    "part",
    [
        b"\x1a\x03\x0a\x01\x05" * 200_000,  # 200,000 parts of one list
        b"\x1a\x84\x80\x80\x0a\x0a\x80\x80\x80\x0a" + bytes(10 << 21),  # 20 million numbers
    ],
)
def test_a_record_that_would_take_gigabytes_to_decode_is_not_decoded(
    flowers: Path, part: bytes
) -> None:
    entry = b"\x0a\x05label" + b"\x12" + varint(len(part)) + part
    features = b"\x0a" + varint(len(entry)) + entry
    write_shard(flowers / SHARD, [b"\x0a" + varint(len(features)) + features])
    reseal(flowers)
    assert any("more parts or numbers than any record" in what for what in whats(flowers, SHARD))


LONG = struct.pack("<Q", (1 << 31) - 1)
EMPTY = b"".join(tfrecord.frame(b""))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (LONG + tfrecord.frame(LONG)[1] + bytes(1 << 22), "a record of 2,147,483,647 bytes, long"),
        (EMPTY * 1_000_000, "it has more records than a file of its size can hold"),
    ],
)
def test_a_compressed_shard_that_expands_to_gigabytes_is_not_kept(
    tmp_path: Path, data: bytes, what: str
) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 3}), tmp_path, compression="gzip")
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    stream = compressor("gzip")
    shard.write_bytes(stream.compress(data) + stream.flush())
    found = whats(folder, shard.name)
    assert any(what in each for each in found)
    assert len(found) < 20_000


def test_a_shard_of_nothing_but_faults_is_left_after_fifty_thousand(flowers: Path) -> None:
    (flowers / SHARD).write_bytes(EMPTY * 60_000)
    (flowers / f"{SHARD}.idx").unlink()
    reseal(flowers)
    found = whats(flowers, SHARD)
    assert "more than 50,000 faults: the rest of the file is not checked" in found
    assert len(found) < 50_010


# Documents that declare too much


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"shardLengths": [1] * 20_000}, "more shards are missing"),
        (
            {"shardLengths": ["1"] * 20_000, "filepathTemplate": SHARD},
            "the filepathTemplate of train gives two shards the same name",
        ),
    ],
)
def test_documents_that_declare_very_many_shards_do_not_list_them_all(
    flowers: Path, changes: dict[str, object], what: str
) -> None:
    edit_json(flowers / "dataset_info.json", lambda value: value["splits"][0].update(changes))  # type: ignore[index]
    faults = faults_of(flowers)
    assert len(faults) < 2000
    assert any(what in found for _, _, found in faults)


@pytest.mark.parametrize("document", ["dataset_info.json", "metadata.json"])
def test_documents_that_declare_many_formats_do_not_multiply_them(
    flowers: Path, document: str
) -> None:
    formats = [str(number) for number in range(20_000)]

    def change_info(value: dict[str, Any]) -> None:
        value["splits"][0]["shardLengths"] = ["1"] * 20_000
        value["alternativeFileFormats"] = formats if document == "dataset_info.json" else []

    def change_metadata(value: dict[str, Any]) -> None:
        value["imgrec"]["also"] = {one: {"train": 1} for one in formats}

    edit_json(flowers / "dataset_info.json", change_info)
    if document == "metadata.json":
        edit_json(flowers / document, change_metadata)
    assert any("Formats" in what or "sizes of 0 files" in what for what in whats(flowers, document))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("../../etc/passwd", "the line is not a checksum and a file name"),
        ("..", "the line is not a checksum and a file name"),
        ("features.json", "the line names a file that is already listed"),
    ],
)
def test_a_wrong_line_of_the_checksums_is_a_fault(flowers: Path, line: str, what: str) -> None:
    size = (flowers / "SHA256SUMS").stat().st_size
    with (flowers / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  {line}\n")
    assert faults_of(flowers) == [("SHA256SUMS", size, what)]


def test_escape_codes_in_names_do_not_reach_the_terminal(cli: Cli, flowers: Path) -> None:
    def name(records: list[dict[str, object]]) -> None:
        for record in records[:2]:
            record["filename"] = (b"rose/\x1b[31m.jpg",)

    change_records(flowers, name)
    done = cli("verify", flowers)
    assert "\x1b" not in done.stdout
    assert "rose/\\x1b[31m.jpg is also the name" in done.stdout
