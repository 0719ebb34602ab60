"""Reading and listing objects: by ranges, many at once, or as a stream that reads ahead."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from os import getpid
from typing import Any, NamedTuple, TypeVar

from imgrec.storage.remote.errors import NO_BUCKET, denied, explained, is_passing
from imgrec.storage.remote.filesystem import CONNECTIONS, open_system, persist

T = TypeVar("T", bound="list[Any] | dict[str, Any]")

PART_BYTES = 8 << 20
"""The size of a request when a whole object is read."""
_AHEAD = 2
"""How many parts are under way while another is used."""
_BUFFER_BYTES = 1 << 20
_WINDOW = 64
_WINDOW_BYTES = 32 << 20
_PROBED = 512
"""How many beginnings are requested at once."""


class Span(NamedTuple):
    """Some bytes of an object."""

    url: str
    start: int
    end: int


class Stat(NamedTuple):
    """Size, date and tag of an object."""

    size: int
    changed_ns: int
    tag: str
    """Changes when the object does: its ETag, or the nearest equivalent of the store."""


class Listed(NamedTuple):
    """An object below a folder."""

    path: str
    """Below the folder."""
    stat: Stat


def read_span(span: Span) -> bytes:
    """Read some bytes of an object in one request; fewer if it ends before."""
    if span.start >= span.end:
        return b""
    system, path = open_system(span.url)
    data = persist(lambda: system.cat_file(path, start=span.start, end=span.end), span.url)
    return bytes(data)


def read_spans(spans: Sequence[Span]) -> list[bytes | OSError]:
    """Read bytes of many objects at once; the result of a failed one is an OSError."""
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
    """Retry one object that failed among others."""
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
    """Return size, date and tag of an object; raise FileNotFoundError for a folder."""
    system, path = open_system(url)
    found = persist(lambda: system.info(path), url)
    if found.get("type") != "file":
        raise FileNotFoundError(2, "there is no such object", url)
    return stat_of(found)


def stat_of(found: dict[str, object]) -> Stat:
    """Read the entry that fsspec returns for an object."""
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
    """Yield spans and their bytes in order, while the next ones are under way."""
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
                    raise OSError(0, "shorter than the store reported", self._url)
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
    """Return a sequential file object for an object, and its size; raise OSError."""
    size = stat_object(url).size
    return io.BufferedReader(_Stream(url, size), _BUFFER_BYTES), size


def read_object(url: str) -> bytes:
    """Read an object in one request."""
    system, path = open_system(url)
    return bytes(persist(lambda: system.cat_file(path), url))


def children(url: str) -> list[str]:
    """Name the direct children of a folder; none if there is no such folder."""
    system, path = open_system(url)
    found = _listed(lambda: system.ls(path, detail=True), url)
    names = {entry["name"].rstrip("/").rpartition("/")[2] for entry in found if _is_in(entry, path)}
    return sorted(names)


def _is_in(entry: dict[str, str], folder: str) -> bool:
    """Tell an entry from the folder itself, which some stores list too."""
    return entry["name"].strip("/") != folder.strip("/")


def objects(url: str) -> list[Listed]:
    """List all objects below a folder, in the order of their paths."""
    system, path = open_system(url)
    prefix = f"{path.rstrip('/')}/"
    found = dict(_listed(lambda: system.find(path, detail=True), url))
    below = [
        Listed(name.removeprefix(prefix), stat_of(entry))
        for name, entry in found.items()
        if name.startswith(prefix) and entry.get("type") == "file"
    ]
    return sorted(below)


def _listed(ask: Callable[[], T], url: str) -> T | list[Any]:
    """List a folder; stores cannot tell a missing folder from an empty one."""
    try:
        return persist(ask, url)
    except PermissionError as error:
        raise denied(url, error) from None
    except FileNotFoundError as error:
        if error.strerror == NO_BUCKET:
            raise denied(url, error) from None
        return []


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
    """Reads objects in order, a window of them in advance."""

    def __init__(self, urls: Sequence[str], sizes: Sequence[int]) -> None:
        self._windows = _windows(urls, sizes)
        self._here: deque[bytes | OSError] = deque()
        self._coming = self._fetch()

    def _fetch(self) -> Future[list[bytes | OSError]] | None:
        window = next(self._windows, None)
        return _fetchers(getpid()).submit(read_spans, window) if window else None

    def next(self) -> bytes:
        """Return the next object; raise OSError if it cannot be read."""
        if not self._here:
            assert self._coming is not None
            self._here.extend(self._coming.result())
            self._coming = self._fetch()
        found = self._here.popleft()
        if isinstance(found, OSError):
            raise found
        return found


def _windows(urls: Sequence[str], sizes: Sequence[int]) -> Iterator[list[Span]]:
    window: list[Span] = []
    total = 0
    for url, size in zip(urls, sizes, strict=True):
        # One more byte, if there is one, shows that the object has grown since it was listed.
        window.append(Span(url, 0, size + 1 if size else 0))
        total += size
        if len(window) == _WINDOW or total >= _WINDOW_BYTES:
            yield window
            window, total = [], 0
    if window:
        yield window
