"""The files that a dataset was packed from, as they are now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from imgrec.blob import Blob
from imgrec.errors import SourceError
from imgrec.inspection.reports import array_kind
from imgrec.options import CifarLabels, SourceKind, SourceOptions
from imgrec.outcome import Report
from imgrec.source.context import Context
from imgrec.source.detect import detect, scan
from imgrec.source.listing import open_tree
from imgrec.source.tree import look_at, refuse_closed
from imgrec.text import globs_pattern, printable

_ARRAYS = {
    "CIFAR": SourceKind.CIFAR,
    "IDX": SourceKind.IDX,
    "pixels": SourceKind.PIXELS,
    "TFRecords": SourceKind.TFRECORD,
    "NumPy": SourceKind.NUMPY,
}
_HIDING = ("outside", "beside", "left out", "smaller", "beyond")
"""How those reasons begin for which images are passed over without being named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """The files of a source by their names."""

    files: Mapping[str, tuple[Blob, int]]
    """Where the bytes of each are, and how many."""
    images: frozenset[str]
    """The names of those that look like images."""

    def unpacked(self, packed: Iterable[str], report: Report | None) -> list[str]:
        """Return the images that are neither packed nor, by the report, skipped by name."""
        left = self.images.difference(packed)
        if report is None:
            return sorted(left)
        skipped = {file.filename for file in report.skipped}
        wanted = [name for name in left if printable(name) not in skipped]
        return sorted(_chosen(wanted, report.options))


def passes_over(report: Report | None) -> bool:
    """Tell whether images of the source may be left out without being named."""
    return report is None or any(one.kind.startswith(_HIDING) for one in report.ignored)


def find_originals(source: str, report: Report | None, context: Context) -> Originals:
    """List what a source holds, of whatever kind it is; raise SourceError if it cannot be."""
    kind = _ARRAYS.get(array_kind(report))
    if report is None or kind is None:
        return _files(source, context)
    try:
        return _arrays(source, kind, report.layout, context)
    except SourceError:
        # It may be what the dataset was unpacked to.
        if os.path.isdir(source) and (found := _files(source, context)).images:
            return found
        raise


def _files(source: str, context: Context) -> Originals:
    if detect(source, SourceOptions()).kind is SourceKind.MANIFEST:
        from imgrec.source.manifests.files import manifest_files

        source = manifest_files(source).folder
    lister = open_tree(source, context)
    tree = look_at(lister, context)
    refuse_closed(lister, context.options)
    files = dict(zip(tree.names, zip(tree.blobs, tree.sizes, strict=True), strict=True))
    odd = tree.others | tree.faults.keys()
    images = frozenset(name for at, name in enumerate(tree.names) if at not in odd)
    return Originals(files=files, images=images)


def _arrays(source: str, kind: SourceKind, layout: str, context: Context) -> Originals:
    coarse = layout.endswith("coarse labels")
    options = SourceOptions(
        kind=kind, cifar100_labels=CifarLabels.COARSE if coarse else CifarLabels.FINE
    )
    found = detect(source, options)
    samples = scan(
        found,
        Context(
            options=options,
            run=context.run,
            on_progress=context.on_progress,
            spool=context.spool,
        ),
    ).samples
    blobs = zip(samples.blobs, samples.sizes, strict=True)
    return Originals(
        files=dict(zip(samples.filenames, blobs, strict=True)),
        images=frozenset(samples.filenames),
    )


def _chosen(names: Iterable[str], options: Mapping[str, object]) -> Iterable[str]:
    """Return the names that the globs of a pack let through."""
    for option, is_wanted in (("include", True), ("exclude", False)):
        globs = options.get(option)
        if isinstance(globs, list) and globs:
            pattern = globs_pattern(map(str, globs))
            names = [name for name in names if bool(pattern.match(name)) is is_wanted]
    return names
