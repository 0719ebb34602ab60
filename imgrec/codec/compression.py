"""Files that are compressed as a whole: a gzip or a zlib stream, the same bytes on every machine.

gzip  1f 8b · 08 deflate · 00 no name · 00000000 no time · 00 · ff no system · deflated bytes
      uint32 LE CRC-32 · uint32 LE length modulo 2^32
zlib  78 9c · deflated bytes · uint32 BE Adler-32
"""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO, Protocol

from imgrec.errors import CorruptRecord

GZIP, ZLIB = "gzip", "zlib"
_GZIP_HEAD = bytes.fromhex("1f8b 0800 0000 0000 00ff")
_GZIP_FOOT = struct.Struct("<II")
_WINDOW_BITS = {GZIP: 31, ZLIB: 15}
"""Of a reader, as zlib takes them: 16 more for a gzip stream."""
_RAW_WINDOW_BITS = -15
_LEVEL = 6
_PIECE_BYTES = 1 << 16


class Compressor(Protocol):
    """What turns bytes into a compressed stream, piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Return what is to be written after more `data`."""
        ...

    def flush(self) -> bytes:
        """Return the end of the stream."""
        ...


class _GzipCompressor:
    # zlib can write the header itself, but then one byte of it tells the operating system.

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
    """Return what writes a gzip or zlib stream."""
    return _GzipCompressor() if compression == GZIP else zlib.compressobj(_LEVEL)


class Decompressed:
    """What a compressed file holds, read from front to back.

    Memory is bounded by what is asked for and is there, however small the file is. Raises
    CorruptRecord, which names `path` and how far the file was read, if it is no such stream, is
    damaged, is cut short, or goes on after its end.
    """

    def __init__(self, file: BinaryIO, compression: str, *, path: str) -> None:
        self._file = file
        self._compression = compression
        self._path = path
        self._inflate = zlib.decompressobj(_WINDOW_BITS[compression])
        self._is_begun = False
        self._unpacked = b""
        self._place = 0
        """How much of what is unpacked was read."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only where the stream ends."""
        start, self._place = self._place, self._place + size
        pieces = [self._unpacked[start : self._place]]
        missing = size - len(pieces[0])
        # What is unpacked at a time is more than the few bytes that are mostly asked for.
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
        return CorruptRecord(
            f"{self._path}: {fault}",
            hint="restore the file, or pack the dataset again",
            path=self._path,
            offset=offset,
        )


def beginning(compression: str, head: bytes, size: int) -> bytes:
    """Return up to `size` bytes of what a stream that begins with `head` holds; b"" if it is none.

    >>> stream = compressor(GZIP)
    >>> beginning(GZIP, stream.compress(b"records") + stream.flush(), 3)
    b'rec'
    """
    try:
        return zlib.decompressobj(_WINDOW_BITS[compression]).decompress(head, size)
    except zlib.error:
        return b""
