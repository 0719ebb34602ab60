"""Everything that can be asked of a pack."""

from imgrec.options.choices import (
    AlsoFormat,
    Check,
    CifarLabels,
    ClassOrder,
    ColumnKind,
    Compression,
    FolderLayout,
    NearDups,
    OnBad,
    OnLeak,
    SourceKind,
)
from imgrec.options.packing import PackOptions, ShardOptions, ShrinkOptions, SplitOptions
from imgrec.options.source import LEAF, NONE, ColumnOption, SourceOptions

__all__ = [
    "LEAF",
    "NONE",
    "AlsoFormat",
    "Check",
    "CifarLabels",
    "ClassOrder",
    "ColumnKind",
    "ColumnOption",
    "Compression",
    "FolderLayout",
    "NearDups",
    "OnBad",
    "OnLeak",
    "PackOptions",
    "ShardOptions",
    "ShrinkOptions",
    "SourceKind",
    "SourceOptions",
    "SplitOptions",
]
