"""Files that the user names, on a disk or a store: tables to read, and the output of -o."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

from imgrec.errors import UsageError
from imgrec.storage.files import os_errors_as, write_all, write_file
from imgrec.storage.paths import is_remote, refuse_unwritable, to_path
from imgrec.text import size

_MOST_BYTES = 16 << 20
_OWN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that a shell opens for us, as for `<(sort names.txt)`."""


@contextmanager
def local_file(path: str) -> Iterator[str]:
    """Yield the path of a file on this machine: the given one, or a copy of the object at a URL."""
    if not is_remote(path) or not to_path(path).is_file():
        yield path
        return
    from imgrec.storage.remote.transfer import download_all

    name = to_path(path).name
    with TemporaryDirectory(prefix=".imgrec-") as folder:
        yield download_all({name: path}, folder)[name]


def read_small_text(path: str, called: str, hint: str) -> str:
    """Return the text of a file; raise UsageError if it cannot be read.

    `called` is the option and its value. Devices, which may never end, and named pipes, which may
    have no writer, are refused. The shell's own pipes have a writer.
    """
    with local_file(os.path.expanduser(path)) as here:
        return _read_small_text(here, path, called, hint)


def _read_small_text(here: str, path: str, called: str, hint: str) -> str:
    try:
        # Opening a named pipe without O_NONBLOCK waits until someone writes to it.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(here, flags)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            is_own_pipe = stat.S_ISFIFO(mode) and path.startswith(_OWN_PIPES)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_own_pipe):
                raise UsageError(f"{called} is not a regular file", hint=hint, path=path)
            os.set_blocking(descriptor, True)
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {called}: {error.strerror}", hint=hint, path=path) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{called} is larger than {size(_MOST_BYTES)}", hint=hint, path=path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{called} is not UTF-8 text", hint="save it as UTF-8", path=path
        ) from error


def write_new(path: str, data: bytes) -> None:
    """Write a new file; raise UsageError if it exists."""
    refuse_existing(path, "choose another name")
    write_out(path, data)


def refuse_existing(path: str, hint: str) -> None:
    """Raise UsageError if a file would be replaced."""
    is_there = to_path(path).is_file() if is_remote(path) else os.path.lexists(path)
    if is_there and not is_stream(path):
        raise UsageError(f"{path} exists already", hint=hint, path=path)


def refuse_no_file(path: str, example: str) -> None:
    """Raise UsageError before the work begins if -o cannot be written."""
    hint = f"give a file with -o, such as {example}"
    if is_remote(path):
        refuse_unwritable(path, "-o ")
        if path.endswith("/"):
            raise UsageError(f"{path} is a folder", hint=hint)
        return
    folder = os.path.dirname(os.path.realpath(path)) if path else ""
    if path == "-":
        raise UsageError("-o - is not a file", hint=hint)
    if not path or is_stream(path):
        return
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder", hint=hint)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is neither a file nor a stream", hint=hint)
    if not os.path.isdir(folder):
        shown = folder if os.path.islink(path) else os.path.dirname(path)
        why = "is not a folder" if os.path.lexists(folder) else "does not exist"
        hint = "make that folder first, or give another path with -o"
        raise UsageError(f"cannot write {path}: {shown} {why}", hint=hint)


def write_out(path: str, data: bytes) -> None:
    """Write the file of -o; error messages name that option.

    An existing file is replaced once the new one is complete. The target of a link is written and
    the link stays. A stream (see `is_stream`) is written to.
    """
    if is_remote(path):
        from imgrec.storage.remote.transfer import put_bytes

        put_bytes(path, data)
        return
    with os_errors_as(path, "-o"):
        if is_stream(path):
            _write_into(path, data)
            return
        with suppress(FileNotFoundError):
            if os.path.islink(path):  # the system may forbid to follow it, such as in /tmp
                os.close(os.open(path, os.O_WRONLY))
    write_file(os.path.realpath(path), data, option="-o")


def is_stream(path: str) -> bool:
    """Return whether a path is a pipe, a terminal, a device such as /dev/null, or our own output.

    Replacing it by a file would break it for everyone who uses it.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    is_device = stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return is_device or _own_output(status) is not None


def _own_output(status: os.stat_result) -> int | None:
    """Return the descriptor of our standard output or error if this is that file."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), status):
                return descriptor
    return None


def _write_into(path: str, data: bytes) -> None:
    own = _own_output(os.stat(path))  # reopening it would overwrite its beginning
    descriptor = os.dup(own) if own else os.open(path, os.O_WRONLY | os.O_NOCTTY)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
