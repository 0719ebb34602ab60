"""Verifying datasets of which nothing is as it should be: every damage is found, none hurts."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli
from damage import (
    SHARD,
    any_size,
    change,
    change_records,
    edit_json,
    make_flowers,
    source_of,
    whats,
)
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, read_shard, reseal, serialized, write_shard
from sampling import examples

import imgrec
from imgrec.api import unpack
from imgrec.codec import tfrecord
from imgrec.codec.example import varint
from imgrec.codec.tfrecord import compressor
from imgrec.faults import Faults
from imgrec.read.files import read_checksums


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


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def flowers(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(pristine, tmp_path / "flowers" / "1.0.0"))


@examples(150)
@given(data=st.data())
def test_any_changed_byte_of_any_file_is_found(pristine: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(os.listdir(pristine))))
    before = (pristine / name).read_bytes()
    if not before:
        return
    at = data.draw(st.integers(0, len(before) - 1))
    flip = data.draw(st.integers(1, 255))
    try:
        change(pristine / name, at, flip)
        faults = faults_of(pristine)
        assert faults
        assert name == "SHA256SUMS" or name in {path for path, _, _ in faults}
    finally:
        (pristine / name).write_bytes(before)


@examples(100)
@given(data=st.data())
def test_any_changed_byte_of_a_shard_or_its_index_is_found_without_checksums(
    pristine: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([SHARD, f"{SHARD}.idx"]))
    before, sums = (pristine / name).read_bytes(), (pristine / "SHA256SUMS").read_bytes()
    at = data.draw(st.integers(0, len(before) - 1))
    try:
        change(pristine / name, at, data.draw(st.integers(1, 255)))
        reseal(pristine)
        assert name in {path for path, _, _ in faults_of(pristine)}
    finally:
        (pristine / name).write_bytes(before)
        (pristine / "SHA256SUMS").write_bytes(sums)


@examples(100)
@given(data=st.data())
def test_whatever_a_file_holds_is_never_an_error(pristine: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(os.listdir(pristine))))
    before, sums = (pristine / name).read_bytes(), (pristine / "SHA256SUMS").read_bytes()
    cut = data.draw(st.integers(0, len(before)))
    try:
        (pristine / name).write_bytes(before[:cut] + data.draw(st.binary(max_size=40)))
        if name != "SHA256SUMS":
            reseal(pristine)
        faults_of(pristine)
    finally:
        (pristine / name).write_bytes(before)
        (pristine / "SHA256SUMS").write_bytes(sums)


@examples(200)
@given(data=st.data(), junk=json_values)
def test_whatever_a_document_says_is_never_an_error(
    pristine: Path, data: st.DataObject, junk: object
) -> None:
    documents = ["dataset_info.json", "features.json", "metadata.json", "report.json"]
    name = data.draw(st.sampled_from(documents))
    before, sums = (pristine / name).read_bytes(), (pristine / "SHA256SUMS").read_bytes()
    value = json.loads(before)
    inner = value
    while isinstance(inner, dict | list) and inner:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inner[key], dict | list) or data.draw(st.booleans()):
            inner[key] = junk
            break
        inner = inner[key]
    try:
        (pristine / name).write_text(json.dumps(value))
        reseal(pristine)
        faults_of(pristine)
    finally:
        (pristine / name).write_bytes(before)
        (pristine / "SHA256SUMS").write_bytes(sums)


def test_a_pipe_in_place_of_a_shard_is_a_fault_and_holds_nothing_up(flowers: Path) -> None:
    (flowers / SHARD).unlink()
    os.mkfifo(flowers / SHARD)
    assert "the file cannot be read: not a regular file" in whats(flowers, SHARD)


def test_a_record_of_2_to_the_63_bytes_is_not_read(flowers: Path) -> None:
    length = struct.pack("<Q", 1 << 63)
    head = length + tfrecord.frame(length)[1]
    (flowers / SHARD).write_bytes(head + bytes(100))
    (what,) = [fault for fault in faults_of(flowers) if fault[:2] == (SHARD, 0)]
    assert what[2] == "truncated record"


def test_an_image_bomb_is_a_fault_and_is_not_decoded(flowers: Path) -> None:
    ihdr = struct.pack(">IIBBBBB", 1 << 18, 1 << 18, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I4s", 13, b"IHDR") + ihdr
    bomb = b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(chunk[4:]))
    edit_json(flowers / "features.json", any_size)
    change_records(flowers, lambda records: records[0].update(image=(bomb,)))
    for decode in (False, True):
        found = whats(flowers, SHARD, decode=decode)
        assert any("262144x262144 pixels" in what for what in found)


def test_a_table_that_unpacks_to_gigabytes_is_not_read(flowers: Path) -> None:
    rows = 50_000_000
    zeros = pa.array([0]).take(pa.array([0]))
    column = pa.chunked_array([pa.concat_arrays([zeros] * 1000)] * (rows // 1000))
    pq.write_table(pa.table({"offset": column}), flowers / "samples.parquet", compression="zstd")
    assert (flowers / "samples.parquet").stat().st_size < 1 << 21
    reseal(flowers)
    assert whats(flowers, "samples.parquet") == ["it unpacks to far more than 13 rows can take"]


def test_an_index_larger_than_any_is_not_kept_in_memory(flowers: Path) -> None:
    with (flowers / f"{SHARD}.idx").open("a") as file:
        file.truncate(1 << 26)
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


def test_escape_codes_in_names_do_not_reach_the_terminal(cli: Cli, flowers: Path) -> None:
    def name(records: list[dict[str, object]]) -> None:
        for record in records[:2]:
            record["filename"] = (b"rose/\x1b[31m.jpg",)

    change_records(flowers, name)
    done = cli("verify", flowers)
    assert "\x1b" not in done.stdout
    assert "rose/\\x1b[31m.jpg is also the name" in done.stdout


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("../../etc/passwd", "the line is not a checksum and a file name"),
        ("..", "the line is not a checksum and a file name"),
        ("features.json", "the line names a file that is already listed"),
    ],
)
def test_a_line_of_the_checksums_that_is_none_is_a_fault(
    flowers: Path, line: str, what: str
) -> None:
    size = (flowers / "SHA256SUMS").stat().st_size
    with (flowers / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  {line}\n")
    assert faults_of(flowers) == [("SHA256SUMS", size, what)]


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


def test_a_compressed_record_of_gigabytes_is_not_unpacked(pristine: Path, tmp_path: Path) -> None:
    folder = pack(source_of(pristine), tmp_path, compression="gzip")
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    length = struct.pack("<Q", (1 << 31) - 1)
    stream = compressor("gzip")
    data = stream.compress(length + tfrecord.frame(length)[1]) + stream.compress(bytes(1 << 22))
    shard.write_bytes(data + stream.flush())
    found = whats(folder, shard.name)
    assert any("a record of 2,147,483,647 bytes, longer than" in what for what in found)


def test_a_compressed_shard_of_one_record_a_million_times_is_not_kept(
    pristine: Path, tmp_path: Path
) -> None:
    folder = pack(source_of(pristine), tmp_path, compression="gzip")
    shard = next(folder.glob("*.tfrecord.*-of-*"))
    head, foot = tfrecord.frame(b"")
    stream = compressor("gzip")
    shard.write_bytes(stream.compress((head + foot) * 1_000_000) + stream.flush())
    reseal(folder)
    found = whats(folder, shard.name)
    assert "it has more records than a file of its size can hold" in found
    assert len(found) < 20_000


def test_a_shard_of_nothing_but_faults_is_left_after_fifty_thousand(flowers: Path) -> None:
    head, foot = tfrecord.frame(b"")
    (flowers / SHARD).write_bytes((head + foot) * 150_000)
    (flowers / f"{SHARD}.idx").unlink()
    reseal(flowers)
    found = whats(flowers, SHARD)
    assert "more than 50,000 faults: the rest of the file is not checked" in found
    assert len(found) < 50_010


def test_documents_that_tell_of_millions_of_shards_do_not_list_them_all(flowers: Path) -> None:
    edit_json(
        flowers / "dataset_info.json",
        lambda value: value["splits"][0].update(shardLengths=[1] * 2_000_000),  # type: ignore[index]
    )
    faults = faults_of(flowers)
    assert len(faults) < 2000
    assert any("more shards are missing" in what for _, _, what in faults)


@pytest.mark.parametrize("document", ["dataset_info.json", "metadata.json"])
def test_documents_that_tell_of_many_formats_do_not_multiply_them(
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


def test_a_template_that_gives_all_shards_one_name_is_a_fault(flowers: Path) -> None:
    def change_info(value: dict[str, Any]) -> None:
        value["splits"][0] |= {"shardLengths": ["1"] * 1_000_000, "filepathTemplate": SHARD}

    edit_json(flowers / "dataset_info.json", change_info)
    found = whats(flowers, "dataset_info.json")
    assert "the filepathTemplate of train gives two shards the same name" in found


def test_a_list_of_very_many_files_is_read_in_no_time(flowers: Path) -> None:
    lines = "".join(f"{number:064x}  {number}\n" for number in range(200_000))
    (flowers / "SHA256SUMS").write_text(lines)
    assert len(read_checksums(flowers, Faults())) == 200_000
