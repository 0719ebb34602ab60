"""What becomes of a source: its name, splits, labels, checks and shards."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from imgrec.errors import UsageError
from imgrec.options.choices import (
    AlsoFormat,
    Check,
    ClassOrder,
    Compression,
    NearDups,
    OnBad,
    OnLeak,
)
from imgrec.options.parsing import parsed
from imgrec.options.source import SourceOptions
from imgrec.text import own_name


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """Which part of each class goes to which split, chosen by which seed."""

    val_fraction: float = 0.0
    test_fraction: float = 0.0
    folds: int = 0
    """How many equal folds train is cut into instead of val; 0 for none."""
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
        if self.folds < 0 or self.folds == 1:
            raise UsageError(f"--folds {self.folds} divides nothing", hint="give 2 or more")
        if self.folds and self.val_fraction:
            raise UsageError(
                "--folds and --val-split are two ways to validate",
                hint="leave out --val-split: each fold is val in its turn",
            )


@parsed
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


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkOptions:
    """How large images may be, by the shorter or by the longer side, in pixels."""

    short_side: int | None = None
    max_side: int | None = None
    quality: int = 90
    """Of the JPEGs that larger ones become."""

    def __post_init__(self) -> None:
        if (self.short_side is None) == (self.max_side is None):
            raise UsageError(
                "--short-side and --max-side are two ways to say how large images may be",
                hint="choose one of them",
            )
        for option, side in (("short-side", self.short_side), ("max-side", self.max_side)):
            if side is not None and side < 1:
                raise UsageError(f"--{option} {side} leaves no pixels", hint="give 1 or more")
        if not 1 <= self.quality <= 100:
            raise UsageError(
                f"--quality {self.quality} is no quality of a JPEG",
                hint="give a number from 1 to 100, such as 90",
            )

    def deciding(self) -> dict[str, int]:
        """Return what is asked for, as plain values for the report."""
        told = {"short_side": self.short_side, "max_side": self.max_side, "quality": self.quality}
        return {option: value for option, value in told.items() if value is not None}


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """Everything that can be asked of a pack; the defaults are those of the command line.

    Fields are named as its options are: `near_dups` is `--near-dups`. But `val_fraction` and
    `test_fraction` are `--val-split` and `--test-split`, `shard_bytes` is `--shard-size`, and
    `resume=False` is `--no-resume`. How a source is read is in `source`, as `SourceOptions`.
    """

    source: SourceOptions = field(default_factory=SourceOptions)
    name: str = ""
    """The dataset's name; the source's own, made legal, when empty."""
    version: str = "1.0.0"
    data_dir: str = ""
    """Where datasets live; where TFDS itself looks, when empty."""
    val_fraction: float = 0.0
    test_fraction: float = 0.0
    folds: int = 0
    seed: int = 0
    split_from: str = ""
    """A dataset, by name or path, whose images keep the splits they have there, and whose classes
    keep their labels."""
    split_file: str = ""
    """A table of files and splits, which they keep."""
    classes: tuple[str, ...] | None = None
    """Class names in the order of their labels; those of the source in `class_order` when None."""
    classes_append: bool = False
    """Whether other classes get the labels after those of `classes`; they are refused otherwise."""
    class_order: ClassOrder = ClassOrder.NATURAL
    shards: int | None = None
    shard_bytes: int = 128 << 20
    compression: Compression = Compression.NONE
    also: tuple[AlsoFormat, ...] = ()
    """Formats in which the records are written too, beside the TFRecords."""
    short_side: int | None = None
    """Images with a longer one are shrunk until their shorter side is this, in pixels."""
    max_side: int | None = None
    """The same for the longer side."""
    quality: int | None = None
    """Of the JPEGs that shrunk images become; 90 when None."""
    check: Check = Check.DECODE
    on_bad: OnBad = OnBad.SKIP
    max_bad: float = 0.1
    on_leak: OnLeak = OnLeak.REPORT
    near_dups: NearDups = NearDups.AUTO
    thumbnails: int | None = None
    """How many pictures report.html shows; when None, 96, or more for more classes."""
    workers: int | None = None
    """Processes that work; as many as there are CPUs for this process when None."""
    overwrite: bool = False
    resume: bool = True
    """Continue a run that was cut off."""

    def __post_init__(self) -> None:
        _ = self.split_options, self.shard_options, self.shrink_options
        if not re.fullmatch(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}", self.version):
            raise UsageError(
                f"--version {self.version!r} is not a version that TFDS reads",
                hint="give three numbers, such as 1.0.0",
            )
        if self.classes_append and self.classes is None:
            raise UsageError(
                "--classes-append has no classes to append to",
                hint="pass --classes FILE as well, or leave it out",
            )
        if self.also and self.shard_compression:
            raise UsageError(
                f"--also {self.also[0]} is of no use with --compression {self.compression}",
                hint="leave out one: TFDS opens no dataset whose TFRecords are compressed",
            )
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers {self.workers} cannot work", hint="give 1 or more")
        if self.thumbnails is not None and self.thumbnails < 0:
            raise UsageError(f"--thumbnails {self.thumbnails} is no number", hint="give 0 or more")
        if not 0 <= self.max_bad <= 1:
            raise UsageError(
                f"--max-bad {self.max_bad:g} is not a fraction of the images",
                hint="give a number from 0 to 1, such as 0.1",
            )

    @property
    def split_options(self) -> SplitOptions:
        """Return what decides the splits."""
        return SplitOptions(
            val_fraction=self.val_fraction,
            test_fraction=self.test_fraction,
            folds=self.folds,
            seed=self.seed,
        )

    @property
    def shard_options(self) -> ShardOptions:
        """Return what decides the shards."""
        return ShardOptions(count=self.shards, max_bytes=self.shard_bytes)

    @property
    def shrink_options(self) -> ShrinkOptions | None:
        """Return how large images may be; None if any size will do."""
        if self.short_side is None and self.max_side is None:
            if self.quality is not None:
                raise UsageError(
                    f"--quality {self.quality} is of images that are shrunk, and none is to be",
                    hint="pass --short-side or --max-side as well, or leave it out",
                )
            return None
        chosen = {} if self.quality is None else {"quality": self.quality}
        return ShrinkOptions(short_side=self.short_side, max_side=self.max_side, **chosen)

    @property
    def shard_compression(self) -> str:
        """Return how shards are compressed, as a dataset says it: "" for not at all."""
        return "" if self.compression is Compression.NONE else str(self.compression)

    def deciding(self) -> dict[str, object]:
        """Return the options that can change the output, as plain values for the report."""
        return {
            "val_split": self.val_fraction,
            "test_split": self.test_fraction,
            "folds": self.folds,
            "seed": self.seed,
            "class_order": "file" if self.classes else str(self.class_order),
            "shards": self.shards,
            "shard_bytes": self.shard_bytes,
            "check": str(self.check),
            "on_leak": str(self.on_leak),
            "split_from": own_name(self.split_from),
            "split_file": own_name(self.split_file),
            **self.source.deciding(),
            **self._asked_for(),
        }

    def _asked_for(self) -> dict[str, object]:
        """Return what changes the output only when it is asked for, and is not told otherwise."""
        told = {"compression": self.shard_compression, "also": list(map(str, self.also))}
        asked: dict[str, object] = {option: value for option, value in told.items() if value}
        if self.near_dups is not NearDups.AUTO:
            asked["near_dups"] = str(self.near_dups)
        if self.thumbnails is not None:
            asked["thumbnails"] = self.thumbnails
        return {**asked, **(self.shrink_options.deciding() if self.shrink_options else {})}
