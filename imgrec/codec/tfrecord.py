"""The TFRecord file format: length-prefixed records, each guarded by two checksums.

uint64 LE  length of the payload
uint32 LE  masked CRC32C of the 8 length bytes
byte[n]    payload
uint32 LE  masked CRC32C of the payload
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import BinaryIO

import google_crc32c

from imgrec.errors import CorruptRecord

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
OVERHEAD = _HEAD.size + _CRC.size
"""Bytes a frame adds to its payload."""
_MANY_ALIKE = 1 << 14
"""Below so many bytes, payloads are of the same length often enough to keep what tells it."""
_MOST_STREAMED_BYTES = (1 << 31) - 1
"""The longest payload where the size of the file does not tell: all that protobuf takes."""


def _masked(crc: int) -> int:
    # Rotated and shifted, as TFRecord wants it, so that a checksum of checksums stays sound.
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(*payload: bytes) -> tuple[bytes, bytes]:
    """Return what goes before and after a payload that is given in pieces.

    >>> frame(b"a", b"b") == frame(b"ab")
    True
    """
    crc = length = 0
    for piece in payload:
        crc = google_crc32c.extend(crc, piece)
        length += len(piece)
    return _head(length), _CRC.pack(_masked(crc))


def _head(length: int) -> bytes:
    return _kept_head(length) if length < _MANY_ALIKE else _new_head(length)


def _new_head(length: int) -> bytes:
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(_masked(google_crc32c.value(packed)))


_kept_head = lru_cache(maxsize=1 << 14)(_new_head)


def payload_span(framed: bytes, *, path: str, offset: int) -> tuple[int, int]:
    """Return where the payload of one framed record starts and ends, checking both checksums.

    `framed` is what stands at `offset` of the file at `path`; CorruptRecord names both.
    """
    end = len(framed) - _CRC.size
    length = end - _HEAD.size
    if length < 0 or framed[: _HEAD.size] != _head(length):
        raise _corrupt("no record of the length that the index tells", path, offset)
    crc = google_crc32c.value(framed[_HEAD.size : end])
    if framed[end:] != _CRC.pack(_masked(crc)):
        raise _corrupt("wrong checksum of a record", path, offset)
    return _HEAD.size, end


def _corrupt(what: str, path: str, offset: int, *, is_streamed: bool = False) -> CorruptRecord:
    unpacked = " of what it unpacks to" if is_streamed else ""
    return CorruptRecord(
        f"{path}: {what} at byte {offset}{unpacked}",
        hint="it was changed or cut short since it was written: restore it, or pack it again",
        path=path,
        offset=offset,
    )


def record_ends(file: BinaryIO, *, path: str) -> Iterator[int]:
    """Yield where each record ends, reading lengths alone; raise CorruptRecord as above."""
    size = file.seek(0, io.SEEK_END)
    offset = 0
    while offset < size:
        file.seek(offset)
        length = _read_length(file.read(_HEAD.size), path=path, offset=offset, size=size)
        offset += OVERHEAD + length
        yield offset


def read_records(file: BinaryIO, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and payload of each record, checking both checksums.

    Raises CorruptRecord, which names `path` and the offset, at the first byte that is wrong.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return _records(file.read, path=path, size=size)


def stream_records(read: Callable[[int], bytes], *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield records as `read_records` does, of a stream that can only be read on.

    Each length is refused before that much is read if no record can be as long.
    """
    return _records(read, path=path, size=None)


def begins(head: bytes) -> bool:
    """Tell whether bytes are the beginning of a record: a length and its checksum."""
    return len(head) >= _HEAD.size and head[: _HEAD.size] == _head(*_LENGTH.unpack_from(head))


def _records(
    read: Callable[[int], bytes], *, path: str, size: int | None
) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while head := read(_HEAD.size):
        length = _read_length(head, path=path, offset=offset, size=size)
        body = read(length + _CRC.size)
        if len(body) < length + _CRC.size:
            raise _corrupt("truncated record", path, offset, is_streamed=size is None)
        payload = body[:length]
        if _CRC.unpack(body[length:])[0] != _masked(google_crc32c.value(payload)):
            raise _corrupt("wrong checksum of a record", path, offset, is_streamed=size is None)
        yield offset, payload
        offset += OVERHEAD + length


def _read_length(head: bytes, *, path: str, offset: int, size: int | None) -> int:
    if len(head) < _HEAD.size:
        raise _corrupt("truncated record", path, offset, is_streamed=size is None)
    length, length_crc = _HEAD.unpack(head)
    if _masked(google_crc32c.value(head[: _LENGTH.size])) != length_crc:
        raise _corrupt(
            "wrong checksum of a record's length", path, offset, is_streamed=size is None
        )
    if size is None and length > _MOST_STREAMED_BYTES:
        raise _corrupt(
            f"a record of {length} bytes, which none can have,", path, offset, is_streamed=True
        )
    if size is not None and length > size - offset - OVERHEAD:
        raise _corrupt("truncated record", path, offset)
    return int(length)
