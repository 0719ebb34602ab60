"""Pack image-classification datasets into TFRecords that TFDS loads."""

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
from imgrec.model import (
    Check,
    ClassOrder,
    DatasetInfo,
    FolderLayout,
    OnBad,
    OnLeak,
    Packed,
    PackOptions,
    Plan,
    Report,
)

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
