"""Writing, locking and removing files and folders."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128

from imgrec.errors import ExecutionError

_log = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
PART = ".part"
"""The suffix of an unfinished file."""
_SPOOL = ".spool"
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_HARD_LINKS = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
)
"""Errors of file systems without hard links, or of another disk."""
_LOCK_TRIES, _LOCK_PAUSE_S = 100, 0.01


class Seal(NamedTuple):
    """Name, size and hash of a written file."""

    filename: str
    size: int
    sha256: str


OnWritten: TypeAlias = Callable[[str, int], object]
"""Called with the path of an unfinished file, and how many bytes of it are written and final."""


class HashingFile:
    """A new file, unbuffered, that counts and hashes what is written to it."""

    def __init__(self, descriptor: int, path: str, on_written: OnWritten | None = None) -> None:
        self._descriptor = descriptor
        self._path, self._on_written = path, on_written
        self._sha256 = hashlib.sha256()
        self._xxh3 = xxh3_128()
        self.position = 0

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._sha256.update(data)
        self._xxh3.update(data)
        self.position += len(data)
        write_all(self._descriptor, data)
        if self._on_written:
            self._on_written(self._path, self.position)

    def sha256(self) -> str:
        """Return the SHA-256 of everything written so far."""
        return self._sha256.hexdigest()

    def xxh3(self) -> str:
        """Return the XXH3 hash of everything written so far. It is ten times as fast to check."""
        return self._xxh3.hexdigest()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; a single `os.write` may take only a part of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextmanager
def create(
    path: str,
    *,
    expected_bytes: int = 0,
    option: str = "--data-dir",
    on_written: OnWritten | None = None,
) -> Iterator[HashingFile]:
    """Write a file of an unfinished dataset. It gets its name only when it is complete.

    `expected_bytes` are reserved first, so that a full disk is found before the work is done.
    Raises ExecutionError if the disk refuses the file. After any error nothing of it remains.
    """
    with renamed_when_complete(path, option) as part:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _reserve(descriptor, expected_bytes)
            file = HashingFile(descriptor, part, on_written)
            yield file
            os.ftruncate(descriptor, file.position)
        finally:
            os.close(descriptor)


@contextmanager
def renamed_when_complete(path: str, option: str = "--data-dir") -> Iterator[str]:
    """Yield a temporary path to write to; rename it to `path` at the end.

    Raises ExecutionError if that fails. After any error nothing of the file remains.
    """
    part = part_of(path)
    try:
        yield part
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError):
            raise write_error(path, error, option) from error
        raise


def part_of(path: str) -> str:
    """Return a unique name for a file until it is complete.

    Engines may run a task twice at once. The two attempts must not write into the same file. Their
    bytes are the same, so it does not matter which of them gets its final name last.
    """
    return f"{path}.{os.urandom(6).hex()}{PART}"


def _reserve(descriptor: int, count: int) -> None:
    if not count or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise  # those three mean that the file system cannot reserve; others, a full disk


def write_file(path: str, data: bytes, *, option: str = "--data-dir") -> Seal:
    """Write a file and return its seal."""
    with create(path, option=option) as file:
        file.write(data)
    return Seal(os.path.basename(path), file.position, file.sha256())


def write_blocks(path: str, blocks: Iterable[bytes]) -> None:
    """Write blocks as a new temporary file, making its folder if necessary.

    Unlike the files of a dataset it is not hashed: that would cost a tenth of unpacking it. Raises
    ExecutionError if the disk refuses it. Other errors, raised by `blocks`, pass through. After any
    error nothing of the file remains.
    """
    with os_errors_as(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for block in blocks:
            write_all(descriptor, block)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(path)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise
    finally:
        os.close(descriptor)


def append_to_spool(folder: str, pieces: Sequence[bytes]) -> tuple[str, int]:
    """Append pieces to this process's own file in a folder; return its path and their offset.

    Returns ("", 0) if the disk refuses them. Copying many tiny files here while they are scanned,
    instead of opening each a second time, packed 200,000 of them 12 % faster.
    """
    path = os.path.join(folder, f"{os.getpid()}{_SPOOL}")
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            offset = os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, b"".join(pieces))
        finally:
            os.close(descriptor)
    except OSError as error:
        _log.info("cannot copy small files to %s: %s", folder, error.strerror)
        return "", 0
    return path, offset


def free_bytes(folder: str) -> int:
    """Return how much room is left on the disk of a folder, which need not exist yet."""
    place = Path(folder)
    while not place.exists() and place != place.parent:
        place = place.parent
    with os_errors_as(folder):
        return shutil.disk_usage(place).free


def seal_of(path: str) -> Seal:
    """Hash a file that a library has written."""
    with os_errors_as(path), open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return Seal(os.path.basename(path), file.tell(), sha256)


def is_intact(folder: str, seal: Seal) -> bool:
    """Return whether a file still has the size and hash of its seal."""
    path = os.path.join(folder, seal.filename)
    try:
        return os.path.getsize(path) == seal.size and seal_of(path) == seal
    except (OSError, ExecutionError):
        return False


def has_xxh3(path: str, size: int, expected: str) -> bool:
    """Return whether a file has that size and XXH3 hash."""
    hasher, count = xxh3_128(), 0
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(_READ_BYTES):
                hasher.update(piece)
                count += len(piece)
    except OSError:
        return False
    return count == size and hasher.hexdigest() == expected


def link_or_copy(source: str, path: str) -> None:
    """Give a file that never changes another name; copy it where the disk has no links.

    File systems that can share the blocks of a copy do so. Raises ExecutionError if the disk
    refuses it.
    """
    with os_errors_as(path):
        try:
            os.link(source, path)
            return
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
    _log.info("%s: this disk has no hard links, so the file is copied", path)
    with renamed_when_complete(path) as part, open(source, "rb") as old, open(part, "wb") as new:
        while count := os.fstat(old.fileno()).st_size - new.tell():
            if not _copy_some(old.fileno(), new.fileno(), count):
                raise OSError(errno.EIO, "it is shorter than it was", source)
            new.seek(0, os.SEEK_END)


def _copy_some(source: int, target: int, count: int) -> int:
    if hasattr(os, "copy_file_range"):
        with suppress(OSError):  # not on all file systems
            return os.copy_file_range(source, target, count)
    data = os.read(source, _READ_BYTES)
    write_all(target, data)
    return len(data)


def remove(*paths: str) -> None:
    """Delete files, if they exist."""
    for path in paths:
        with os_errors_as(path), suppress(FileNotFoundError):
            os.unlink(path)


def remove_all(path: str | os.PathLike[str]) -> None:
    """Delete a file, a link, or a folder with its contents, if it exists."""
    with suppress(FileNotFoundError):
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return
        try:
            shutil.rmtree(path)
        except RecursionError:  # more than about 1,000 levels
            made = []
            for folder, folders, names in walk(os.fspath(path)):
                made.append(folder)
                links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
                for name in (*names, *links):
                    os.unlink(os.path.join(folder, name))
            for folder in reversed(made):
                os.rmdir(folder)


def walk(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield path, folder names and other names of each folder, as `os.walk` does, at any depth.

    `os.walk` (before Python 3.12), `os.makedirs` and `shutil.rmtree` fail beyond about 1,000
    levels. Links are not followed. The caller may change the list of folders.
    """
    stack = [root]
    while stack:
        path = stack.pop()
        folders: list[str] = []
        names: list[str] = []
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                (folders if entry.is_dir() else names).append(entry.name)
        yield path, folders, names
        below = [os.path.join(path, name) for name in reversed(folders)]
        stack.extend(folder for folder in below if not os.path.islink(folder))


def make_folders(path: str) -> None:
    """Make a folder and all missing folders above it, at any depth; raise OSError if refused."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another worker may have made it
            os.mkdir(folder)


def make_locked(path: Path) -> int:
    """Make a folder if necessary, and return a descriptor that holds its lock until it is closed.

    The kernel releases the lock when the process ends, however it ends. Raises BlockingIOError if
    another process holds it for more than a second: those that only test the lock or remove a small
    folder are faster. May raise other OSErrors.
    """
    for attempt in range(_LOCK_TRIES):
        try:
            path.mkdir(parents=True, exist_ok=True)
            return lock(path)
        except (BlockingIOError, FileNotFoundError):  # the folder has just been removed
            if attempt + 1 == _LOCK_TRIES:
                raise
        time.sleep(_LOCK_PAUSE_S)
    raise AssertionError(path)


def lock(path: Path) -> int:
    """Lock an existing folder, as `make_locked` does, without waiting."""
    import fcntl  # Windows has none, and does not pack

    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | NO_LINKS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not holds(descriptor, path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def holds(descriptor: int, path: Path) -> bool:
    """Return whether a lock belongs to the folder that is at `path` now."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), status)


@contextmanager
def os_errors_as(path: str | os.PathLike[str], option: str = "--data-dir") -> Iterator[None]:
    """Turn an OSError into an ExecutionError that says why `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise write_error(os.fspath(path), error, option) from error


def write_error(path: str, error: OSError, option: str = "--data-dir") -> ExecutionError:
    """Say why `path` could not be written, and what to do.

    `option` chose the path; "" if it is an argument.
    """
    by = f" with {option}" if option else ""
    hints = {
        errno.ENOSPC: f"free some space and run it again, or choose another disk{by}",
        errno.EDQUOT: f"your quota is used up: choose another disk{by}",
        errno.EBUSY: f"if it is a mount point, choose a folder in it{by}",
        errno.ENOLCK: f"its file system has no locks: choose another disk{by}",
        **dict.fromkeys(
            (errno.EACCES, errno.EPERM, errno.EROFS), f"choose a folder you may write to{by}"
        ),
    }
    return ExecutionError(
        f"cannot write {path}: {error.strerror or error}",
        hint=hints.get(error.errno or 0, f"choose another place{by}"),
        path=path,
    )
