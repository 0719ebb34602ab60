"""Whole files of a dataset on a store, kept in a folder on this machine.

Processes share the folder. A file is written under another name, compared with its checksum and
renamed, so a file under its own name is complete. Locks of the kernel, which end with their
process, show what is in use:

    a process that writes a copy    holds its unfinished file alone
    a process that reads a copy     holds it together with other readers
    a process that makes room       holds the folder; it deletes only what nobody holds
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from imgrec.errors import DatasetError, ExecutionError
from imgrec.storage.blobs import OpenFile
from imgrec.storage.files import PART, holds, os_errors_as, write_all
from imgrec.storage.remote.read import parts_of, read_ahead, read_object, stat_object
from imgrec.text import size as shown_size

_log = logging.getLogger(__name__)

_SUMS = "SHA256SUMS"
_FETCHERS = 4
"""How many files a process fetches at once, each in several requests."""
_PAUSE_S = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Cache:
    """Copies of files of one dataset."""

    def __init__(self, url: str, cache_dir: str, most_bytes: int | None = None) -> None:
        """Read the checksums; raise DatasetError if there are none.

        All datasets in `cache_dir` together take at most `most_bytes`, as long as each cache is
        opened with that number.
        """
        self.url = url
        self.most_bytes = most_bytes
        self._is_warned = False
        try:
            sums = read_object(f"{url}/{_SUMS}")
        except OSError as error:
            raise DatasetError(
                f"{url} has no {_SUMS}, so a copy cannot be checked",
                hint="leave out cache_dir",
                path=url,
            ) from error
        lines = (line.partition("  ") for line in sums.decode("utf-8", "replace").splitlines())
        self._sums = {name: digest for digest, _, name in lines}
        self._top = Path(os.path.expanduser(cache_dir))
        # Named after the checksums: a dataset that replaces another has files of its own.
        name = f"{Path(url).parent.name}-{hashlib.sha256(sums).hexdigest()[:16]}"
        self.folder = self._top / name
        """Where the copies are, under their names."""

    def begin(self, name: str) -> Future[OpenFile | None]:
        """Start to `open` a file."""
        return _fetchers(os.getpid()).submit(self.open, name)

    def open(self, name: str) -> OpenFile | None:
        """Return an open copy of a file, fetched if there is none; None if there is no room for it.

        Nobody deletes the copy while it is open. Raises OSError if the store does not have the
        file, DatasetError if it does not match its checksum, and ExecutionError if it cannot be
        written.
        """
        path = self.folder / name
        with os_errors_as(path, "cache_dir"):
            self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            if (found := _open_copy(path)) is not None:
                return found
            part = Path(f"{path}{PART}")
            with os_errors_as(part, "cache_dir"):
                file = OpenFile(os.open(part, _FLAGS, 0o666))
                # Not a lock that waits: it would wait for those who read the file, too.
                is_mine = _try_lock(file.descriptor) and holds(file.descriptor, part)
            if is_mine and not path.exists():
                return file if self._fetch(name, file, part) else None
            if is_mine:  # somebody has just given another one its name
                part.unlink(missing_ok=True)
            time.sleep(_PAUSE_S)

    def forget(self, name: str) -> None:
        """Delete a damaged copy, so that it is fetched again."""
        _log.warning("%s/%s: its copy in %s is damaged", self.url, name, self.folder)
        with suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def _fetch(self, name: str, file: OpenFile, part: Path) -> bool:
        """Copy an object to an open file, and give it its name; return False if it has no room."""
        url, path = f"{self.url}/{name}", self.folder / name
        try:
            os.ftruncate(file.descriptor, 0)  # a process that was killed may have left a part
            size = stat_object(url).size
            if not self._reserve(file.descriptor, size):
                part.unlink()
                self._report_no_room(url, size)
                return False
            _log.info("%s: copying it to %s", url, self.folder)
            digest = hashlib.sha256()
            for _, data in read_ahead(parts_of(url, size)):
                digest.update(data)
                with os_errors_as(path, "cache_dir"):
                    write_all(file.descriptor, data)
            if digest.hexdigest() != self._sums.get(name):
                raise DatasetError(
                    f"{url} does not match {_SUMS}",
                    hint="run `imgrec verify` to list all faults, or pack it again",
                    path=url,
                )
            with os_errors_as(path, "cache_dir"):
                part.rename(path)
                os.utime(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
        _lock(file.descriptor, is_shared=True)
        return True

    def _report_no_room(self, url: str, size: int) -> None:
        limit = self.most_bytes or 0
        if size <= limit or self._is_warned:
            _log.info("%s: %s has no room for a copy", url, self._top)
            return
        self._is_warned = True
        _log.warning(
            "%s has %s, more than cache_bytes (%s): such shards are read from the store each time",
            *(url, shown_size(size), shown_size(limit)),
        )

    def _reserve(self, descriptor: int, size: int) -> bool:
        """Give an unfinished file its size; first delete copies that were not used for longest."""
        with os_errors_as(self.folder, "cache_dir"):
            if self.most_bytes is None:
                return True
            with _locked(self._top):
                found = [(path, path.stat()) for path in self._top.glob("*/*") if path.is_file()]
                total = sum(status.st_size for _, status in found)
                for path, status in sorted(found, key=lambda one: one[1].st_mtime_ns):
                    if total + size <= self.most_bytes:
                        break
                    if _delete_unused(path):
                        total -= status.st_size
                if total + size > self.most_bytes:
                    return False
                os.ftruncate(descriptor, size)
        return True


@lru_cache(maxsize=1)
def _fetchers(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_FETCHERS, thread_name_prefix="imgrec-fetch")


def _open_copy(path: Path) -> OpenFile | None:
    """Open a complete copy, and note that it is in use; None if there is none."""
    with os_errors_as(path, "cache_dir"):
        try:
            file = OpenFile(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)))
        except FileNotFoundError:
            return None
        _lock(file.descriptor, is_shared=True)
        if not holds(file.descriptor, path):  # it has just been deleted
            return None
        with suppress(OSError):  # it may have been deleted, or belong to another user
            os.utime(path)
        return file


def _delete_unused(path: Path) -> bool:
    """Delete a copy, or what a killed process left of one, unless somebody holds it."""
    try:
        file = OpenFile(os.open(path, os.O_RDONLY))
        if not _try_lock(file.descriptor):
            return False
        path.unlink()
    except OSError:
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    file = OpenFile(os.open(folder, os.O_RDONLY))
    _lock(file.descriptor)
    yield
    del file


def _try_lock(descriptor: int) -> bool:
    """Lock an open file alone, until it is closed; return False if others hold it."""
    try:
        _lock(descriptor, waits=False)
    except BlockingIOError:
        return False
    return True


def _lock(descriptor: int, *, is_shared: bool = False, waits: bool = True) -> None:
    """Lock an open file until it is closed; raise BlockingIOError if it may not wait for others."""
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise ExecutionError(
            "cache_dir needs locks of files, which this system does not have",
            hint="leave out cache_dir",
        ) from error
    mode = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, mode if waits else mode | fcntl.LOCK_NB)
