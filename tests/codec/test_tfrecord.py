"""The TFRecord framing, against TensorFlow's own reader; and compressed streams of it."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sampling import some_of

from imgrec.codec import tfrecord
from imgrec.codec.tfrecord import OVERHEAD, Decompressed, compressor, frame, read_records
from imgrec.errors import CorruptRecord

# tf.io.TFRecordWriter wrote it.
GOLDEN = "06 00 00 00 00 00 00 00  73 69 d5 37  69 6d 67 72 65 63  ae 4d 16 5b"
PAYLOADS = [b"first", b"", b"the third record"]


def record(payload: bytes) -> bytes:
    before, after = frame(payload)
    return before + payload + after


def head(length: int) -> bytes:
    """Make the head of a record of that length, with the right checksum."""
    return tfrecord._head(length)


FILE = b"".join(map(record, PAYLOADS))
OFFSETS = [0, *itertools.accumulate(len(record(payload)) for payload in PAYLOADS[:-1])]


def read(data: bytes) -> list[tuple[int, bytes]]:
    return list(read_records(io.BytesIO(data), path="a.tfrecord"))


def fault(data: bytes) -> tuple[str, int | None]:
    """Return message and offset of the error that reading raises."""
    with pytest.raises(CorruptRecord) as caught:
        read(data)
    assert caught.value.path == "a.tfrecord"
    return str(caught.value), caught.value.offset


def offset_of(byte: int) -> int:
    return max(offset for offset in OFFSETS if offset <= byte)


def test_records_are_read_and_framed_as_tensorflow_writes_them() -> None:
    assert record(b"imgrec") == bytes.fromhex(GOLDEN)
    assert read(bytes.fromhex(GOLDEN)) == [(0, b"imgrec")]
    assert read(b"") == []


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_framed_payloads_are_read_back_with_their_offsets(payloads: list[bytes]) -> None:
    assert frame(*payloads) == frame(b"".join(payloads))
    records = [record(payload) for payload in payloads]
    assert sum(map(len, records)) == sum(map(len, payloads)) + len(records) * OVERHEAD
    offsets = [0, *itertools.accumulate(map(len, records))][: len(records)]
    assert read(b"".join(records)) == list(zip(offsets, payloads, strict=True))


def test_tensorflow_reads_and_writes_the_same_file(tf: ModuleType, tmp_path: Path) -> None:
    payloads = [*PAYLOADS, bytes(range(256)) * 300]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(b"".join(map(record, payloads)))
    assert list(tf.data.TFRecordDataset(str(ours)).as_numpy_iterator()) == payloads
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for payload in payloads:
            writer.write(payload)
    assert theirs.read_bytes() == ours.read_bytes()


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_found_in_its_record(bit: int) -> None:
    for byte in range(len(FILE)):
        flipped = bytearray(FILE)
        flipped[byte] ^= 1 << bit
        assert fault(bytes(flipped))[1] == offset_of(byte)


def test_records_before_a_fault_are_read_and_the_fault_is_named() -> None:
    flipped = FILE[:-6] + bytes([FILE[-6] ^ 1]) + FILE[-5:]
    records = read_records(io.BytesIO(flipped), path="a.tfrecord")
    assert [next(records), next(records)] == [(0, b"first"), (21, b"")]
    assert fault(flipped) == ("a.tfrecord: wrong checksum of a record at byte 37", 37)
    wrong = "a.tfrecord: wrong checksum of a record's length at byte 21"
    assert fault(FILE[:21] + b"\x01" + FILE[22:]) == (wrong, 21)


@pytest.mark.parametrize("length", range(len(FILE) + 1))
def test_a_truncated_file_is_corrupt_unless_it_ends_between_records(length: int) -> None:
    if length in (*OFFSETS, len(FILE)):
        whole = zip(OFFSETS, PAYLOADS, strict=True)
        assert read(FILE[:length]) == [record for record in whole if record[0] < length]
    else:
        offset = offset_of(length)
        assert fault(FILE[:length]) == (f"a.tfrecord: truncated record at byte {offset}", offset)


@pytest.mark.parametrize("length", [1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_an_impossible_length_is_corrupt_and_takes_no_memory(length: int) -> None:
    tracemalloc.start()
    try:
        truncated = "a.tfrecord: truncated record at byte 21"
        assert fault(record(b"first") + head(length)) == (truncated, 21)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# Compressed streams

UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zlib": zlib.decompress}
kinds = pytest.mark.parametrize("kind", UNPACK)
STREAMED = [b"rose" * 50, bytes(range(200)), b""]


def compressed(kind: str, *pieces: bytes) -> bytes:
    stream = compressor(kind)
    return b"".join([*map(stream.compress, pieces), stream.flush()])


def read_stream(kind: str, data: bytes) -> list[bytes]:
    file = Decompressed(io.BytesIO(data), kind)
    frames = tfrecord.frames(file.read, None, path="a")
    return [payload for _, payload in tfrecord.sound(frames, " of the unpacked data")]


def stream_fault(kind: str, data: bytes) -> str:
    with pytest.raises(CorruptRecord) as caught:
        read_stream(kind, data)
    return str(caught.value)


@kinds
@given(data=st.data())
def test_a_stream_gives_back_what_went_in_and_other_programs_read_it(
    kind: str, data: st.DataObject
) -> None:
    pieces = data.draw(st.lists(st.binary(max_size=300), max_size=8))
    pieces *= data.draw(st.sampled_from([1, 1, 500]))
    stream, whole = compressed(kind, *pieces), io.BytesIO(b"".join(pieces))
    assert UNPACK[kind](stream) == whole.getvalue()
    file = Decompressed(io.BytesIO(stream), kind)
    for size in data.draw(st.lists(st.integers(1, 200_000), min_size=1, max_size=15)):
        assert file.read(size) == whole.read(size)


def test_a_stream_names_no_file_no_time_and_no_system() -> None:
    empty = bytes.fromhex("1f8b08000000000000ff 0300 00000000 00000000")
    assert compressed("gzip") == empty
    assert compressed("gzip", b"imgrec").startswith(empty[:10])
    assert compressed("zlib") == bytes.fromhex("789c 0300 00000001")


@kinds
@given(place=st.integers(0, 1000), flip=st.integers(1, 255))
@example(place=248, flip=4)  # bits that fill up the last byte of a zlib stream
def test_a_damaged_stream_never_gives_a_wrong_record(kind: str, place: int, flip: int) -> None:
    stream = bytearray(compressed(kind, *map(record, STREAMED)))
    stream[place % len(stream)] ^= flip
    try:
        assert read_stream(kind, bytes(stream)) == STREAMED  # those bits have no meaning
    except CorruptRecord as error:
        assert error.path == "a"


@kinds
def test_most_flipped_bits_of_a_stream_are_noticed(kind: str) -> None:
    stream = compressed(kind, *map(record, STREAMED))
    bits = some_of(range(len(stream) * 8), 600)
    missed = 0
    for bit in bits:
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(CorruptRecord):
            missed += read_stream(kind, bytes(flipped)) == STREAMED
    assert missed <= 8 * 8  # those of the gzip header without meaning, and a few that fill up


@kinds
def test_a_stream_that_is_cut_or_followed_by_more_is_corrupt(kind: str) -> None:
    stream = compressed(kind, record(os.urandom(1000)))
    for length in some_of(range(len(stream)), 60):
        stream_fault(kind, stream[:length])
    cut = f"a: its {kind} stream is truncated at byte {len(stream) - 1}"
    assert stream_fault(kind, stream[:-1]) == cut
    for more in (b"x", b"x" * 200_000):
        assert "stream ends before the file does, before byte" in stream_fault(kind, stream + more)
    for foreign in (b"", b"hello", record(b"rose")):
        assert stream_fault(kind, foreign) == f"a: not a {kind} stream"


@kinds
def test_a_bomb_or_an_impossible_length_in_a_stream_takes_no_memory(kind: str) -> None:
    rose = record(b"rose")
    long = compressed(kind, rose, head(1 << 31), bytes(1000))
    missing = compressed(kind, head(1 << 30), bytes(100_000))
    bomb = compressed(kind, rose, *[bytes(1 << 20)] * 64)
    tracemalloc.start()
    try:
        assert stream_fault(kind, long) == (
            "a: a record of 2,147,483,648 bytes, longer than any can be, at byte 20 of the "
            "unpacked data"
        )
        assert "truncated record" in stream_fault(kind, missing)
        assert "wrong checksum of a record's length" in stream_fault(kind, bomb)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
