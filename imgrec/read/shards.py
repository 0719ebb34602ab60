"""Read one shard from front to back, and check the shards of a dataset.

Shards are plain or compressed, on a disk or on a store.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Generator, Iterator, Sequence
from itertools import accumulate

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.codec.sniff import HEAD_BYTES
from imgrec.codec.tfrecord import Decompressed, Frame, compression_of
from imgrec.errors import CorruptRecord, DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.files import RegularFile
from imgrec.storage.paths import to_path
from imgrec.storage.urls import is_url

MIN_RECORD_BYTES = 8
"""The least that a record takes, even compressed: checksums do not compress."""
MAX_INDEX_LINE_BYTES = 42
"""Two numbers of up to 20 digits, a blank and a line feed."""
_MAX_SHARD_BYTES = (1 << 63) - 1
AGAIN = "pack it again with --overwrite"
_RESTORE = f"restore that shard of the dataset, or {AGAIN}"


def shard_paths(info: DatasetInfo) -> tuple[str, ...]:
    """Return the paths of all shards of a dataset, in the order of its splits."""
    return tuple(
        os.path.join(info.path, name)
        for split in info.splits
        for name in layout.shard_filenames(info, split)
    )


def shard_lengths(info: DatasetInfo) -> tuple[int, ...]:
    """Return the number of records in each shard, in the order of `shard_paths`."""
    return tuple(length for split in info.splits for length in split.shard_lengths)


def shard_frames(
    file: RegularFile, compression: str, path: str, index: Sequence[tuple[int, int]] = ()
) -> Iterator[Frame]:
    """Yield every record of an open shard, with its fault if it is damaged.

    Offsets are those before compression. Faults name `path`.
    """
    if compression:
        return tfrecord.frames(Decompressed(file, compression).read, None, path=path, index=index)
    return tfrecord.frames(file.read, file.size, path=path, index=index)


def read_shard(path: str, compression: str) -> Generator[tuple[int, bytes], None, None]:
    """Yield the offset and payload of each record of a shard, after checking both checksums.

    Raises CorruptRecord at the first damaged record, and DatasetError if the shard cannot be
    opened. Memory is bounded by the longest record, whatever a compressed file declares.
    """
    unit = " of the unpacked data" if compression else ""
    try:
        with RegularFile(path) as file:
            yield from tfrecord.sound(shard_frames(file, compression, path), unit)
    except OSError as error:
        raise unreadable(path, error) from error


def parse_index(text: bytes) -> list[tuple[int, int]]:
    """Return offset and length of each record in an index; raise ValueError if it is malformed."""
    numbers = list(map(int, text.split()))
    return list(zip(numbers[0::2], numbers[1::2], strict=True))


def index_ends(text: bytes, count: int, path: str) -> array[int]:
    """Return where each of `count` records ends, by an index; raise DatasetError if it is wrong."""
    try:
        spans = parse_index(text)
    except ValueError as error:
        raise wrong_index(path, "does not consist of pairs of numbers") from error
    if len(spans) != count:
        raise wrong_index(path, f"lists {len(spans)} records; expected {count}")
    ends = list(accumulate(length for _, length in spans))
    is_gapless = [offset for offset, _ in spans] == [0, *ends][:count]
    is_possible = all(length >= tfrecord.OVERHEAD for _, length in spans)
    if not (is_gapless and is_possible) or ends[-1:] > [_MAX_SHARD_BYTES]:
        raise wrong_index(path, "lists records that do not follow each other")
    return array("Q", ends)


def refuse_incomplete(info: DatasetInfo, shards: Collection[int]) -> None:
    """Raise DatasetError if a shard is missing, CorruptRecord if a whole split has another size.

    Shards are counted as in `shard_paths`. None is read.
    """
    paths, start = shard_paths(info), 0
    for split in info.splits:
        own = range(start, start + len(split.shard_lengths))
        start = own.stop
        sizes = [_size(paths[shard]) for shard in own if shard in shards]
        if info.fingerprint and len(sizes) == len(own) and sum(sizes) != split.num_bytes:
            raise CorruptRecord(
                f"the shards of {split.name} have {sum(sizes)} bytes; expected {split.num_bytes} "
                f"({layout.DATASET_INFO})",
                hint=f"run imgrec verify {info.path} to see which was changed or truncated",
                path=info.path,
            )


def _size(path: str) -> int:
    try:
        with RegularFile(path) as file:
            return file.size
    except OSError as error:
        raise DatasetError(f"the shard {path} is missing", hint=_RESTORE, path=path) from error


def refuse_impossible(info: DatasetInfo) -> None:
    """Raise DatasetError if a dataset has fewer bytes than its number of records needs.

    Otherwise a number in a document would decide how much memory is allocated.
    """
    least = MIN_RECORD_BYTES if info.compression else tfrecord.OVERHEAD
    for split in info.splits:
        folder = to_path(info.path)  # it may be on a store
        paths = [folder / name for name in layout.shard_filenames(info, split)]
        size = sum(path.stat().st_size for path in paths if path.exists())
        if split.examples * least > size:
            raise DatasetError(
                f"the shards of {split.name} have {size} bytes, too few for the "
                f"{split.examples} records that {layout.DATASET_INFO} declares",
                hint="restore the missing shards, or pack the dataset again",
                path=info.path,
            )


def wrong_index(path: str, what: str) -> DatasetError:
    """Return the error for an index that cannot be used."""
    hint = "pack the dataset again, or delete that file"
    return DatasetError(f"{path} {what}", hint=hint, path=path)


def refuse_miscount(path: str, expected: int, found: object) -> None:
    """Raise CorruptRecord if a shard has another number of records than expected."""
    if found != expected:
        raise CorruptRecord(
            f"{path}: expected {expected} records ({layout.DATASET_INFO}), found {found}",
            hint=_RESTORE,
            path=path,
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
            f"{path} is {compression}-compressed, but the dataset does not declare it",
            hint=f"decompress all of its shards, or pack it again with --compression {compression};"
            f' tf.data.TFRecordDataset reads such a file with compression_type="'
            f'{compression.upper()}"',
            path=path,
        )


def unreadable(path: str, error: OSError) -> DatasetError:
    """Return the error for a shard that cannot be read."""
    if isinstance(error, FileNotFoundError) and not is_url(path):
        refuse_undeclared_compression(path + ".gz")
    return DatasetError(
        f"cannot read {path}: {error.strerror}",
        hint=f"a shard of the dataset is missing or cannot be opened: restore it, or {AGAIN}",
        path=path,
    )
