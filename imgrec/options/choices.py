"""The words that options are chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from imgrec.errors import UsageError


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


def choose(options: object, choices: Mapping[str, type[StrEnum]]) -> None:
    """Turn the named fields of frozen options into choices; raise UsageError if one is none."""
    for field, kind in choices.items():
        value = getattr(options, field)
        try:
            object.__setattr__(options, field, kind(value))
        except ValueError as error:
            raise UsageError(
                f"{field} cannot be {value!r}", hint=f"choose from {', '.join(kind)}"
            ) from error


def choose_some(options: object, field: str, kind: type[StrEnum]) -> None:
    """Turn a field of frozen options into a tuple of choices, each once, as `choose` does."""
    value = getattr(options, field)
    try:
        some = tuple(map(kind, (value,) if isinstance(value, str) else value))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{field} cannot be {value!r}", hint=f"choose from {', '.join(kind)}"
        ) from error
    object.__setattr__(options, field, tuple(dict.fromkeys(some)))


def refuse_non_numbers(options: object, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raise UsageError if one of the named fields is neither None nor a number of its kind."""
    for field, kind in kinds.items():
        value = getattr(options, field)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise UsageError(f"{field} cannot be {value!r}", hint="give a number")
