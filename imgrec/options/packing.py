"""Options for packing: name, splits, labels, checks and shards."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from imgrec.options.choices import (
    AlsoFormat,
    Check,
    ClassOrder,
    Compression,
    NearDups,
    OnBad,
    OnLeak,
)
from imgrec.options.declaration import option, parsed
from imgrec.options.errors import OptionError, quoted
from imgrec.options.parsing import at_least, between, parse_bytes, parse_text
from imgrec.options.source import DATASET, SPLITS, SourceOptions
from imgrec.text import own_name

IMAGES, SHARDS, OUTPUT = "images and labels", "shards and speed", "output"
DEFAULT_QUALITY = 90
_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")


def _parse_version(name: str, value: object) -> str:
    version = parse_text(name, value)
    if not _VERSION.fullmatch(version):
        raise OptionError(
            f"{{0}} {quoted(version)} is not a version that TFDS reads",
            name,
            hint="give three numbers, such as 1.0.0",
        )
    return version


def _parse_folds(name: str, value: object) -> int:
    folds: int = at_least(0)(name, value)
    if folds == 1:
        raise OptionError("{0} must be at least 2", name, hint="leave it out for no folds")
    return folds


def _parse_quality(name: str, value: object) -> int:
    quality: int = at_least(1)(name, value)
    if quality > 100:
        raise OptionError("{0} must be at most 100", name, hint="90 is a good quality for JPEGs")
    return quality


_PIXELS = at_least(1)
_FRACTION = between(0, 1, without_most=True)


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The part of each class that goes to each split, and the seed that chooses it."""

    val_split: float = option(0.0, "fraction of each class for val", parse=_FRACTION)
    test_split: float = option(0.0, "fraction of each class for test", parse=_FRACTION)
    folds: int = option(0, "how many equal folds replace train; 0 for none", parse=_parse_folds)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.val_split + self.test_split >= 1:
            raise OptionError(
                "{0} and {1} together leave nothing to train on",
                "val_split",
                "test_split",
                hint="let them add up to less than 1",
            )
        if self.folds and self.val_split:
            raise OptionError(
                "{0} and {1} cannot be combined",
                "folds",
                "val_split",
                hint="leave out {1}: each fold is val in its turn",
            )


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """How many shards to write: exactly `count` for train, or as few as `max_bytes` allows."""

    count: int | None = option(None, "number of shards of train", parse=at_least(1))
    max_bytes: int = option(128 << 20, "the largest shard", parse=at_least(1))


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkOptions:
    """How large images may be, by the shorter or by the longer side."""

    short_side: int | None = option(None, "in pixels", parse=_PIXELS)
    max_side: int | None = option(None, "in pixels", parse=_PIXELS)
    quality: int = option(DEFAULT_QUALITY, "of shrunk JPEGs", parse=_parse_quality)

    def __post_init__(self) -> None:
        if (self.short_side is None) == (self.max_side is None):
            raise OptionError(
                "{0} and {1} cannot be combined",
                "short_side",
                "max_side",
                hint="choose one of them",
            )

    def deciding(self) -> dict[str, int]:
        """Return the given sizes as plain values for the report."""
        given = {"short_side": self.short_side, "max_side": self.max_side, "quality": self.quality}
        return {name: value for name, value in given.items() if value is not None}


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """The options of a pack, named and with defaults as on the command line.

    `val_split` is `--val-split`, and `resume=False` is `--no-resume`. `source` holds the options
    for reading the source.
    """

    source: SourceOptions = field(default_factory=SourceOptions)
    name: str = option(
        "", "default: the name of the source, or of a table's folder", group=DATASET, metavar="N"
    )
    version: str = option(
        "1.0.0", "default: 1.0.0", group=DATASET, metavar="X.Y.Z", parse=_parse_version
    )
    data_dir: str = option(
        "", "default: $TFDS_DATA_DIR, else ~/tensorflow_datasets", group=DATASET, metavar="DIR"
    )
    overwrite: bool = option(
        False, "pack anew, and replace the dataset of that name and version", group=DATASET
    )
    resume: bool = option(
        True, "--no-resume starts over instead of continuing an interrupted run", group=DATASET
    )
    val_split: float = option(
        0.0, "fraction of each class for val", group=SPLITS, metavar="F", parse=_FRACTION
    )
    test_split: float = option(
        0.0, "fraction of each class for test", group=SPLITS, metavar="F", parse=_FRACTION
    )
    folds: int = option(
        0, "fold_0 ... fold_K-1 instead of train", group=SPLITS, metavar="K", parse=_parse_folds
    )
    seed: int = option(0, "of splits and order; default: 0", group=SPLITS, metavar="N")
    split_from: str = option(
        "", "keep the splits and labels of this dataset", group=SPLITS, metavar="DATASET"
    )
    split_file: str = option(
        "", "keep the splits of this table of paths and splits", group=SPLITS, metavar="CSV"
    )
    on_leak: OnLeak = option(
        OnLeak.REPORT, "what to do about one image in two splits of the source", group=SPLITS
    )
    near_dups: NearDups = option(
        NearDups.AUTO,
        "what to do about near-duplicates: report them, keep them in one split (group), or keep "
        "one (drop); auto reports those among JPEGs of at least 256x256 pixels",
        group=SPLITS,
    )
    classes: tuple[str, ...] | None = option(
        None, "class names in the order of their labels, one a line", group=IMAGES, metavar="FILE"
    )
    classes_append: bool = option(
        False, "append other classes to those of the file instead of refusing them", group=IMAGES
    )
    class_order: ClassOrder = option(
        ClassOrder.NATURAL, "order of labels without --classes", group=IMAGES
    )
    short_side: int | None = option(
        None,
        "shrink images with a longer short side to it",
        group=IMAGES,
        metavar="PX",
        parse=_PIXELS,
    )
    max_side: int | None = option(
        None,
        "shrink images with a longer long side to it",
        group=IMAGES,
        metavar="PX",
        parse=_PIXELS,
    )
    quality: int | None = option(
        None, "of shrunk JPEGs; default: 90", group=IMAGES, metavar="Q", parse=_parse_quality
    )
    check: Check = option(Check.DECODE, "how thoroughly to check each image", group=IMAGES)
    on_bad: OnBad = option(OnBad.SKIP, "what to do about a bad image", group=IMAGES)
    max_bad: float = option(
        0.1,
        "publish nothing if a larger fraction is bad; default: 0.1",
        group=IMAGES,
        metavar="F",
        parse=between(0, 1),
    )
    shards: int | None = option(
        None,
        "exactly N shards for train, other splits in proportion",
        group=SHARDS,
        metavar="N",
        parse=at_least(1),
    )
    shard_size: int = option(
        128 << 20,
        "the largest size of a shard; default: 128MiB",
        group=SHARDS,
        metavar="SIZE",
        parse=parse_bytes,
        text=str,
    )
    compression: Compression = option(
        Compression.NONE, "compress whole shards; TFDS cannot read them then", group=SHARDS
    )
    also: tuple[AlsoFormat, ...] = option(
        (), "also write the records in this format, for tfds.data_source", group=SHARDS
    )
    workers: int | None = option(
        None,
        "processes; default: the number of CPUs",
        group=SHARDS,
        metavar="N",
        parse=at_least(1),
    )
    thumbnails: int | None = option(
        None,
        "the most pictures in report.html; default: 96, or more for more than 77 classes",
        group=OUTPUT,
        metavar="N",
        parse=at_least(0),
    )

    def __post_init__(self) -> None:
        _ = self.split_options, self.shrink_options
        if self.classes_append and self.classes is None:
            raise OptionError(
                "{0} needs {1}", "classes_append", "classes", hint="pass {1} too, or leave out {0}"
            )
        if self.also and self.shard_compression:
            raise OptionError(
                "{0} and {1} cannot be combined",
                "also",
                "compression",
                hint="leave out one of them: TFDS opens no dataset with compressed TFRecords",
            )

    @property
    def split_options(self) -> SplitOptions:
        """Return the options that decide the splits."""
        return SplitOptions(
            val_split=self.val_split, test_split=self.test_split, folds=self.folds, seed=self.seed
        )

    @property
    def shard_options(self) -> ShardOptions:
        """Return the options that decide the shards."""
        return ShardOptions(count=self.shards, max_bytes=self.shard_size)

    @property
    def shrink_options(self) -> ShrinkOptions | None:
        """Return how large images may be; None for any size."""
        if self.short_side is None and self.max_side is None:
            if self.quality is not None:
                raise OptionError(
                    "{0} needs {1} or {2}",
                    *("quality", "short_side", "max_side"),
                    hint="pass one of them too, or leave out {0}",
                )
            return None
        quality = DEFAULT_QUALITY if self.quality is None else self.quality
        return ShrinkOptions(short_side=self.short_side, max_side=self.max_side, quality=quality)

    @property
    def shard_compression(self) -> str:
        """Return the compression of shards as metadata names it: "" for none."""
        return "" if self.compression is Compression.NONE else str(self.compression)

    def deciding(self) -> dict[str, object]:
        """Return the options that can change the output, as plain values for the report."""
        return {
            "val_split": self.val_split,
            "test_split": self.test_split,
            "folds": self.folds,
            "seed": self.seed,
            "class_order": "file" if self.classes else str(self.class_order),
            "shards": self.shards,
            "shard_bytes": self.shard_size,
            "check": str(self.check),
            "on_leak": str(self.on_leak),
            "split_from": own_name(self.split_from),
            "split_file": own_name(self.split_file),
            **self.source.deciding(),
            **self._deciding_if_given(),
        }

    def _deciding_if_given(self) -> dict[str, object]:
        """Return the options that the report lists only if they are given."""
        values = {"compression": self.shard_compression, "also": list(map(str, self.also))}
        given: dict[str, object] = {name: value for name, value in values.items() if value}
        if self.near_dups is not NearDups.AUTO:
            given["near_dups"] = str(self.near_dups)
        if self.thumbnails is not None:
            given["thumbnails"] = self.thumbnails
        return {**given, **(self.shrink_options.deciding() if self.shrink_options else {})}
