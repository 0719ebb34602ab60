"""Writing the file that -o names, whatever is there already."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.files import telling, write_file


def write_new(path: str, data: bytes) -> None:
    """Write a file for someone, unless there is one of that name; raise UsageError then."""
    if os.path.lexists(path) and not is_stream(path):
        raise UsageError(f"{path} exists already", hint="choose another name", path=path)
    write_out(path, data)


def refuse_no_file(path: str, example: str) -> None:
    """Raise UsageError if -o names what cannot become a file: known before the work is done."""
    folder = os.path.dirname(os.path.realpath(path)) if path else ""
    hint = f"give a file with -o, such as {example}"
    if path == "-":
        raise UsageError("-o - is no file", hint=hint)
    if not path or is_stream(path):
        return
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder", hint=hint)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is neither a file nor a stream", hint=hint)
    if not os.path.isdir(folder):
        shown = folder if os.path.islink(path) else os.path.dirname(path)
        why = "is no folder" if os.path.lexists(folder) else "does not exist"
        hint = "make that folder first, or give another path with -o"
        raise UsageError(f"cannot write {path}: {shown} {why}", hint=hint)


def write_out(path: str, data: bytes) -> None:
    """Write what -o asks for; errors speak of that option.

    A file that is there is replaced when the new one is whole. A link stays, and what it leads to
    is written. A stream (see `is_stream`) is written into.
    """
    try:
        with telling(path):
            if is_stream(path):
                _write_into(path, data)
                return
            if os.path.islink(path):
                _refuse_guarded_link(path)
        write_file(os.path.realpath(path), data)
    except ExecutionError as error:
        hint = error.hint.replace("--data-dir", "-o").replace(": a pack goes on from there", "")
        raise ExecutionError(str(error), hint=hint, path=path) from error


def is_stream(path: str) -> bool:
    """Tell whether a path leads to a pipe, a terminal, a device such as /dev/null, or our output.

    Putting a file in its place would take it from everyone who uses it.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    is_device = stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return is_device or _own_output(status) is not None


def _own_output(status: os.stat_result) -> int | None:
    """Return the descriptor of our output or errors, if a file is that."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), status):
                return descriptor
    return None


def _write_into(path: str, data: bytes) -> None:
    own = _own_output(os.stat(path))  # opened again, a file would be written from its beginning
    descriptor = os.dup(own) if own else os.open(path, os.O_WRONLY | os.O_NOCTTY)
    with open(descriptor, "wb", buffering=0) as stream:
        view = memoryview(data)
        while view:
            view = view[stream.write(view) or 0 :]


def _refuse_guarded_link(path: str) -> None:
    """Raise OSError if the system does not let us follow a link, as one of others in /tmp."""
    with suppress(FileNotFoundError):
        os.close(os.open(path, os.O_WRONLY))
