"""Small text files that people write by hand and name in an option."""

from __future__ import annotations

import os
import stat

from imgrec.errors import UsageError
from imgrec.text import size

_MOST_BYTES = 16 << 20
_OWN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a shell puts the pipes that it opened for us, as for `<(sort names.txt)`."""


def read_small_text(path: str, called: str, hint: str) -> str:
    """Return the text of a file; raise UsageError, which says what is wrong with it.

    `called` is the option and its value. A device, which may never end, is refused, and so is a
    named pipe, which may have no writer; the shell's own pipes have one.
    """
    try:
        # Opening a named pipe without O_NONBLOCK waits until someone writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
