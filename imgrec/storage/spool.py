"""Files for bytes that are needed until a dataset is written, in a folder that goes with it."""

from __future__ import annotations

import os
from collections.abc import Sequence

_SUFFIX = ".spool"


def append(folder: str, pieces: Sequence[bytes]) -> tuple[str, int]:
    """Append pieces to this process's own file in a folder; return its path and their offset.

    Returns ("", 0) if the disk does not take them; they are then in no file.
    """
    path = os.path.join(folder, f"{os.getpid()}{_SUFFIX}")
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            offset = os.lseek(descriptor, 0, os.SEEK_END)
            view = memoryview(b"".join(pieces))
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
    except OSError:
        return "", 0
    return path, offset


def make_folder(folder: str) -> None:
    """Make the folder, for those who write into it by themselves."""
    os.makedirs(folder, exist_ok=True)
