"""Options for reading a source, and for choosing a part of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, NamedTuple, TypeAlias

from imgrec.options.declaration import (
    Bytes,
    ColumnName,
    Count,
    Kind,
    Positive,
    Regex,
    given_options,
    option,
    parsed,
)
from imgrec.options.parsing import (
    OptionError,
    at_least,
    exclusive,
    parse_column_name,
    parse_number,
    parse_pair,
    parse_several,
    parse_text,
    refusal,
    split_names,
    verbatim,
)
from imgrec.text import own_name

NONE = "none"
"""The word for no separator in `--label-sep`, and for no column in `--split-col`."""
LEAF = 0
"""The class depth that takes all folders of an image as its class."""
LabelLine: TypeAlias = str | tuple[str, ...]
"""A line of the file that names labels, or the cells of a row."""
ColumnValue: TypeAlias = int | float | str

DATASET, SOURCE, MANIFESTS = "dataset", "source", "manifests"
PART, SPLITS = "a part of the source", "splits"


class SourceKind(StrEnum):
    """The kind of a source."""

    AUTO = "auto"
    FOLDER = "folder"
    ARCHIVE = "archive"
    MANIFEST = "manifest"
    CIFAR = "cifar"
    IDX = "idx"
    PIXELS = "pixels"
    TFRECORD = "tfrecord"
    NUMPY = "numpy"


class FolderLayout(StrEnum):
    """What the top folders of a source are."""

    AUTO = "auto"
    CLASSES = "classes"
    SPLITS = "splits"


class CifarLabels(StrEnum):
    """Which labels of CIFAR-100 are the classes."""

    FINE = "fine"
    COARSE = "coarse"


class ColumnKind(StrEnum):
    """The type of an extra column."""

    INT = "int"
    FLOAT = "float"
    TEXT = "text"


_MISSING: Mapping[ColumnKind, ColumnValue] = {
    ColumnKind.INT: -1,
    ColumnKind.FLOAT: math.nan,
    ColumnKind.TEXT: "",
}
_READERS: Mapping[ColumnKind, Callable[[str], ColumnValue]] = {
    ColumnKind.INT: int,
    ColumnKind.FLOAT: float,
    ColumnKind.TEXT: str,
}
_INT64 = range(-(1 << 63), 1 << 63)
_COLUMN = re.compile(r"(?P<name>.+?):(?P<kind>int|float|text)(=(?P<default>.*))?", re.DOTALL)
_OTHER_KINDS = ("bool", "str", "string", "bytes", "integer", "int64", "double", "float32", "date")


_FILES = ("manifest", "images", "test_images")
"""Options with paths. The report has their last part: the rest is no part of the source."""
_REPORTED = (
    *_FILES, "include", "exclude", "map", "only_classes", "drop_classes", "min_per_class",
    "limit_per_class", "min_side", "group_by", "group_col", "fold_case", "keep_case", "encoding",
    "label_names", "column", "yes", "max_archive_bytes",
)  # fmt: skip
"""Options that the report shows otherwise, and those that do not change the output."""


class ColumnOption(NamedTuple):
    """A column of a manifest to copy into the records."""

    name: str
    kind: ColumnKind | None = None
    """The type of its values; imgrec detects it when None."""
    default: ColumnValue | None = None
    """The value of missing cells; -1, NaN or "" when None. It needs a kind."""

    @classmethod
    def parse(cls, text: str) -> ColumnOption:
        """Parse NAME[:TYPE[=DEFAULT]]; raise UsageError for another type or a bad default.

        >>> ColumnOption.parse("age:int=0")
        ColumnOption(name='age', kind=<ColumnKind.INT: 'int'>, default=0)
        """
        match = _COLUMN.fullmatch(text)
        if match is None:
            name, _, word = text.partition("=")[0].rpartition(":")
            if name and word in _OTHER_KINDS:
                raise _column_error(
                    text, f"{word} is not a column type", "write int, float or text"
                )
            return cls(text)
        kind, default = ColumnKind(match["kind"]), match["default"]
        try:
            value = None if default is None else _READERS[kind](default)
        except ValueError:
            value = default
        return cls(match["name"], kind, value).checked()

    @property
    def text(self) -> str:
        """Return what `parse` takes."""
        kind = f":{self.kind}" if self.kind else ""
        return f"{self.name}{kind}" + (f"={self.default}" if self.default is not None else "")

    def checked(self) -> ColumnOption:
        """Return this column with a `ColumnKind`; raise UsageError for a bad default."""
        name, kind, default = self
        if kind is not None and kind not in tuple(ColumnKind):
            raise _column_error(name, f"{kind} is not a column type", "write int, float or text")
        if kind is None or default is None:
            if default is not None:
                raise _column_error(name, "a default needs a type", "write it as age:int=0")
            return self if kind is None else ColumnOption(name, ColumnKind(kind))
        if kind == ColumnKind.FLOAT and type(default) is int:
            default = parse_number("default", default)
        is_fit = type(default) is type(_MISSING[ColumnKind(kind)])
        if not is_fit or (isinstance(default, int) and default not in _INT64):
            raise _column_error(
                name,
                f"the default {default!r} does not fit the type {kind}",
                "write it as age:int=0, score:float=0.5 or note:text=none",
            )
        return ColumnOption(name, ColumnKind(kind), default)

    def missing(self, kind: ColumnKind) -> ColumnValue:
        """Return the value of missing cells in this column of type `kind`."""
        return _MISSING[kind] if self.default is None else self.default


def _column_error(column: str, fault: str, hint: str) -> OptionError:
    return OptionError("{0} " + verbatim(f"{column}: {fault}"), "column", hint=hint)


def parse_columns(name: str, value: object) -> tuple[ColumnOption, ...]:
    """Take columns as text such as "age:int=0", or as `ColumnOption`; one is a list of one."""
    is_one = isinstance(value, ColumnOption)
    return parse_several(_parse_column, name, (value,) if is_one else value)


def _parse_column(name: str, value: object) -> ColumnOption:
    if not isinstance(value, tuple):
        return ColumnOption.parse(parse_column_name(name, value))
    try:
        column = ColumnOption(*value)
    except TypeError as error:
        hint = "give a column's name, such as age, its type and its default"
        raise refusal(name, value, hint) from error
    return column._replace(name=parse_column_name(name, column.name)).checked()


def _parse_depth(name: str, value: object) -> int:
    if isinstance(value, str) and value == "leaf":
        return LEAF
    if isinstance(value, str) and value.isdecimal() and int(value):
        value = int(value)
    if isinstance(value, str):
        raise refusal(name, value, "give 1 or more, or leaf")
    number: int = at_least(0)(name, value)
    return number


def _parse_encoding(name: str, value: object) -> str:
    encoding = parse_text(name, value)
    try:
        "".encode(encoding or "utf-8")
    except (LookupError, UnicodeError, TypeError, ValueError) as error:
        raise OptionError(
            f"{{0}} {verbatim(encoding)} is not a text encoding that Python knows",
            name,
            hint="give utf-8, utf-16, cp1252, latin-1, shift_jis or the like",
        ) from error
    return encoding


def _parse_template(name: str, value: object) -> str:
    template = parse_text(name, value)
    if template and "{id}" not in template:
        raise OptionError(
            f"{{0}} {verbatim(template)} has no {{{{id}}}}",
            name,
            hint="write where the id goes, as in '{{id}}_green.png'",
        )
    return template


def _parse_map(name: str, value: object) -> tuple[tuple[str, str], ...]:
    """Take a dict of old and new names, or pairs of them."""
    hint = 'give a dict such as {"cat": "animal", "blurred": ""}'
    pairs = tuple(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple):
        raise refusal(name, value, hint)
    return tuple(parse_pair(parse_text, name, pair, hint) for pair in pairs)


def _parse_label_names(name: str, value: object) -> tuple[LabelLine, ...]:
    """Take names in the order of their labels, a dict of labels and names, or rows of both."""
    rows = tuple(value.items()) if isinstance(value, Mapping) else value
    return parse_several(_parse_label_line, name, rows)


def _parse_label_line(name: str, value: object) -> LabelLine:
    if isinstance(value, list | tuple):
        return tuple(parse_column_name(name, cell) for cell in value)
    return parse_text(name, value)


def _separator(text: str) -> str:
    """Take a separator from the command line, where an empty one is a mistake."""
    if not text:
        raise OptionError(
            "{0} is empty", "label_sep", hint="give the separator in quotes, such as '|' or ' '"
        )
    return text


ClassDepth: TypeAlias = Annotated[int, Kind(_parse_depth, "N|leaf", str)]
Template: TypeAlias = Annotated[str, Kind(_parse_template, "T")]
Encoding: TypeAlias = Annotated[str, Kind(_parse_encoding, "E")]
Separator: TypeAlias = Annotated[str, Kind(parse_text, "SEP", _separator)]
Names: TypeAlias = Annotated[
    tuple[str, ...], Kind(partial(parse_several, parse_text), "A,B", split_names)
]
ColumnNames: TypeAlias = Annotated[
    tuple[str, ...], Kind(partial(parse_several, parse_column_name), "A,B,C", split_names)
]
Columns: TypeAlias = Annotated[
    tuple[ColumnOption, ...], Kind(parse_columns, "NAME[:TYPE[=DEFAULT]]")
]
LabelNames: TypeAlias = Annotated[tuple[LabelLine, ...], Kind(_parse_label_names, "FILE")]
ClassMap: TypeAlias = Annotated[tuple[tuple[str, str], ...], Kind(_parse_map, "FILE")]


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read a source. The defaults fit most sources."""

    yes: bool = option(False, "pack a source that looks wrong, such as a single class", DATASET)
    kind: SourceKind = option(SourceKind.AUTO, "the kind of SOURCE", SOURCE)
    layout: FolderLayout = option(
        FolderLayout.AUTO, "what the top folders of SOURCE stand for", SOURCE
    )
    class_depth: ClassDepth | None = option(
        None, "how many folder names make up the class; leaf: all of them; default: 1", SOURCE
    )
    label_regex: Regex = option(
        "",
        "take the class from file names: the group (?P<label>...), else the first group, else the "
        "whole match",
        SOURCE,
    )
    follow_links: bool = option(False, "follow links to folders outside SOURCE", SOURCE)
    cifar100_labels: CifarLabels = option(
        CifarLabels.FINE, "which labels of CIFAR-100 to use", SOURCE
    )
    max_archive_bytes: Bytes = option(
        1 << 40, "refuse archives that unpack to more than this; default: 1024GiB", SOURCE
    )
    manifest: str = option(
        "",
        "table of images and labels (CSV, TSV, JSONL or Parquet): a file, a glob, a folder of "
        "parts, or a file inside SOURCE; SOURCE holds the images if the table is elsewhere",
        MANIFESTS,
        "FILE",
    )
    images: str = option(
        "", "folder or archive of the images; default: the manifest's folder", MANIFESTS, "DIR"
    )
    test_images: str = option(
        "",
        "unlabelled images for the test split: a folder, or a table of ids",
        MANIFESTS,
        "DIR|TABLE",
    )
    image_template: Template = option(
        "", "file name of an image, given its id, such as '{id}_green.png'", MANIFESTS
    )
    path_col: ColumnName = option("", "column with the path or id of each image", MANIFESTS)
    label_col: ColumnName = option("", "column with the class", MANIFESTS)
    split_col: ColumnName = option(
        "", "column with the split; none: ignore such a column", MANIFESTS
    )
    group_col: ColumnName = option(
        "", "keep images with the same value in this column in one split", MANIFESTS
    )
    label_names: LabelNames | None = option(
        None,
        "names of the labels: one per line in label order, a CSV of label,name, or a JSON map",
        MANIFESTS,
    )
    fold_case: bool = option(False, "merge classes that differ only in spelling", MANIFESTS)
    keep_case: bool = option(False, "keep classes apart that differ only in spelling", MANIFESTS)
    encoding: Encoding = option(
        "",
        "encoding of text tables (default: UTF-8, UTF-16 with a byte order mark, or else cp1252) "
        "and of names in archives (default: UTF-8, or else the only encoding that fits)",
        MANIFESTS,
    )
    label_sep: Separator = option(
        "", "separator between labels in a cell; none: each cell is one label", MANIFESTS
    )
    onehot: ColumnNames = option((), "columns of 0 and 1, one for each label", MANIFESTS)
    column: Columns = option(
        (),
        "copy this column into the records as int, float or text; DEFAULT (otherwise -1, NaN or "
        "nothing) replaces missing values; may be repeated",
        MANIFESTS,
    )
    include: tuple[str, ...] = option(
        (), "pack only files whose path matches; may be repeated", PART, "GLOB"
    )
    exclude: tuple[str, ...] = option(
        (), "leave out files whose path matches; may be repeated", PART, "GLOB"
    )
    map: ClassMap = option(
        (), "CSV of old,new class names: renames, merges, or drops if new is empty", PART
    )
    only_classes: Names = option((), "pack only these classes (names after --map)", PART)
    drop_classes: Names = option((), "leave out these classes (names after --map)", PART)
    min_per_class: Count = option(0, "leave out classes with fewer images", PART)
    limit_per_class: Positive | None = option(None, "pack at most N images of each class", PART)
    min_side: Count = option(0, "leave out images with a side shorter than this", PART, "PX")
    group_by: Regex = option(
        "",
        "keep images in one split whose paths match with the same text: the group (?P<group>...), "
        "else the first group, else the whole match",
        SPLITS,
    )

    def __post_init__(self) -> None:
        if both := sorted({*self.only_classes} & {*self.drop_classes}):
            raise OptionError(
                f"{verbatim(', '.join(both))} is in both {{0}} and {{1}}",
                "only_classes",
                "drop_classes",
                hint="leave it out of one of them",
            )
        for one, other in (
            ("group_by", "group_col"),
            ("fold_case", "keep_case"),
            ("label_sep", "onehot"),
        ):
            if getattr(self, one) and getattr(self, other):
                raise exclusive(one, other)

    def deciding(self) -> dict[str, object]:
        """Return the options that choose images or groups, as plain values for the report."""
        return {
            "include": list(self.include),
            "exclude": list(self.exclude),
            "min_side": self.min_side,
            "limit_per_class": self.limit_per_class,
            "group_by": self.group_by,
            "group_col": self.group_col,
            **({"fold_case": True} if self.fold_case else {}),
            **({"keep_case": True} if self.keep_case else {}),
            **({"encoding": self.encoding} if self.encoding else {}),
            **self.class_changes(),
        }

    def reading(self) -> dict[str, object]:
        """Return the given options that choose how the source is read, as plain values."""
        files = {name: own_name(getattr(self, name)) for name in _FILES if getattr(self, name)}
        names = {"label_names": "given"} if self.label_names else {}
        columns = {"columns": [one.text for one in self.column]} if self.column else {}
        return {**given_options(self, _REPORTED), **files, **names, **columns}

    def class_changes(self) -> dict[str, object]:
        """Return the given options that rename or leave out classes, as plain values."""
        changes = {
            "map": dict(self.map),
            "only_classes": list(self.only_classes),
            "drop_classes": list(self.drop_classes),
            "min_per_class": self.min_per_class,
        }
        return {name: value for name, value in changes.items() if value}
