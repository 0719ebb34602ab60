"""Whether a serialized record is one that can be decoded in reasonable time and memory.

Example { 1: Features { 1: entry { 2: Feature { 1: BytesList | 2: FloatList | 3: Int64List } } } }
"""

from __future__ import annotations

from collections.abc import Iterator

_HARMLESS_BYTES = 1 << 14
_MOST_FIELDS = 20_000
_MOST_NUMBER_BYTES = 1 << 23
_INWARD = (1, 1, 2)
"""Which field leads from Example to Features, to an entry and to its Feature."""
_BYTES_LIST = 1
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5


def is_excessive(payload: bytes) -> bool:
    """Tell whether a record has more parts, or more numbers, than any that holds an image.

    A few megabytes of them would take gigabytes, or hours, to decode.
    """
    if len(payload) <= _HARMLESS_BYTES:
        return False
    number_bytes = 0
    for fields, (depth, number, size) in enumerate(_walk(memoryview(payload), 0), 1):
        if depth == len(_INWARD) and number != _BYTES_LIST:
            number_bytes += size
        if fields > _MOST_FIELDS or number_bytes > _MOST_NUMBER_BYTES:
            return True
    return False


def _walk(message: memoryview, depth: int) -> Iterator[tuple[int, int, int]]:
    """Yield depth, number and size of each field down to the values, as far as they are sound."""
    for number, value in _fields(message):
        yield depth, number, len(value)
        is_inward = depth < len(_INWARD) and number == _INWARD[depth]
        if is_inward or (depth == len(_INWARD) and number == _BYTES_LIST):
            yield from _walk(value, depth + 1)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind, start = tag & 7, position
        if kind == _VARINT:
            _, end = _read_varint(message, position)
        elif kind == _LENGTH:
            size, start = _read_varint(message, position)
            end = start + size
        elif kind in (_EIGHT, _FOUR):
            end = start + (8 if kind == _EIGHT else 4)
        else:
            return  # decoding it will say why
        if end > len(message):
            return
        yield tag >> 3, message[start:end]
        position = end


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message):
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > 63:
            break
    return value, position
