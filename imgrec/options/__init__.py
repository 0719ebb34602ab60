"""Options of packing and loading."""

from imgrec.options.packing import (
    AlsoFormat,
    Check,
    ClassOrder,
    Compression,
    NearDups,
    OnBad,
    OnLeak,
    PackOptions,
    ShrinkOptions,
)
from imgrec.options.parsing import OptionError
from imgrec.options.source import (
    LEAF,
    NONE,
    CifarLabels,
    ColumnKind,
    ColumnOption,
    FolderLayout,
    SourceKind,
    SourceOptions,
)

__all__ = [
    "LEAF", "NONE", "AlsoFormat", "Check", "CifarLabels", "ClassOrder", "ColumnKind",
    "ColumnOption", "Compression", "FolderLayout", "NearDups", "OnBad", "OnLeak", "OptionError",
    "PackOptions", "ShrinkOptions", "SourceKind", "SourceOptions",
]  # fmt: skip
