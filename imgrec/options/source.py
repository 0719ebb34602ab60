"""How a source is to be understood, and which part of it is wanted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

from imgrec.errors import UsageError
from imgrec.options.choices import CifarLabels, ColumnKind, FolderLayout, SourceKind
from imgrec.options.parsing import (
    parse_number,
    parse_pair,
    parse_several,
    parse_text,
    parse_whole,
    parsed,
    refusal,
)

NONE = "none"
"""What `--label-sep` and `--split-col` take for no separator and no column."""
LEAF = 0
"""The class depth at which the folder of an image, however deep, is its class."""


ColumnValue: TypeAlias = int | float | str
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


class ColumnOption(NamedTuple):
    """A column of a manifest that is to travel into the records."""

    name: str
    kind: ColumnKind | None = None
    """What its values are; found out when None."""
    default: ColumnValue | None = None
    """What stands for a missing value; None for -1, NaN or "". It needs a kind."""

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
                raise UsageError(
                    f"--column {text}: {word} is not a type of column",
                    hint="write int, float or text",
                )
            return cls(text)
        kind, default = ColumnKind(match["kind"]), match["default"]
        try:
            value = None if default is None else _READERS[kind](default)
        except ValueError:
            value = default
        return cls(match["name"], kind, value).checked()

    def checked(self) -> ColumnOption:
        """Return this column with its kind as a `ColumnKind`; raise UsageError if it is wrong."""
        name, kind, default = self
        if kind is not None and kind not in tuple(ColumnKind):
            raise UsageError(
                f"--column {name}: {kind} is not a type of column", hint="write int, float or text"
            )
        if kind is None or default is None:
            if default is not None:
                raise UsageError(
                    f"--column {name}: a default needs a type", hint="write it as age:int=0"
                )
            return self if kind is None else ColumnOption(name, ColumnKind(kind))
        if kind == ColumnKind.FLOAT and type(default) is int:
            default = parse_number("default", default)
        is_fit = type(default) is type(_MISSING[ColumnKind(kind)])
        if not is_fit or (isinstance(default, int) and default not in _INT64):
            raise UsageError(
                f"--column {name}: the default {default!r} does not fit the type {kind}",
                hint="write it as age:int=0, score:float=0.5 or note:text=none",
            )
        return ColumnOption(name, ColumnKind(kind), default)

    def missing(self, kind: ColumnKind) -> ColumnValue:
        """Return what stands for a missing value in this column, whose values are of `kind`."""
        return _MISSING[kind] if self.default is None else self.default


def parse_columns(name: str, value: object) -> tuple[ColumnOption, ...]:
    """Take columns as the command line does, or as `ColumnOption`; one is a list of one."""
    one = isinstance(value, ColumnOption)
    return parse_several(_parse_column, name, (value,) if one else value)


def _parse_column(name: str, value: object) -> ColumnOption:
    if not isinstance(value, tuple):
        return ColumnOption.parse(_parse_column_name(name, value))
    try:
        column = ColumnOption(*value)
    except TypeError as error:
        hint = "give a column's name, such as age, its type and its default"
        raise refusal(name, value, hint) from error
    return column._replace(name=_parse_column_name(name, column.name)).checked()


def _parse_column_name(name: str, value: object) -> str:
    """Take the name of a column, or its number where columns have no names."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(parse_whole(name, value)) if is_number else parse_text(name, value)


def _parse_depth(name: str, value: object) -> int | None:
    if value is None:
        return None
    return LEAF if isinstance(value, str) and value == "leaf" else parse_whole(name, value)


def _parse_map(name: str, value: object) -> tuple[tuple[str, str], ...]:
    """Take a dict of old and new names, or pairs of them."""
    hint = 'give a dict such as {"cat": "animal", "blurred": ""}'
    pairs = tuple(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple):
        raise refusal(name, value, hint)
    return tuple(parse_pair(parse_text, name, pair, hint) for pair in pairs)


LabelLine: TypeAlias = str | tuple[str, ...]
"""A line of the file that names labels, or the cells of a row."""


def _parse_label_names(name: str, value: object) -> tuple[LabelLine, ...] | None:
    """Take names in the order of their labels, or a dict of labels and names, or rows of these."""
    if value is None:
        return None
    rows = tuple(value.items()) if isinstance(value, Mapping) else value
    return parse_several(_parse_label_line, name, rows)


def _parse_label_line(name: str, value: object) -> LabelLine:
    if isinstance(value, list | tuple):
        return tuple(_parse_column_name(name, cell) for cell in value)
    return parse_text(name, value)


ColumnName: TypeAlias = Annotated[str, _parse_column_name]


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How a source is read. The defaults are those of the command line and fit most sources."""

    kind: SourceKind = SourceKind.AUTO
    layout: FolderLayout = FolderLayout.AUTO
    follow_links: bool = False
    class_depth: Annotated[int | None, _parse_depth] = None
    """How many folders, joined, name a class; `LEAF` for all down to the image. None: one, unless
    the folders can be read in two ways."""
    label_regex: str = ""
    """Where in a file's name its class is: the group `label`, else the first, else all of it."""
    image_template: str = ""
    """How an id of a table becomes a file's name, as in `{id}_green.png`; "" if it is one."""
    images: str = ""
    """The folder or archive that the paths of a manifest are in; the manifest's own when empty."""
    path_col: ColumnName = ""
    label_col: ColumnName = ""
    split_col: ColumnName = ""
    group_col: ColumnName = ""
    label_names: Annotated[tuple[LabelLine, ...] | None, _parse_label_names] = None
    """Names of labels: text i is the name of label i, and a row holds a label and its name. A
    dict of labels and names, either way round, becomes rows."""
    fold_case: bool = False
    """Whether classes that differ only in spelling are one."""
    keep_case: bool = False
    """Whether they are different classes; if neither is said, they are refused."""
    columns: Annotated[tuple[ColumnOption, ...], parse_columns] = ()
    """Columns that travel into the records; texts such as "age:int=0" are parsed."""
    encoding: str = ""
    """Of tables of text, and of names in archives that are not marked as UTF-8, as Python calls it.
    When empty, tables are UTF-8, UTF-16 with a mark or cp1252, and names are what fits them."""
    label_sep: str = ""
    onehot: tuple[ColumnName, ...] = ()
    cifar100_labels: CifarLabels = CifarLabels.FINE
    max_archive_bytes: int = 1 << 40
    """The most that archives may unpack to, all in all."""
    group_by: str = ""
    """Where in a file's path its group is, as in `label_regex` with the group `group`."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    yes: bool = False
    """Whether to pack what looks doubtful, such as a single class, as it is."""
    table: str = ""
    """Which table of a download holds the labels; "" if that is to be found out."""
    test_images: str = ""
    """A folder of images without labels, or a table of their ids, that are the split test."""
    min_side: int = 0
    limit_per_class: int | None = None
    class_map: Annotated[tuple[tuple[str, str], ...], _parse_map] = ()
    """New names of classes; two that get one name are merged, and "" leaves a class out."""
    only_classes: tuple[str, ...] = ()
    """The classes to pack, by their new names; all when empty."""
    drop_classes: tuple[str, ...] = ()
    min_per_class: int = 0
    """Classes of fewer images are left out."""

    def __post_init__(self) -> None:
        for option, pattern in (("label-regex", self.label_regex), ("group-by", self.group_by)):
            _refuse_bad_pattern(option, pattern)
        _refuse_unknown_encoding(self.encoding)
        if self.class_depth is not None and self.class_depth < 0:
            raise UsageError(
                f"--class-depth {self.class_depth} is no depth", hint="give 1 or more, or leaf"
            )
        if self.min_side < 0 or self.max_archive_bytes < 1:
            raise UsageError("--min-side and --max-archive-bytes must be positive")
        if self.limit_per_class is not None and self.limit_per_class < 1:
            raise UsageError(
                f"--limit-per-class {self.limit_per_class} leaves nothing", hint="give 1 or more"
            )
        if self.min_per_class < 0:
            raise UsageError(
                f"--min-per-class {self.min_per_class} is negative", hint="give 1 or more"
            )
        if both := sorted({*self.only_classes} & {*self.drop_classes}):
            raise UsageError(
                f"{', '.join(both)} is in --only-classes and in --drop-classes",
                hint="leave it out of one of them",
            )
        if self.group_by and self.group_col:
            raise UsageError(
                "--group-by and --group-col are two ways to say groups", hint="choose one of them"
            )
        if self.fold_case and self.keep_case:
            raise UsageError(
                "--fold-case merges spellings, and --keep-case keeps them apart",
                hint="choose one of them",
            )
        if self.label_sep and self.onehot:
            raise UsageError(
                "--label-sep and --onehot are two ways to say several labels",
                hint="choose the one that fits the manifest",
            )

    def deciding(self) -> dict[str, object]:
        """Return those that choose a part of the source or its groups, as plain values."""
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

    def class_changes(self) -> dict[str, object]:
        """Return those that rename or leave out classes, if any is given, as plain values."""
        told = {
            "map": dict(self.class_map),
            "only_classes": list(self.only_classes),
            "drop_classes": list(self.drop_classes),
            "min_per_class": self.min_per_class,
        }
        return {option: value for option, value in told.items() if value}


_SHOWN = 200


def _refuse_bad_pattern(option: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--{option} {pattern[:_SHOWN]!r} is not a regular expression: {error}",
            hint="write it as Python's re module takes it, in quotes for the shell",
        ) from error


def _refuse_unknown_encoding(encoding: str) -> None:
    try:
        "".encode(encoding or "utf-8")
    except (LookupError, UnicodeError, TypeError, ValueError) as error:
        raise UsageError(
            f"--encoding {encoding} is not an encoding of text that Python knows",
            hint="give utf-8, utf-16, cp1252, latin-1, shift_jis or the like",
        ) from error
