"""Parts of files are read as they are, or not at all."""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from archives import DEFLATED, STORED, edited, written, zip_bytes
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from imgrec.errors import BadImage, ExecutionError
from imgrec.model import ZipMember
from imgrec.source.archive_formats import list_zip
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import close_files, read_blob, read_head, read_pieces

NOISE = random.Random(0).randbytes(3 << 20)


def member(path: Path) -> tuple[ZipMember, int]:
    """Return the only member of a zip, and its size."""
    (only,) = list_zip(str(path), path.name, 100).members
    assert isinstance(only.blob, ZipMember)
    return only.blob, only.size


def deflated(packed: bytes, size: int, crc32: int = 0) -> bytes:
    """Return a zip of one member whose packed bytes are these, whatever they are."""
    told = {10: b"\x08\0", 16: struct.pack("<I", crc32), 24: struct.pack("<I", size)}
    return edited(zip_bytes({"x": packed}, STORED), "x", told)


@pytest.mark.parametrize("method", [STORED, DEFLATED])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 70_000, len(NOISE)])
def test_a_member_of_a_zip_is_read_whole_in_part_and_in_pieces(
    tmp_path: Path, method: int, size: int
) -> None:
    blob, told = member(written(tmp_path / "a.zip", zip_bytes({"x": NOISE[:size]}, method)))
    assert told == size
    assert read_blob(blob, size) == NOISE[:size]
    assert read_head(blob, size, 4096, dated=True) == (size, NO_STAMP, NOISE[: min(size, 4096)])
    assert b"".join(read_pieces(blob, size)) == NOISE[:size]


def test_a_slice_is_read_whole_in_part_and_in_pieces(tmp_path: Path) -> None:
    blob, size = (str(written(tmp_path / "a", NOISE)), 1000), len(NOISE) - 2000
    assert read_blob(blob, size) == NOISE[1000:-1000]
    assert read_head(blob, size, 4096, dated=True) == (size, NO_STAMP, NOISE[1000:5096])
    assert b"".join(read_pieces(blob, size)) == NOISE[1000:-1000]


@examples(60)
@given(
    data=st.binary(max_size=300) | st.integers(1, 9000).map(lambda size: NOISE[:size]),
    step=st.integers(1, 50) | st.just(10_000),
    strategy=st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY]),
    head_bytes=st.sampled_from([0, 1, 64, 4096]),
)
def test_the_beginning_of_a_member_is_found_however_badly_it_is_packed(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, step: int, strategy: int, head_bytes: int
) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, 8, strategy)
    packed = b"".join(
        packer.compress(data[at : at + step]) + packer.flush(zlib.Z_FULL_FLUSH)
        for at in range(0, len(data), step)
    )
    packed += packer.flush()
    path = tmp_path_factory.mktemp("head") / "a.zip"
    blob, size = member(written(path, deflated(packed, size=len(data), crc32=zlib.crc32(data))))
    assert read_head(blob, size, head_bytes, dated=True).head == data[:head_bytes]
    assert read_blob(blob, size) == data
    assert b"".join(read_pieces(blob, size)) == data


def test_a_member_with_zip64_fields_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("x", "w", force_zip64=True) as file:
        file.write(NOISE[:5000])
    extra = struct.pack("<HHQQQ", 1, 24, 5000, 5000, 0)
    data = out.getvalue()
    central = data.index(b"PK\x01\x02")
    entry = bytearray(data[central : central + 47])
    for at in (20, 24, 42):
        entry[at : at + 4] = b"\xff" * 4
    entry[30:32] = struct.pack("<H", len(extra))
    end = data.rindex(b"PK\x05\x06")
    tail = bytearray(data[end:])
    tail[12:16] = struct.pack("<I", len(entry) + len(extra))
    blob, size = member(written(tmp_path / "a.zip", data[:central] + bytes(entry) + extra + tail))
    assert (blob.packed_size, size) == (5000, 5000)
    assert read_blob(blob, size) == NOISE[:5000]


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_member_with_a_long_name_and_a_long_extra_field_is_read(
    tmp_path: Path, method: int
) -> None:
    info = zipfile.ZipInfo("x" * 60_000)
    info.extra = struct.pack("<HH", 0xCAFE, 60_000) + bytes(60_000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, NOISE[:9000], method)
    blob, size = member(tmp_path / "a.zip")
    assert read_blob(blob, size) == NOISE[:9000]
    assert read_head(blob, size, 4096, dated=True).head == NOISE[:4096]


def test_a_zip_with_something_before_it_is_read(tmp_path: Path) -> None:
    data = b"#!/bin/sh\n" * 100 + zip_bytes({"x": NOISE[:5000]})
    assert read_blob(*member(written(tmp_path / "a.zip", data))) == NOISE[:5000]


def packed(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


LIES = {
    "a wrong checksum": (deflated(packed(b"data"), size=4), "its checksum is not what"),
    "more than it says": (deflated(packed(b"data" * 9), size=4), "its size is not what"),
    "less than it says": (deflated(packed(b"data"), size=40), "its size is not what"),
    "nothing, it says": (deflated(packed(bytes(9 << 20)), size=0), "its size is not what"),
    "not deflated": (deflated(b"\xff" * 99, size=40), "its compressed data is damaged"),
    "cut off": (deflated(packed(NOISE[:99])[:-9], size=99), "its size is not what"),
    "a stored byte that changed": (
        zip_bytes({"x": b"data"}, STORED).replace(b"data", b"date"),
        "its checksum is not what",
    ),
    "no header": (
        edited(zip_bytes({"x": b"data"}), "x", {0: b"QQQQ"}, local=True),
        "its header is not where",
    ),
    "a header that says its name is longer": (
        edited(zip_bytes({"x": b"data"}), "x", {26: b"\xff\xff"}, local=True),
        "its size is not what",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_member_that_is_not_what_its_archive_says_is_bad(tmp_path: Path, lie: str) -> None:
    data, reason = LIES[lie]
    blob, size = member(written(tmp_path / "a.zip", data))
    with pytest.raises(BadImage, match=reason):
        read_blob(blob, size)
    with pytest.raises(BadImage, match=reason):
        list(read_pieces(blob, size))


def test_no_more_is_unpacked_than_a_member_says_it_has(tmp_path: Path) -> None:
    blob, size = member(written(tmp_path / "a.zip", deflated(packed(bytes(9 << 20)), size=0)))
    assert read_head(blob, size, 4096, dated=True).head == b""


def test_what_is_cut_off_or_gone_is_bad(tmp_path: Path) -> None:
    path = written(tmp_path / "a", b"data")
    written(tmp_path / "b", b"other")
    with pytest.raises(BadImage, match="changed while it was being packed"):
        read_blob((str(path), 2), 3)
    path.unlink()
    with pytest.raises(BadImage, match="unreadable: No such file or directory"):
        read_blob(str(path), 4)


def test_a_file_of_many_images_that_is_gone_is_the_fault_of_none_of_them(tmp_path: Path) -> None:
    close_files()
    with pytest.raises(ExecutionError, match=r"cannot read x\.png in .*/a: No such file") as caught:
        read_blob((str(tmp_path / "a"), 2), 2, name="x.png")
    assert caught.value.path == str(tmp_path / "a")


def test_a_file_that_took_the_place_of_another_is_read_once_files_are_closed(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "a", b"old")
    assert read_blob((str(path), 0), 3) == b"old"
    os.replace(written(tmp_path / "b", b"new"), path)
    close_files()
    assert read_blob((str(path), 0), 3) == b"new"
