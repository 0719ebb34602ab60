"""Which kind of source something is, and what it is called."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.options import SourceKind, SourceOptions
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.kinds import ARRAY_NAME, entries_of, refuse_unfit, scan_kind
from imgrec.source.label_names import fold_classes
from imgrec.source.manifests.files import is_submission
from imgrec.source.tfrecord import is_tfrecord
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of
from imgrec.unknown import closest

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
    catalog = replace(scan_kind(source.kind, source.path, context), name=source.name)
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
    from imgrec.source.manifests.tables import is_table
    from imgrec.source.numpy_arrays import is_numpy
    from imgrec.source.pixel_table import is_pixel_table

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
        from imgrec.source.archives.archive import refuse_foreign

        refuse_foreign([source], [source])
        what = "is called as archives are, but holds none"
    elif ARRAY_NAME.search(os.path.basename(source)):
        hint = "if it is one of CIFAR's or MNIST's files, give the folder that holds them all"
    return SourceError(f"{source} {what}", hint=hint, path=source)


def _kind_of_folder(folder: str) -> SourceKind:
    """Tell a folder of part files, in which there is nothing else, from all others."""
    entries = [entry for entry in entries_of(folder) if entry.name[0] not in "._"]
    # The first that is no part settles it: a folder of a million images is not looked through.
    if not entries or not all(map(_may_be_part, entries)):
        return SourceKind.FOLDER
    from imgrec.source.pixel_table import is_pixel_table

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


def _refuse_missing(source: str) -> None:
    if os.path.lexists(source) or (glob.has_magic(source) and glob.glob(source, recursive=True)):
        return
    meant = _sibling(source)
    hint = f"did you mean {meant}?" if meant else f"give {_KNOWN}"
    raise SourceError(f"{source} does not exist", hint=hint, path=source)


def _sibling(source: str) -> str:
    """Return what has nearly that name in the same folder; "" if nothing has."""
    folder, name = os.path.split(source.rstrip("/"))
    meant = closest(sorted(entry.name for entry in entries_of(folder or ".")), name)
    return os.path.join(folder, meant) if meant else ""
