"""Bringing files into the cache before they are read, where the disk would be waited for.

One reader waits for every file of a cold disk, or of one across a network, as long as that takes.
Disks answer many at once, so some threads ask for the files that come next. Of files that are in
the cache, as they are when they were looked at just before, that would only cost time.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

from imgrec.blob import Blob

_THREADS = 8
_SAMPLES = 8
"""So many files, all over the list, tell whether the rest is in the cache."""
_SLOW_S = 0.0002
"""What it takes at least to open and read a file that is not, where there is no telling."""
_MOST_BYTES = 1 << 29
"""Of more at once, some would have left the cache again before it is read."""
_EACH_BYTES = 1 << 17
"""As much of a file as most systems read ahead by themselves: all of it, mostly."""
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def bring_heads(blobs: Sequence[Blob], place: int, head_bytes: int) -> None:
    """Have the beginnings of files brought into the cache; `place` is that of the first of all.

    More of each, as long as what was brought before is small enough to be there when it is packed.
    """
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    bring(blobs, _EACH_BYTES if place * _EACH_BYTES < room else head_bytes)


def bring(blobs: Sequence[Blob], each_bytes: int, all_bytes: int = 0) -> None:
    """Have the first `each_bytes` of files brought into the cache, unless they are there.

    `all_bytes` is how many these are, where that is known.
    """
    if all_bytes > _MOST_BYTES or not hasattr(os, "posix_fadvise"):
        return
    paths = [blob for blob in blobs if isinstance(blob, str)]
    if len(paths) > _SAMPLES and _are_far(paths[:: len(paths) // _SAMPLES], each_bytes):
        left = deque(paths)
        for _ in range(_THREADS):
            Thread(target=_bring, args=(left, each_bytes), daemon=True).start()


def _are_far(paths: Sequence[str], each_bytes: int) -> bool:
    start = time.perf_counter()
    is_any = any(_is_far(path, each_bytes) for path in paths)
    return is_any or time.perf_counter() - start > _SLOW_S * len(paths)


def _is_far(path: str, each_bytes: int) -> bool:
    """Tell whether the last of these bytes has to be waited for, where the system tells that."""
    with suppress(OSError), _opened(path) as descriptor:
        end = min(os.lseek(descriptor, 0, os.SEEK_END), each_bytes)
        try:
            os.preadv(descriptor, [bytearray(1)], max(end - 1, 0), _NOWAIT)
        except BlockingIOError:
            return True
    return False


def _bring(left: deque[str], each_bytes: int) -> None:
    """Ask for one file after another; whoever reads it will say what is wrong with it."""
    with suppress(IndexError):  # when none is left
        while True:
            path = left.popleft()
            with suppress(OSError), _opened(path) as descriptor:
                os.posix_fadvise(descriptor, 0, each_bytes, os.POSIX_FADV_WILLNEED)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not hold us up
    try:
        yield descriptor
    finally:
        os.close(descriptor)
