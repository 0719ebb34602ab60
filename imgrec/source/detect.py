"""Which kind of source something is, and what it is called."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.options import SourceKind, SourceOptions
from imgrec.source.archives.foreign import refuse_foreign
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.download.scan import scan_packed, scan_tree
from imgrec.source.download.words import is_submission
from imgrec.source.fitness import refuse_label_names, refuse_unfit
from imgrec.source.folding import fold_classes
from imgrec.source.listing import open_tree
from imgrec.source.split_words import split_word
from imgrec.source.tfrecord import is_tfrecord
from imgrec.source.tree import Lister, refuse_closed
from imgrec.storage.unreadable import disk_fault, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of
from imgrec.unknown import closest

_ARRAY_NAME = re.compile(r"ubyte|^(data|test)_batch|^(train|test|meta)(\.bin)?$", re.I)
_KNOWN = (
    "a folder of class folders, a zip or tar of them, a table of images, CIFAR or IDX files, "
    "TFRecords, or NumPy arrays"
)


class Source(NamedTuple):
    """A source, and what it was found to be."""

    path: str
    kind: SourceKind
    """A folder or an archive may yet turn out to hold CIFAR or IDX files."""
    name: str
    """What it calls itself."""


def detect(path: str, options: SourceOptions) -> Source:
    """Find out what a source is, from what is asked for or from what it looks like from outside.

    Raises SourceError if it is not there or not known, and UsageError if options do not fit it.
    """
    if is_url(path):  # what is no folder there has been copied here
        refuse_unfit(SourceKind.FOLDER, path, options)
        return Source(path, SourceKind.FOLDER, path.rstrip("/").rpartition("/")[2])
    path = given_path(path)
    _refuse_missing(path)
    kind = _kind_of(path) if options.kind is SourceKind.AUTO else options.kind
    refuse_unfit(kind, path, options)
    return Source(path, kind, _name_of(path, kind))


def scan(source: Source, context: Context) -> Catalog:
    """List all that a source holds."""
    if source.kind in (SourceKind.TFRECORD, SourceKind.NUMPY):
        context = replace(context, options=replace(context.options, kind=source.kind))
    catalog = replace(_SCANNERS[source.kind](source.path, context), name=source.name)
    return fold_classes(catalog) if context.options.fold_case else catalog


def _name_of(path: str, kind: SourceKind) -> str:
    if kind is SourceKind.MANIFEST:
        from imgrec.source.manifests.files import manifest_files

        return manifest_files(path).name
    if os.path.isdir(path):
        return name_of(os.path.basename(os.path.abspath(path))) or "root"
    return name_of(archive_stem(path))


def _kind_of(source: str) -> SourceKind:
    if os.path.isdir(source):
        return _kind_of_folder(source)
    if not os.path.lexists(source):
        return SourceKind.MANIFEST  # a pattern: see `_refuse_missing`
    from imgrec.source.archives.archive import is_archive
    from imgrec.source.arrays.numpy_arrays import is_numpy
    from imgrec.source.arrays.pixel_table import is_pixel_table
    from imgrec.source.manifests.tables import is_table

    if is_tfrecord(source):
        return SourceKind.TFRECORD
    if is_numpy(source):
        return SourceKind.NUMPY
    if is_archive(source):
        return SourceKind.ARCHIVE
    if os.path.getsize(source) and is_table(source):
        return SourceKind.PIXELS if is_pixel_table(source) else SourceKind.MANIFEST
    raise _unknown(source)


def _unknown(source: str) -> SourceError:
    what, hint = "is not a source that imgrec knows", f"give {_KNOWN}"
    if not os.path.getsize(source):
        what = "is an empty file"
    elif has_archive_name(source):
        refuse_foreign([source], [source])
        what = "is called as archives are, but holds none"
    elif _ARRAY_NAME.search(os.path.basename(source)):
        hint = "if it is one of CIFAR's or MNIST's files, give the folder that holds them all"
    return SourceError(f"{source} {what}", hint=hint, path=source)


def _kind_of_folder(folder: str) -> SourceKind:
    """Tell a folder of part files, in which there is nothing else, from all others."""
    entries = [entry for entry in _entries(folder) if entry.name[0] not in "._"]
    # The first that is no part settles it: a folder of a million images is not looked through.
    if not entries or not all(map(_may_be_part, entries)):
        return SourceKind.FOLDER
    from imgrec.source.arrays.pixel_table import is_pixel_table

    if not is_pixel_table(folder):
        return SourceKind.MANIFEST
    # A sample submission beside them is read as in the zip of such a download.
    has_sample = any(is_submission(entry.name) for entry in entries)
    return SourceKind.FOLDER if has_sample else SourceKind.PIXELS


def _may_be_part(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir():
        return "=" in entry.name  # as Hive calls the folders of partitions
    from imgrec.source.manifests.tables import is_table

    return is_table(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        if is_passing(error):  # a second try could succeed, and find another kind of source
            raise disk_fault(error, folder) from error
        return []  # the walk will say why


def _refuse_missing(source: str) -> None:
    if os.path.lexists(source) or (glob.has_magic(source) and glob.glob(source, recursive=True)):
        return
    meant = _sibling(source)
    hint = f"did you mean {meant}?" if meant else f"give {_KNOWN}"
    raise SourceError(f"{source} does not exist", hint=hint, path=source)


def _sibling(source: str) -> str:
    """Return what has nearly that name in the same folder; "" if nothing has."""
    folder, name = os.path.split(source.rstrip("/"))
    meant = closest(sorted(entry.name for entry in _entries(folder or ".")), name)
    return os.path.join(folder, meant) if meant else ""


def _scan_tree(source: str, context: Context) -> Catalog:
    """Scan a folder or an archive, be it of class folders or of arrays of pixels."""
    lister = open_tree(source, context)
    kind = context.options.kind
    is_open = kind is SourceKind.AUTO and not context.options.label_regex
    is_folder = is_url(source) or os.path.isdir(source)
    if is_open and (not is_folder or _may_hold_arrays(source)):
        from imgrec.source.archives.nested import kept

        lister = kept(lister)
        for array_kind in (SourceKind.CIFAR, SourceKind.IDX):
            if catalog := _scan_arrays(array_kind, lister, context):
                return catalog
    refuse_label_names(source, context.options)
    catalog = scan_tree(lister, context)
    return catalog if is_folder else replace(catalog, layout=f"archive of {catalog.layout}")


def _may_hold_arrays(folder: str) -> bool:
    """Tell whether what is in a folder, or in its only folder, is named as CIFAR's or IDX's files.

    Some tools unpack each file into a folder of its name. But folders called train and test hold
    images.
    """
    entries = _entries(folder)
    inner = [entry for entry in entries if entry.is_dir()]
    if len(inner) == 1:
        entries += _entries(inner[0].path)
    named = (entry for entry in entries if _ARRAY_NAME.search(entry.name))
    return any(not (split_word(entry.name) and entry.is_dir()) for entry in named)


def _scan_arrays(kind: SourceKind, lister: Lister, context: Context) -> Catalog | None:
    """Scan CIFAR or IDX files; return None if there are none."""
    from imgrec.source.arrays import cifar, idx

    folders = list(lister.folders())
    catalog = None
    if kind is SourceKind.CIFAR and (batches := cifar.find(folders)):
        catalog = cifar.scan("", batches, context)
    elif kind is SourceKind.IDX and (files := idx.find(folders)):
        catalog = idx.scan("", files, context)
    if catalog is None:
        return None
    refuse_closed(lister, context.options)
    return replace(
        catalog,
        bad=(*catalog.bad, *sorted(lister.bad)),
        ignored=(*lister.tally.ignored(), *catalog.ignored),
        warnings=(*lister.warnings, *catalog.warnings),
        stamp=catalog.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _scan_only_arrays(source: str, context: Context) -> Catalog:
    kind = context.options.kind
    if catalog := _scan_arrays(kind, open_tree(source, context), context):
        return catalog
    raise SourceError(
        f"{source} has no {kind.upper()} files",
        hint="leave out --kind, and imgrec finds out what it is",
        path=source,
    )


def _scan_manifest(source: str, context: Context) -> Catalog:
    from imgrec.source.manifests import manifest

    if not context.options.test_images:
        return manifest.scan(source, context)
    # A table of labels with a set of images to predict is what a download is.
    options = replace(context.options, table=source, images="", kind=SourceKind.AUTO)
    images = context.options.images or os.path.dirname(source) or "."
    context = replace(context, options=options)
    return scan_tree(open_tree(images, context), context)


def _scan_pixels(source: str, context: Context) -> Catalog:
    from imgrec.source.arrays import pixel_table

    return pixel_table.scan(source, context)


_SCANNERS: Mapping[SourceKind, Callable[[str, Context], Catalog]] = {
    SourceKind.FOLDER: _scan_tree,
    SourceKind.ARCHIVE: _scan_tree,
    SourceKind.CIFAR: _scan_only_arrays,
    SourceKind.IDX: _scan_only_arrays,
    SourceKind.MANIFEST: _scan_manifest,
    SourceKind.PIXELS: _scan_pixels,
    SourceKind.TFRECORD: scan_packed,
    SourceKind.NUMPY: scan_packed,
}
