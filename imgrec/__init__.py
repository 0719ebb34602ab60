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
        edit,
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
    from imgrec.engine import Engine
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
    from imgrec.inspect.contact_sheet import Preview
    from imgrec.inspect.diff import Difference
    from imgrec.inspect.export.exporting import Exported
    from imgrec.inspect.leaks import Leaks
    from imgrec.inspect.listing import Listing
    from imgrec.inspect.report.page import ReportPage
    from imgrec.inspect.submission import Submitted
    from imgrec.inspect.unpack import Unpacked
    from imgrec.inspect.verify import Verified
    from imgrec.loaders import class_weights, grain_source, load, torch_dataset, torch_stream
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
    from imgrec.options.card import DatasetCard
    from imgrec.options.loading import Crop, Labels
    from imgrec.outcome import DatasetInfo, Leftover, Packed, Report, SplitInfo
    from imgrec.packing.next_version import Updated
    from imgrec.read.dataset import Dataset, Split
    from imgrec.read.record import Record

__version__ = "0.1.0"

__all__ = [
    "AlsoFormat", "BadImage", "Check", "CifarLabels", "ClassOrder", "ColumnKind", "ColumnOption",
    "Compression", "CorruptRecord", "Crop", "Dataset", "DatasetCard", "DatasetError",
    "DatasetExists", "DatasetInfo", "DatasetNotFound", "Difference", "Engine", "ExecutionError",
    "Exported", "FolderLayout", "ImgrecError", "Labels", "Leaks", "Leftover", "Listing",
    "MissingExtra", "NearDups", "OnBad", "OnLeak", "OutOfRange", "PackOptions", "Packed", "Plan",
    "PlanError", "Preview", "Record", "Report", "ReportPage", "SourceError", "SourceKind",
    "SourceOptions", "Split", "SplitInfo", "Submitted", "UnknownName", "Unpacked", "Updated",
    "UsageError", "Verified", "class_weights", "clean", "diff", "edit", "export", "grain_source",
    "info", "leaks", "list_datasets", "load", "open_dataset", "pack", "plan", "preview", "report",
    "torch_dataset", "torch_stream", "unpack", "update", "verify", "write_submission",
]  # fmt: skip
_RESULTS = {
    "Dataset": "read.dataset",
    "Difference": "inspect.diff",
    "Engine": "engine",
    "Exported": "inspect.export.exporting",
    "Leaks": "inspect.leaks",
    "Listing": "inspect.listing",
    "Preview": "inspect.contact_sheet",
    "Record": "read.record",
    "ReportPage": "inspect.report.page",
    "Split": "read.dataset",
    "Submitted": "inspect.submission",
    "Unpacked": "inspect.unpack",
    "Updated": "packing.next_version",
    "Verified": "inspect.verify",
}
"""The modules of results, most of which a caller never names."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    # Importing all of imgrec takes a tenth of a second, and every worker process would pay it.
    if name in _RESULTS:
        return getattr(import_module(f"imgrec.{_RESULTS[name]}"), name)
    if name in __all__:
        for module in (
            "errors",
            "options",
            "options.card",
            "options.loading",
            "model",
            "outcome",
            "api",
            "loaders",
        ):
            if hasattr(room := import_module(f"imgrec.{module}"), name):
                return getattr(room, name)
    raise AttributeError(f"module 'imgrec' has no attribute {name!r}")
