"""Choices of options."""

from __future__ import annotations

from enum import StrEnum


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
    """What to do about one image in two splits of the source."""

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


class FolderLayout(StrEnum):
    """What the top folders of a source are."""

    AUTO = "auto"
    CLASSES = "classes"
    SPLITS = "splits"


class SourceKind(StrEnum):
    """What a source is."""

    AUTO = "auto"
    FOLDER = "folder"
    ARCHIVE = "archive"
    MANIFEST = "manifest"
    CIFAR = "cifar"
    IDX = "idx"
    PIXELS = "pixels"
    TFRECORD = "tfrecord"
    NUMPY = "numpy"


class CifarLabels(StrEnum):
    """Which labels of CIFAR-100 are the classes."""

    FINE = "fine"
    COARSE = "coarse"


class ColumnKind(StrEnum):
    """The type of an extra column."""

    INT = "int"
    FLOAT = "float"
    TEXT = "text"


class Compression(StrEnum):
    """How whole shards are compressed."""

    NONE = "none"
    GZIP = "gzip"
    ZLIB = "zlib"


class AlsoFormat(StrEnum):
    """Another file format for the records."""

    ARRAY_RECORD = "array_record"
