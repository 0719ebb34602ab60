"""Options for reading a source, and for choosing a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from imgrec.options.choices import CifarLabels, FolderLayout, SourceKind
from imgrec.options.columns import ColumnOption, parse_column_name, parse_columns
from imgrec.options.declaration import option, parsed
from imgrec.options.errors import OptionError, refusal, verbatim
from imgrec.options.parsing import (
    at_least,
    parse_bytes,
    parse_pair,
    parse_pattern,
    parse_several,
    parse_text,
    split_names,
)

NONE = "none"
"""The word for no separator in `--label-sep`, and for no column in `--split-col`."""
LEAF = 0
"""The class depth at which the folder of an image, however deep, is its class."""
LabelLine: TypeAlias = str | tuple[str, ...]
"""A line of the file that names labels, or the cells of a row."""

DATASET, SOURCE, MANIFESTS = "dataset", "source", "manifests"
PART, SPLITS = "a part of the source", "splits"


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
    """Take names in the order of their labels, or a dict of labels and names, or rows of these."""
    rows = tuple(value.items()) if isinstance(value, Mapping) else value
    return parse_several(_parse_label_line, name, rows)


def _parse_label_line(name: str, value: object) -> LabelLine:
    if isinstance(value, list | tuple):
        return tuple(parse_column_name(name, cell) for cell in value)
    return parse_text(name, value)


def _separator(text: str) -> str:
    """Take a separator from the command line, where an empty one is a slip."""
    if not text:
        raise OptionError(
            "{0} is empty", "label_sep", hint="give the separator in quotes, such as '|' or ' '"
        )
    return text


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read a source. The defaults fit most sources."""

    yes: bool = option(
        False, "pack doubtful sources as they are, such as a single class", group=DATASET
    )
    kind: SourceKind = option(SourceKind.AUTO, "what SOURCE is", group=SOURCE)
    layout: FolderLayout = option(FolderLayout.AUTO, "what the folders in SOURCE are", group=SOURCE)
    class_depth: int | None = option(
        None,
        "how many folders, joined, name a class, or leaf for all of them; default: 1",
        group=SOURCE,
        metavar="N|leaf",
        parse=_parse_depth,
        text=str,
    )
    label_regex: str = option(
        "",
        "take the class from file names: the group (?P<label>...), the first group, or the match",
        group=SOURCE,
        metavar="REGEX",
        parse=parse_pattern,
    )
    follow_links: bool = option(False, "also walk links to folders outside SOURCE", group=SOURCE)
    cifar100_labels: CifarLabels = option(
        CifarLabels.FINE, "which labels of CIFAR-100", group=SOURCE
    )
    max_archive_bytes: int = option(
        1 << 40,
        "the most that archives may unpack to; default: 1024GiB",
        group=SOURCE,
        metavar="SIZE",
        parse=parse_bytes,
        text=str,
    )
    manifest: str = option(
        "",
        "table of images and labels (CSV, TSV, JSONL, Parquet): a file, a glob, a folder of "
        "parts, or a file inside SOURCE; with a table elsewhere, SOURCE holds the images",
        group=MANIFESTS,
        metavar="FILE",
    )
    images: str = option(
        "",
        "folder or archive of the images; default: the folder of the manifest",
        group=MANIFESTS,
        metavar="DIR",
    )
    test_images: str = option(
        "",
        "unlabelled images for the split test: a folder, or a table of ids",
        group=MANIFESTS,
        metavar="DIR|TABLE",
    )
    image_template: str = option(
        "",
        "file name of an id, as in '{id}_green.png'",
        group=MANIFESTS,
        metavar="T",
        parse=_parse_template,
    )
    path_col: str = option(
        "",
        "column with the path or id of the image",
        group=MANIFESTS,
        metavar="C",
        parse=parse_column_name,
    )
    label_col: str = option(
        "", "column with the class", group=MANIFESTS, metavar="C", parse=parse_column_name
    )
    split_col: str = option(
        "",
        "column with the split; none: ignore such a column",
        group=MANIFESTS,
        metavar="C",
        parse=parse_column_name,
    )
    group_col: str = option(
        "",
        "column whose equal values stay in one split",
        group=MANIFESTS,
        metavar="C",
        parse=parse_column_name,
    )
    label_names: tuple[LabelLine, ...] | None = option(
        None,
        "names of labels: line i names label i; or a CSV of label,name, or a JSON map",
        group=MANIFESTS,
        metavar="FILE",
        parse=_parse_label_names,
    )
    fold_case: bool = option(False, "merge classes that differ only in spelling", group=MANIFESTS)
    keep_case: bool = option(
        False, "keep classes apart that differ only in spelling", group=MANIFESTS
    )
    encoding: str = option(
        "",
        "of text tables (default: UTF-8, UTF-16 with a byte order mark, or else cp1252) and of "
        "names in archives (default: UTF-8, or else the only one that fits)",
        group=MANIFESTS,
        metavar="E",
        parse=_parse_encoding,
    )
    label_sep: str = option(
        "",
        "separator of several labels in a cell; none: a cell is one label",
        group=MANIFESTS,
        metavar="SEP",
        text=_separator,
    )
    onehot: tuple[str, ...] = option(
        (),
        "columns of 0 and 1, one for each label",
        group=MANIFESTS,
        metavar="A,B,C",
        parse=partial(parse_several, parse_column_name),
        text=split_names,
    )
    column: tuple[ColumnOption, ...] = option(
        (),
        "column to copy into the records as int, float or text; DEFAULT replaces missing values, "
        "otherwise -1, NaN or nothing; may be repeated",
        group=MANIFESTS,
        metavar="NAME[:TYPE[=DEFAULT]]",
        parse=parse_columns,
    )
    include: tuple[str, ...] = option(
        (), "pack only files whose path matches; may be repeated", group=PART, metavar="GLOB"
    )
    exclude: tuple[str, ...] = option(
        (), "leave out files whose path matches; may be repeated", group=PART, metavar="GLOB"
    )
    map: tuple[tuple[str, str], ...] = option(
        (),
        "CSV of old,new class names: rename, merge, or drop with an empty new name",
        group=PART,
        metavar="FILE",
        parse=_parse_map,
    )
    only_classes: tuple[str, ...] = option(
        (),
        "pack only these classes, by their new names",
        group=PART,
        metavar="A,B",
        text=split_names,
    )
    drop_classes: tuple[str, ...] = option(
        (),
        "leave out these classes, by their new names",
        group=PART,
        metavar="A,B",
        text=split_names,
    )
    min_per_class: int = option(
        0, "leave out classes with fewer images", group=PART, metavar="N", parse=at_least(0)
    )
    limit_per_class: int | None = option(
        None, "at most N images of each class", group=PART, metavar="N", parse=at_least(1)
    )
    min_side: int = option(
        0, "leave out images with a shorter side", group=PART, metavar="PX", parse=at_least(0)
    )
    group_by: str = option(
        "",
        "keep images together whose paths match alike: the group (?P<group>...), the first "
        "group, or the match",
        group=SPLITS,
        metavar="REGEX",
        parse=parse_pattern,
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
                raise OptionError(
                    "{0} and {1} cannot be combined", one, other, hint="choose one of them"
                )

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

    def class_changes(self) -> dict[str, object]:
        """Return the given options that rename or leave out classes, as plain values."""
        changes = {
            "map": dict(self.map),
            "only_classes": list(self.only_classes),
            "drop_classes": list(self.drop_classes),
            "min_per_class": self.min_per_class,
        }
        return {name: value for name, value in changes.items() if value}
