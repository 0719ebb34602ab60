"""Images on a store, read many at once, shortly before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from os import getpid

from imgrec.blob import Blob
from imgrec.storage.remote.reading import Span, read_spans

_WINDOW = 64
_WINDOW_BYTES = 32 << 20
_PROBED = 512
"""How many beginnings are asked for at once."""


def read_heads(urls: Sequence[str], sizes: Sequence[int], head_bytes: int) -> list[bytes | OSError]:
    """Read the beginnings of objects, many at once."""
    spans = [Span(url, 0, min(size, head_bytes)) for url, size in zip(urls, sizes, strict=True)]
    found: list[bytes | OSError] = []
    for start in range(0, len(spans), _PROBED):
        found += read_spans(spans[start : start + _PROBED])
    return found


@lru_cache(maxsize=1)
def _fetchers(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="imgrec-fetch")


class Prefetch:
    """Reads the objects among blobs in their order, a window of them ahead."""

    def __init__(self, blobs: Sequence[Blob], sizes: Sequence[int]) -> None:
        self._windows = _windows(blobs, sizes)
        self._here: deque[bytes | OSError] = deque()
        self._coming = self._fetch()

    def _fetch(self) -> Future[list[bytes | OSError]] | None:
        window = next(self._windows, None)
        return _fetchers(getpid()).submit(read_spans, window) if window else None

    def next(self) -> bytes:
        """Return the next object; raise OSError if it cannot be had."""
        if not self._here:
            assert self._coming is not None
            self._here.extend(self._coming.result())
            self._coming = self._fetch()
        found = self._here.popleft()
        if isinstance(found, OSError):
            raise found
        return found


def _windows(blobs: Sequence[Blob], sizes: Sequence[int]) -> Iterator[list[Span]]:
    window: list[Span] = []
    total = 0
    for blob, size in zip(blobs, sizes, strict=True):
        if not isinstance(blob, str) or "://" not in blob:
            continue
        # One byte more, if there is one, tells that it is not what was listed.
        window.append(Span(blob, 0, size + 1 if size else 0))
        total += size
        if len(window) == _WINDOW or total >= _WINDOW_BYTES:
            yield window
            window, total = [], 0
    if window:
        yield window
