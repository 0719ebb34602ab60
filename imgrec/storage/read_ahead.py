"""Reading many blobs in order: those on slow disks and object stores are fetched in advance.

A single reader waits for every file of a cold or remote disk. Disks answer many requests at once,
so a few threads ask the kernel for the next files: twice as fast on a cold disk. For files that are
in the page cache already, this would only cost time, so a few of them are checked first.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Protocol

from imgrec.errors import BadImage
from imgrec.model import Blob
from imgrec.storage.blobs import CHANGED, is_object, read_blob
from imgrec.storage.read_errors import image_fault

_THREADS = 8
_SAMPLES = 8
"""How many files of a list are checked for being in the page cache."""
_SLOW_S = 0.0002
"""The least time to open and read an uncached file, for file systems without RWF_NOWAIT."""
_MAX_BYTES = 1 << 29
"""Of more than this at once, some would be evicted again before it is read."""
_EACH_BYTES = 1 << 17
"""As much of a file as most systems read ahead by themselves. Most images are smaller."""
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


class Read(Protocol):
    """Reads a blob, as `read_blob` does."""

    def __call__(self, blob: Blob, size: int, newest_ns: int = 0, name: str = "") -> bytes:
        """Return its bytes."""
        ...


def reader(blobs: Sequence[Blob], sizes: Sequence[int]) -> Read:
    """Return a `read_blob` for these blobs, all of which must be read, in this order."""
    if not any(map(is_object, blobs)):
        cache_files(blobs, max(sizes, default=0), sum(sizes))
        return read_blob
    from imgrec.storage.remote.read import Prefetch

    places = [at for at, blob in enumerate(blobs) if is_object(blob)]
    objects = Prefetch([str(blobs[at]) for at in places], [sizes[at] for at in places])

    def read(blob: Blob, size: int, newest_ns: int = 0, name: str = "") -> bytes:
        if not is_object(blob):
            return read_blob(blob, size, newest_ns, name)
        try:
            data = objects.next()
        except OSError as error:
            raise image_fault(error, blob, name) from error
        if len(data) != size:
            raise BadImage(CHANGED)
        return data

    return read


def heads_of_objects(
    blobs: Sequence[Blob], lengths: Sequence[int]
) -> Iterator[tuple[int, bytes | OSError]]:
    """Yield the place and the beginning of each blob that is on an object store."""
    places = [at for at, blob in enumerate(blobs) if is_object(blob)]
    if places:
        from imgrec.storage.remote.read import read_heads

        urls = [str(blobs[at]) for at in places]
        yield from zip(places, read_heads(urls, [lengths[at] for at in places]), strict=True)


def cache_heads(blobs: Sequence[Blob], place: int, head_bytes: int) -> None:
    """Have the kernel cache the beginnings of files, of which the first has number `place`.

    Takes all of a small file as long as memory lasts: it will be packed soon.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cache_files(blobs, _EACH_BYTES if place * _EACH_BYTES < memory_bytes // 4 else head_bytes)


def cache_files(blobs: Sequence[Blob], each_bytes: int, all_bytes: int = 0) -> None:
    """Have the kernel cache the first `each_bytes` of files, unless they are cached.

    `all_bytes` is their sum, if it is known.
    """
    if all_bytes > _MAX_BYTES or not hasattr(os, "posix_fadvise"):
        return
    paths = [blob for blob in blobs if isinstance(blob, str)]
    if len(paths) > _SAMPLES and _are_uncached(paths[:: len(paths) // _SAMPLES], each_bytes):
        left = deque(paths)
        for _ in range(_THREADS):
            Thread(target=_cache_each, args=(left, each_bytes), daemon=True).start()


def _are_uncached(paths: Sequence[str], each_bytes: int) -> bool:
    """Return whether reading the last of these bytes would wait for the disk."""
    start = time.perf_counter()
    for path in paths:
        with suppress(OSError), _opened(path) as descriptor:
            end = min(os.lseek(descriptor, 0, os.SEEK_END), each_bytes)
            try:
                os.preadv(descriptor, [bytearray(1)], max(end - 1, 0), _NOWAIT)
            except BlockingIOError:
                return True
    return time.perf_counter() - start > _SLOW_S * len(paths)


def _cache_each(left: deque[str], each_bytes: int) -> None:
    with suppress(IndexError):  # when none is left
        while True:
            path = left.popleft()
            with suppress(OSError), _opened(path) as descriptor:  # the reader reports the error
                os.posix_fadvise(descriptor, 0, each_bytes, os.POSIX_FADV_WILLNEED)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe must not block
    try:
        yield descriptor
    finally:
        os.close(descriptor)
