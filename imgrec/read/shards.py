"""One shard, read from front to back: plain or compressed, on a disk or on a store."""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.codec.compression import Decompressed, compression_of
from imgrec.codec.sniff import HEAD_BYTES
from imgrec.codec.tfrecord import Frame
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.files import RegularFile
from imgrec.storage.paths import to_path
from imgrec.storage.urls import is_url

LEAST_RECORD_BYTES = 8
"""What any record takes, even compressed: checksums do not compress."""
MOST_INDEX_LINE_BYTES = 42
"""Two numbers of up to 20 digits, a blank and a line feed."""
_MOST_SHARD_BYTES = (1 << 63) - 1
_AGAIN = "restore that shard of the dataset, or pack it again"


def shard_frames(
    file: RegularFile, compression: str, path: str, index: Sequence[tuple[int, int]] = ()
) -> Iterator[Frame]:
    """Yield every record of an open shard, with its fault if it is damaged.

    Offsets are those before compression. `path` is what the faults name.
    """
    if compression:
        return tfrecord.frames(Decompressed(file, compression).read, None, path=path, index=index)
    return tfrecord.frames(file.read, file.size, path=path, index=index)


def read_shard(path: str, compression: str) -> Generator[tuple[int, bytes], None, None]:
    """Yield the offset and payload of each record of a shard, after checking both checksums.

    Raises CorruptRecord at the first record that is damaged, and DatasetError if the shard cannot
    be opened. Memory is bounded by the longest record, whatever a compressed file says.
    """
    unit = " of the unpacked data" if compression else ""
    try:
        with RegularFile(path) as file:
            yield from tfrecord.sound(shard_frames(file, compression, path), unit)
    except OSError as error:
        raise unreadable(path, error) from error


def parse_index(text: bytes) -> list[tuple[int, int]]:
    """Return offset and length of each record by an index; raise ValueError if it is malformed."""
    numbers = list(map(int, text.split()))
    return list(zip(numbers[0::2], numbers[1::2], strict=True))


def index_ends(text: bytes, count: int, path: str) -> array[int]:
    """Return where each of `count` records ends, by the text of an index; raise DatasetError."""
    try:
        spans = parse_index(text)
    except ValueError as error:
        raise wrong_index(path, "does not consist of pairs of numbers") from error
    most_bytes = count * MOST_INDEX_LINE_BYTES
    if len(spans) != count or len(text) > most_bytes:
        more = " or more" * (len(text) > most_bytes)
        raise wrong_index(path, f"lists {len(spans)} records{more}, and there are {count}")
    offsets, lengths = [offset for offset, _ in spans], [length for _, length in spans]
    ends = list(accumulate(lengths))
    is_whole = min(lengths, default=tfrecord.OVERHEAD) >= tfrecord.OVERHEAD
    if offsets != [0, *ends[:-1]][:count] or not is_whole or ends[-1:] > [_MOST_SHARD_BYTES]:
        raise wrong_index(path, "lists records that do not follow each other")
    return array("Q", ends)


def wrong_index(path: str, what: str) -> DatasetError:
    """Return the error for an index that cannot be used."""
    return DatasetError(
        f"{path} {what}", hint="pack the dataset again, or delete that file", path=path
    )


def refuse_missing(path: str) -> None:
    """Raise DatasetError if there is no such shard."""
    try:
        with RegularFile(path):
            return
    except OSError as error:
        raise DatasetError(f"the shard {path} is missing", hint=_AGAIN, path=path) from error


def refuse_miscount(path: str, expected: int, found: object) -> None:
    """Raise CorruptRecord if a shard does not have as many records as it should."""
    if found != expected:
        raise CorruptRecord(
            f"{path}: expected {expected} records ({layout.DATASET_INFO}), found {found}",
            hint=_AGAIN,
            path=path,
        )


def refuse_impossible(info: DatasetInfo) -> None:
    """Raise DatasetError if a dataset has fewer bytes than its number of records takes.

    Otherwise a number in a document would decide how much memory is asked for.
    """
    least = LEAST_RECORD_BYTES if info.compression else tfrecord.OVERHEAD
    for split in info.splits:
        folder = to_path(info.path)  # it may be on a store
        paths = [folder / name for name in layout.shard_filenames(info, split)]
        size = sum(path.stat().st_size for path in paths if path.exists())
        if split.examples * least > size:
            raise DatasetError(
                f"the shards of {split.name} have {size} bytes, too few for the "
                f"{split.examples} records that {layout.DATASET_INFO} declares",
                hint="restore the shards that are missing, or pack the dataset again",
                path=info.path,
            )


def refuse_undeclared_compression(path: str) -> None:
    """Raise DatasetError if someone compressed a shard of a dataset that is not compressed."""
    try:
        with RegularFile(path) as file:
            compression = compression_of(file.read(HEAD_BYTES))
    except OSError:
        return
    if compression:
        raise DatasetError(
            f"{path} is {compression}-compressed, but the dataset does not say so",
            hint=f"decompress all of its shards, or pack it again with --compression {compression};"
            f' tf.data.TFRecordDataset reads such a file with compression_type="'
            f'{compression.upper()}"',
            path=path,
        )


def unreadable(path: str, error: OSError) -> DatasetError:
    """Return the error for a shard that cannot be opened or read."""
    if isinstance(error, FileNotFoundError) and not is_url(path):
        refuse_undeclared_compression(path + ".gz")
    return DatasetError(
        f"cannot read {path}: {error.strerror}",
        hint="a shard of the dataset is missing or cannot be opened: restore it, or pack it again",
        path=path,
    )


def shard_paths(info: DatasetInfo) -> tuple[str, ...]:
    """Return the paths of all shards of a dataset, in the order of its splits."""
    return tuple(
        os.path.join(info.path, name)
        for split in info.splits
        for name in layout.shard_filenames(info, split)
    )


def shard_lengths(info: DatasetInfo) -> tuple[int, ...]:
    """Return how many records each shard has, as `shard_paths` lists them."""
    return tuple(length for split in info.splits for length in split.shard_lengths)
