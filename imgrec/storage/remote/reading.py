"""Reading objects: by ranges, many at once, or from front to back with the next part under way."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from os import getpid
from typing import NamedTuple

from imgrec.storage.remote.faults import explained, is_passing
from imgrec.storage.remote.retries import persist
from imgrec.storage.remote.systems import CONNECTIONS, open_system

PART_BYTES = 8 << 20
"""How much of an object one request asks for, if more of it will be needed."""
_AHEAD = 2
"""How many parts are under way while another is being used."""
_BUFFER_BYTES = 1 << 20


class Span(NamedTuple):
    """Some bytes of an object."""

    url: str
    start: int
    end: int


class Stat(NamedTuple):
    """What a store says of an object."""

    size: int
    changed_ns: int
    tag: str
    """What changes when the object does: its ETag, or the nearest to it that the store has."""


def read_span(span: Span) -> bytes:
    """Read some bytes of an object, in one request; fewer where it ends before."""
    if span.start >= span.end:
        return b""
    system, path = open_system(span.url)
    data = persist(lambda: system.cat_file(path, start=span.start, end=span.end), span.url)
    return bytes(data)


def read_spans(spans: Sequence[Span]) -> list[bytes | OSError]:
    """Read bytes of many objects, many at once; an object that cannot be had is an OSError."""
    wanted = [at for at, span in enumerate(spans) if span.start < span.end]
    found: list[bytes | OSError] = [b""] * len(spans)
    if not wanted:
        return found
    asked = [spans[at] for at in wanted]
    system, _ = open_system(asked[0].url)
    paths = [open_system(span.url)[1] for span in asked]
    starts, ends = [span.start for span in asked], [span.end for span in asked]
    options = {"batch_size": CONNECTIONS} if getattr(system, "async_impl", False) else {}
    answers = persist(
        lambda: system.cat_ranges(paths, starts, ends, on_error="return", **options), asked[0].url
    )
    for at, span, answer in zip(wanted, asked, answers, strict=True):
        found[at] = _again(span, answer) if isinstance(answer, Exception) else bytes(answer)
    return found


def _again(span: Span, error: Exception) -> bytes | OSError:
    """Read once more, alone, what failed among others."""
    fault = explained(error, span.url)
    if isinstance(fault, OSError):
        return fault
    if not is_passing(error):
        raise fault from None
    try:
        return read_span(span)
    except OSError as again:
        return again


def stat_object(url: str) -> Stat:
    """Ask for size, date and tag of an object; raise FileNotFoundError if it is a folder."""
    system, path = open_system(url)
    found = persist(lambda: system.info(path), url)
    if found.get("type") != "file":
        raise FileNotFoundError(2, "there is no such object", url)
    return stat_of(found)


def stat_of(found: dict[str, object]) -> Stat:
    """Return what is of use in what fsspec says of an object."""
    size = found.get("size")
    tag = next((found[key] for key in ("ETag", "md5Hash", "etag") if found.get(key)), "")
    return Stat(int(str(size or 0)), _changed_ns(found), str(tag).strip('"'))


def _changed_ns(found: dict[str, object]) -> int:
    for key in ("LastModified", "updated", "mtime", "modification_time"):
        value = found.get(key)
        if isinstance(value, int | float):
            return int(value * 1e9)
        if isinstance(value, str):
            from datetime import datetime

            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                continue
        if value is not None and hasattr(value, "timestamp"):
            return int(value.timestamp() * 1e9)
    return 0


@lru_cache(maxsize=1)
def _readers(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="imgrec-read")


def read_ahead(spans: Iterator[Span]) -> Generator[tuple[Span, bytes], None, None]:
    """Yield spans and their bytes, in order, while the next ones are on their way."""
    pool = _readers(getpid())
    under_way: deque[tuple[Span, Future[bytes]]] = deque()
    try:
        for span in spans:
            under_way.append((span, pool.submit(read_span, span)))
            if len(under_way) > _AHEAD:
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
    finally:
        for _, future in under_way:
            future.cancel()


def parts_of(url: str, size: int) -> Iterator[Span]:
    """Yield the parts in which an object is read."""
    for start in range(0, size, PART_BYTES):
        yield Span(url, start, min(start + PART_BYTES, size))


class _Stream(io.RawIOBase):
    """An object as a file that is read from front to back."""

    def __init__(self, url: str, size: int) -> None:
        self._url, self._size, self._position = url, size, 0
        self._parts = read_ahead(parts_of(url, size))
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # stubs name no protocol
        if not self._rest:
            for span, data in self._parts:
                if len(data) != span.end - span.start:
                    raise OSError(0, "it is shorter than the store said", self._url)
                self._rest = memoryview(data)
                break
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._position += count
        return count

    def close(self) -> None:
        self._parts.close()
        super().close()


def open_stream(url: str) -> tuple[io.BufferedReader, int]:
    """Return an object as a file to be read from front to back, and its size; raise OSError."""
    size = stat_object(url).size
    return io.BufferedReader(_Stream(url, size), _BUFFER_BYTES), size


def read_object(url: str) -> bytes:
    """Read all of an object, in one request."""
    system, path = open_system(url)
    return bytes(persist(lambda: system.cat_file(path), url))
