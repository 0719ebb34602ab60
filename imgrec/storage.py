"""The only code that creates, replaces or deletes output.

A dataset is written into a hidden folder beside its target and renamed to its final name when
every file in it is whole and on disk: files are synced before they get their names, folders
before and after the rename. So what is visible under the final name is complete, also after a
power cut; what was not finished is a hidden folder that the next run takes over or removes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from imgrec.errors import ExecutionError

_BUFFER_BYTES = 1 << 20
_PART = ".part"


class Seal(NamedTuple):
    """The evidence of one written file."""

    filename: str
    size: int
    sha256: str


class HashingFile:
    """A new file that counts and hashes what is written to it.

    Bytes are gathered in one buffer of fixed size: a growing `bytearray` was measured to cost
    three times as much as the write itself.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._sha256 = hashlib.sha256()
        self.position = 0

    def write(self, *parts: bytes) -> None:
        """Append `parts`, one after the other."""
        for part in parts:
            end = self._filled + len(part)
            if end > _BUFFER_BYTES:
                self.flush()
                end = len(part)
            if end > _BUFFER_BYTES:
                self._write_out(memoryview(part))
            else:
                self._buffer[self._filled : end] = part
                self._filled = end
            self.position += len(part)

    def flush(self) -> None:
        """Hand what is gathered to the operating system."""
        self._write_out(self._buffer[: self._filled])
        self._filled = 0

    def sha256(self) -> str:
        """Return the hash of everything flushed so far."""
        return self._sha256.hexdigest()

    def _write_out(self, data: memoryview) -> None:
        self._sha256.update(data)
        while data:
            data = data[os.write(self._descriptor, data) :]


@contextmanager
def create(path: Path, *, expected_bytes: int = 0) -> Iterator[HashingFile]:
    """Write a file of a dataset in the making, which gets its name only when it is whole.

    `expected_bytes` are reserved at once: a full disk is known before the work is done, and
    writing was measured to cost a quarter. Raises ExecutionError if the disk does not take the
    file; nothing of it stays then.
    """
    part = path.with_name(path.name + _PART)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _reserve(descriptor, expected_bytes)
            file = HashingFile(descriptor)
            yield file
            file.flush()
            os.ftruncate(descriptor, file.position)
        finally:
            os.close(descriptor)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise write_error(path, error) from error


def _reserve(descriptor: int, count: int) -> None:
    if not count or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise  # others mean that the disk is full; these, that it cannot reserve


def write_file(path: Path, data: bytes) -> Seal:
    """Write a whole file at once and return its seal."""
    with create(path) as file:
        file.write(data)
    return Seal(path.name, file.position, file.sha256())


def remove(*paths: Path) -> None:
    """Delete files that are not to be part of the dataset."""
    for path in paths:
        path.unlink()


def write_error(path: Path, error: OSError) -> ExecutionError:
    """Say why `path` could not be written, and what to do."""
    hints = {
        errno.ENOSPC: "free some space, or choose another disk with --data-dir",
        errno.EDQUOT: "your quota is used up: choose another disk with --data-dir",
        errno.EACCES: "choose a folder you may write to with --data-dir",
        errno.EPERM: "choose a folder you may write to with --data-dir",
        errno.EROFS: "choose a folder you may write to with --data-dir",
    }
    return ExecutionError(
        f"cannot write {path}: {error.strerror or error}",
        hint=hints.get(error.errno or 0, "check --data-dir"),
        path=str(path),
    )


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Staging:
    """The hidden folder in which one dataset grows; locked while this object is open."""

    def __init__(self, target: Path) -> None:
        self._syncing: dict[str, Future[None]] = {}
        self._syncer = ThreadPoolExecutor(max_workers=1)
        self.target = target
        self.path = target.with_name(f".{target.name}.incomplete")
        self._replaced = target.with_name(f".{target.name}.replaced")
        self._lock = -1

    def __enter__(self) -> Staging:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY)
            # The kernel drops this lock with the process, however that ends.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ExecutionError(
                f"another run is packing {self.target} right now",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            ) from error
        except OSError as error:
            raise write_error(self.target, error) from error
        self._restore()
        self._empty()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._syncer.shutdown(cancel_futures=True)
        if self.path.exists() and os.stat(self._lock).st_ino == self.path.stat().st_ino:
            shutil.rmtree(self.path)
            if not any(self.target.parent.iterdir()):
                self.target.parent.rmdir()
        os.close(self._lock)

    def _restore(self) -> None:
        """Bring back what a run that died in mid-replacement had put aside."""
        if not self._replaced.exists():
            return
        if self.target.exists():
            shutil.rmtree(self._replaced)
        else:
            self._replaced.rename(self.target)

    def _empty(self) -> None:
        for leftover in self.path.iterdir():
            leftover.unlink()

    def settle(self, *filenames: str) -> None:
        """Begin to bring finished files to disk, while others are still being written."""
        for filename in filenames:
            self._syncing[filename] = self._syncer.submit(_sync, self.path / filename)

    def publish(self) -> None:
        """Give the folder its final name, at once, replacing what stood there."""
        try:
            self.settle(*({path.name for path in self.path.iterdir()} - set(self._syncing)))
            for filename, done in self._syncing.items():
                if (self.path / filename).exists():  # it may have been removed since
                    done.result()
            _sync(self.path)
            if self.target.exists():
                self.target.rename(self._replaced)
            self.path.rename(self.target)
            _sync(self.target.parent)
        except OSError as error:
            self._restore()
            raise write_error(self.target, error) from error
        shutil.rmtree(self._replaced, ignore_errors=True)


def stamp(path: Path, time_ns: int) -> None:
    """Date a file back to `time_ns`."""
    os.utime(path, ns=(time_ns, time_ns))
