"""A temporary file for what grows with the records of a dataset, so that memory does not."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, Generic, Self, TypeVar

from imgrec.errors import ExecutionError

T = TypeVar("T")

_MEMORY_BYTES = 64 << 20
"""Up to this much is kept in memory after all."""
_LAST = 2
"""How many values of a shelf stay in memory, for whoever compares two of them."""


class Spool:
    """A temporary file, in memory as long as it is small; it is gone when this is closed."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(  # noqa: SIM115  # closed by __exit__
            _MEMORY_BYTES, prefix="imgrec-"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        """Append bytes; return where they begin."""
        try:
            start = self._file.seek(0, 2)
            self._file.write(data)
        except OSError as error:
            raise ExecutionError(
                f"cannot keep notes in the temporary folder: {error.strerror}",
                hint="let TMPDIR be a folder with room for about 200 bytes a record",
            ) from error
        return start

    def read(self, start: int, size: int) -> bytes:
        """Return bytes that were written."""
        self._file.seek(start)
        return self._file.read(size)


class Shelf(Mapping[str, T], Generic[T]):
    """Values by name, each read from a spool when it is asked for."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._spans: dict[str, tuple[int, int]] = {}
        self._last: dict[str, T] = {}

    def put(self, name: str, value: T) -> None:
        """Keep a value, which must be one that can be pickled."""
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self._spans[name] = self._spool.write(data), len(data)

    def __getitem__(self, name: str) -> T:
        span = self._spans[name]
        if name not in self._last:
            while len(self._last) >= _LAST:
                del self._last[next(iter(self._last))]
            self._last[name] = pickle.loads(self._spool.read(*span))  # which is our own
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)
