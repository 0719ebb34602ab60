"""Reading and listing objects: as paths, by ranges, many at once, or as a stream."""

from __future__ import annotations

import io
import logging
import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from pathlib import PosixPath
from typing import Any, NamedTuple, Self, TypeVar

from imgrec.storage.remote.filesystem import (
    CONNECTIONS,
    NO_BUCKET,
    denied,
    explained,
    is_temporary,
    open_system,
    persist,
    reason_of,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
"""The size of a request when a whole object is read."""
_AHEAD_BYTES = 2 * PART_BYTES
"""How much is under way while a part is used."""
_BUFFER_BYTES = 1 << 20
_WINDOW = 64
_WINDOW_BYTES = 32 << 20
_HEADS = 512
"""How many beginnings are requested at once; fewer if they are long."""
_AT_ONCE = 8
_NO_HOST = "~"
"""Stands for the missing host of a URL such as hdfs:///data. pathlib would drop it."""


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
    results: list[bytes | OSError] = [b""] * len(spans)
    if not wanted:
        return results
    asked = [spans[at] for at in wanted]
    system, _ = open_system(asked[0].url)
    paths = [open_system(span.url)[1] for span in asked]
    starts, ends = [span.start for span in asked], [span.end for span in asked]
    options = {"batch_size": CONNECTIONS} if getattr(system, "async_impl", False) else {}
    answers = persist(
        lambda: system.cat_ranges(paths, starts, ends, on_error="return", **options), asked[0].url
    )
    for at, span, answer in zip(wanted, asked, answers, strict=True):
        results[at] = _again(span, answer) if isinstance(answer, Exception) else bytes(answer)
    return results


def _again(span: Span, error: Exception) -> bytes | OSError:
    """Retry one object that failed among others."""
    fault = explained(error, span.url)
    if isinstance(fault, OSError):
        return fault
    if not is_temporary(error):
        raise fault from None
    _log.info("%s: %s; reading it again", span.url, reason_of(error))
    try:
        return read_span(span)
    except OSError as again:
        return again


def stat_object(url: str) -> Stat:
    """Return size, date and tag of an object; raise FileNotFoundError for a folder."""
    system, path = open_system(url)
    entry = persist(lambda: system.info(path), url)
    if entry.get("type") != "file":
        raise FileNotFoundError(2, "there is no such object", url)
    return _stat_of(entry)


def _stat_of(entry: dict[str, Any]) -> Stat:
    """Read the entry that fsspec returns for an object; each store has its own names."""
    tag = next((entry[key] for key in ("ETag", "md5Hash", "etag") if entry.get(key)), "")
    dates = ("LastModified", "updated", "mtime", "modification_time", "last_modified", "created")
    changed = next((_timestamp(entry[key]) for key in dates if entry.get(key)), 0.0)
    return Stat(int(entry.get("size") or 0), int(changed * 1e9), str(tag).strip('"'))


def _timestamp(date: float | str | datetime) -> float:
    if isinstance(date, str):
        try:
            date = datetime.fromisoformat(date)
        except ValueError:
            return 0.0
    return date.timestamp() if isinstance(date, datetime) else date


@lru_cache(maxsize=1)
def _readers(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="imgrec-read")


def fetch(spans: Iterable[Span]) -> list[Future[bytes]]:
    """Start to read spans, in this order."""
    pool = _readers(os.getpid())
    return [pool.submit(read_span, span) for span in spans]


def stat_objects(urls: Iterable[str]) -> list[Stat | OSError]:
    """Return size, date and tag of many objects; the result of a failed one is an OSError."""

    def ask(url: str) -> Stat | OSError:
        try:
            return stat_object(url)
        except OSError as error:
            return error

    return list(_readers(os.getpid()).map(ask, urls))


def at_once(function: Callable[[T], object], values: Iterable[T]) -> None:
    """Call a function with each value, in threads; raise its first error."""
    # In threads of their own: the function may wait for those that read.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(function, values):
            pass


def read_ahead(spans: Iterator[Span]) -> Generator[tuple[Span, bytes], None, None]:
    """Yield spans and their bytes in order, while the next ones are under way."""
    pool = _readers(os.getpid())
    under_way: deque[tuple[Span, Future[bytes]]] = deque()
    ahead_bytes = 0
    try:
        for span in spans:
            under_way.append((span, pool.submit(read_span, span)))
            ahead_bytes += span.end - span.start
            # Many if they are small: a request of a few bytes takes as long as one of many.
            while under_way and (ahead_bytes > _AHEAD_BYTES or len(under_way) > CONNECTIONS):
                first, future = under_way.popleft()
                ahead_bytes -= first.end - first.start
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
    paths = _listed(lambda: system.ls(path, detail=False), url) or []
    # Some stores list the folder itself too.
    below = [name for name in paths if name.strip("/") != path.strip("/")]
    return sorted({name.rstrip("/").rpartition("/")[2] for name in below})


def objects(url: str) -> list[Listed]:
    """List all objects below a folder, in the order of their paths."""
    system, path = open_system(url)
    prefix = f"{path.rstrip('/')}/"
    entries = _listed(lambda: system.find(path, detail=True), url) or {}
    return sorted(
        Listed(name.removeprefix(prefix), _stat_of(entry))
        for name, entry in entries.items()
        if name.startswith(prefix) and entry.get("type") == "file"
    )


def _listed(ask: Callable[[], T], url: str) -> T | None:
    """List a folder; None if it is missing, which stores cannot tell from an empty one."""
    try:
        return persist(ask, url)
    except PermissionError as error:
        raise denied(url, error) from None
    except FileNotFoundError as error:
        if error.strerror == NO_BUCKET:
            raise denied(url, error) from None
        return None


def read_heads(urls: Sequence[str], lengths: Sequence[int]) -> Iterator[bytes | OSError]:
    """Yield the beginnings of objects in order; many are read at once."""
    spans = (Span(url, 0, length) for url, length in zip(urls, lengths, strict=True))
    for window in _windows(spans, _HEADS):
        yield from read_spans(window)


class Prefetch:
    """Reads objects in order, a window of them in advance."""

    def __init__(self, urls: Sequence[str], sizes: Sequence[int]) -> None:
        # One more byte, if there is one, shows that the object has grown since it was listed.
        ends = (size + 1 if size else 0 for size in sizes)
        self._windows = _windows(map(Span, urls, repeat(0), ends), _WINDOW)
        self._ready: deque[bytes | OSError] = deque()
        self._next = self._fetch()

    def _fetch(self) -> Future[list[bytes | OSError]] | None:
        window = next(self._windows, None)
        return _readers(os.getpid()).submit(read_spans, window) if window else None

    def next(self) -> bytes:
        """Return the next object; raise OSError if it cannot be read."""
        if not self._ready:
            assert self._next is not None
            self._ready.extend(self._next.result())
            self._next = self._fetch()
        data = self._ready.popleft()
        if isinstance(data, OSError):
            raise data
        return data


def _windows(spans: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Yield at most so many spans at once, and not much more than fits into memory."""
    window: list[Span] = []
    total = 0
    for span in spans:
        window.append(span)
        total += span.end
        if len(window) == most or total >= _WINDOW_BYTES:
            yield window
            window, total = [], 0
    if window:
        yield window


class StorePath(PosixPath):
    """A path such as `s3://bucket/datasets/flowers`, with the methods that readers use.

    Missing objects raise as on a disk. A store that denies access raises ExecutionError, so that
    nobody takes it for an empty one. Not universal_pathlib: its paths are not `pathlib.Path`s,
    which all readers take, and they raise the errors of each store's library, without retries.
    """

    def __str__(self) -> str:
        # pathlib merges // into /.
        scheme, _, rest = super().__str__().partition(":/")
        host, slash, below = rest.partition("/")
        return f"{scheme}://{'' if host == _NO_HOST else host}{slash}{below}"

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Self:
        """Return the same: a URL depends on no working directory."""
        return self

    def resolve(self, strict: bool = False) -> Self:  # noqa: ARG002
        """Return the same: there are no links."""
        return self

    def expanduser(self) -> Self:
        """Return the same: there are no homes."""
        return self

    def read_bytes(self) -> bytes:
        """Read an object."""
        return _allowed(self, read_object)

    def read_text(self, *_arguments: str | None, **_options: str | None) -> str:
        """Read an object of UTF-8 text."""
        return self.read_bytes().decode()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Return size and date of an object."""
        size, changed_ns, _ = _allowed(self, stat_object)
        seconds = changed_ns // 10**9
        mode = stat.S_IFREG | 0o444
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, seconds, seconds, seconds))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Return whether the object exists."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_symlink(self) -> bool:
        """Return False: there are no links."""
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Return whether there are objects below it."""
        return next(self.iterdir(), None) is not None

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Return whether the object, or one below it, exists."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Generator[Self, None, None]:
        """Yield the direct children."""
        yield from (self / name for name in children(str(self)))


def store_path(url: str) -> StorePath:
    """Return the path of a URL."""
    return StorePath(url.replace(":///", f"://{_NO_HOST}/", 1))


def _allowed(path: StorePath, ask: Callable[[str], T]) -> T:
    try:
        return ask(str(path))
    except PermissionError as error:
        raise denied(str(path), error) from None
