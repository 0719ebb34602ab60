"""The words that options are chosen from."""

from __future__ import annotations

from enum import StrEnum


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


class NearDups(StrEnum):
    """What is done about images that look alike."""

    AUTO = "auto"
    """Tell of those among the images that are decoded anyway."""
    OFF = "off"
    REPORT = "report"
    GROUP = "group"
    DROP = "drop"


class ClassOrder(StrEnum):
    """How class names are ordered into labels."""

    NATURAL = "natural"
    LEXICAL = "lexical"


class FolderLayout(StrEnum):
    """What the folders right below the root of a source mean."""

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
    """Which of the two labels of a CIFAR-100 image is its class."""

    FINE = "fine"
    COARSE = "coarse"


class ColumnKind(StrEnum):
    """What the values of an extra column are."""

    INT = "int"
    FLOAT = "float"
    TEXT = "text"


class Compression(StrEnum):
    """How each shard is compressed as a whole."""

    NONE = "none"
    GZIP = "gzip"
    ZLIB = "zlib"


class AlsoFormat(StrEnum):
    """A file format in which the records are written once more."""

    ARRAY_RECORD = "array_record"
