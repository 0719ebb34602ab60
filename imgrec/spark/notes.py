"""Files by which executors tell the driver what is too much to be sent to it.

They are in a folder of the dataset in the making, which all executors see, and never published. A
task that runs twice writes the same ones.
"""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, overload

from imgrec import errors
from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.blobs import read_blob
from imgrec.storage.files import write_file

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER_BYTES = 8
_PIECE_BYTES = 1 << 20
_ERROR = "error.json"


@dataclass(frozen=True)
class Telling:
    """Does what a function does to batches, and notes why it failed if it does."""

    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the function yields."""
        try:
            yield from self.function(batches)
        except ImgrecError as error:
            value = [type(error).__name__, error.message, error.hint, error.path]
            write_note(self.folder, _ERROR, json.dumps(value).encode())
            raise


def told_error(folder: str) -> ImgrecError | None:
    """Return the error that a task has noted, if one has."""
    try:
        name, message, hint, path = json.loads(read_note(folder, _ERROR))
    except ExecutionError:
        return None
    kind: type[ImgrecError] = getattr(errors, name, ExecutionError)
    return kind(message, hint=hint, path=path)


def write_note(folder: str, name: str, data: bytes) -> None:
    """Write a note."""
    write_file(os.path.join(folder, name), data)


def read_note(folder: str, name: str) -> bytes:
    """Read a note; raise ExecutionError if there is none."""
    return b"".join(note_pieces(folder, name))


def note_pieces(folder: str, name: str) -> Iterator[bytes]:
    """Yield a note piece by piece, as it may be large."""
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise ExecutionError(
            f"cannot read what a task has noted in {path}: {error.strerror}",
            hint="--data-dir must be on a disk that all executors and the driver see",
            path=path,
        ) from error


def write_ends(folder: str, name: str, sizes: Iterable[int]) -> int:
    """Note where each of some records ends, counted from the first of them; return the last."""
    ends = array("q", accumulate(sizes))
    write_note(folder, name, ends.tobytes())
    return ends[-1] if ends else 0


class Part(NamedTuple):
    """Some records, one after the other."""

    path: str
    """Of the note that tells where they end."""
    records: int
    total: int
    """The bytes of them all."""


class Ends(Sequence[int]):
    """Where each of many records ends, read from the notes about parts of them as it is asked."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._starts = list(accumulate((part.records for part in parts), initial=0))
        self._bases = list(accumulate((part.total for part in parts), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        part = bisect_right(self._starts, at) - 1
        offset = (at - self._starts[part]) * _NUMBER_BYTES
        data = read_blob((self._parts[part].path, offset), _NUMBER_BYTES)
        return self._bases[part] + array("q", data)[0]
