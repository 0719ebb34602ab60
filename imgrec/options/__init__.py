"""Options of packing and loading."""

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
from imgrec.options.columns import ColumnOption
from imgrec.options.errors import OptionError
from imgrec.options.packing import PackOptions, ShardOptions, ShrinkOptions, SplitOptions
from imgrec.options.source import LEAF, NONE, SourceOptions

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
    "OptionError",
    "PackOptions",
    "ShardOptions",
    "ShrinkOptions",
    "SourceKind",
    "SourceOptions",
    "SplitOptions",
]
