"""How a source is to be understood, and which part of it is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.errors import UsageError
from imgrec.options.choices import (
    CifarLabels,
    ColumnKind,
    FolderLayout,
    SourceKind,
    choose,
    refuse_non_numbers,
)

LEAF = 0
"""The class depth at which the folder of an image, however deep, is its class."""


class ColumnOption(NamedTuple):
    """A column of a manifest that is to travel into the records."""

    name: str
    kind: ColumnKind | None = None
    """What its values are; found out when None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How a source is read. The defaults are those of the command line and fit most sources."""

    kind: SourceKind = SourceKind.AUTO
    layout: FolderLayout = FolderLayout.AUTO
    follow_links: bool = False
    class_depth: int = 1
    """How many folders, joined, name a class; `LEAF` for all down to the image."""
    label_regex: str = ""
    """Where in a file's name its class is: the group `label`, else the first, else all of it."""
    images: str = ""
    """The folder or archive that the paths of a manifest are in; the manifest's own when empty."""
    path_col: str = ""
    label_col: str = ""
    split_col: str = ""
    group_col: str = ""
    label_names: tuple[str, ...] | None = None
    """Name i is that of the class that the source calls i."""
    fold_case: bool = False
    """Whether labels that differ only by case or blanks are one."""
    columns: tuple[ColumnOption, ...] = ()
    label_sep: str = ""
    onehot: tuple[str, ...] = ()
    cifar100_labels: CifarLabels = CifarLabels.FINE
    max_archive_bytes: int = 1 << 40
    """The most that archives may unpack to, all in all."""
    group_by: str = ""
    """Where in a file's path its group is, as in `label_regex` with the group `group`."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    min_side: int = 0
    limit_per_class: int | None = None

    def __post_init__(self) -> None:
        choose(
            self,
            {"kind": SourceKind, "layout": FolderLayout, "cifar100_labels": CifarLabels},
        )
        refuse_non_numbers(
            self,
            dict.fromkeys(("class_depth", "max_archive_bytes", "min_side", "limit_per_class"), int),
        )
        for option, pattern in (("label-regex", self.label_regex), ("group-by", self.group_by)):
            _refuse_bad_pattern(option, pattern)
        if self.class_depth < 0:
            raise UsageError(
                f"--class-depth {self.class_depth} is no depth", hint="give 1 or more, or leaf"
            )
        if self.min_side < 0 or self.max_archive_bytes < 1:
            raise UsageError("--min-side and --max-archive-bytes must be positive")
        if self.limit_per_class is not None and self.limit_per_class < 1:
            raise UsageError(
                f"--limit-per-class {self.limit_per_class} leaves nothing", hint="give 1 or more"
            )
        if self.group_by and self.group_col:
            raise UsageError(
                "--group-by and --group-col are two ways to say groups", hint="choose one of them"
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
        }


def _refuse_bad_pattern(option: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--{option} {pattern!r} is not a regular expression: {error}",
            hint="write it as Python's re module takes it, in quotes for the shell",
        ) from error
