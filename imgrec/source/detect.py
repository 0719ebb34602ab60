"""Which kind of source something is, and what it is called."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.options import SourceKind, SourceOptions
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.fitness import refuse_label_names, refuse_unfit
from imgrec.source.folder import catalog_of
from imgrec.source.listing import open_tree
from imgrec.source.tree import Lister, refuse_closed

_ARRAY_NAME = re.compile(r"ubyte|^(data|test)_batch|^(train|test|meta)(\.bin)?$", re.I)
_KNOWN = "a folder of class folders, a zip or tar of them, a table of images, CIFAR or IDX files"


def name_of(source: str, options: SourceOptions) -> str:
    """Return what a source calls itself; raise SourceError if it is not there."""
    _refuse_missing(source)
    kind = kind_of(source, options)
    if kind is SourceKind.MANIFEST or (kind is SourceKind.PIXELS and os.path.isdir(source)):
        from imgrec.source.manifests.files import manifest_files

        return manifest_files(source).name
    if os.path.isdir(source):
        return os.path.basename(os.path.abspath(source)) or "root"
    return archive_stem(source)


def scan(source: str, context: Context) -> Catalog:
    """Find out what a source is and list all that it holds."""
    _refuse_missing(source)
    kind = kind_of(source, context.options)
    refuse_unfit(kind, source, context.options)
    catalog = _SCANNERS[kind](source, context)
    return replace(catalog, name=name_of(source, context.options))


def kind_of(source: str, options: SourceOptions) -> SourceKind:
    """Return what a source is: what is asked for, or what it looks like from outside.

    A folder or an archive may yet turn out to hold CIFAR or IDX files.
    """
    if options.kind is not SourceKind.AUTO:
        return options.kind
    if os.path.isdir(source):
        return _kind_of_folder(source)
    if not os.path.lexists(source):
        return SourceKind.MANIFEST  # a pattern: see `_refuse_missing`
    from imgrec.source.archives.archive import is_archive
    from imgrec.source.arrays.pixel_table import is_pixel_table
    from imgrec.source.manifests.tables import is_table

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
        what = "is called as archives are, but holds none"
    elif _ARRAY_NAME.search(os.path.basename(source)):
        hint = "if it is one of CIFAR's or MNIST's files, give the folder that holds them all"
    return SourceError(f"{source} {what}", hint=hint, path=source)


def _kind_of_folder(folder: str) -> SourceKind:
    """Tell a folder of part files, in which there is nothing else, from all others."""
    names = [name for name in _names(folder) if name[0] not in "._"]
    folders = [name for name in names if os.path.isdir(os.path.join(folder, name))]
    if not all("=" in name for name in folders):  # as Hive calls the folders of partitions
        return SourceKind.FOLDER
    from imgrec.source.manifests.tables import is_table

    files = [os.path.join(folder, name) for name in names if name not in folders]
    if not names or not all(map(is_table, files)):
        return SourceKind.FOLDER
    from imgrec.source.arrays.pixel_table import is_pixel_table

    return SourceKind.PIXELS if is_pixel_table(folder) else SourceKind.MANIFEST


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the walk will say why
        return []


def _refuse_missing(source: str) -> None:
    if os.path.lexists(source) or (glob.has_magic(source) and glob.glob(source, recursive=True)):
        return
    raise SourceError(f"{source} does not exist", hint=f"give {_KNOWN}", path=source)


def _scan_tree(source: str, context: Context) -> Catalog:
    """Scan a folder or an archive, be it of class folders or of arrays of pixels."""
    lister = open_tree(source, context)
    kind = context.options.kind
    is_open = kind is SourceKind.AUTO and not context.options.label_regex
    if is_open and (not os.path.isdir(source) or _may_hold_arrays(source)):
        from imgrec.source.archives.nested import kept

        lister = kept(lister)
        for array_kind in (SourceKind.CIFAR, SourceKind.IDX):
            if catalog := _scan_arrays(array_kind, lister, context):
                return catalog
    refuse_label_names(source, context.options)
    try:
        catalog = catalog_of("", lister, context)
    except SourceError as error:
        if tables := _tables_in(source):
            one = f"one of {', '.join(tables)}" if len(tables) > 1 else tables[0]
            error.hint += f"; if {one} says which class each image has, pack that"
        raise
    return (
        catalog
        if os.path.isdir(source)
        else replace(catalog, layout=f"archive of {catalog.layout}")
    )


def _may_hold_arrays(folder: str) -> bool:
    """Tell whether files right in a folder, or in its only folder, are called as CIFAR or IDX."""
    names = _names(folder)
    inner = [name for name in names if os.path.isdir(os.path.join(folder, name))]
    if len(inner) == 1:
        names += _names(os.path.join(folder, inner[0]))
    return any(map(_ARRAY_NAME.search, names))


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
    refuse_closed(lister)
    return replace(
        catalog,
        bad=(*catalog.bad, *sorted(lister.bad)),
        ignored=(*lister.tally.ignored(), *catalog.ignored),
        warnings=(*lister.warnings, *catalog.warnings),
        newest_change_ns=max(catalog.newest_change_ns, lister.changed_ns),
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

    return manifest.scan(source, context)


def _scan_pixels(source: str, context: Context) -> Catalog:
    from imgrec.source.arrays import pixel_table

    return pixel_table.scan(source, context)


def _tables_in(source: str) -> list[str]:
    """Return the tables right in a folder, which may be what its user has to name."""
    from imgrec.source.manifests.tables import is_table

    names = sorted(_names(source)) if os.path.isdir(source) else []
    paths = [os.path.join(source, name) for name in names if not name.endswith(".txt")]
    return list(filter(is_table, paths))


_SCANNERS: Mapping[SourceKind, Callable[[str, Context], Catalog]] = {
    SourceKind.FOLDER: _scan_tree,
    SourceKind.ARCHIVE: _scan_tree,
    SourceKind.CIFAR: _scan_only_arrays,
    SourceKind.IDX: _scan_only_arrays,
    SourceKind.MANIFEST: _scan_manifest,
    SourceKind.PIXELS: _scan_pixels,
}
