"""Files compressed as a whole: a gzip or zlib stream, the same bytes on every machine.

gzip  1f 8b · 08 deflate · 00 no name · 00000000 no time · 00 · ff no system · deflated bytes
      uint32 LE CRC-32 · uint32 LE length modulo 2^32
zlib  78 9c · deflated bytes · uint32 BE Adler-32
"""

from __future__ import annotations

import struct
import zlib
from typing import Protocol

from imgrec.codec import tfrecord
from imgrec.errors import CorruptRecord

GZIP, ZLIB = "gzip", "zlib"
_GZIP_HEAD = bytes.fromhex("1f8b 0800 0000 0000 00ff")
_GZIP_FOOT = struct.Struct("<II")
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}
"""As zlib readers take them: 16 more for a gzip stream."""
_RAW_WINDOW_BITS = -15
_LEVEL = 6
_PIECE_BYTES = 1 << 16


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
        foot = _GZIP_FOOT.pack(self._crc32, self._length & 0xFFFFFFFF)
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
    the offset in the file, if the stream is damaged, is cut short, or does not end the file.
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
                raise self._corrupt("is cut short at")
        if self._inflate.unused_data or self._file.read(1):
            raise self._corrupt("ends, and the file does not, before")
        return b""

    def _corrupt(self, what: str) -> CorruptRecord:
        offset = self._file.tell()
        stream = f"{self._compression} stream"
        fault = f"its {stream} {what} byte {offset}" if self._is_begun else f"not a {stream}"
        return CorruptRecord(fault, offset=offset)


def compression_of(head: bytes) -> str | None:
    """Return how a file of records that begins with `head` is compressed; None if it is none.

    >>> compression_of(b"not a record")
    """
    if tfrecord.begins(head):
        return ""
    for compression in (GZIP, ZLIB):
        if tfrecord.begins(_unpacked_head(compression, head, tfrecord.OVERHEAD)):
            return compression
    return None


def _unpacked_head(compression: str, head: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj(_WINDOW_BITS[compression]).decompress(head, size)
    except zlib.error:
        return b""
