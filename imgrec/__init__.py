"""Pack image-classification datasets into TFRecords that TFDS loads.

import imgrec
imgrec.pack("flowers", imgrec.PackOptions(val_fraction=0.1))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imgrec.api import dry_run, info, pack
    from imgrec.errors import (
        BadImage,
        CorruptRecord,
        DatasetError,
        DatasetExists,
        DatasetNotFound,
        ExecutionError,
        ImgrecError,
        MissingExtra,
        PlanError,
        SourceError,
        UsageError,
    )
    from imgrec.model import DatasetInfo, Packed, Plan, Report
    from imgrec.options import Check, ClassOrder, FolderLayout, OnBad, OnLeak, PackOptions

__version__ = "0.1.0"

__all__ = [
    "BadImage",
    "Check",
    "ClassOrder",
    "CorruptRecord",
    "DatasetError",
    "DatasetExists",
    "DatasetInfo",
    "DatasetNotFound",
    "ExecutionError",
    "FolderLayout",
    "ImgrecError",
    "MissingExtra",
    "OnBad",
    "OnLeak",
    "PackOptions",
    "Packed",
    "Plan",
    "PlanError",
    "Report",
    "SourceError",
    "UsageError",
    "dry_run",
    "info",
    "pack",
]


def __getattr__(name: str) -> object:
    # Importing all of imgrec takes a tenth of a second, which every worker process would pay.
    if name in __all__:
        for module in ("imgrec.errors", "imgrec.options", "imgrec.model", "imgrec.api"):
            if hasattr(found := import_module(module), name):
                return getattr(found, name)
    raise AttributeError(f"module 'imgrec' has no attribute {name!r}")
