"""Paths of datasets, on a disk or on an object store."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import BinaryIO

from imgrec.errors import UsageError
from imgrec.storage.urls import is_url, scheme_of
from imgrec.text import given_path, name_of, printable


def to_path(text: str) -> Path:
    """Return what is read through pathlib's methods, wherever it is; `~` is a home."""
    if is_url(text):
        from imgrec.storage.remote.path import store_path

        return store_path(text)
    # pathlib's own raises for users that there are not.
    return Path(os.path.expanduser(given_path(text)))


def is_remote(path: Path | str) -> bool:
    """Tell whether a path is on an object store."""
    return is_url(os.fspath(path))


def refuse_remote(text: str, what: str) -> None:
    """Raise UsageError if something is on an object store, where `what` does not work."""
    if is_url(text):
        raise UsageError(
            f"{what} does not work on an object store: {text}",
            hint="give a folder on this machine; imgrec pack, info, verify, unpack, head and show "
            "take URLs",
        )


def refuse_unwritable(text: str) -> None:
    """Raise UsageError for URLs of the web, which can only be read."""
    if is_url(text) and scheme_of(text) in ("http", "https"):
        raise UsageError(
            f"--data-dir {text} is a page of the web, and nothing can be written there",
            hint="give a folder, or the URL of a store, such as s3://bucket/datasets",
        )


def seekable(path: Path) -> str | BinaryIO:
    """Return what a library can read that knows files only: the path, or all that is there.

    pyarrow takes no paths that are not UTF-8, or that the locale writes otherwise. Raises OSError
    for what is no file.
    """
    if is_remote(path):
        return io.BytesIO(path.read_bytes())
    refuse_pipe(path)
    text = str(path)
    return text if printable(name_of(text)) == text else io.BytesIO(path.read_bytes())


def refuse_pipe(path: Path) -> None:
    """Raise OSError for what is there and no file: who opens a pipe may wait for ever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
