"""The tf.train.Example wire format of an imgrec record, encoded and decoded without TensorFlow.

    Example   { 1: Features }
    Features  { 1: map entry, once a feature, keys sorted }
    entry     { 1: key, 2: Feature }
    Feature   { 1: BytesList | 2: FloatList | 3: Int64List }
    BytesList { 1: bytes, repeated }
    FloatList { 1: packed float32 LE }
    Int64List { 1: packed varint }

Protobuf promises no order for map entries; ours are sorted, so that equal values are equal bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from imgrec.errors import CorruptRecord

Feature: TypeAlias = tuple[bytes, ...] | tuple[int, ...] | tuple[float, ...]

_LEN = 2  # protobuf wire type: length-delimited
_TAG_1, _TAG_2, _TAG_3 = b"\x0a", b"\x12", b"\x1a"  # fields 1 to 3, length-delimited
_IMAGE = b"image"
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_VALUE = rb"\x12" + (_VARINT + rb"\n") * 2 + rb"(" + _VARINT + rb")"
_FILENAME_HEAD = re.compile((rb"\n" + _VARINT) * 2 + rb"\n\x08filename" + _VALUE)
_IMAGE_HEAD = re.compile(rb"\n" + _VARINT + rb"\n\x05image" + _VALUE)
_CACHED = 1 << 14
_LONGEST_END = 70
"""Bytes of a label and a shape whose four numbers take ten bytes each."""
_HARMLESS_BYTES = 1 << 14
_MOST_FIELDS = 20_000
_MOST_NUMBER_BYTES = 1 << 23
_PATH = (1, 1, 2)
"""The fields that lead from Example to Features, to an entry and to its Feature."""
_BYTES_LIST = 1


def varint(value: int) -> bytes:
    """Encode an int64 as protobuf does; a negative one takes ten bytes.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: bytes, payload: bytes) -> bytes:
    return tag + varint(len(payload)) + payload


# Filenames, small images, labels and shapes repeat their lengths and values. Without this cache and
# the next, `imgrec pack --check structure` of 20,000 images of 32x32 took 20 % longer, and reading
# them twice as long: `decode_plain` encodes each record again.
@lru_cache(maxsize=_CACHED)
def _entry_head(key: bytes, kind: bytes, length: int) -> bytes:
    """Return an entry of one value, or of packed ones, without the `length` bytes that end it.

    `kind` is the tag of the list.
    """
    value = _TAG_1 + varint(length)
    inside = kind + varint(length + len(value)) + value
    feature = _field(_TAG_1, key) + _TAG_2 + varint(length + len(inside)) + inside
    return _TAG_1 + varint(length + len(feature)) + feature


@lru_cache(maxsize=_CACHED)
def _label_and_shape(label: int, shape: tuple[int, int, int]) -> bytes:
    return _entry(b"label", (label,)) + _entry(b"shape", shape)


def encode_around(
    image_length: int, *, filename: bytes, label: int, shape: tuple[int, int, int]
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the image in the record of one sample.

    The image itself, by far the largest part, is never copied.
    """
    before = (
        _entry_head(b"filename", _TAG_1, len(filename))
        + filename
        + _entry_head(_IMAGE, _TAG_1, image_length)
    )
    after = _label_and_shape(label, shape)
    return _TAG_1 + varint(len(before) + image_length + len(after)) + before, after


def encode_all_around(image_length: int, *, features: Mapping[str, Feature]) -> tuple[bytes, bytes]:
    """Return the bytes before and after the image in a record with any other features.

    >>> encode_all_around(1, features={"filename": (b"a",), "label": (3,), "shape": (1, 2, 3)}) == (
    ...     encode_around(1, filename=b"a", label=3, shape=(1, 2, 3)))
    True
    """
    # Protobuf's own maps sort by the bytes of the key, and so do we.
    entries = sorted((key.encode(), values) for key, values in features.items())
    before = b"".join(_entry(key, values) for key, values in entries if key < _IMAGE)
    before += _entry_head(_IMAGE, _TAG_1, image_length)
    after = b"".join(_entry(key, values) for key, values in entries if key > _IMAGE)
    return _TAG_1 + varint(len(before) + image_length + len(after)) + before, after


def image_length(record_bytes: int, around: Callable[[int], tuple[bytes, bytes]]) -> int:
    """Return how long the image is in a record of so many bytes; -1 if no image is.

    `around` returns what is before and after an image of a length, as `encode_around` does.

    >>> before, after = encode_around(7, filename=b"a", label=3, shape=(1, 2, 3))
    >>> image_length(len(before) + 7 + len(after), lambda length: encode_around(
    ...     length, filename=b"a", label=3, shape=(1, 2, 3)))
    7
    """
    length, tried = record_bytes, set[int]()
    while length >= 0 and length not in tried:  # a few bytes of lengths depend on it themselves
        tried.add(length)
        before, after = around(length)
        if len(before) + length + len(after) == record_bytes:
            return length
        length = record_bytes - len(before) - len(after)
    return -1


def _entry(key: bytes, values: Feature) -> bytes:
    first = values[0] if values else 0
    if isinstance(first, bytes):
        texts = cast("tuple[bytes, ...]", values)  # all are of the first one's type
        feature = _field(_TAG_1, b"".join(_field(_TAG_1, text) for text in texts))
        return _field(_TAG_1, _field(_TAG_1, key) + _field(_TAG_2, feature))
    if isinstance(first, float):
        kind, packed = _TAG_2, struct.pack(f"<{len(values)}f", *values)
    else:
        kind, packed = _TAG_3, b"".join(map(varint, cast("tuple[int, ...]", values)))
    return _entry_head(key, kind, len(packed)) + packed


class Plain(NamedTuple):
    """The record of a sample with one label and no columns of its own."""

    filename: bytes
    image: bytes
    label: int
    shape: tuple[int, int, int]


def decode_plain(data: bytes, start: int, end: int) -> Plain | None:
    """Decode the record in `data[start:end]` if it is exactly what `encode_around` writes.

    That takes less than a tenth of the time of `decode` (2 microseconds instead of 24).
    """
    name = _FILENAME_HEAD.match(data, start, end)
    if name is None:
        return None
    name_end = name.end() + _varint_value(name[1])
    if name_end > end:
        return None
    image = _IMAGE_HEAD.match(data, name_end, end)
    if image is None:
        return None
    image_end = image.end() + _varint_value(image[1])
    if end - image_end > _LONGEST_END:  # other things must not fill the cache
        return None
    if (last := _decode_label_and_shape(data[image_end:end])) is None:
        return None
    filename, label, shape = data[name.end() : name_end], *last
    before, after = encode_around(
        image_end - image.end(), filename=filename, label=label, shape=shape
    )
    # All lengths must agree, or another reader would find another record in these bytes.
    if not data.startswith(before, start) or image_end + len(after) != end:
        return None
    return Plain(filename, data[image.end() : image_end], label, shape)


@lru_cache(maxsize=1 << 16)  # without it, those 20,000 records took 11 % longer to read
def _varint_value(encoded: bytes) -> int:
    return _read_varint(memoryview(encoded), 0)[0]


@lru_cache(maxsize=_CACHED)  # without it, three times as long
def _decode_label_and_shape(data: bytes) -> tuple[int, tuple[int, int, int]] | None:
    """Decode the output of `_label_and_shape`, and nothing else."""
    try:
        features = decode(_field(_TAG_1, data))
        (label,), (height, width, channels) = features["label"], features["shape"]
    except (CorruptRecord, KeyError, ValueError):
        return None
    if not all(isinstance(value, int) for value in (label, height, width, channels)):
        return None
    shape = cast("tuple[int, int, int]", (height, width, channels))
    return (int(label), shape) if _label_and_shape(int(label), shape) == data else None


def decode(record: bytes) -> Mapping[str, Feature]:
    """Decode any serialized tf.train.Example; raise CorruptRecord for anything else.

    Fields that an Example does not have are ignored, as protobuf does.
    """
    try:
        features: dict[str, Feature] = {}
        for part in _payloads(memoryview(record), 1):
            for entry in _payloads(part, 1):
                key = b"".join(map(bytes, list(_payloads(entry, 1))[-1:])).decode()
                value: Feature = ()
                for feature in _payloads(entry, 2):
                    value = _decode_feature(feature)
                features[key] = value
        return features
    except (ValueError, IndexError, struct.error) as error:
        raise CorruptRecord(f"not a tf.train.Example: {error}") from error


def decode_bounded(record: bytes) -> Mapping[str, Feature]:
    """Decode a record as `decode` does, unless it has far more parts than any with an image.

    A few crafted megabytes would take gigabytes, or hours, to decode.
    """
    refuse_excessive(record)
    return decode(record)


def refuse_excessive(record: bytes) -> None:
    """Raise CorruptRecord if a record has more parts or numbers than any with an image."""
    if len(record) > _HARMLESS_BYTES and _is_excessive(record):
        raise CorruptRecord("it has more parts or numbers than any record of an image")


def _is_excessive(record: bytes) -> bool:
    number_bytes = 0
    try:
        for count, (depth, number, size) in enumerate(_walk(memoryview(record), 0), 1):
            if depth == len(_PATH) and number != _BYTES_LIST:
                number_bytes += size
            if count > _MOST_FIELDS or number_bytes > _MOST_NUMBER_BYTES:
                return True
    except (ValueError, IndexError):
        pass  # decoding it raises the error
    return False


def _walk(message: memoryview, depth: int) -> Iterator[tuple[int, int, int]]:
    """Yield depth, number and size of each field, down to the values."""
    for number, kind, value in _fields(message):
        yield depth, number, len(value)
        is_inward = depth < len(_PATH) and number == _PATH[depth]
        if kind == _LEN and (is_inward or (depth == len(_PATH) and number == _BYTES_LIST)):
            yield from _walk(value, depth + 1)


def _decode_feature(feature: memoryview) -> Feature:
    values: list[object] = []
    last = 0
    for number, kind, payload in _fields(feature):
        if kind == _LEN and number in _LISTS:
            if number != last:  # the last of two lists counts; parts of one list are joined
                values.clear()
            values.extend(_LISTS[number](payload))
            last = number
    return cast("Feature", tuple(values))


def _floats(payload: memoryview) -> Iterator[float]:
    for field, kind, value in _fields(payload):
        if field == 1 and kind in (_LEN, 5):  # packed or not
            yield from (number for (number,) in struct.iter_unpack("<f", value))


def _ints(payload: memoryview) -> Iterator[int]:
    for field, kind, value in _fields(payload):
        if field != 1 or kind not in (_LEN, 0):
            continue
        position = 0
        while position < len(value):
            number, position = _read_varint(value, position)
            yield number - (1 << 64) if number >> 63 else number


def _texts(payload: memoryview) -> Iterator[bytes]:
    return map(bytes, _payloads(payload, 1))


_LISTS: Mapping[int, Callable[[memoryview], Iterator[object]]] = {1: _texts, 2: _floats, 3: _ints}


def _payloads(message: memoryview, field: int) -> Iterator[memoryview]:
    for number, kind, value in _fields(message):
        if number == field and kind == _LEN:
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield number, wire type and raw value of each field of a message."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        start = position
        if tag < 8:
            raise ValueError("field number 0")
        if kind == 0:
            _, end = _read_varint(message, position)
        elif kind == _LEN:
            length, start = _read_varint(message, position)
            end = start + length
        elif kind in (1, 5):
            end = start + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if end > len(message):
            raise ValueError("a field runs past its end")
        yield tag >> 3, kind, message[start:end]
        position = end


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise ValueError("a varint of more than ten bytes")
