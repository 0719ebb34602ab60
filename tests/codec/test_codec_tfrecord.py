"""The TFRecord framing, against TensorFlow's own reader."""

from __future__ import annotations

import io
import itertools
import os
import struct
import tracemalloc
from pathlib import Path
from types import ModuleType

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgrec.codec.tfrecord import OVERHEAD, frame, read_records
from imgrec.errors import CorruptRecord

# tf.io.TFRecordWriter wrote it.
GOLDEN = "06 00 00 00 00 00 00 00  73 69 d5 37  69 6d 67 72 65 63  ae 4d 16 5b"
PAYLOADS = [b"first", b"", b"the third record"]


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


def record(payload: bytes) -> bytes:
    before, after = frame(payload)
    return before + payload + after


def head(length: int) -> bytes:
    """Make the head of a record of that length, with the checksum it should have."""
    packed = struct.pack("<Q", length)
    crc = google_crc32c.value(packed)
    return packed + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


FILE = b"".join(map(record, PAYLOADS))
OFFSETS = [0, *itertools.accumulate(len(record(payload)) for payload in PAYLOADS[:-1])]
BOUNDARIES = {*OFFSETS, len(FILE)}


def read(data: bytes) -> list[tuple[int, bytes]]:
    return list(read_records(io.BytesIO(data), path="a.tfrecord"))


def fault(data: bytes) -> tuple[str, str, int | None]:
    """Return message, path and offset of what reading raises."""
    with pytest.raises(CorruptRecord) as caught:
        read(data)
    return str(caught.value), caught.value.path, caught.value.offset


def offset_of(byte: int) -> int:
    return max(offset for offset in OFFSETS if offset <= byte)


def test_a_record_is_framed_as_tensorflow_does_it() -> None:
    assert record(b"imgrec") == bytes.fromhex(GOLDEN)


def test_a_record_that_tensorflow_wrote_is_read() -> None:
    assert read(bytes.fromhex(GOLDEN)) == [(0, b"imgrec")]


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_a_payload_in_pieces_is_framed_as_in_one(pieces: list[bytes]) -> None:
    assert frame(*pieces) == frame(b"".join(pieces))


@given(st.binary(max_size=300))
def test_a_frame_adds_sixteen_bytes(payload: bytes) -> None:
    assert len(record(payload)) - len(payload) == OVERHEAD == 16


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_what_is_framed_is_read_back_with_its_offsets(payloads: list[bytes]) -> None:
    records = [record(payload) for payload in payloads]
    offsets = [0, *itertools.accumulate(map(len, records))][: len(records)]
    assert read(b"".join(records)) == list(zip(offsets, payloads, strict=True))


def test_tensorflow_reads_what_is_framed(tf: ModuleType, tmp_path: Path) -> None:
    payloads = [*PAYLOADS, bytes(range(256)) * 300]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(map(record, payloads)))
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == payloads


def test_tensorflow_writes_the_same_file(tf: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert path.read_bytes() == FILE


def test_an_empty_file_has_no_records() -> None:
    assert read(b"") == []


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_found_in_the_record_that_has_it(bit: int) -> None:
    found = {}
    for byte in range(len(FILE)):
        flipped = bytearray(FILE)
        flipped[byte] ^= 1 << bit
        _, path, found[byte] = fault(bytes(flipped))
        assert path == "a.tfrecord"
    assert found == {byte: offset_of(byte) for byte in range(len(FILE))}


def test_records_before_a_flipped_bit_are_read() -> None:
    flipped = FILE[:-6] + bytes([FILE[-6] ^ 1]) + FILE[-5:]
    records = read_records(io.BytesIO(flipped), path="a.tfrecord")
    assert [next(records), next(records)] == [(0, b"first"), (21, b"")]
    with pytest.raises(CorruptRecord):
        next(records)


def test_a_wrong_payload_says_so_and_where() -> None:
    flipped = FILE[:-6] + bytes([FILE[-6] ^ 1]) + FILE[-5:]
    message = "a.tfrecord: wrong checksum of a record at byte 37"
    assert fault(flipped) == (message, "a.tfrecord", 37)


def test_a_wrong_length_says_so_and_where() -> None:
    flipped = FILE[:21] + b"\x01" + FILE[22:]
    message = "a.tfrecord: wrong checksum of a record's length at byte 21"
    assert fault(flipped) == (message, "a.tfrecord", 21)


@pytest.mark.parametrize("length", sorted(set(range(len(FILE))) - BOUNDARIES))
def test_a_file_cut_in_a_record_is_corrupt_at_that_record(length: int) -> None:
    offset = offset_of(length)
    message = f"a.tfrecord: truncated record at byte {offset}"
    assert fault(FILE[:length]) == (message, "a.tfrecord", offset)


@pytest.mark.parametrize("length", sorted(BOUNDARIES))
def test_a_file_cut_between_records_has_the_records_before(length: int) -> None:
    whole = zip(OFFSETS, PAYLOADS, strict=True)
    assert read(FILE[:length]) == [record for record in whole if record[0] < length]


@pytest.mark.parametrize("length", [1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    message = "a.tfrecord: truncated record at byte 21"
    assert fault(record(b"first") + head(length)) == (message, "a.tfrecord", 21)


@pytest.mark.parametrize("length", [1 << 31, 1 << 40, (1 << 64) - 1])
def test_an_impossible_length_takes_no_memory(length: int, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(head(length))
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(CorruptRecord):
            list(read_records(file, path=str(path)))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


@given(st.binary(max_size=100))
def test_any_bytes_are_records_or_a_corrupt_record(data: bytes) -> None:
    try:
        records = read(data)
    except CorruptRecord as error:
        assert (error.path, error.offset) == ("a.tfrecord", 0)
    else:
        assert b"".join(record(payload) for _, payload in records) == data
