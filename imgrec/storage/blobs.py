"""Reading the bytes of blobs: files, and parts of files.

A zip member is a local header, a name, an extra field and the packed bytes, one after another:
    PK 03 04 · 22 bytes · name length u16 LE · extra length u16 LE · name · extra · packed bytes
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from functools import lru_cache
from typing import NamedTuple

from imgrec.blob import Blob, ZipMember
from imgrec.errors import BadImage

_READ_BYTES = 1 << 30
_OPEN_FILES = 32
_ZIP_HEADER = struct.Struct("<4s22xHH")
_ZIP_MAGIC = b"PK\x03\x04"
_ZIP_NAME_BYTES = 256
"""How much of a member's name and extra field is read along with its header, as they mostly fit."""
STORED, DEFLATED = 0, 8


class Look(NamedTuple):
    """What a first look at a blob shows."""

    size: int
    changed_ns: int
    """When it last changed; 0 where that is not known."""
    head: bytes


def look(blob: Blob, size: int, head_bytes: int, *, dated: bool) -> Look:
    """Read the beginning of a blob; `size` is of no account for a file, which tells its own.

    When a file has changed is told for sure only if it is to be `dated`. Raises BadImage if it
    cannot be read.
    """
    try:
        if isinstance(blob, str):
            return _look_at_file(blob, head_bytes, dated=dated)
        if isinstance(blob, ZipMember):
            return Look(size, 0, _inflate(blob, size, min(size, head_bytes)))
        return Look(size, 0, _pread(blob.path, min(size, head_bytes), blob.offset))
    except OSError as error:
        raise BadImage(f"unreadable: {error.strerror}") from error


def _look_at_file(path: str, head_bytes: int, *, dated: bool) -> Look:
    # O_NONBLOCK: a file that has become a pipe since it was listed must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        head = os.read(descriptor, head_bytes)
        if not dated and 0 < len(head) < head_bytes:
            return Look(len(head), 0, head)  # all of it: asking for its size would cost a fifth
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadImage("unreadable: not a regular file")
        return Look(status.st_size, status.st_ctime_ns, head)
    finally:
        os.close(descriptor)


def read_blob(blob: Blob, size: int) -> bytes:
    """Read a blob that was `size` bytes long when it was catalogued.

    Raises BadImage if it cannot be read or is no longer that long.
    """
    try:
        if isinstance(blob, str):
            data = _read_file(blob, size)
        elif isinstance(blob, ZipMember):
            data = _read_member(blob, size)
        else:
            data = _pread(blob.path, size, blob.offset)
    except OSError as error:
        raise BadImage(f"unreadable: {error.strerror}") from error
    if len(data) != size:
        raise BadImage("changed while it was being packed")
    return data


def _read_file(path: str, size: int) -> bytes:
    """Read `size` bytes and one more if there is one, in a single call for most files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        data = os.read(descriptor, min(size + 1, _READ_BYTES))
        if len(data) >= size:
            return data
        pieces, missing = [data], size + 1 - len(data)
        while missing > 0 and (piece := os.read(descriptor, min(missing, _READ_BYTES))):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


class _Handle:
    """A file that stays open while members of it are being read."""

    def __init__(self, path: str) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


_handle = lru_cache(maxsize=_OPEN_FILES)(_Handle)


def _pread(path: str, size: int, offset: int) -> bytes:
    descriptor = _handle(path).descriptor
    data = os.pread(descriptor, min(size, _READ_BYTES), offset)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
        data += more
    return data


def _read_member(member: ZipMember, size: int) -> bytes:
    data = _inflate(member, size, size + 1)
    if len(data) != size:
        raise BadImage("its size is not what the archive says")
    if zlib.crc32(data) != member.crc32:
        raise BadImage("its checksum is not what the archive says")
    return data


def _inflate(member: ZipMember, size: int, wanted: int) -> bytes:
    """Return the first `wanted` bytes of a member, or as many as it has."""
    packed = member.packed_size if wanted > size else min(member.packed_size, wanted + 64)
    block = _pread(member.path, _ZIP_HEADER.size + _ZIP_NAME_BYTES + packed, member.header_offset)
    if len(block) < _ZIP_HEADER.size or block[:4] != _ZIP_MAGIC:
        raise BadImage("its header is not where the archive says")
    _, name_length, extra_length = _ZIP_HEADER.unpack_from(block)
    start = _ZIP_HEADER.size + name_length + extra_length
    if len(block) < start + packed:
        block += _pread(member.path, start + packed - len(block), member.header_offset + len(block))
    body = memoryview(block)[start : start + packed]
    if member.method == STORED:
        return bytes(body[:wanted])
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(body, wanted)
    except zlib.error as error:
        raise BadImage("its compressed data is damaged") from error
