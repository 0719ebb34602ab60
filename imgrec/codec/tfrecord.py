"""The TFRecord file format: length-prefixed records, each guarded by two checksums.

uint64 LE  length of the payload
uint32 LE  masked CRC32C of the 8 length bytes
byte[n]    payload
uint32 LE  masked CRC32C of the payload
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
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


@lru_cache(maxsize=1 << 14)
def _head(length: int) -> bytes:
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(_masked(google_crc32c.value(packed)))


def read_records(file: BinaryIO, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and payload of each record, checking both checksums.

    Raises CorruptRecord, which names `path` and the offset, at the first byte that is wrong.
    """
    size = file.seek(0, io.SEEK_END)
    offset = file.seek(0)
    while head := file.read(_HEAD.size):
        payload = _read_payload(file, head, path=path, offset=offset, size=size)
        yield offset, payload
        offset += OVERHEAD + len(payload)


def _read_payload(file: BinaryIO, head: bytes, *, path: str, offset: int, size: int) -> bytes:
    def corrupt(what: str) -> CorruptRecord:
        return CorruptRecord(f"{path}: {what} at byte {offset}", path=path, offset=offset)

    if len(head) < _HEAD.size:
        raise corrupt("truncated record")
    length, length_crc = _HEAD.unpack(head)
    if _masked(google_crc32c.value(head[: _LENGTH.size])) != length_crc:
        raise corrupt("wrong checksum of a record's length")
    if length > size - offset - OVERHEAD:
        raise corrupt("truncated record")
    body = file.read(length + _CRC.size)
    payload = body[:length]
    if _CRC.unpack(body[length:])[0] != _masked(google_crc32c.value(payload)):
        raise corrupt("wrong checksum of a record")
    return payload
