"""Options for packing: name, splits, labels, checks and shards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

from imgrec.near.clusters import ALIKE
from imgrec.options.card import DatasetCard, parse_card, parse_homepage, parse_line, parse_prose
from imgrec.options.declaration import (
    Alike,
    Bytes,
    Count,
    Fraction,
    Kind,
    Part,
    Pixels,
    Positive,
    Quality,
    given_options,
    option,
    parsed,
)
from imgrec.options.parsing import OptionError, at_least, exclusive, parse_text, quoted
from imgrec.options.source import (
    DATASET,
    SPLITS,
    CifarLabels,
    ColumnOption,
    FolderLayout,
    LabelLine,
    SourceKind,
    SourceOptions,
)
from imgrec.text import own_name

T = TypeVar("T")
AnyPath: TypeAlias = str | os.PathLike[str]
Many: TypeAlias = T | Sequence[T]
Embed: TypeAlias = Callable[[list[Any]], Any]
"""Takes pictures (arrays of height x width x 3, RGB) and returns an array with a row for each."""

IMAGES, SHARDS, OUTPUT = "images and labels", "shards and speed", "output"
ABOUT = "what people should know"
DEFAULT_QUALITY = 90
_REPORTED = (
    "name", "version", "val_split", "test_split", "folds", "seed", "split_from", "split_file",
    "on_leak", "near_dups", "embeddings", "classes", "class_order", "shards", "shard_size", "check",
    "short_side", "max_side", "quality", "compression", "also", "thumbnails", "source",
    "data_dir", "overwrite", "resume", "workers", "description", "citation", "license", "homepage",
    "card",
)  # fmt: skip
"""Options that the report shows otherwise, and those that do not change the output."""
_VERSION = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}")


class Check(StrEnum):
    """How thoroughly each image is checked."""

    DECODE = "decode"
    STRUCTURE = "structure"
    HEADER = "header"


class OnBad(StrEnum):
    """What to do about a bad image."""

    SKIP = "skip"
    FAIL = "fail"


class OnLeak(StrEnum):
    """What to do about an image that is in two splits of the source."""

    REPORT = "report"
    DROP = "drop"
    FAIL = "fail"


class NearDups(StrEnum):
    """What to do about near-duplicates."""

    AUTO = "auto"
    """Report those among the images that are decoded anyway."""
    OFF = "off"
    REPORT = "report"
    GROUP = "group"
    DROP = "drop"


class ClassOrder(StrEnum):
    """How class names are ordered into labels."""

    NATURAL = "natural"
    LEXICAL = "lexical"


class Compression(StrEnum):
    """How whole shards are compressed."""

    NONE = "none"
    GZIP = "gzip"
    ZLIB = "zlib"


class AlsoFormat(StrEnum):
    """Another file format for the records."""

    ARRAY_RECORD = "array_record"


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


def parse_embeddings(name: str, value: object) -> str | Embed:
    """Take the path of a file, or a function."""
    return value if callable(value) else parse_text(name, value)


Version: TypeAlias = Annotated[str, Kind(_parse_version, "X.Y.Z")]
Prose: TypeAlias = Annotated[str, Kind(parse_prose, "TEXT")]
Line: TypeAlias = Annotated[str, Kind(parse_line, "NAME")]
Homepage: TypeAlias = Annotated[str, Kind(parse_homepage, "URL")]
Card: TypeAlias = Annotated[DatasetCard, Kind(parse_card, "FILE", str)]
Folds: TypeAlias = Annotated[int, Kind(_parse_folds, "K")]
Embeddings: TypeAlias = Annotated[str | Embed, Kind(parse_embeddings, "FILE.npy", str)]


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkOptions:
    """The largest size of images, by the shorter or by the longer side."""

    short_side: Pixels | None = option(None, "in pixels")
    max_side: Pixels | None = option(None, "in pixels")
    quality: Quality = option(DEFAULT_QUALITY, "quality of shrunk JPEGs")

    def __post_init__(self) -> None:
        if (self.short_side is None) == (self.max_side is None):
            raise exclusive("short_side", "max_side")

    def deciding(self) -> dict[str, int]:
        """Return the given sizes as plain values for the report."""
        given = {"short_side": self.short_side, "max_side": self.max_side, "quality": self.quality}
        return {name: value for name, value in given.items() if value is not None}


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """The options of a pack, with the names and defaults of the command line.

    `val_split` is `--val-split`, and `resume=False` is `--no-resume`. `source` holds the options
    for reading the source.
    """

    source: SourceOptions = field(default_factory=SourceOptions)
    name: str = option(
        "", "name of the dataset; default: the name of the source or of its folder", DATASET, "N"
    )
    version: Version = option("1.0.0", "version of the dataset; default: 1.0.0", DATASET)
    data_dir: str = option(
        "",
        "where to write the dataset; default: $TFDS_DATA_DIR, else ~/tensorflow_datasets",
        DATASET,
        "DIR",
    )
    overwrite: bool = option(False, "pack again and replace this version of the dataset", DATASET)
    resume: bool = option(
        True,
        "continue an interrupted run; False: start over even if a run was interrupted",
        DATASET,
    )
    val_split: Part = option(0.0, "fraction of each class for val", SPLITS)
    test_split: Part = option(0.0, "fraction of each class for test", SPLITS)
    folds: Folds = option(0, "split train into K folds, fold_0 to fold_K-1", SPLITS)
    seed: int = option(0, "seed of the splits and of the order; default: 0", SPLITS, "N")
    split_from: str = option("", "keep the splits and labels of this dataset", SPLITS, "DATASET")
    split_file: str = option(
        "", "take the splits from this table of paths and splits", SPLITS, "CSV"
    )
    on_leak: OnLeak = option(
        OnLeak.REPORT, "what to do about an image in two splits of the source", SPLITS
    )
    near_dups: NearDups = option(
        NearDups.AUTO,
        "what to do about near-duplicates: report them, keep them in one split (group), or keep "
        "one of them (drop); auto reports the clear ones among JPEGs of at least 256x256 pixels",
        SPLITS,
    )
    alike: Alike = option(
        ALIKE, f"how much near-duplicates are alike at least, in per cent; default: {ALIKE}", SPLITS
    )
    embeddings: Embeddings = option(
        "", "find near-duplicates by these vectors of a model, confirmed on pixels", SPLITS
    )
    classes: tuple[str, ...] | None = option(
        None, "class names in label order, one per line", IMAGES, "FILE"
    )
    classes_append: bool = option(
        False, "add classes that --classes does not list instead of refusing them", IMAGES
    )
    class_order: ClassOrder = option(
        ClassOrder.NATURAL, "order of the labels without --classes", IMAGES
    )
    short_side: Pixels | None = option(
        None, "shrink images whose short side is longer than this", IMAGES
    )
    max_side: Pixels | None = option(
        None, "shrink images whose long side is longer than this", IMAGES
    )
    quality: Quality | None = option(None, "quality of shrunk JPEGs; default: 90", IMAGES)
    check: Check = option(Check.DECODE, "how thoroughly to check each image", IMAGES)
    on_bad: OnBad = option(OnBad.SKIP, "what to do about a bad image", IMAGES)
    max_bad: Fraction = option(
        0.1, "publish nothing if more than this fraction is bad; default: 0.1", IMAGES
    )
    shards: Positive | None = option(
        None, "write exactly N shards for train, other splits in proportion", SHARDS
    )
    shard_size: Bytes = option(128 << 20, "the largest size of a shard; default: 128MiB", SHARDS)
    compression: Compression = option(
        Compression.NONE, "compress whole shards; TFDS cannot read them then", SHARDS
    )
    also: tuple[AlsoFormat, ...] = option(
        (), "also write the records in this format, for tfds.data_source", SHARDS
    )
    workers: Positive | None = option(
        None, "number of processes; default: the number of CPUs", SHARDS
    )
    thumbnails: Count | None = option(
        None,
        "show at most N pictures in the report; default: 96, or more for more than 77 classes",
        OUTPUT,
    )
    description: Prose = option("", "what the dataset is, in a few sentences", ABOUT)
    citation: Prose = option("", "how to cite it, such as BibTeX", ABOUT)
    license: Line = option("", "the license of the images, such as cc-by-4.0", ABOUT)
    homepage: Homepage = option("", "the address of the dataset's page", ABOUT)
    card: Card = option(
        DatasetCard(),
        "take what is not given from this file: YAML or JSON with such keys, or a README.md that "
        "begins with them, as Hugging Face and Kaggle write it",
        ABOUT,
    )

    def __post_init__(self) -> None:
        if self.val_split + self.test_split >= 1:
            raise OptionError(
                "{0} and {1} together leave nothing to train on",
                "val_split",
                "test_split",
                hint="let them add up to less than 1",
            )
        if self.folds and self.val_split:
            hint = "leave out {1}: each fold is val in its turn"
            raise exclusive("folds", "val_split", hint)
        if self.short_side is not None and self.max_side is not None:
            raise exclusive("short_side", "max_side")
        if self.quality is not None and self.shrink_options is None:
            raise OptionError(
                "{0} needs {1} or {2}",
                *("quality", "short_side", "max_side"),
                hint="pass one of them too, or leave out {0}",
            )
        if self.embeddings and self.near_dups in (NearDups.AUTO, NearDups.OFF):
            hint = "pass {1} as report, group or drop, or leave out {0}"
            raise OptionError("{0} needs {1}", "embeddings", "near_dups", hint=hint)
        if self.classes_append and self.classes is None:
            raise OptionError(
                "{0} needs {1}", "classes_append", "classes", hint="pass {1} too, or leave out {0}"
            )
        if self.also and self.shard_compression:
            hint = "leave out one of them: TFDS cannot open a dataset with compressed TFRecords"
            raise exclusive("also", "compression", hint)

    @property
    def shrink_options(self) -> ShrinkOptions | None:
        """Return the largest size of images; None for any size."""
        if self.short_side is None and self.max_side is None:
            return None
        quality = DEFAULT_QUALITY if self.quality is None else self.quality
        return ShrinkOptions(short_side=self.short_side, max_side=self.max_side, quality=quality)

    @property
    def about(self) -> DatasetCard:
        """Return what people should know about the dataset."""
        own = DatasetCard(self.description, self.citation, self.license, self.homepage)
        return own.over(self.card)

    @property
    def shard_compression(self) -> str:
        """Return the compression of shards as metadata names it: "" for none."""
        return "" if self.compression is Compression.NONE else str(self.compression)

    def deciding(self) -> dict[str, object]:
        """Return the options that can change the output, as plain values for the report."""
        shrink = self.shrink_options
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
            # The rest is listed only if it is given.
            **({"compression": self.shard_compression} if self.shard_compression else {}),
            **({"also": list(map(str, self.also))} if self.also else {}),
            **({} if self.near_dups is NearDups.AUTO else {"near_dups": str(self.near_dups)}),
            **({} if self.alike == ALIKE else {"alike": self.alike}),
            **(
                {"embeddings": own_name(embeddings_text(self.embeddings))}
                if self.embeddings
                else {}
            ),
            **({} if self.thumbnails is None else {"thumbnails": self.thumbnails}),
            **(shrink.deciding() if shrink else {}),
            **self.about.given(),
            **given_options(self, _REPORTED),
            **self.source.reading(),
        }


def embeddings_text(given: str | Embed) -> str:
    """Return embeddings as text: the path of the file, or the name of the function with "()"."""
    return given if isinstance(given, str) else f"{getattr(given, '__name__', 'function')}()"


class SourceKeywords(TypedDict, total=False):
    """Every option for reading a source, for editors and type checkers.

    A test keeps these in step with `SourceOptions` and `PackOptions`.
    """

    yes: bool
    kind: SourceKind | str
    layout: FolderLayout | str
    class_depth: int | str
    label_regex: str
    follow_links: bool
    cifar100_labels: CifarLabels | str
    max_archive_bytes: int | str
    manifest: AnyPath
    images: AnyPath
    test_images: AnyPath
    image_template: str
    path_col: str
    label_col: str
    split_col: str
    group_col: str
    label_names: AnyPath | Sequence[LabelLine]
    fold_case: bool
    keep_case: bool
    encoding: str
    label_sep: str
    onehot: Many[str]
    column: Many[str | ColumnOption]
    include: Many[str]
    exclude: Many[str]
    map: AnyPath | Mapping[str, str] | Sequence[tuple[str, str]]
    only_classes: Many[str]
    drop_classes: Many[str]
    min_per_class: int
    limit_per_class: int | None
    min_side: int
    group_by: str


class OutputKeywords(TypedDict, total=False):
    """Every other option of a pack except its name."""

    version: str
    data_dir: AnyPath
    overwrite: bool
    resume: bool
    val_split: float
    test_split: float
    folds: int
    seed: int
    split_from: AnyPath
    split_file: AnyPath
    on_leak: OnLeak | str
    near_dups: NearDups | str
    alike: int
    embeddings: AnyPath | Embed
    classes: AnyPath | Sequence[str]
    classes_append: bool
    class_order: ClassOrder | str
    short_side: int | None
    max_side: int | None
    quality: int | None
    check: Check | str
    on_bad: OnBad | str
    max_bad: float
    shards: int | None
    shard_size: int | str
    compression: Compression | str
    also: Many[AlsoFormat | str]
    workers: int | None
    thumbnails: int | None
    description: str
    citation: str
    license: str
    homepage: str
    card: AnyPath | Mapping[str, str]


class PackKeywords(OutputKeywords, SourceKeywords, total=False):
    """Every option of `imgrec pack`, with `_` for `-`."""

    name: str
