"""Writing what must be unpacked before it can be read, as files of a spool."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from imgrec.storage.files import write_error


def write_blocks(path: str, blocks: Iterable[bytes]) -> None:
    """Write blocks, one after another, as a new file in a folder that may not exist yet.

    Unlike a file of a dataset it is not hashed, which would cost a tenth of unpacking it. Raises
    ExecutionError if the disk does not take it. Whatever `blocks` raises, an error of its own but
    no OSError, passes through; nothing of the file stays then.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise write_error(path, error) from error
    try:
        for block in blocks:
            view = memoryview(block)
            while view:
                view = view[os.write(descriptor, view) :]
    except BaseException as error:
        with suppress(OSError):
            os.unlink(path)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise
    finally:
        os.close(descriptor)
