"""Images and thumbnails for the browser.

All thumbnails of a page go in one stream: a hundred requests would take longer than the work. Each
is a frame, sent as soon as it is ready and so in any order, big-endian:

    number u32 · kind u8 · length u32 · data

The kind is 0 for JPEG, 1 for PNG, 2 for BMP, and 255 for an error message instead of an image.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from imgrec.codec import pillow
from imgrec.codec.decode import rough_thumbnail
from imgrec.codec.image import shape_of
from imgrec.codec.sniff import sniff
from imgrec.errors import BadImage, DatasetError
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.text import printable

SIDES = (192, 384)
"""The thumbnail sizes on offer: pixels of the longer side."""
MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "BMP": "image/bmp"}
"""The formats sent as they are. SVG must never be one: it can contain scripts."""

_FRAME = struct.Struct(">IBI")
_KINDS = {name: kind for kind, name in enumerate(MEDIA_TYPES)}
_ERROR = 255
_HEAD_BYTES = 64
_SMALL_BYTES = 1 << 14
_LARGEST_SIDE = 4096
"""The longer side of an image that is encoded anew because browsers do not know its format."""
_CACHE_BYTES = 1 << 26
_BATCH = 5
"""Thumbnails that a thread makes before it hands them over."""
_MAX_THREADS = 8


class Picture(NamedTuple):
    """An encoded image."""

    format: str
    """One of `MEDIA_TYPES`."""
    data: bytes


def whole_picture(record: Record) -> Picture:
    """Return a record's image, unchanged if browsers know its format; raise BadImage."""
    return _unchanged(record.image) or _smaller(record, _LARGEST_SIDE)


def small_picture(record: Record, side: int) -> Picture:
    """Return a record's image with a longer side of about `side`; raise BadImage."""
    is_small = len(record.image) <= _SMALL_BYTES and max(record.shape[:2]) <= side
    # Encoding tiny images anew would blur them and save nothing.
    if is_small and (unchanged := _unchanged(record.image)):
        return unchanged
    return _smaller(record, side)


def _unchanged(image: bytes) -> Picture | None:
    image_format = sniff(image[:_HEAD_BYTES])
    if image_format not in MEDIA_TYPES:
        return None
    height, width, _ = shape_of(image, "")
    pillow.refuse_bomb(height, width)  # or the browser would decode it
    return Picture(image_format, image)


def _smaller(record: Record, side: int) -> Picture:
    return Picture("JPEG", rough_thumbnail(record.image, record.filename, side))


class Thumbnails:
    """Makes thumbnails, and caches the latest. Threads may share one."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._pool = ThreadPoolExecutor(
            min(os.cpu_count() or 1, _MAX_THREADS), thread_name_prefix="imgrec-thumbnail"
        )
        self._cache: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Cancel the work that has not started."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def stream(self, numbers: Sequence[int], side: int) -> Iterator[bytes]:
        """Yield the frames of some records, several at once, cached ones first."""
        cached = {number: frame for number in numbers if (frame := self._cached(number, side))}
        if cached:
            yield b"".join(cached.values())
        missing = [number for number in numbers if number not in cached]
        batches = [missing[at : at + _BATCH] for at in range(0, len(missing), _BATCH)]
        futures = [self._pool.submit(self._make_batch, batch, side) for batch in batches]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:  # the browser may have gone to another page
            for future in futures:
                future.cancel()

    def _make_batch(self, numbers: Sequence[int], side: int) -> bytes:
        return b"".join([self._make(number, side) for number in numbers])

    def _make(self, number: int, side: int) -> bytes:
        try:
            picture = small_picture(self._dataset.read(number), side)
        except (BadImage, DatasetError) as error:  # not cached: someone may repair the dataset
            text = printable(str(error)).encode()
            return _FRAME.pack(number, _ERROR, len(text)) + text
        frame = _FRAME.pack(number, _KINDS[picture.format], len(picture.data)) + picture.data
        self._add_to_cache(number, side, frame)
        return frame

    def _cached(self, number: int, side: int) -> bytes | None:
        with self._lock:
            frame = self._cache.get((number, side))
            if frame is not None:
                self._cache.move_to_end((number, side))
            return frame

    def _add_to_cache(self, number: int, side: int, frame: bytes) -> None:
        with self._lock:
            if (number, side) in self._cache:
                return
            self._cache[number, side] = frame
            self._cached_bytes += len(frame)
            while self._cached_bytes > _CACHE_BYTES:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= len(dropped)
