"""Reading compressed shards, whose records come one after the other and not by number."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, groupby, pairwise
from typing import BinaryIO, NoReturn

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.codec.compression import GZIP, ZLIB, Decompressed, beginning
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.storage.urls import is_url

_HEAD_BYTES = 1 << 12
_HINT = "go through a whole split, `for record in split`, or pack without --compression"


def read_shard(path: str, compression: str) -> Generator[tuple[int, bytes], None, None]:
    """Yield the offset and payload of each record of a shard, checking both checksums.

    Offsets are those before compression. Memory is bounded by the longest record that protobuf
    takes, whatever a compressed file says. Raises CorruptRecord at the first byte that is wrong,
    and DatasetError if there is nothing to read.
    """
    try:
        with open_shard(path) as file:
            if compression or is_url(path):
                read = Decompressed(file, compression, path=path).read if compression else file.read
                yield from tfrecord.stream_records(read, path=path)
            else:
                yield from tfrecord.read_records(file, path=path)
    except OSError as error:
        raise DatasetError(
            f"cannot read {path}: {error.strerror}",
            hint="restore that shard of the dataset, or pack it again",
            path=path,
        ) from error


def open_shard(path: str) -> BinaryIO:
    """Open a shard, on a disk or on a store, to be read from front to back."""
    if is_url(path):
        from imgrec.storage.remote.reading import open_stream

        return open_stream(path)[0]
    return open(path, "rb", opener=_open_at_once)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe in its place would wait for its writer


class CompressedShards:
    """The records of all shards of a compressed dataset, numbered as in `Shards`."""

    def __init__(self, info: DatasetInfo) -> None:
        self._compression = info.compression
        self._paths = tuple(
            os.path.join(info.path, name)
            for split in info.splits
            for name in layout.shard_filenames(info, split)
        )
        lengths = [length for split in info.splits for length in split.shard_lengths]
        self._starts = tuple(accumulate(lengths, initial=0))

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in there."""
        shard = self._shard(number)
        return self._paths[shard], number - self._starts[shard]

    def _shard(self, number: int) -> int:
        return bisect_right(self._starts, number) - 1

    def read(self, number: int) -> NoReturn:
        """Raise DatasetError: it would take unpacking all that is before the record."""
        path, _ = self.locate(number)
        raise DatasetError(
            f"{path} is compressed as a whole, so that its records cannot be read by number",
            hint=_HINT,
            path=path,
        )

    def stream(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield number and payload of the records of these numbers, reading past all others.

        Raises DatasetError at once if they are in such an order that a shard would have to be read
        twice, and CorruptRecord where a shard is not as it was packed.
        """
        self._refuse_turning_back(numbers)
        for shard, wanted in groupby(numbers, self._shard):
            yield from self._stream_shard(shard, wanted)

    def _refuse_turning_back(self, numbers: Sequence[int]) -> None:
        if isinstance(numbers, range) and numbers.step > 0:
            return
        begun: set[int] = set()
        for shard, wanted in groupby(numbers, self._shard):
            if shard in begun or any(a >= b for a, b in pairwise(wanted)):
                path = self._paths[shard]
                raise DatasetError(
                    f"{path} is compressed as a whole, so that its records can be read in the "
                    "order in which they are, and in no other",
                    hint=_HINT,
                    path=path,
                )
            begun.add(shard)

    def _stream_shard(self, shard: int, wanted: Iterator[int]) -> Iterator[tuple[int, bytes]]:
        first, end = self._starts[shard : shard + 2]
        path = self._paths[shard]
        with closing(read_shard(path, self._compression)) as records:
            following = first
            for number in wanted:
                for _, payload in records:
                    following += 1
                    if following > number:
                        yield number, payload
                        break
                else:
                    raise _miscounted(path, f"only {following - first}", end - first)
            if following == end and next(records, None):
                raise _miscounted(path, "more", end - first)


def _miscounted(path: str, found: str, count: int) -> CorruptRecord:
    return CorruptRecord(
        f"{path} has {found} records, and {layout.DATASET_INFO} tells of {count}",
        hint="restore that shard of the dataset, or pack it again",
        path=path,
    )


def refuse_compressed(path: str) -> None:
    """Raise DatasetError if someone has compressed a shard of a dataset that does not say so."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return
    for compression in (GZIP, ZLIB):
        if tfrecord.begins(beginning(compression, head, tfrecord.OVERHEAD)):
            raise DatasetError(
                f"{path} is {compression}-compressed, and the dataset does not say so",
                hint="unpack all of its shards, or pack it again with --compression "
                f"{compression}; tf.data.TFRecordDataset reads such a file with "
                f'compression_type="{compression.upper()}"',
                path=path,
            )
