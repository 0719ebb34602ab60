"""The records of a shard, framed as TFRecord, with all that is wrong with their frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from imgrec.codec import tfrecord
from imgrec.codec.compression import Decompressed
from imgrec.errors import CorruptRecord
from imgrec.inspection.files import RegularFile

_LENGTH_BYTES, _HEAD_BYTES, _FOOT_BYTES = 8, 12, 4
_MOST_BYTES = 1 << 30
"""Of a record: somewhat more than the largest image that is packed."""
_LOST = "what follows cannot be read"


class Frame(NamedTuple):
    """One record, or what stands in its place."""

    offset: int
    length: int
    """Of the whole frame; 0 where it cannot be told, and then it is the last one."""
    payload: bytes
    fault: str = ""
    """Why the payload is empty, if it should not be."""


def shard_frames(
    file: RegularFile, compression: str, told: Sequence[tuple[int, int]] = ()
) -> Iterator[Frame]:
    """Yield the records of an open shard, be it compressed or not."""
    if not compression:
        return frames(file.read, file.size, told)
    # It asks for no more than to read on and to tell how far it is.
    stream = Decompressed(file, compression, path="")  # type: ignore[arg-type]
    return frames(stream.read, None, told)


def frames(
    read: Callable[[int], bytes], size: int | None, told: Sequence[tuple[int, int]]
) -> Iterator[Frame]:
    """Yield every record of a stream of `size` bytes, or of as many as there are.

    `told` are offset and length of each by the index: they help past a length that is damaged.
    Nothing is read on the strength of a length that cannot be right.
    """
    offset = place = 0
    was_lost = False
    while True:
        try:
            frame, is_lost = _next(read, offset, size, told[place : place + 1])
        except CorruptRecord as error:  # the stream under the records is damaged
            text = str(error).removeprefix(f"{error.path}: ")
            yield Frame(offset, 0, b"", f"{text}; {_LOST}")
            return
        if frame is None:
            return
        if is_lost and was_lost:  # so the index is of no help either
            yield Frame(offset, 0, b"", f"no record begins here; {_LOST}")
            return
        yield frame
        if not frame.length:
            return
        offset += frame.length
        place += 1
        was_lost = is_lost


def _next(
    read: Callable[[int], bytes], offset: int, size: int | None, told: Sequence[tuple[int, int]]
) -> tuple[Frame | None, bool]:
    """Return the next record, and whether only the index knows how long it is."""
    head = read(_HEAD_BYTES)
    if not head:
        return None, False
    if len(head) < _HEAD_BYTES:
        return Frame(offset, 0, b"", f"{len(head)} bytes that are no record"), False
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    fault = ""
    is_lost = not tfrecord.begins(head)
    if is_lost:
        fault = "wrong checksum of a record's length"
        length = told[0][1] - tfrecord.OVERHEAD if told and told[0][0] == offset else -1
        if length < 0:
            return Frame(offset, 0, b"", f"{fault}; {_LOST}"), False
    most = _MOST_BYTES if size is None else min(size - offset - tfrecord.OVERHEAD, _MOST_BYTES)
    if length > most:
        what = f"a record of {length:,} bytes, where there can be {max(most, 0):,} at most"
        return Frame(offset, 0, b"", f"{fault or what}; {_LOST}"), False
    payload, foot = read(length), read(_FOOT_BYTES)
    if len(payload) < length or len(foot) < _FOOT_BYTES:
        return Frame(offset, 0, b"", fault or "a record that is cut short"), False
    if not fault and tfrecord.frame(payload)[1] != foot:
        fault = "wrong checksum of a record"
    return Frame(offset, tfrecord.OVERHEAD + length, b"" if fault else payload, fault), is_lost
