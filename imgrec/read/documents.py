"""The documents of a packed dataset, none of which is trusted to be one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from imgrec.codec.json_values import parse_json
from imgrec.errors import DatasetError, ExecutionError, ImgrecError
from imgrec.storage.paths import refuse_pipe
from imgrec.text import size

_MOST_BYTES = 1 << 28
"""All of which are kept in memory."""
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP})
"""What a path fails with that leads to no file, or to none that can be a document."""


def read_document(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """Read a document; raise OSError also for what is no file, or larger than any document."""
    refuse_pipe(path)
    if path.stat().st_size > most_bytes:
        raise OSError(errno.EFBIG, f"is larger than {size(most_bytes)}", str(path))
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:  # JSON is untyped until it is looked at
    """Read a document that is an object of JSON; raise DatasetError for any other."""
    try:
        value = parse_json(read_document(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise wrong(path) from error
    if not isinstance(value, dict):
        raise wrong(path)
    return value


def unreadable(path: Path, error: OSError) -> ImgrecError:
    """Return the error for a document that is not there, or that the disk does not give."""
    if error.errno == errno.EFBIG:
        return too_large(path, str(error.strerror))
    if error.errno is None or error.errno in _NO_FILE:
        return wrong(path)
    return ExecutionError(
        f"cannot read {path}: {error.strerror}",
        hint="see to it that it can be read, and run this again",
        path=str(path),
    )


def too_large(path: Path, what: str) -> DatasetError:
    """Return the error for a document that is larger than any dataset needs."""
    return DatasetError(
        f"{path} {what}, as only a damaged or hostile dataset has it",
        hint="get the dataset again from a source you trust",
        path=str(path),
    )


def wrong(path: Path) -> DatasetError:
    """Return the error for a document that is not what it should be."""
    return DatasetError(
        f"{path} is not what a packed dataset has there",
        hint="pack it again with --overwrite",
        path=str(path),
    )
