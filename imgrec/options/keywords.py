"""The options of a pack as keyword arguments, for editors and type checkers.

A test keeps these in step with `PackOptions` and `SourceOptions`, where each option is declared and
documented.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict, TypeVar

from imgrec.options.packing import (
    AlsoFormat,
    Check,
    ClassOrder,
    Compression,
    NearDups,
    OnBad,
    OnLeak,
)
from imgrec.options.source import (
    CifarLabels,
    ColumnOption,
    FolderLayout,
    LabelLine,
    SourceKind,
)

T = TypeVar("T")
AnyPath: TypeAlias = str | os.PathLike[str]
Many: TypeAlias = T | Sequence[T]


class PackKeywords(TypedDict, total=False):
    """Every option of `imgrec pack`, with `_` for `-`."""

    name: str
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
