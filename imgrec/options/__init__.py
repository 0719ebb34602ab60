"""Everything that can be asked of a pack."""

from imgrec.options.choices import (
    Check,
    CifarLabels,
    ClassOrder,
    ColumnKind,
    FolderLayout,
    OnBad,
    OnLeak,
    SourceKind,
)
from imgrec.options.packing import PackOptions, ShardOptions, SplitOptions
from imgrec.options.source import LEAF, ColumnOption, SourceOptions

__all__ = [
    "LEAF",
    "Check",
    "CifarLabels",
    "ClassOrder",
    "ColumnKind",
    "ColumnOption",
    "FolderLayout",
    "OnBad",
    "OnLeak",
    "PackOptions",
    "ShardOptions",
    "SourceKind",
    "SourceOptions",
    "SplitOptions",
]
