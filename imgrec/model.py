"""The values that flow through a pack: from the catalog of a source to the results of its shards.

All are immutable. Whatever there is one of per image is kept by column.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from imgrec.options import Check

FORMAT = 1
"""Version of the dataset directory; part of every fingerprint."""
TRAIN, VAL, TEST = "train", "val", "test"
SPLIT_ORDER = (TRAIN, VAL, TEST)


Blob: TypeAlias = str
"""Where the bytes of a sample are: the path of a file."""


class Sample(NamedTuple):
    """One image of a source: where its bytes are and what the source says of it."""

    filename: str
    """Posix path inside the source."""
    class_name: str
    split: str
    """The split the source puts it in, or "" where the source has none."""
    size: int
    content: bytes
    """Equal for two samples exactly when their bytes are; see `source.probe`."""
    blob: Blob


@dataclass(frozen=True, slots=True)
class Samples:
    """All images of a source, by column: a million of them are planned twice as fast as objects.

    Column i of each belongs to one sample; the columns are the fields of `Sample`, in its order.
    """

    filenames: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    contents: tuple[bytes, ...] = ()
    blobs: tuple[Blob, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Sample]) -> Samples:
        """Gather samples into columns."""
        return cls(*zip(*rows, strict=True))

    def __len__(self) -> int:
        return len(self.filenames)

    def __iter__(self) -> Iterator[Sample]:
        columns = self.filenames, self.class_names, self.splits, self.sizes
        return map(Sample._make, zip(*columns, self.contents, self.blobs, strict=True))


class Skipped(NamedTuple):
    """A file of which something must be said, mostly why it is not packed."""

    filename: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Files of one kind that no one would expect to be packed."""

    kind: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All that a source holds, before anything is decided about it."""

    name: str
    """What the source calls itself: the folder's name."""
    layout: str
    samples: Samples
    class_folders: Mapping[str, tuple[str, ...]]
    """The folders of each class, by the class's name as it stands on disk."""
    bad: tuple[Skipped, ...] = ()
    """Files meant as images that are known not to be one before any pixel is looked at."""
    ignored: tuple[Ignored, ...] = ()
    warnings: tuple[str, ...] = ()
    newest_change_ns: int = 0
    """When the source last changed; never part of any output."""


class SameImage(NamedTuple):
    """Files of identical bytes, in order of their names."""

    filenames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard to write: all a worker needs to know of its samples, by column, and no bytes."""

    split: str
    index: int
    filename: str
    expected_bytes: int
    """The most that the shard takes if every image is packed as it is."""
    blobs: tuple[Blob, ...]
    filenames: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is decided before the first byte is written."""

    name: str
    version: str
    source: str
    layout: str
    classes: tuple[str, ...]
    tasks: tuple[ShardTask, ...]
    check: Check
    fingerprint: str
    bad: tuple[Skipped, ...]
    left_out: tuple[Skipped, ...]
    """Good images that are not packed because of what was asked for, such as leaked copies."""
    ignored: tuple[Ignored, ...]
    duplicates: tuple[SameImage, ...]
    leaks: tuple[SameImage, ...]
    conflicts: tuple[SameImage, ...]
    warnings: tuple[str, ...]
    options: Mapping[str, object]
    """The options behind this plan, as plain values for the report."""

    @property
    def planned(self) -> int:
        """Count the images that are to be packed."""
        return sum(len(task.filenames) for task in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """What is known of each record of a shard, by column: a million rows stay small."""

    filenames: tuple[str, ...]
    labels: array[int]
    offsets: array[int]
    """Where each record's frame starts in the shard."""
    lengths: array[int]
    """Bytes of each record's frame: length, checksums and payload."""
    shapes: array[int]
    """Height, width and channels of record i at 3i, 3i+1 and 3i+2."""
    formats: tuple[str, ...]
    """How each stored image is encoded: JPEG, PNG or BMP."""
    hashes: bytes
    """16 bytes a record: the XXH3 (128 bits) of its stored image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """The evidence of one written shard, gathered while writing it."""

    split: str
    index: int
    filename: str
    size: int
    sha256: str
    index_sha256: str
    records: RecordTable
    source_bytes: int
    """Size of the packed files as they are in the source."""
    bad: tuple[Skipped, ...]
    transcoded: tuple[Skipped, ...]
    """Packed, but not as the file's own bytes, and why."""
    damaged: tuple[Skipped, ...]
    """Packed as they are, since every decoder accepts them, with what a strict one says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInfo:
    """One split of a packed dataset."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    class_counts: tuple[int, ...] | None = None
    """Images per label; None where the dataset does not say."""

    @property
    def examples(self) -> int:
        """Count the records of the split."""
        return sum(self.shard_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What a packed dataset says of itself."""

    name: str
    version: str
    path: str
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    fingerprint: str
    """Empty for a dataset that imgrec did not make."""
    load: str
    """The line of Python that loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of every file of a source; `report.json` in the dataset."""

    name: str
    version: str
    source: str
    layout: str
    fingerprint: str
    options: Mapping[str, object]
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    source_bytes: int
    """Size of the files that were packed, as they are in the source."""
    skipped: tuple[Skipped, ...]
    ignored: tuple[Ignored, ...]
    transcoded: tuple[Skipped, ...]
    damaged: tuple[Skipped, ...]
    duplicates: tuple[SameImage, ...]
    leaks: tuple[SameImage, ...]
    conflicts: tuple[SameImage, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The outcome of a pack."""

    info: DatasetInfo
    report: Report
    seconds: float
    is_new: bool
    """False if the dataset was there already, the same to the byte."""
