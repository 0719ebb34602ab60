"""Paths of sources and datasets, on a disk or on an object store."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.urls import is_url, scheme_of
from imgrec.text import given_path, name_of, printable


class FileSystem(NamedTuple):
    """How a file system treats names."""

    folds_case: bool
    composes: bool
    """Whether it treats the two encodings of an accent as equal."""
    strips_dots: bool
    """Whether it drops a dot at the end of a name."""
    has_devices: bool
    """Whether names such as AUX are reserved for devices."""
    takes_bytes: bool
    """Whether it accepts names that are not UTF-8."""
    most_name_bytes: int
    most_path_bytes: int


def to_path(text: str) -> Path:
    """Return a path on this machine or on an object store; expand `~`."""
    if is_url(text):
        from imgrec.storage.remote.read import store_path

        return store_path(text)
    return Path(given_path(text))


def is_remote(path: Path | str) -> bool:
    """Return whether a path is on an object store."""
    return is_url(os.fspath(path))


def refuse_remote(text: str, what: str) -> None:
    """Raise UsageError for a URL; `what` works on local paths only."""
    if is_url(text):
        raise UsageError(
            f"{what} does not work on an object store: {text}",
            hint="give a path on this machine",
        )


def is_web(text: str) -> bool:
    """Tell web URLs, which are read-only, from those of stores and from paths."""
    return is_url(text) and scheme_of(text) in ("http", "https")


def refuse_unwritable(text: str, option: str = "--data-dir ") -> None:
    """Raise UsageError for web URLs."""
    if is_web(text):
        raise UsageError(
            f"{option}{text} is a web URL, which is read-only",
            hint="give a folder, or the URL of a store, such as s3://bucket/datasets",
        )


def refuse_miscount(place: str, expected: int, found: int) -> None:
    """Raise ExecutionError if a tree has another number of files than were written."""
    if found != expected:
        raise ExecutionError(
            f"expected {expected:,} files in {place}, found {found:,}",
            hint="is another program writing there? Run it again when it is done",
            path=place,
        )


def seekable(path: Path) -> str | BinaryIO:
    """Return the path, or its bytes as a file object if pyarrow cannot open the path.

    pyarrow accepts neither URLs nor paths that are not UTF-8. Raises OSError for anything but a
    regular file.
    """
    if is_remote(path):
        return io.BytesIO(path.read_bytes())
    if path.exists() and not path.is_file():  # opening a pipe may block for ever
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    text = str(path)
    return text if printable(name_of(text)) == text else io.BytesIO(path.read_bytes())
