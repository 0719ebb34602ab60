"""Reading blobs (files and parts of files), and detecting whether they changed.

A zip member is a local header, a name, an extra field and the packed bytes, one after another:
    PK 03 04 · 22 bytes · name length u16 LE · extra length u16 LE · name · extra · packed bytes
"""

from __future__ import annotations

import os
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from imgrec.errors import BadImage
from imgrec.model import Blob, Pixels, Slice, Stored, ZipMember
from imgrec.stamp import NO_STAMP, Stamp, state_of
from imgrec.storage.read_errors import image_fault, read_error

_READ_BYTES = 1 << 30
_OPEN_FILES = 32
_ZIP_HEADER = struct.Struct("<4s22xHH")
_ZIP_MAGIC = b"PK\x03\x04"
_ZIP_NAME_BYTES = 256
"""Read along with a header: most names and extra fields fit."""
_HEAD_SLACK_BYTES = 512
"""How much more than the beginning of a member is read to unpack it."""
_PIECE_BYTES = 1 << 20
STORED, DEFLATED = 0, 8
CHANGED = "changed while it was being packed"


class BlobHead(NamedTuple):
    """The size, stamp and beginning of a blob."""

    size: int
    stamp: Stamp
    """Empty for parts of files."""
    head: bytes


def read_head(blob: Blob, size: int, head_bytes: int, *, dated: bool, name: str = "") -> BlobHead:
    """Read the beginning of a blob; `size` is ignored for files.

    The stamp of a file is always set only if `dated`. Raises BadImage if the blob cannot be read,
    and ExecutionError, which calls it `name`, if the disk is at fault.
    """
    try:
        if isinstance(blob, str):
            return read_file_head(blob, head_bytes, dated=dated)
        if isinstance(blob, ZipMember):
            return BlobHead(size, NO_STAMP, _read_head(blob, min(size, head_bytes)))
        return BlobHead(size, NO_STAMP, _pread(blob[0], min(size, head_bytes), blob[1]))
    except OSError as error:
        close_files()  # else the next reader would use a file that may have been replaced
        raise image_fault(error, blob, name) from error


def read_file_head(path: str, head_bytes: int, *, dated: bool) -> BlobHead:
    """Read the beginning of a file, as `read_head` does; may raise OSError.

    The stamp of a file that fits into its head has no state: the head is compared instead.
    """
    # O_NONBLOCK: opening a pipe that has replaced a listed file must not block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        head = os.read(descriptor, head_bytes)
        size = len(head)
        if not dated and 0 < size < head_bytes:
            return BlobHead(size, NO_STAMP, head)  # complete: fstat would cost a fifth more
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadImage("unreadable: not a regular file")
        state = state_of(path, status) if status.st_size != size else 0
        return BlobHead(status.st_size, Stamp(status.st_ctime_ns, state), head)
    finally:
        os.close(descriptor)


def read_blob(blob: Blob, size: int, newest_ns: int = 0, name: str = "") -> bytes:
    """Read a blob that was `size` bytes long when it was catalogued.

    `newest_ns` is the latest change of any catalogued file, by the clock of its file system; 0 if
    unknown. Raises BadImage if the blob cannot be read, has another size, or is a file that changed
    later; and ExecutionError, which calls it `name`, if the disk is at fault.
    """
    try:
        if isinstance(blob, str):
            data = _read_object(blob, size) if "://" in blob else _read_file(blob, size, newest_ns)
        elif isinstance(blob, ZipMember):
            data = _read_member(blob, size)
        else:
            refuse_stored(blob)
            data = _pread(blob[0], size, blob[1])
    except OSError as error:
        close_files()  # else the next reader would use a file that may have been replaced
        raise image_fault(error, blob, name) from error
    if len(data) != size:
        raise BadImage(CHANGED)
    return data


def refuse_stored(blob: Blob) -> None:
    """Raise TypeError for a record of a dataset, which is not a part of a file of the source."""
    if isinstance(blob, Stored):
        raise TypeError(f"not a part of a source: {blob}")


def is_object(blob: Blob) -> bool:
    """Return whether a blob is an object on a store."""
    return isinstance(blob, str) and "://" in blob


def _read_object(url: str, size: int) -> bytes:
    from imgrec.storage.remote.read import Span, read_span

    return read_span(Span(url, 0, size + 1 if size else 0))


def _read_file(path: str, size: int, newest_ns: int) -> bytes:
    """Read `size` bytes and one more if there is one, in a single call for most files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        newest_ns = newest_ns or os.fstat(descriptor).st_ctime_ns
        data = os.read(descriptor, min(size + 1, _READ_BYTES))
        pieces, missing = [data], size + 1 - len(data) if len(data) < size else 0
        while missing > 0 and (piece := os.read(descriptor, min(missing, _READ_BYTES))):
            pieces.append(piece)
            missing -= len(piece)
        # It may be a different file than the catalogued one, or a mixture of old and new.
        if os.fstat(descriptor).st_ctime_ns > newest_ns:
            raise BadImage(CHANGED)
        return b"".join(pieces) if len(pieces) > 1 else data
    finally:
        os.close(descriptor)


def changed_ns(path: str) -> int:
    """Return when a file, or a link to it, last changed, by the clock of its own disk.

    Raises OSError if it is gone.
    """
    return max(os.stat(path).st_ctime_ns, os.lstat(path).st_ctime_ns)


def was_swapped(folder: str, home: tuple[int, int], time_ns: int) -> bool:
    """Return whether another folder has taken the place of this one after that time.

    `home` is the earlier device and inode. Virtual file systems may give a folder new numbers each
    time, but then it has no date, or always the present one. Raises ExecutionError if it is gone.
    """
    now_ns = time.time_ns()
    try:
        found = os.stat(folder)
        is_other = (found.st_dev, found.st_ino) != home
        return is_other and time_ns < changed_ns(folder.rstrip("/") or "/") < now_ns
    except OSError as error:
        raise read_error(error, folder) from error


def changed_after(path: str, time_ns: int) -> bool:
    """Return whether a file changed after that time; raise ExecutionError if it is gone."""
    try:
        return changed_ns(path) > time_ns
    except OSError as error:
        raise read_error(error, path) from error


def read_pieces(blob: Slice | ZipMember | Pixels | Stored, size: int) -> Iterator[bytes]:
    """Yield a part of a file, `size` bytes long, in pieces: it may be larger than memory.

    Raises BadImage, at its end at the latest, if size or checksum is wrong, and ExecutionError if
    the file cannot be read.
    """
    refuse_stored(blob)
    count = crc32 = 0
    try:
        for piece in _pieces(blob, size):
            count += len(piece)
            if count > size:
                break
            crc32 = zlib.crc32(piece, crc32)
            yield piece
    except OSError as error:
        close_files()
        raise read_error(error, blob[0]) from error
    _check(blob, size, count, crc32)


class OpenFile:
    """A descriptor that is closed when nobody holds this any more."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)  # at exit, `os` may be gone before this runs


@lru_cache(maxsize=_OPEN_FILES)
def _open(path: str) -> OpenFile:
    return OpenFile(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # as in read_file_head


def close_files() -> None:
    """Close the files whose parts were read, so that the next reader opens them again."""
    _open.cache_clear()


def _pread(path: str, size: int, offset: int) -> bytes:
    descriptor = _open(path).descriptor
    data = os.pread(descriptor, min(size, _READ_BYTES), offset)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
        data += more
    return data


def _pieces(blob: Slice | ZipMember | Pixels | Stored, size: int) -> Iterator[bytes]:
    if isinstance(blob, ZipMember):
        yield from _unpacked(_packed_blocks(blob, _PIECE_BYTES), blob.method, _PIECE_BYTES)
        return
    for start in range(0, size, _PIECE_BYTES):
        yield _pread(blob[0], min(_PIECE_BYTES, size - start), blob[1] + start)


def _read_member(member: ZipMember, size: int) -> bytes:
    _, body = _packed(member, member.packed_size)
    data = next(_unpacked((body,), member.method, size + 1))
    _check(member, size, len(data), zlib.crc32(data))
    return data


def _check(blob: Blob, size: int, found_size: int, found_crc32: int) -> None:
    if found_size != size:
        raise BadImage("its size is not what the archive says")
    if isinstance(blob, ZipMember) and found_crc32 != blob.crc32:
        raise BadImage("its checksum is not what the archive says")


def _read_head(member: ZipMember, wanted: int) -> bytes:
    """Return the first `wanted` bytes of a member, or as many as it has."""
    head = b""
    if wanted:
        blocks = _packed_blocks(member, wanted + _HEAD_SLACK_BYTES)
        for piece in _unpacked(blocks, member.method, wanted):
            head += piece
            if len(head) >= wanted:
                break
    return head[:wanted]


def _unpacked(packed: Iterable[memoryview], method: int, piece_bytes: int) -> Iterator[bytes]:
    """Unpack blocks; a deflated piece has at most `piece_bytes`."""
    if method == STORED:
        yield from map(bytes, packed)
        return
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for block in packed:
            yield inflater.decompress(block, piece_bytes)
            while inflater.unconsumed_tail:
                yield inflater.decompress(inflater.unconsumed_tail, piece_bytes)
            if inflater.eof:
                return
        while piece := inflater.decompress(b"", piece_bytes):  # the rest in its buffers
            yield piece
    except zlib.error as error:
        raise BadImage("its compressed data is damaged") from error


def _packed_blocks(member: ZipMember, block_bytes: int) -> Iterator[memoryview]:
    """Yield the packed bytes of a member, reading them only when requested."""
    start, block = _packed(member, min(member.packed_size, block_bytes))
    end = start + member.packed_size
    while block:
        yield block
        start += len(block)
        block = memoryview(_pread(member.path, min(end - start, block_bytes), start))


def _packed(member: ZipMember, count: int) -> tuple[int, memoryview]:
    """Return the offset of the packed bytes of a member, and the first `count` of them."""
    block = _pread(member.path, _ZIP_HEADER.size + _ZIP_NAME_BYTES + count, member.header_offset)
    if len(block) < _ZIP_HEADER.size or block[:4] != _ZIP_MAGIC:
        raise BadImage("its header is not where the archive says")
    _, name_length, extra_length = _ZIP_HEADER.unpack_from(block)
    start = _ZIP_HEADER.size + name_length + extra_length
    if len(block) < start + count:
        block += _pread(member.path, start + count - len(block), member.header_offset + len(block))
    return member.header_offset + start, memoryview(block)[start : start + count]
