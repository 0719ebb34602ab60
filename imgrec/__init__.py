"""Pack image-classification datasets into TFRecords that TFDS loads.

import imgrec
imgrec.pack("flowers", val_split=0.1)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imgrec.api import (
        clean,
        diff,
        export,
        info,
        leaks,
        list_datasets,
        open_dataset,
        pack,
        plan,
        preview,
        report,
        unpack,
        update,
        verify,
        write_submission,
    )
    from imgrec.errors import (
        BadImage,
        CorruptRecord,
        DatasetError,
        DatasetExists,
        DatasetNotFound,
        ExecutionError,
        ImgrecError,
        MissingExtra,
        OutOfRange,
        PlanError,
        SourceError,
        UnknownName,
        UsageError,
    )
    from imgrec.loaders import class_weights, grain_source, load, torch_dataset
    from imgrec.model import Plan
    from imgrec.options import (
        AlsoFormat,
        Check,
        CifarLabels,
        ClassOrder,
        ColumnKind,
        ColumnOption,
        Compression,
        FolderLayout,
        NearDups,
        OnBad,
        OnLeak,
        PackOptions,
        SourceKind,
        SourceOptions,
    )
    from imgrec.options.loading import Crop
    from imgrec.outcome import DatasetInfo, Packed, Report
    from imgrec.updating import Updated

__version__ = "0.1.0"

__all__ = [
    "AlsoFormat", "BadImage", "Check", "CifarLabels", "ClassOrder", "ColumnKind", "ColumnOption",
    "Compression", "CorruptRecord", "Crop", "DatasetError", "DatasetExists", "DatasetInfo",
    "DatasetNotFound", "ExecutionError", "FolderLayout", "ImgrecError", "MissingExtra", "NearDups",
    "OnBad", "OnLeak", "OutOfRange", "PackOptions", "Packed", "Plan", "PlanError", "Report",
    "SourceError", "SourceKind", "SourceOptions", "UnknownName", "Updated", "UsageError",
    "class_weights", "clean", "diff", "export", "grain_source", "info", "leaks", "list_datasets",
    "load", "open_dataset", "pack", "plan", "preview", "report", "torch_dataset", "unpack",
    "update", "verify", "write_submission",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    # Importing all of imgrec takes a tenth of a second, and every worker process would pay it.
    if name in __all__:
        for module in ("errors", "options", "model", "outcome", "api", "loaders", "updating"):
            if hasattr(room := import_module(f"imgrec.{module}"), name):
                return getattr(room, name)
    raise AttributeError(f"module 'imgrec' has no attribute {name!r}")
