"""Find a dataset by its name or path, and read its files.

It may be on a disk or on a store. Files may be missing, huge or pipes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from imgrec import layout
from imgrec.errors import DatasetError, DatasetNotFound, ExecutionError, ImgrecError
from imgrec.faults import Code, Fault, Faults
from imgrec.storage.hidden import INCOMPLETE, REPLACED, incomplete_path
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote, to_path
from imgrec.storage.urls import is_url
from imgrec.text import suggestion

MAX_DOCUMENT_BYTES = 1 << 28
"""Documents are kept in memory. The report of a million skipped files has about 100 MB."""
_CHUNK_BYTES = 1 << 18
_NOT_A_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP})
"""Errors for a path without a file. All others are the disk's fault, not the dataset's."""
_OPEN_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Opening a pipe must not wait for its writer. Not every system has all of these flags."""
# 64 hexadecimal digits · two blanks · the name of a file in the same folder · line feed
_CHECKSUM_LINE = re.compile(rb"([0-9a-f]{64})  ([^/\0\n]+)")
_TFRECORD_NAMES = (".tfrecord", ".tfrec")
"""Parts of the names of TFRecord files, whoever wrote them."""
_NEEDED = (layout.DATASET_INFO, layout.FEATURES)
RESUME_HINT = "run the same imgrec pack again: it continues from there; imgrec clean removes it"
_BUCKET_PARTS = 2
"""The path of a bucket has two parts: s3:, and its name."""


class RegularFile:
    """A regular file, on a disk or a store, read from front to back.

    Opening anything else raises OSError: reading a pipe would never end.
    """

    def __init__(self, path: str) -> None:
        self._file: BinaryIO
        if is_url(path):
            from imgrec.storage.remote.read import open_stream

            self._file, self.size = open_stream(path)
        else:
            descriptor, self.size = open_regular(path)
            self._file = os.fdopen(descriptor, "rb", buffering=_CHUNK_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only at the end of the file."""
        return self._file.read(size)

    def tell(self) -> int:
        """Return how much has been read."""
        return self._file.tell()


class HashedFile(RegularFile):
    """A regular file that computes the SHA-256 of what is read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes; fewer only at the end of the file."""
        data = self._file.read(size)
        self._sha256.update(data)
        return data

    def finish(self) -> str:
        """Read the rest, and return the hash of the whole file."""
        while self.read(_CHUNK_BYTES):
            pass
        return self._sha256.hexdigest()


def open_regular(path: str) -> tuple[int, int]:
    """Open a local regular file; return its descriptor and its size, or raise OSError."""
    descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor, status.st_size


def read_document(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read a small file; raise OSError if it is not a regular file, or larger than `limit`."""
    if is_remote(path):
        size = path.stat().st_size
        data = path.read_bytes() if size <= limit else b""
    else:
        with RegularFile(str(path)) as file:
            size = file.size
            data = file.read(size) if size <= limit else b""
    if size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return data


def read_start(path: str, size: int) -> tuple[bytes, int]:
    """Return the first bytes of a regular file, and its whole size; raise OSError."""
    if is_url(path):
        from imgrec.storage.remote.read import Span, read_span, stat_object

        return read_span(Span(path, 0, size)), stat_object(path).size
    with RegularFile(path) as file:
        return file.read(size), file.size


def present_files(folder: Path) -> frozenset[str]:
    """Return the names of everything in a folder; nothing if it cannot be listed."""
    if is_remote(folder):
        return frozenset(child.name for child in folder.iterdir())
    try:
        return frozenset(os.listdir(folder))
    except (OSError, ValueError):  # ValueError: a path with a NUL
        return frozenset()


def read_checksums(folder: Path, faults: Faults) -> dict[str, str]:
    """Return the SHA-256 of each file in SHA256SUMS; nothing, with a fault, if it is missing."""
    try:
        data = read_document(folder / layout.CHECKSUMS)
    except OSError as error:
        faults.add(os_fault(error, layout.CHECKSUMS))
        return {}
    if not data.endswith(b"\n"):
        faults.say(Code.NO_LINE_END, layout.CHECKSUMS)
    checksums: dict[str, str] = {}
    offset = 0
    for line in data.split(b"\n")[:-1]:
        match = _CHECKSUM_LINE.fullmatch(line)
        name = os.fsdecode(match[2]) if match else ""
        if match is None or name in (".", ".."):
            faults.say(Code.BAD_CHECKSUM_LINE, layout.CHECKSUMS, offset)
        elif name in checksums:
            faults.say(Code.LISTED_TWICE, layout.CHECKSUMS, offset)
        else:
            checksums[name] = match[1].decode()
        offset += len(line) + 1
    return checksums


def os_fault(error: OSError, name: str) -> Fault:
    """Return the fault for a file that the operating system cannot read."""
    if isinstance(error, FileNotFoundError):
        return Fault(Code.MISSING, name)
    if error.errno == errno.EFBIG:
        return Fault(Code.TOO_LARGE, name, facts={"limit": MAX_DOCUMENT_BYTES})
    reason = error.strerror or str(error)
    return Fault(Code.CANNOT_READ, name, facts={"reason": reason, "errno": error.errno})


def fault_error(folder: Path, fault: Fault, hint: str = "") -> ImgrecError:
    """Return the error to raise for a fault of a document."""
    path = folder / fault.path
    number = fault.facts.get("errno")
    if fault.code is Code.CANNOT_READ and number is not None and number not in _NOT_A_FILE:
        return ExecutionError(
            f"cannot read {path}: {fault.facts['reason']}",
            hint="make sure that it can be read, and run this again",
            path=str(path),
        )
    if fault.code in (Code.TOO_LARGE, Code.TOO_MANY_CLASSES):
        hint = "only a damaged or hostile dataset has this: get it again from a source you trust"
    return DatasetError(
        f"{path}: {fault.what}", hint=hint or "pack it again with --overwrite", path=str(path)
    )


def find_dataset(dataset: str, data_dir: str = "") -> Path:
    """Return the version folder of a dataset; raise DatasetNotFound, which lists what exists.

    `dataset` is a name, `name:version`, or a path: of a version folder, of a dataset's folder (its
    highest version is taken), or of a data directory with one dataset. Text that is written as a
    path is never a name. With `data_dir`, all other text is a name.
    """
    if dataset:
        candidates = places(dataset, data_dir)
        for path in candidates:
            if _is_version_folder(path):
                return path
            if versions := _versions(path):
                return versions[-1]
        path = to_path(dataset)
        if path in candidates and (inside := _datasets(path)):
            if len(inside) == 1:
                return inside[0]
            names = ", ".join(path.parent.name for path in inside)
            raise DatasetNotFound(
                f"{dataset} has more than one dataset: {names}",
                hint=f"give one of them, such as {inside[0].parent}",
                path=dataset,
            )
    raise _not_found(dataset, data_dir)


def previous_version(folder: Path) -> Path:
    """Return the version folder before another one; raise DatasetNotFound if there is none."""
    folder = folder.absolute()  # the parent of "." would be "." again
    versions = _versions(folder.parent)
    earlier = versions[: versions.index(folder)] if folder in versions else []
    if not earlier:
        raise DatasetNotFound(
            f"{folder} has no earlier version beside it",
            hint="give two datasets, such as flowers:1.0.0 flowers:1.1.0",
            path=str(folder),
        )
    return earlier[-1]


def places(dataset: str, data_dir: str = "") -> list[Path]:
    """Return where a dataset may be: under that name, or at that path."""
    name, version = _parse_name(dataset)
    by_name = [_root(data_dir) / name / version] if name else []
    return by_name if by_name and data_dir else [*by_name, to_path(dataset)]


def _root(data_dir: str) -> Path:
    return to_path(data_dir or layout.default_data_dir())


def _parse_name(dataset: str) -> tuple[str, str]:
    """Split "flowers:1.0.0" into name and version; both are "" for a URL or a path."""
    name, _, version = dataset.partition(":")
    return ("", "") if is_remote(dataset) or is_path(dataset) else (name, version)


def is_path(text: str) -> bool:
    """Return whether a text is written as a path, not as a name.

    TFDS writes "name/config" for a config, so that is a path only if it exists.

    >>> is_path("./flowers"), is_path("flowers/"), is_path("flowers:1.0.0")
    (True, True, False)
    """
    is_written_so = text.startswith((os.sep, ".", "~")) or text.endswith(os.sep)
    return is_written_so or (os.sep in text and os.path.lexists(text))


def _not_found(dataset: str, data_dir: str) -> DatasetNotFound:
    root = _root(data_dir)
    name, version = _parse_name(dataset)
    if version and (versions := _versions(root / name)):
        existing = ", ".join(path.name for path in versions)
        return DatasetNotFound(
            f"no version {version} of {name} in {root}", hint=f"there is {existing}", path=dataset
        )
    for path in places(dataset, data_dir) if dataset else ():
        if problem := _problem(path):
            what, hint = problem
            return DatasetNotFound(what, hint=hint, path=str(path))
    if is_remote(dataset):
        return _not_found_at(dataset)
    if data_dir and name and os.path.isdir(dataset):
        return DatasetNotFound(
            f"no dataset {dataset!r} in {root}",
            hint=f"for the folder of that name here, write ./{dataset}",
            path=dataset,
        )
    names: list[str] = []
    with suppress(ExecutionError):  # a store that does not answer only costs the hint
        names = [path.parent.name for path in _datasets(root)]
    existing = suggestion(names, dataset, most=3)
    return DatasetNotFound(
        f"no dataset {dataset!r}: it is neither a dataset's folder nor a name in {root}",
        hint=f"{existing} in {root}; give --data-dir or a path if it is elsewhere",
        path=dataset,
    )


def _not_found_at(url: str) -> DatasetNotFound:
    path = to_path(url)
    hint = "give the folder of a dataset, or a data directory with one in it"
    for folder in (path, *([path.parent] if len(path.parts) > _BUCKET_PARTS else ())):
        with suppress(ExecutionError):  # a folder that cannot be listed only costs the hint
            if names := [
                name for name in sorted(present_files(folder)) if not name.startswith(".")
            ]:
                hint = f"{suggestion(names, path.name)} in {folder}"
                break
    return DatasetNotFound(f"there is no dataset at {url}", hint=hint, path=url)


def _problem(path: Path) -> tuple[str, str] | None:
    """Return why an existing path is not a dataset, and what to do about it."""
    if is_file(path):
        return f"{path} is a file", f"give the folder of the dataset, such as {path.parent}"
    for folder in (path, *folders_in(path)):
        names = present_files(folder)
        missing = [name for name in _NEEDED if not is_file(folder / name)]
        if missing and folder.name.endswith(INCOMPLETE):
            return _unfinished(folder)
        if missing and (hidden := unfinished_beside(folder)):
            return _unfinished(hidden)
        if folder.name.endswith(REPLACED):
            hint = "run that pack again, or imgrec clean, which restores it"
            return f"a pack that would have replaced it was interrupted: it is in {folder}", hint
        if len(missing) == 1:
            hint = "restore it, or pack the dataset again with --overwrite"
            return f"{folder} has no {missing[0]}", hint
        if any(mark in name for name in names for mark in _TFRECORD_NAMES):
            return (
                f"{folder} has TFRecords, but no {' and no '.join(missing)} to describe them",
                "pack the images, or write these files with tfds.folder_dataset.write_metadata",
            )
    return None


def unfinished_beside(folder: Path) -> Path | None:
    """Return the hidden folder of an unfinished pack into a version folder, if there is one.

    On a store, finished shards are in the version folder itself, and only notes are hidden.
    """
    if layout.parse_version(folder.name) is None:
        return None
    hidden = incomplete_path(folder)
    is_present = hidden.is_dir() if is_remote(hidden) else os.path.isdir(hidden)
    return hidden if is_present else None


def _unfinished(folder: Path) -> tuple[str, str]:
    if folder not in find_leftovers(folder.parent):
        return f"it is being packed right now, in {folder}", "wait for it"
    return f"a pack was interrupted: {folder}", RESUME_HINT


def _is_version_folder(path: Path) -> bool:
    return all(is_file(path / name) for name in _NEEDED)


def is_file(path: Path) -> bool:
    """Return whether there is a file; False if it may not be accessed."""
    # os.path.isfile is False for a path that may not be accessed, where pathlib raises.
    return path.is_file() if is_remote(path) else os.path.isfile(path)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder; False if it may not be accessed."""
    return path.is_dir() if is_remote(path) else os.path.isdir(path)


def _versions(path: Path) -> list[Path]:
    """Return the version folders directly below `path`, the highest last."""
    numbered = [
        (number, child)
        for child in folders_in(path)
        if (number := layout.parse_version(child.name)) and _is_version_folder(child)
    ]
    return [child for _, child in sorted(numbered)]


def _datasets(data_dir: Path) -> list[Path]:
    """Return the highest version folder of each dataset directly below `data_dir`."""
    return [versions[-1] for child in folders_in(data_dir) if (versions := _versions(child))]


def folders_in(path: Path) -> Iterator[Path]:
    """Yield the folders directly below `path`, sorted; on a store, those that datasets may use."""
    names = sorted(present_files(path))
    if is_remote(path):  # checking takes a request each, and no dataset has a dot in its name
        return (path / name for name in names if "." not in name or layout.parse_version(name))
    return (path / name for name in names if os.path.isdir(path / name))
