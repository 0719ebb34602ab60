"""The records of a shard once more, in a file format that TFDS reads at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol

from imgrec.errors import ExecutionError
from imgrec.extras import needed
from imgrec.options import AlsoFormat
from imgrec.storage.files import handed_over
from imgrec.text import name_of

_ARRAY_RECORD = "array_record.python.array_record_module"
_EXTRAS: Mapping[AlsoFormat, str] = {AlsoFormat.ARRAY_RECORD: "arrayrecord"}
"""The extra that installs what writes a format. A format is called as its package is."""
_ARRAY_RECORD_OPTIONS = "group_size:1,uncompressed"
"""One record a chunk, as TFDS has it, so that one is read at a time. Uncompressed, as images are
compressed already: that is twice as fast, and the same bytes for every version of zstd."""


class Twin(Protocol):
    """A file that takes records one after the other."""

    def write(self, record: bytes) -> None:
        """Append a record."""
        ...

    def close(self) -> None:
        """Complete the file."""
        ...


class _ArrayRecordFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._writer = import_module(_ARRAY_RECORD).ArrayRecordWriter(
            name_of(path), _ARRAY_RECORD_OPTIONS
        )

    def write(self, record: bytes) -> None:
        self._do(self._writer.write, record)

    def close(self) -> None:
        self._do(self._writer.close)

    def _do(self, action: Callable[..., object], *arguments: bytes) -> None:
        try:
            action(*arguments)
        except RuntimeError as error:
            raise ExecutionError(
                f"cannot write {self._path}: {error}",
                hint="check --data-dir, and how much space is left there",
                path=self._path,
            ) from error


_OPENERS: Mapping[AlsoFormat, Callable[[str], Twin]] = {AlsoFormat.ARRAY_RECORD: _ArrayRecordFile}


@contextmanager
def create_twin(path: str, also: AlsoFormat) -> Iterator[Twin]:
    """Write a file that takes records, and gets its name only when it is whole."""
    with handed_over(path) as part:
        twin = _OPENERS[also](part)
        yield twin
        twin.close()


def require(also: Iterable[AlsoFormat]) -> None:
    """Raise MissingExtra unless what writes these formats is installed."""
    for wanted in also:
        needed(str(wanted), extra=_EXTRAS[wanted], what=f"--also {wanted}")
