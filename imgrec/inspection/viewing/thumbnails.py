"""The thumbnails of a page, in one stream: a hundred requests would take longer than the work.

A frame for each, as soon as it is ready and so in any order, big-endian:

    number u32 · kind u8 · length u32 · as many bytes

Kinds are 0 for JPEG, 1 for PNG, 2 for BMP, and 255 for text that says why there is no picture.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from imgrec.errors import BadImage, DatasetError
from imgrec.inspection.viewing.pictures import TYPES, small
from imgrec.read.dataset import Dataset
from imgrec.text import printable

SIDES = (192, 384)
"""What may be asked for: pixels of the longer side."""

_FRAME = struct.Struct(">IBI")
_KINDS = {name: kind for kind, name in enumerate(TYPES)}
_FAULT = 255
_CACHE_BYTES = 1 << 26
_BATCH = 5
"""Thumbnails that a thread makes before it hands them over."""
_MOST_THREADS = 8


class Thumbnails:
    """Makes thumbnails, and keeps the last ones. Threads may share one."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._pool = ThreadPoolExecutor(
            min(os.cpu_count() or 1, _MOST_THREADS), thread_name_prefix="imgrec-thumbnail"
        )
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Leave undone what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def stream(self, numbers: Sequence[int], side: int) -> Iterator[bytes]:
        """Yield the frames of some records, several at once, those first that are there."""
        kept = {number: frame for number in numbers if (frame := self._kept(number, side))}
        if kept:
            yield b"".join(kept.values())
        missing = [number for number in numbers if number not in kept]
        batches = [missing[at : at + _BATCH] for at in range(0, len(missing), _BATCH)]
        futures = [self._pool.submit(self._make_all, batch, side) for batch in batches]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:  # whoever asked may have gone on to another page
            for future in futures:
                future.cancel()

    def _make_all(self, numbers: Sequence[int], side: int) -> bytes:
        return b"".join([self._make(number, side) for number in numbers])

    def _make(self, number: int, side: int) -> bytes:
        try:
            picture = small(self._dataset.read(number), side)
        except (BadImage, DatasetError) as error:  # not kept: someone may mend the dataset
            text = printable(str(error)).encode()
            return _FRAME.pack(number, _FAULT, len(text)) + text
        frame = _FRAME.pack(number, _KINDS[picture.format], len(picture.data)) + picture.data
        self._keep(number, side, frame)
        return frame

    def _kept(self, number: int, side: int) -> bytes | None:
        with self._lock:
            frame = self._frames.get((number, side))
            if frame is not None:
                self._frames.move_to_end((number, side))
            return frame

    def _keep(self, number: int, side: int, frame: bytes) -> None:
        with self._lock:
            if (number, side) in self._frames:
                return
            self._frames[number, side] = frame
            self._bytes += len(frame)
            while self._bytes > _CACHE_BYTES:
                _, dropped = self._frames.popitem(last=False)
                self._bytes -= len(dropped)
