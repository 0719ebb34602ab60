"""tf.train.Example, against the protobuf that TFDS itself uses."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import example as counter_example
from hypothesis import given
from hypothesis import strategies as st
from sampling import some_of
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


def to_protobuf(filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]) -> bytes:
    message = tf_example_pb2.Example()
    feature = message.features.feature
    feature["filename"].bytes_list.value.append(filename)
    feature["image"].bytes_list.value.append(image)
    feature["label"].int64_list.value.append(label)
    feature["shape"].int64_list.value.extend(shape)
    return bytes(message.SerializeToString(deterministic=True))


def by_protobuf(record: bytes) -> dict[str, tuple[object, ...]]:
    features = tf_example_pb2.Example.FromString(record).features.feature
    return {
        key: tuple(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
        for key, feature in features.items()
    }


def by_plain(record: bytes) -> Plain | None:
    """Decode a record in the midst of other bytes, as it is in a shard."""
    return decode_plain(b"\xffbefore" + record + b"after", 7, 7 + len(record))


def assert_plain_agrees(record: bytes) -> None:
    """`decode_plain` returns None, or the same as `decode` and protobuf."""
    if (plain := by_plain(record)) is not None:
        features = {key: (value,) for key, value in plain._asdict().items()}
        features["shape"] = plain.shape
        assert features == decode(record) == by_protobuf(record)


@given(BLOB, BLOB, INT64, SHAPE)
@counter_example(b"rose/1.jpg", b"", -1, (0, 0, 0))
@counter_example(b"caf\xe9.jpg", b"x" * 127, (1 << 63) - 1, (1, 128, 16_384))
@counter_example(b"", b"x" * 128, -(1 << 63), (-1, -1, -1))
def test_a_record_is_what_protobuf_serializes_and_decodes_both_ways(
    filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]
) -> None:
    record = encode(filename, image, label, shape)
    assert record == to_protobuf(filename, image, label, shape)
    assert by_plain(record) == Plain(filename, image, label, shape)
    assert_plain_agrees(record)


def test_every_image_length_around_a_longer_varint_is_what_protobuf_serializes() -> None:
    for length in (*range(60, 140), *range(16_310, 16_400)):
        sample = (b"a.jpg", bytes(length), 1, (2, 3, 1))
        record = encode(*sample)
        assert record == to_protobuf(*sample)
        assert by_plain(record) == Plain(*sample)


FLOAT = st.floats(width=32, allow_nan=False)
FEATURE = (
    st.tuples(st.just("bytes_list"), st.lists(st.binary(max_size=20), max_size=4))
    | st.tuples(st.just("float_list"), st.lists(FLOAT, max_size=4))
    | st.tuples(st.just("int64_list"), st.lists(INT64, max_size=4))
)


@given(st.dictionaries(st.text(max_size=8), FEATURE, max_size=5))
def test_any_example_decodes_to_what_protobuf_says(
    features: dict[str, tuple[str, list[object]]],
) -> None:
    message = tf_example_pb2.Example()
    for key, (kind, values) in features.items():
        getattr(message.features.feature[key], kind).value.extend(values)
    record = message.SerializeToString()
    assert decode(record) == by_protobuf(record)


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
def test_records_of_other_features_are_not_plain(features: dict[str, Feature]) -> None:
    before, after = encode_all_around(3, features=features)
    record = before + b"abc" + after
    assert by_plain(record) is None
    assert decode(record) == {"image": (b"abc",), **features}


def delimited(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def one_feature(feature: bytes, key: bytes = b"key") -> bytes:
    return delimited(1, delimited(1, delimited(1, key) + delimited(2, feature)))


PACKED = struct.pack("<2f", 1.5, 2.5)
ODD_FEATURES = {
    "no kind": b"",
    "bytes, int": delimited(1, delimited(1, b"a")) + delimited(3, delimited(1, b"\x05")),
    "int, bytes": delimited(3, delimited(1, b"\x05")) + delimited(1, delimited(1, b"a")),
    "twice int": delimited(3, delimited(1, b"\x05")) + delimited(3, delimited(1, b"\x06")),
    "empty, float": delimited(1, b"") + delimited(2, delimited(1, PACKED)),
    "field 2": delimited(2, delimited(2, PACKED)),
    "fields 2, 1": delimited(3, delimited(2, b"\x05") + delimited(1, b"\x06")),
    "ints that are not packed": delimited(3, b"\x08\x05\x08" + varint(-9)),
    "floats that are not packed": delimited(2, b"\x0d" + PACKED[:4] + b"\x0d" + PACKED[4:]),
    "bare": delimited(3, b"\x08\x05\x10\x06"),
}


@pytest.mark.parametrize("feature", ODD_FEATURES.values(), ids=ODD_FEATURES)
def test_odd_features_decode_as_protobuf_decodes_them(feature: bytes) -> None:
    assert decode(one_feature(feature)) == by_protobuf(one_feature(feature))


def test_a_float_that_is_not_a_number_decodes_to_one() -> None:
    record = one_feature(delimited(2, delimited(1, struct.pack("<f", math.nan))))
    assert [math.isnan(value) for value in decode(record)["key"]] == [True]  # type: ignore[arg-type]


@given(st.integers(2, 1000), st.binary(max_size=10))
def test_a_field_that_an_example_does_not_have_is_ignored(number: int, extra: bytes) -> None:
    record = encode(b"a", b"b", 0, (1, 1, 1))
    assert decode(record + delimited(number, extra)) == decode(record)


@pytest.mark.parametrize(
    "record",
    [
        one_feature(b"\x02\x00"),
        one_feature(delimited(1, b"") + b"\x0a\x09"),
        one_feature(b"", b"\xff"),
        *(encode(b"rose/1.jpg", b"\xff\xd8\xff", 3, (200, 300, 3))[:end] for end in (1, 40, 83)),
    ],
)
def test_a_damaged_record_is_corrupt(record: bytes) -> None:
    assert by_plain(record) is None
    with pytest.raises(CorruptRecord, match=r"^not a tf\.train\.Example: "):
        decode(record)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Make a record with some bytes changed, left out, doubled or put in."""
    image = draw(st.binary(max_size=8) | st.sampled_from([127, 128, 16_383]).map(bytes))
    filename = draw(st.sampled_from([b"", b"rose/1.jpg", b"image", b"x" * 120]))
    shape = draw(st.tuples(*[st.integers(0, 300)] * 3))
    record = bytearray(encode(filename, image, draw(st.integers(-2, 200)), shape))
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


@given(mutated() | st.binary(max_size=200))
@counter_example(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@counter_example(b"\xff" * 11)
@counter_example(b"\x0b")
def test_any_bytes_decode_to_features_or_are_a_corrupt_record(record: bytes) -> None:
    assert_plain_agrees(record)
    try:
        features = decode(record)
    except CorruptRecord as error:
        assert str(error).startswith("not a tf.train.Example: ")
    else:
        assert all(isinstance(value, tuple) for value in features.values())


def long_varint(value: int, length: int) -> bytes:
    """Encode a number in more bytes than it takes, which every protobuf decodes."""
    return bytes(value >> 7 * n & 0x7F | 0x80 for n in range(length - 1)) + bytes(
        [value >> 7 * (length - 1)]
    )


# The record of filename "a" and image "b": what stands before each of its lengths, and these.
PIECES = (
    b"\n",
    b"\n",
    b"\n\x08filename\x12",
    b"\n",
    b"\n",
    b"a\n",
    b"\n\x05image\x12",
    b"\n",
    b"\n",
)
PLAIN = encode(b"a", b"b", 1, (1, 1, 1))
END = b"b" + PLAIN.partition(b"\n\x01b")[2]
LENGTHS = (len(PLAIN) - 2, 17, 5, 3, 1, 14, 5, 3, 1)


def with_length(place: int, value: int, length: int) -> bytes:
    numbers = [(number, 1) for number in LENGTHS]
    if place:
        numbers[0] = (LENGTHS[0] + length - 1, 1)
    numbers[place] = (value, length)
    head = [piece + long_varint(*number) for piece, number in zip(PIECES, numbers, strict=True)]
    return b"".join(head) + END


def test_the_record_taken_apart_is_the_record() -> None:
    assert with_length(0, LENGTHS[0], 1) == PLAIN


CHANGES = [
    (place, value, length)
    for place in range(9)
    for value in (0, 1, 2, 127, 128, 1 << 31, 1 << 63, (1 << 64) - 1)
    for length in (1, 5, 10)
    if not value >> 7 * length and (value, length) != (LENGTHS[place], 1)
]


@pytest.mark.parametrize(("place", "value", "length"), some_of(CHANGES, 40))
def test_a_record_whose_lengths_do_not_agree_is_not_plain(
    place: int, value: int, length: int
) -> None:
    assert by_plain(with_length(place, value, length)) is None
