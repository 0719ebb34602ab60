"""Which options fit which kind of source: none is passed over in silence."""

from __future__ import annotations

from collections.abc import Mapping

from imgrec.errors import UsageError
from imgrec.options import SourceKind, SourceOptions

_OF_MANIFESTS = (
    "images", "path_col", "label_col", "split_col", "group_col", "label_sep", "onehot", "columns",
)  # fmt: skip
_OF_TREES = ("class_depth", "label_regex", "layout")
_UNFIT: Mapping[SourceKind, tuple[str, ...]] = {
    SourceKind.FOLDER: ("images",),
    SourceKind.ARCHIVE: ("images",),
    SourceKind.CIFAR: (*_OF_MANIFESTS, *_OF_TREES),
    SourceKind.IDX: (*_OF_MANIFESTS, *_OF_TREES),
    SourceKind.MANIFEST: _OF_TREES,
    SourceKind.PIXELS: (
        *("images", "path_col", "group_col", "label_sep", "onehot", "columns"),
        *_OF_TREES,
    ),
    SourceKind.TFRECORD: (
        *("images", "split_col", "group_col", "label_sep", "onehot", "columns"),
        *_OF_TREES,
    ),
    SourceKind.NUMPY: (*_OF_MANIFESTS, *_OF_TREES),
}
_CALLED = {
    SourceKind.FOLDER: "a folder of images",
    SourceKind.ARCHIVE: "an archive",
    SourceKind.CIFAR: "CIFAR",
    SourceKind.IDX: "IDX",
    SourceKind.MANIFEST: "a manifest",
    SourceKind.PIXELS: "a table of pixels",
    SourceKind.TFRECORD: "TFRecords",
    SourceKind.NUMPY: "NumPy arrays",
}
_DEFAULTS = SourceOptions()


def refuse_unfit(kind: SourceKind, source: str, options: SourceOptions) -> None:
    """Raise UsageError if options are given that mean nothing for this kind of source."""
    given = [f for f in _UNFIT[kind] if getattr(options, f) != getattr(_DEFAULTS, f)]
    if given:
        named = [f"--{field.replace('_', '-').replace('columns', 'column')}" for field in given]
        means = "means" if len(named) == 1 else "mean"
        raise UsageError(
            f"{', '.join(named)} {means} nothing for {source}, which is {_CALLED[kind]}",
            hint="leave that out, or say with --kind what the source is",
        )


def refuse_label_names(source: str, options: SourceOptions) -> None:
    """Raise UsageError for options about classes that are called otherwise than their folders."""
    if options.cifar100_labels is not _DEFAULTS.cifar100_labels:
        raise UsageError(
            f"--cifar100-labels means nothing for {source}, which is not CIFAR-100",
            hint="leave that out, or say with --kind what the source is",
        )
