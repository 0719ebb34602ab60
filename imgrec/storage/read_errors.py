"""Errors of reading: those of a single file, and those of a disk or store.

Only a file's own faults (it is missing, not readable, or not a regular file) make it a bad image.
Anything else (EIO, ESTALE, EMFILE, a folder without access, a disk that is no longer mounted, a
store that denies access) may be temporary and would cost good images. It ends the run, which keeps
its finished shards.
"""

from __future__ import annotations

import errno
import os
import stat
from glob import escape
from shlex import quote

from imgrec.errors import BadImage, ExecutionError
from imgrec.model import Blob
from imgrec.text import printable

GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
DENIED = frozenset({errno.EACCES, errno.EPERM})
_ODD = frozenset({errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO})
"""Errors for circular links, names that are too long, folders and sockets."""
_RUN_AGAIN = "run it again: finished shards are reused"


def image_fault(error: OSError, blob: Blob, name: str = "") -> BadImage:
    """Return BadImage if an error concerns one blob alone; else raise ExecutionError.

    `name` is the name of the image in the source.
    """
    if not isinstance(blob, str):  # a part of a file that holds other images too
        raise read_error(error, blob[0], name)
    if "://" in blob:
        return _object_fault(error, blob, name)
    if error.errno in GONE:
        _refuse_vanished(blob)
    elif error.errno in DENIED:
        _refuse_closed_folder(blob, name)
    elif error.errno is not None and error.errno not in _ODD and _is_regular(blob):
        raise read_error(error, blob, name)
    return BadImage(f"unreadable: {error.strerror or error}")


def is_temporary(error: OSError) -> bool:
    """Return whether an error about a file or folder may be temporary."""
    return error.errno is not None and error.errno not in GONE | DENIED | _ODD


def read_error(error: OSError, path: str, name: str = "") -> ExecutionError:
    """Return the error that ends a run; `name` is the image in the file."""
    what = path if path.endswith(name.rstrip("/")) else f"{name} in {path}"
    hint = f"if this is temporary, {_RUN_AGAIN}"
    if name:
        hint += f"; to pack without it, pass --exclude {glob_of(name)}"
    return ExecutionError(
        f"cannot read {printable(what)}: {error.strerror or error}", hint=hint, path=path
    )


def glob_of(name: str) -> str:
    """Return a glob, quoted for a shell, that matches only this name.

    >>> glob_of("a b/[1].jpg"), glob_of("rose/")
    ("'a b/[[]1].jpg'", "'rose/*'")
    """
    return quote(printable(escape(name) + ("*" if name.endswith("/") else "")))


def _refuse_vanished(path: str) -> None:
    """Raise ExecutionError if not only a file is gone, but everything beside it.

    A disk that is no longer mounted leaves an empty folder or none.
    """
    folder = os.path.dirname(os.path.realpath(path))  # of the file, if the path is a link
    try:
        with os.scandir(folder) as entries:
            if os.path.exists(path) or next(entries, None) is not None:
                return
        what = "is empty now"
    except OSError as error:
        what = "is gone" if error.errno in GONE else f"cannot be read: {error.strerror}"
    raise ExecutionError(
        f"{printable(folder)} {what}: it held {printable(os.path.basename(path))} when the source "
        "was listed",
        hint=f"is its disk still mounted? When it is back, {_RUN_AGAIN}",
        path=folder,
    )


def _refuse_closed_folder(path: str, name: str) -> None:
    """Raise ExecutionError if a folder above the file denies access."""
    try:
        os.stat(path)
    except OSError as error:
        folder = os.path.dirname(name)
        raise ExecutionError(
            f"cannot open {printable(path)}: {error.strerror}",
            hint="allow access to its folder (chmod +x)"
            + (f", or pass --exclude {glob_of(f'{folder}/')}" if folder else ""),
            path=path,
        ) from error


def _is_regular(path: str) -> bool:
    """Return whether a path is, or may be, a regular file."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _object_fault(error: OSError, url: str, name: str) -> BadImage:
    from imgrec.storage.remote.filesystem import NO_BUCKET, denied

    if isinstance(error, FileNotFoundError) and error.strerror != NO_BUCKET:
        return BadImage(f"unreadable: {error.strerror}")
    fault = denied(url, error)
    if name and isinstance(error, PermissionError):
        fault.hint += f"; to pack without it, pass --exclude {glob_of(name)}"
    raise fault
