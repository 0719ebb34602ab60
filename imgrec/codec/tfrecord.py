"""The TFRecord file format: length-prefixed records, each guarded by two checksums.

uint64 LE  length of the payload
uint32 LE  masked CRC32C of the 8 length bytes
byte[n]    payload
uint32 LE  masked CRC32C of the payload

A file may be compressed as a whole, to the same bytes on every machine:

gzip  1f 8b · 08 deflate · 00 no name · 00000000 no time · 00 · ff no system · deflated bytes
      uint32 LE CRC-32 · uint32 LE length modulo 2^32
zlib  78 9c · deflated bytes · uint32 BE Adler-32
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import BinaryIO, NamedTuple, Protocol

import google_crc32c

from imgrec.errors import CorruptRecord
from imgrec.faults import Code, Fault

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
OVERHEAD = _HEAD.size + _CRC.size
"""Bytes a frame adds to its payload."""
MOST_PAYLOAD_BYTES = 1 << 30
"""The longest payload read from a stream whose size is not known: longer than any packed image."""
GZIP, ZLIB = "gzip", "zlib"
_GZIP_HEAD = bytes.fromhex("1f8b 0800 0000 0000 00ff")
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}
"""As zlib readers take them: 16 more for a gzip stream."""
_RAW_WINDOW_BITS = -15
_LEVEL = 6
_PIECE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 18
"""Records are written in blocks of this size: few calls, and each block is still in the CPU cache
while it is hashed."""


def _masked(crc: int) -> int:
    # TFRecord rotates and shifts each CRC: the CRC of data that holds CRCs would be weak.
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(*payload: bytes) -> tuple[bytes, bytes]:
    """Return the bytes before and after a payload, which is given in pieces.

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
    # Cached: 20,000 records of 32x32 were read 6 % faster (for _ in open_dataset(...)["all"]).
    packed = _LENGTH.pack(length)
    return packed + _CRC.pack(_masked(google_crc32c.value(packed)))


class RecordWriter:
    """Writes framed records in large blocks."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._block: list[bytes] = []
        self._written = 0
        self.position = 0
        """Where the next record begins, before compression."""

    def add(self, before: bytes, data: bytes, after: bytes) -> int:
        """Append a record that is given in three pieces; return where it ends."""
        head, foot = frame(before, data, after)
        self._block += (head, before, data, after, foot)
        self.position += OVERHEAD + len(before) + len(data) + len(after)
        if self.position - self._written > _BLOCK_BYTES:
            self.flush()
        return self.position

    def flush(self) -> None:
        """Write the records of the last block."""
        self._write(b"".join(self._block))
        self._block.clear()
        self._written = self.position


def payload_span(framed: bytes, *, path: str, offset: int) -> tuple[int, int]:
    """Return start and end of the payload in one framed record, after checking both checksums.

    `framed` was read at `offset` of the file at `path`; CorruptRecord names both.
    """
    end = len(framed) - _CRC.size
    length = end - _HEAD.size
    if length < 0 or framed[: _HEAD.size] != _head(length):
        raise _corrupt("no record of the length in the index", path, offset)
    crc = google_crc32c.value(framed[_HEAD.size : end])
    if framed[end:] != _CRC.pack(_masked(crc)):
        raise _corrupt("wrong checksum of a record", path, offset)
    return _HEAD.size, end


def _corrupt(what: str, path: str, offset: int, unit: str = "") -> CorruptRecord:
    return CorruptRecord(
        f"{path}: {what} at byte {offset}{unit}",
        hint="the file was changed or truncated: restore it, or pack it again with --overwrite",
        path=path,
        offset=offset,
    )


class Frame(NamedTuple):
    """One record of a file, or the fault in its place."""

    offset: int
    length: int
    """Of the whole frame; 0 if it is not known, and then this frame is the last."""
    payload: bytes
    """Empty if there is a fault."""
    fault: Fault | None = None


def frames(
    read: Callable[[int], bytes],
    size: int | None,
    *,
    path: str,
    index: Sequence[tuple[int, int]] = (),
) -> Iterator[Frame]:
    """Yield every record of a stream of `size` bytes (None if unknown), damaged ones too.

    Nothing is read because of a length that cannot be right, so memory is bounded by the longest
    record. `index`, offset and length of each record, helps past a length that is damaged.
    """
    offset = place = 0
    was_damaged = False
    while True:
        try:
            frame, is_damaged = _next_frame(read, offset, size, path, index[place : place + 1])
        except CorruptRecord as error:  # the compressed stream under the records is damaged
            fault = Fault(Code.BROKEN_STREAM, path, offset, {"reason": error.message})
            yield Frame(offset, 0, b"", fault)
            return
        if frame is None:
            return
        if is_damaged and was_damaged:  # the index did not lead to a record either
            yield Frame(offset, 0, b"", Fault(Code.NO_RECORD_HERE, path, offset))
            return
        yield frame
        if not frame.length:
            return
        offset += frame.length
        place += 1
        was_damaged = is_damaged


def _next_frame(
    read: Callable[[int], bytes],
    offset: int,
    size: int | None,
    path: str,
    index: Sequence[tuple[int, int]],
) -> tuple[Frame | None, bool]:
    """Return the next record, None at the end; and whether its length comes from the index."""
    head = read(_HEAD.size)
    if not head:
        return None, False
    length, fault = _length(head, offset, size, path)
    is_indexed = fault is not None and fault.code is Code.LENGTH_CHECKSUM
    if is_indexed:
        indexed = index[0][1] - OVERHEAD if index and index[0][0] == offset else -1
        length = indexed if 0 <= indexed <= _room(offset, size) else -1
    if length < 0:
        return Frame(offset, 0, b"", fault), False
    payload, foot = read(length), read(_CRC.size)
    if len(payload) < length or len(foot) < _CRC.size:
        return Frame(offset, 0, b"", fault or Fault(Code.RECORD_CUT, path, offset)), False
    if fault is None and _CRC.unpack(foot)[0] != _masked(google_crc32c.value(payload)):
        fault = Fault(Code.RECORD_CHECKSUM, path, offset)
    return Frame(offset, OVERHEAD + length, b"" if fault else payload, fault), is_indexed


def _length(head: bytes, offset: int, size: int | None, path: str) -> tuple[int, Fault | None]:
    """Return the length in a record's head; -1 with the fault if there is one."""
    if len(head) < _HEAD.size:
        return -1, Fault(Code.RECORD_CUT, path, offset)
    if not begins(head):
        return -1, Fault(Code.LENGTH_CHECKSUM, path, offset)
    length = int(_LENGTH.unpack_from(head)[0])
    if length <= _room(offset, size):
        return length, None
    code = Code.RECORD_TOO_LONG if size is None else Code.RECORD_CUT
    return -1, Fault(code, path, offset, {"length": length})


def _room(offset: int, size: int | None) -> int:
    """Return how many bytes a payload at `offset` can have."""
    return MOST_PAYLOAD_BYTES if size is None else size - offset - OVERHEAD


def begins(head: bytes) -> bool:
    """Return whether bytes are the beginning of a record: a length and its checksum."""
    return len(head) >= _HEAD.size and head[: _HEAD.size] == _head(*_LENGTH.unpack_from(head))


def record_ends(file: BinaryIO, *, path: str) -> Iterator[int]:
    """Yield where each record ends, reading lengths alone; raise CorruptRecord for a wrong one."""
    size = file.seek(0, io.SEEK_END)
    offset = 0
    while offset < size:
        file.seek(offset)
        length, fault = _length(file.read(_HEAD.size), offset, size, path)
        if fault:
            raise _corrupt(fault.what, path, offset)
        offset += OVERHEAD + length
        yield offset


def read_records(file: BinaryIO, *, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and payload of each record of a file, checking both checksums.

    Raises CorruptRecord, which names `path` and the offset, at the first record that is damaged.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return sound(frames(file.read, size, path=path), "")


def sound(frames: Iterable[Frame], unit: str) -> Iterator[tuple[int, bytes]]:
    """Yield offset and payload of each record; raise CorruptRecord at the first with a fault.

    `unit` ends the message: what the offset counts in.
    """
    for offset, _, payload, fault in frames:
        if fault is None:
            yield offset, payload
        elif fault.code is Code.BROKEN_STREAM:
            raise CorruptRecord(
                f"{fault.path}: {fault.what}",
                hint="restore the file, or pack the dataset again",
                path=fault.path,
                offset=offset,
            )
        else:
            raise _corrupt(fault.what, fault.path, offset, unit)


class Compressor(Protocol):
    """Turns bytes into a compressed stream, piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Return the next bytes of the stream, after more `data`."""
        ...

    def flush(self) -> bytes:
        """Return the end of the stream."""
        ...


class _GzipCompressor:
    # zlib's own header has a byte for the operating system, so files would differ between machines.

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_WINDOW_BITS)
        self._head = _GZIP_HEAD
        self._crc32 = self._length = 0

    def compress(self, data: bytes, /) -> bytes:
        self._crc32 = zlib.crc32(data, self._crc32)
        self._length += len(data)
        head, self._head = self._head, b""
        return head + self._deflate.compress(data)

    def flush(self) -> bytes:
        foot = struct.pack("<II", self._crc32, self._length & 0xFFFFFFFF)
        return self._head + self._deflate.flush() + foot


def compressor(compression: str) -> Compressor:
    """Return a writer of gzip or zlib streams."""
    return _GzipCompressor() if compression == GZIP else zlib.compressobj(_LEVEL)


class Readable(Protocol):
    """A file that is read from front to back."""

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        ...

    def tell(self) -> int:
        """Return how much has been read."""
        ...


class Decompressed:
    """The contents of a compressed file, read from front to back.

    Memory is bounded by what is asked for, however small the file is. Raises CorruptRecord, with
    the offset in the file, if the stream is damaged, is truncated, or ends before the file.
    """

    def __init__(self, file: Readable, compression: str) -> None:
        self._file = file
        self._compression = compression
        self._inflate = zlib.decompressobj(_WINDOW_BITS[compression])
        self._is_begun = False
        self._unpacked = b""
        self._place = 0
        """How much of `_unpacked` was read."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only where the stream ends."""
        start, self._place = self._place, self._place + size
        pieces = [self._unpacked[start : self._place]]
        missing = size - len(pieces[0])
        # Most reads ask for a few bytes: unpack more than that at a time.
        while missing > 0 and (piece := self._read_some(max(missing, _PIECE_BYTES))):
            pieces.append(piece[:missing])
            self._unpacked, self._place = piece, missing
            missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_some(self, most: int) -> bytes:
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._file.read(_PIECE_BYTES)
            try:
                piece = self._inflate.decompress(packed, most)
            except zlib.error as error:
                raise self._corrupt("is damaged before") from error
            if piece:
                self._is_begun = True
                return piece
            if not packed and not self._inflate.eof:
                raise self._corrupt("is truncated at")
        if self._inflate.unused_data or self._file.read(1):
            raise self._corrupt("ends before the file does, before")
        return b""

    def _corrupt(self, what: str) -> CorruptRecord:
        offset = self._file.tell()
        stream = f"{self._compression} stream"
        fault = f"its {stream} {what} byte {offset}" if self._is_begun else f"not a {stream}"
        return CorruptRecord(fault, offset=offset)


def compression_of(head: bytes) -> str | None:
    """Return how a file of records that begins with `head` is compressed; None for other files.

    >>> compression_of(b"not a record")
    """
    if begins(head):
        return ""
    for compression in (GZIP, ZLIB):
        with suppress(zlib.error):
            inflater = zlib.decompressobj(_WINDOW_BITS[compression])
            if begins(inflater.decompress(head, OVERHEAD)):
                return compression
    return None
