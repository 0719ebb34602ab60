"""The short way to decode a record, against the long one and the protobuf that TFDS uses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example as counter_example
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_datasets.proto import tf_example_pb2

from imgrec.codec.example import (
    Feature,
    Plain,
    decode,
    decode_plain,
    encode_all_around,
    encode_around,
    varint,
)
from imgrec.errors import CorruptRecord

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SHAPE = st.tuples(INT64, INT64, INT64)
# Lengths on both sides of where a varint takes one more byte, here or once framing is added.
EDGES = [0, 1, 100, 127, 128, 129, 16_350, 16_383, 16_384, 16_385, 70_000]
BLOB = st.binary(max_size=40) | st.sampled_from(EDGES).map(bytes)


def encode(filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]) -> bytes:
    before, after = encode_around(len(image), filename=filename, label=label, shape=shape)
    return before + image + after


def by_plain(record: bytes) -> Plain | None:
    """Decode a record that is in the midst of other bytes, as it is in a shard."""
    data = b"\xffbefore" + record + b"after"
    return decode_plain(data, 7, 7 + len(record))


def as_features(plain: Plain) -> dict[str, Feature]:
    return {
        "filename": (plain.filename,),
        "image": (plain.image,),
        "label": (plain.label,),
        "shape": plain.shape,
    }


def by_protobuf(record: bytes) -> dict[str, tuple[object, ...]]:
    features = tf_example_pb2.Example.FromString(record).features.feature
    return {
        key: tuple(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
        for key, feature in features.items()
    }


def assert_says_nothing_else(record: bytes) -> None:
    plain = by_plain(record)
    if plain is not None:
        assert as_features(plain) == decode(record) == by_protobuf(record)


@given(BLOB, BLOB, INT64, SHAPE)
@counter_example(b"rose/1.jpg", b"", -1, (0, 0, 0))
@counter_example(b"caf\xe9.jpg", b"x" * 127, (1 << 63) - 1, (1, 128, 16_384))
@counter_example(b"", b"x" * 128, -(1 << 63), (-1, -1, -1))
def test_every_plain_record_decodes_to_what_was_encoded(
    filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]
) -> None:
    record = encode(filename, image, label, shape)
    assert by_plain(record) == Plain(filename, image, label, shape)
    assert_says_nothing_else(record)


def test_every_length_around_a_longer_varint_decodes() -> None:
    lengths = [*range(60, 140), *range(16_310, 16_400)]
    records = {length: encode(b"a.jpg", bytes(length), 1, (2, 3, 1)) for length in lengths}
    found = {length: by_plain(record) for length, record in records.items()}
    assert found == {length: Plain(b"a.jpg", bytes(length), 1, (2, 3, 1)) for length in lengths}


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Make a record with some bytes changed, left out, doubled or put in."""
    image = draw(st.binary(max_size=8) | st.sampled_from([127, 128, 16_383]).map(bytes))
    filename = draw(st.sampled_from([b"", b"rose/1.jpg", b"image", b"x" * 120]))
    record = bytearray(
        encode(
            filename, image, draw(st.integers(-2, 200)), draw(st.tuples(*[st.integers(0, 300)] * 3))
        )
    )
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(record) - 1))
        value = draw(st.sampled_from([0, 1, 8, 10, 18, 26, 127, 128, 255]) | st.integers(0, 255))
        match draw(st.integers(0, 4)):
            case 0 | 1:
                record[at] = value
            case 2:
                record.insert(at, value)
            case 3:
                del record[at : at + draw(st.integers(1, 3))]
            case 4:
                record[at:at] = record[at : at + draw(st.integers(1, 30))]
        record = record or bytearray(1)
    return bytes(record)


@given(mutated())
def test_a_mutated_record_is_decoded_as_by_others_or_left_to_them(record: bytes) -> None:
    assert_says_nothing_else(record)


@given(st.integers(1, 90))
def test_a_cut_record_is_left_to_the_long_way(length: int) -> None:
    record = encode(b"rose/1.jpg", b"\xff\xd8\xff", 3, (200, 300, 3))
    assert by_plain(record[:-length]) is None


def long_varint(value: int, length: int) -> bytes:
    """Encode a number in more bytes than it takes, which every protobuf decodes."""
    return bytes(value >> 7 * n & 0x7F | 0x80 for n in range(length - 1)) + bytes(
        [value >> 7 * (length - 1)]
    )


def nested(*numbers: tuple[int, int], filename: bytes = b"a", image: bytes = b"b") -> bytes:
    """Make the head of a record up to its image, each length as a number and its own length."""
    name, entry, entry_value, entry_list, value, second, second_value, second_list, second_bytes = (
        long_varint(*number) for number in numbers
    )
    return b"".join(
        (
            *(b"\n", name, b"\n", entry, b"\n\x08filename\x12", entry_value, b"\n", entry_list),
            *(b"\n", value, filename, b"\n", second, b"\n\x05image\x12", second_value, b"\n"),
            *(second_list, b"\n", second_bytes, image),
        )
    )


LENGTHS = ((0, 1), (17, 1), (5, 1), (3, 1), (1, 1), (14, 1), (5, 1), (3, 1), (1, 1))


def with_lengths(*changes: tuple[int, tuple[int, int]]) -> bytes:
    end = encode(b"a", b"b", 1, (1, 1, 1)).partition(b"\n\x01b")[2]
    numbers = list(LENGTHS)
    for at, number in changes:
        numbers[at] = number
    head = nested(*numbers)
    whole = len(head) - 2 + len(end)
    numbers[0] = (whole, numbers[0][1]) if numbers[0] == LENGTHS[0] else numbers[0]
    return nested(*numbers) + end


def test_the_record_taken_apart_is_the_record() -> None:
    assert with_lengths() == encode(b"a", b"b", 1, (1, 1, 1))


@pytest.mark.parametrize("at", range(9))
@pytest.mark.parametrize("value", [0, 1, 2, 127, 128, (1 << 31), (1 << 63), (1 << 64) - 1])
@pytest.mark.parametrize("length", [1, 5, 10])
def test_lengths_that_do_not_agree_are_left_to_the_long_way(
    at: int, value: int, length: int
) -> None:
    if value >> 7 * length or (value, length) == (LENGTHS[at][0], 1):
        return
    record = with_lengths((at, (value, length)))
    assert_says_nothing_else(record)
    assert by_plain(record) is None


@pytest.mark.parametrize(
    "features",
    [
        {"filename": (b"a",), "labels": (1, 2), "shape": (1, 1, 3)},
        {"filename": (b"a",), "label": (1,), "shape": (1, 1, 3), "notes": (b"x" * 200,)},
        {"filename": (b"a",), "label": (1,), "shape": (1, 1, 3), "age": (3,)},
        {"filename": (b"a",), "label": (1, 2), "shape": (1, 1, 3)},
        {"filename": (b"a",), "label": (1,), "shape": (1, 1)},
        {"filename": (b"a",), "label": (1.5,), "shape": (1, 1, 3)},
        {"filename": (b"a", b"b"), "label": (1,), "shape": (1, 1, 3)},
        {"label": (1,), "shape": (1, 1, 3)},
    ],
)
def test_records_of_other_features_are_left_to_the_long_way(features: dict[str, Feature]) -> None:
    before, after = encode_all_around(3, features=features)
    record = before + b"abc" + after
    assert by_plain(record) is None
    assert decode(record) == {"image": (b"abc",), **features}


def delimited(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def one_feature(feature: bytes) -> bytes:
    return delimited(1, delimited(1, delimited(1, b"key") + delimited(2, feature)))


PACKED = struct.pack("<2f", 1.5, 2.5)


@pytest.mark.parametrize(
    "feature",
    [
        delimited(1, delimited(1, b"a")) + delimited(3, delimited(1, b"\x05")),
        delimited(3, delimited(1, b"\x05")) + delimited(1, delimited(1, b"a")),
        delimited(3, delimited(1, b"\x05")) + delimited(3, delimited(1, b"\x06")),
        delimited(1, b"") + delimited(2, delimited(1, PACKED)),
        delimited(2, delimited(2, PACKED)),
        delimited(3, delimited(2, b"\x05") + delimited(1, b"\x06")),
        delimited(3, b"\x08\x05\x10\x06"),
    ],
    ids=["bytes, int", "int, bytes", "twice int", "empty, float", "field 2", "fields 2, 1", "bare"],
)
def test_odd_features_decode_as_protobuf_decodes_them(feature: bytes) -> None:
    assert decode(one_feature(feature)) == by_protobuf(one_feature(feature))


@pytest.mark.parametrize("feature", [b"\x02\x00", delimited(1, b"") + b"\x0a\x09"])
def test_a_faulty_feature_is_a_corrupt_record(feature: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode(one_feature(feature))
