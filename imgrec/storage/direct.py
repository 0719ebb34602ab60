"""Writing large files past the page cache, each while the next part of it is made; reading them.

Copying into the page cache, and bringing it to disk later, was measured to cost a third of packing
photos; a shard is read again by others, at other times. So a shard goes from buffers of ours
straight to the disk where the file system allows that (`O_DIRECT`): whole blocks from addresses
that are multiples of a block. What is over at the end is filled up to a block, and cut off again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from xxhash import xxh3_128

NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_BLOCK_BYTES = 4096
_BUFFER_BYTES = 4 << 20
_BUFFERS = 3
"""One being filled, one being written, and one in between, so that neither waits for long."""
_HASHED_BYTES = 1 << 17
"""How much is hashed at once: little enough to be in the CPU's own cache still."""
_O_DIRECT: int = getattr(os, "O_DIRECT", 0)
_UNFIT = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
"""What a file system says that does not write like this."""


_spare: list[memoryview] = []
"""Buffers of files that are finished: the kernel need not find and clear pages for others."""


class DirectFile:
    """A new file that counts and hashes what is written to it, and is written by a thread.

    An error of that thread is raised by a later call. Must be closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._sha256 = hashlib.sha256()
        self._xxh3 = xxh3_128()
        self._buffers = [_buffer() for _ in range(_BUFFERS)]
        self._free: SimpleQueue[memoryview] = SimpleQueue()
        self._full: SimpleQueue[memoryview | None] = SimpleQueue()
        self._fault: OSError | None = None
        for buffer in self._buffers:
            self._free.put(buffer)
        self._buffer = self._free.get()
        self._filled = self._hashed = 0
        self.position = 0
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def write(self, *parts: bytes) -> None:
        """Append `parts`, one after the other."""
        for part in parts:
            end = self._filled + len(part)
            if end > _BUFFER_BYTES:
                self._write_over(part)
            else:
                self._buffer[self._filled : end] = part
                self._filled = end
            self.position += len(part)
        if self._filled - self._hashed >= _HASHED_BYTES:
            self._hash()

    def _hash(self) -> None:
        part = self._buffer[self._hashed : self._filled]
        self._sha256.update(part)
        self._xxh3.update(part)
        self._hashed = self._filled

    def _write_over(self, part: bytes) -> None:
        """Append a part that does not fit into the buffer."""
        rest = memoryview(part)
        while rest:
            piece = rest[: _BUFFER_BYTES - self._filled]
            self._buffer[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)
            rest = rest[len(piece) :]
            if self._filled == _BUFFER_BYTES:
                self._hand_over()
                self._buffer = self._free.get()

    def _hand_over(self) -> None:
        self._hash()
        self._full.put(self._buffer[: self._filled])
        self._filled = self._hashed = 0
        if self._fault:
            raise self._fault

    def flush(self) -> None:
        """Hand everything to the disk; nothing can be written afterwards."""
        if self._filled:
            self._hand_over()
        self._finish()
        if self._fault:
            raise self._fault

    def _finish(self) -> None:
        self._full.put(None)
        self._thread.join()

    def close(self) -> None:
        """Wait for what is being written, and write no more."""
        self._finish()
        _spare.extend(self._buffers)
        self._buffers = []

    def sha256(self) -> str:
        """Return the hash of everything flushed so far."""
        return self._sha256.hexdigest()

    def xxh3(self) -> str:
        """Return another hash of the same, which is checked ten times as fast."""
        return self._xxh3.hexdigest()

    def _work(self) -> None:
        while (filled := self._full.get()) is not None:
            try:
                if not self._fault:
                    self._write_out(filled)
            except OSError as error:
                self._fault = error
            self._free.put(_whole(filled))

    def _write_out(self, filled: memoryview) -> None:
        over = -len(filled) % _BLOCK_BYTES
        rest = _whole(filled)[: len(filled) + over]
        rest[len(filled) :] = bytes(over)
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except OSError as error:
                if error.errno not in _UNFIT or not _is_direct(self._descriptor):
                    raise
                _make_plain(self._descriptor)
                continue
            rest = rest[written:]
            if written % _BLOCK_BYTES:  # a rest of a block can only go through the cache
                _make_plain(self._descriptor)


def _buffer() -> memoryview:
    try:
        return _spare.pop()  # which threads share: to look first would not do
    except IndexError:
        return _new_buffer()


def _new_buffer() -> memoryview:
    memory = mmap.mmap(-1, _BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # of which the kernel has to look up fewer, if it has them
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def _whole(part: memoryview) -> memoryview:
    """Return the buffer that a part is the beginning of."""
    return memoryview(part.obj)


def open_direct(path: str, flags: int = NEW) -> int:
    """Open a file, a new one by default, past the cache where its file system allows that."""
    try:
        return os.open(path, flags | _O_DIRECT, 0o666)
    except OSError as error:
        if error.errno not in _UNFIT:
            raise
        return os.open(path, flags, 0o666)


def read_direct(path: str) -> Iterator[memoryview]:
    """Yield what is in a file, each piece until the next one is asked for.

    What is read but once, and was written past the cache, need not take the place of others there:
    to find that place was measured to cost more CPU than all else that is done to read it.
    """
    descriptor = open_direct(path, os.O_RDONLY)
    buffer = _buffer()
    try:
        count = _BLOCK_BYTES
        while count and not count % _BLOCK_BYTES:  # or it was the end
            count = _read(descriptor, buffer)
            yield buffer[:count]
    finally:
        _spare.append(buffer)
        os.close(descriptor)


def _read(descriptor: int, buffer: memoryview) -> int:
    try:
        return os.readv(descriptor, [buffer])
    except OSError as error:
        if error.errno not in _UNFIT or not _is_direct(descriptor):
            raise
        _make_plain(descriptor)
        return os.readv(descriptor, [buffer])


def _is_direct(descriptor: int) -> bool:
    """Tell whether a file is written and read past the cache."""
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & _O_DIRECT)


def _make_plain(descriptor: int) -> None:
    """Let a file be written and read through the cache from now on."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~_O_DIRECT)
