"""tf.train.Example, against the protobuf that TFDS itself uses."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import example as counter_example
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_datasets.proto import tf_example_pb2

from imgrec.codec.example import decode, encode_around, varint
from imgrec.errors import CorruptRecord

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SIZE = st.integers(0, (1 << 32) - 1)
# Lengths on both sides of where a varint takes one more byte, here or once framing is added.
EDGES = [0, 1, 100, 127, 128, 129, 16_350, 16_383, 16_384, 16_385, 70_000]
BLOB = st.binary(max_size=40) | st.sampled_from(EDGES).map(bytes)


def protobuf(filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]) -> bytes:
    message = tf_example_pb2.Example()
    feature = message.features.feature
    feature["filename"].bytes_list.value.append(filename)
    feature["image"].bytes_list.value.append(image)
    feature["label"].int64_list.value.append(label)
    feature["shape"].int64_list.value.extend(shape)
    return bytes(message.SerializeToString(deterministic=True))


def encode(filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]) -> bytes:
    before, after = encode_around(len(image), filename=filename, label=label, shape=shape)
    return before + image + after


@given(BLOB, BLOB, INT64, st.tuples(SIZE, SIZE, SIZE))
@counter_example(b"rose/1.jpg", b"", -1, (0, 0, 0))
@counter_example(b"caf\xe9.jpg", b"x" * 127, (1 << 63) - 1, (1, 128, 16_384))
@counter_example(b"", b"x" * 128, -(1 << 63), (127, 16_383, 3))
def test_a_record_is_what_protobuf_serializes(
    filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]
) -> None:
    assert encode(filename, image, label, shape) == protobuf(filename, image, label, shape)


def test_every_image_length_around_a_longer_varint_is_what_protobuf_serializes() -> None:
    lengths = [*range(60, 140), *range(16_310, 16_400)]
    records = {length: encode(b"a.jpg", bytes(length), 1, (2, 3, 1)) for length in lengths}
    assert records == {
        length: protobuf(b"a.jpg", bytes(length), 1, (2, 3, 1)) for length in lengths
    }


@given(BLOB, BLOB, INT64, st.tuples(SIZE, SIZE, SIZE))
def test_a_record_decodes_to_what_was_encoded(
    filename: bytes, image: bytes, label: int, shape: tuple[int, int, int]
) -> None:
    assert decode(encode(filename, image, label, shape)) == {
        "filename": (filename,),
        "image": (image,),
        "label": (label,),
        "shape": shape,
    }


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
    parsed = tf_example_pb2.Example.FromString(message.SerializeToString())
    assert decode(message.SerializeToString()) == {
        key: tuple(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
        for key, feature in parsed.features.feature.items()
    }


def delimited(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def one_feature(key: bytes, feature: bytes) -> bytes:
    return delimited(1, delimited(1, delimited(1, key) + delimited(2, feature)))


@given(st.lists(INT64, max_size=5))
def test_ints_that_are_not_packed_decode_as_protobuf_decodes_them(values: list[int]) -> None:
    unpacked = b"".join(b"\x08" + varint(value) for value in values)
    record = one_feature(b"label", delimited(3, unpacked))
    parsed = tf_example_pb2.Example.FromString(record)
    assert decode(record) == {"label": tuple(parsed.features.feature["label"].int64_list.value)}


@given(st.lists(FLOAT, max_size=5))
def test_floats_that_are_not_packed_decode_as_protobuf_decodes_them(values: list[float]) -> None:
    unpacked = b"".join(b"\x0d" + struct.pack("<f", value) for value in values)
    record = one_feature(b"score", delimited(2, unpacked))
    parsed = tf_example_pb2.Example.FromString(record)
    assert decode(record) == {"score": tuple(parsed.features.feature["score"].float_list.value)}


def test_a_float_that_is_not_a_number_decodes_to_one() -> None:
    record = one_feature(b"score", delimited(2, delimited(1, struct.pack("<f", math.nan))))
    (value,) = decode(record)["score"]
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_feature_of_no_kind_decodes_to_nothing() -> None:
    assert decode(one_feature(b"empty", b"")) == {"empty": ()}


def test_an_empty_record_has_no_features() -> None:
    assert decode(b"") == {}


@given(st.integers(2, 1000), st.binary(max_size=10))
def test_a_field_that_an_example_does_not_have_is_passed_over(number: int, extra: bytes) -> None:
    record = encode(b"a", b"b", 0, (1, 1, 1))
    assert decode(record + delimited(number, extra)) == decode(record)


@given(st.binary(max_size=200))
@counter_example(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@counter_example(one_feature(b"\xff", b""))
@counter_example(b"\xff" * 11)
@counter_example(b"\x0b")
def test_any_bytes_decode_to_features_or_are_a_corrupt_record(record: bytes) -> None:
    try:
        features = decode(record)
    except CorruptRecord as error:
        assert str(error).startswith("not a tf.train.Example: ")
    else:
        assert all(isinstance(key, str) for key in features)


@given(st.data())
def test_a_mutated_record_decodes_to_features_or_is_a_corrupt_record(data: st.DataObject) -> None:
    record = bytearray(encode(b"rose/1.jpg", b"\xff\xd8\xff", 3, (200, 300, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    try:
        features = decode(bytes(record))
    except CorruptRecord:
        return
    assert all(isinstance(value, tuple) for value in features.values())


@given(st.integers(1, 83))
def test_a_cut_record_is_corrupt(length: int) -> None:
    record = encode(b"rose/1.jpg", b"\xff\xd8\xff", 3, (200, 300, 3))
    with pytest.raises(CorruptRecord, match=r"^not a tf\.train\.Example: "):
        decode(record[:length])


def test_a_key_that_is_not_utf8_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match=r"^not a tf\.train\.Example: 'utf-8' codec"):
        decode(one_feature(b"\xff", b""))
