"""The values that flow through a pack: from the catalog of a source to the results of its shards.

All are immutable. `Sample` and `FileBlob` are named tuples rather than dataclasses because there
is one per image and they travel to the workers: a million of them are made, pickled and loaded
2-3 times faster that way.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from imgrec.errors import UsageError

FORMAT = 1
"""Version of the dataset directory; part of every fingerprint."""
TRAIN, VAL, TEST = "train", "val", "test"
SPLIT_ORDER = (TRAIN, VAL, TEST)


class Check(StrEnum):
    """How much of an image is proved before it is packed."""

    DECODE = "decode"
    STRUCTURE = "structure"
    HEADER = "header"


class OnBad(StrEnum):
    """What a bad image does to the run."""

    SKIP = "skip"
    FAIL = "fail"


class OnLeak(StrEnum):
    """What is done about one image in two splits of the source."""

    REPORT = "report"
    DROP = "drop"
    FAIL = "fail"


class ClassOrder(StrEnum):
    """How class names are ordered into labels."""

    NATURAL = "natural"
    LEXICAL = "lexical"


class FolderLayout(StrEnum):
    """What the folders right below the root of a source mean."""

    AUTO = "auto"
    CLASSES = "classes"
    SPLITS = "splits"


class FileBlob(NamedTuple):
    """The bytes of one whole file."""

    path: str


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
    blob: FileBlob


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
    samples: tuple[Sample, ...]
    class_folders: Mapping[str, tuple[str, ...]]
    """The folders of each class, by the class's name as it stands on disk."""
    bad: tuple[Skipped, ...] = ()
    """Files meant as images that are known not to be one before any pixel is looked at."""
    ignored: tuple[Ignored, ...] = ()
    warnings: tuple[str, ...] = ()
    newest_change_ns: int = 0
    """When the source last changed; never part of any output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """Which fraction of each class goes to which split, chosen by which seed."""

    val_fraction: float = 0.0
    test_fraction: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for option, fraction in (("val", self.val_fraction), ("test", self.test_fraction)):
            if not 0 <= fraction < 1:
                raise UsageError(
                    f"--{option}-split {fraction:g} is not a fraction of the images",
                    hint="give a number from 0 up to, but not including, 1, such as 0.1",
                )
        if self.val_fraction + self.test_fraction >= 1:
            raise UsageError(
                "--val-split and --test-split together leave nothing to train on",
                hint="let them add up to less than 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """How many shards there are: exactly `count` for train, or as few as `max_bytes` allows."""

    count: int | None = None
    max_bytes: int = 128 << 20

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise UsageError(
                f"--shards {self.count} is not a number of files", hint="give 1 or more"
            )
        if self.max_bytes < 1:
            raise UsageError("--shard-size must be positive", hint="give a size such as 128MiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """Everything that can be asked of a pack; the defaults are those of the command line."""

    name: str = ""
    """The dataset's name; the source's own, made legal, when empty."""
    version: str = "1.0.0"
    data_dir: str = ""
    """Where datasets live; where TFDS itself looks, when empty."""
    val_fraction: float = 0.0
    test_fraction: float = 0.0
    seed: int = 0
    classes: tuple[str, ...] | None = None
    """Class names in the order of their labels; those of the source in `class_order` when None."""
    class_order: ClassOrder = ClassOrder.NATURAL
    shards: int | None = None
    shard_bytes: int = 128 << 20
    check: Check = Check.DECODE
    on_bad: OnBad = OnBad.SKIP
    max_bad: float = 0.1
    on_leak: OnLeak = OnLeak.REPORT
    layout: FolderLayout = FolderLayout.AUTO
    follow_links: bool = False
    workers: int | None = None
    """Processes that work; as many as there are CPUs for this process when None."""
    overwrite: bool = False

    def __post_init__(self) -> None:
        _ = self.split_options, self.shard_options
        if not re.fullmatch(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}", self.version):
            raise UsageError(
                f"--version {self.version!r} is not a version that TFDS reads",
                hint="give three numbers, such as 1.0.0",
            )
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers {self.workers} cannot work", hint="give 1 or more")
        if not 0 <= self.max_bad <= 1:
            raise UsageError(
                f"--max-bad {self.max_bad:g} is not a fraction of the images",
                hint="give a number from 0 to 1, such as 0.1",
            )

    @property
    def split_options(self) -> SplitOptions:
        """Return what decides the splits."""
        return SplitOptions(
            val_fraction=self.val_fraction, test_fraction=self.test_fraction, seed=self.seed
        )

    @property
    def shard_options(self) -> ShardOptions:
        """Return what decides the shards."""
        return ShardOptions(count=self.shards, max_bytes=self.shard_bytes)

    def deciding(self) -> dict[str, object]:
        """Return the options that can change the output, as plain values for the report."""
        return {
            "val_split": self.val_fraction,
            "test_split": self.test_fraction,
            "seed": self.seed,
            "class_order": "file" if self.classes else str(self.class_order),
            "shards": self.shards,
            "shard_bytes": self.shard_bytes,
            "check": str(self.check),
            "on_leak": str(self.on_leak),
        }


class SameImage(NamedTuple):
    """Files of identical bytes, in order of their names."""

    filenames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard to write: all a worker needs to know, and no bytes."""

    split: str
    index: int
    filename: str
    samples: tuple[Sample, ...]
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
        return sum(len(task.samples) for task in self.tasks)

    @property
    def source_bytes(self) -> int:
        """Add up the sizes of the images that are to be packed."""
        return sum(sample.size for task in self.tasks for sample in task.samples)


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
    sha256: bytes
    """32 bytes a record: the SHA-256 of its stored image."""


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
