"""Scan a download: understand it, then list its images with labels, splits and ids."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog
from imgrec.options import ColumnKind, ColumnOption, SourceKind, SourceOptions
from imgrec.source import tfrecord
from imgrec.source.archives.archive import is_archive
from imgrec.source.archives.nested import kept
from imgrec.source.arrays import numpy_arrays
from imgrec.source.arrays.pixel_table import AskedIds, one_for_each_split, scan_files
from imgrec.source.arrays.samples import TreeFile
from imgrec.source.context import Context
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.label_tables import find_sample
from imgrec.source.download.reading import Reading, understand
from imgrec.source.download.rows import ID, IMAGE, LABEL, SPLIT, refuse_ambiguous, tables_of
from imgrec.source.download.seen import Seen, look_around
from imgrec.source.download.submission import submission_of
from imgrec.source.folder import catalog_of
from imgrec.source.label_names import named_classes
from imgrec.source.listing import open_tree
from imgrec.source.manifests.files import ManifestFiles
from imgrec.source.manifests.images import images_of
from imgrec.source.manifests.manifest import resolve
from imgrec.source.manifests.tables import Table
from imgrec.source.match import Kind, Match
from imgrec.source.tree import Lister, refuse_closed
from imgrec.source.walk import Walk
from imgrec.stamp import stamp_of
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, name_of, number

KINDS: Mapping[SourceKind, Kind] = {
    SourceKind.TFRECORD: tfrecord,
    SourceKind.NUMPY: numpy_arrays,
}
"""The kinds whose images are inside other files, in the order in which they are looked for."""


def scan_tree(lister: Lister, context: Context) -> Catalog:
    """Scan a folder or an archive of images, by its tables or by its folders.

    Raises SourceError if it can be read in two ways, or in none.
    """
    lister = kept(lister)
    seen = look_around(lister, context)
    if not seen.images and (catalog := _without_images(seen, lister, context)) is not None:
        return catalog
    try:
        reading = understand(seen, context.options)
    except SourceError:
        refuse_closed(lister, context.options)  # what cannot be listed may be why
        raise
    submission = submission_of(reading, context.options)
    if reading.by_folder is not None and not reading.test and not reading.lists:
        catalog = catalog_of(lister, context, reading.by_folder.places())
    else:
        catalog = _scan_rows(lister, seen, reading, context)
    warnings = (*catalog.warnings, *reading.notes)
    return replace(
        catalog,
        warnings=warnings,
        submission=submission,
        matched_globs=_matched_globs(lister, context.options),
    )


def _matched_globs(lister: Lister, options: SourceOptions) -> frozenset[str]:
    """Return the patterns of `--include` and `--exclude` that some file fits."""
    found = set()
    for glob in (*options.include, *options.exclude):
        pattern = globs_pattern([glob])
        for folder in lister.folders():
            prefix = f"{folder.path}/" if folder.path else ""
            if any(pattern.match(prefix + name) for name in folder.files):
                found.add(glob)
                break
    return frozenset(found)


def scan_packed(source: str, context: Context) -> Catalog:
    """Scan images that are inside other files: TFRecords or NumPy arrays, as `--kind` says.

    `source` is such a file, or a folder or an archive of them. Raises SourceError if it has none.
    """
    kind = context.options.kind
    if os.path.isfile(source) and not is_archive(source):
        lister: Lister = Walk(os.path.dirname(source) or ".")
        file = TreeFile(name_of(os.path.basename(source)), source, os.path.getsize(source))
        seen, match = Seen(root=source), Match((file,))
    else:
        lister = kept(open_tree(source, context))
        seen = look_around(lister, context)
        found = KINDS[kind].detect(seen.packed, context)
        if found is None:
            raise SourceError(
                f"{source} has no files of the kind {kind}",
                hint="leave out --kind, and imgrec finds out what it is",
                path=source,
            )
        match = found
    return _completed(KINDS[kind].scan(match, seen.root, context), match, seen, lister, context)


def _without_images(seen: Seen, lister: Lister, context: Context) -> Catalog | None:
    """Scan what holds images in other files: TFRecords, arrays or tables of pixels."""
    for kind in KINDS.values():
        if (match := kind.detect(seen.packed, context)) is not None:
            catalog = kind.scan(match, seen.root, context)
            return _completed(catalog, match, seen, lister, context)
    if not seen.pixels:
        return None
    sample = find_sample(seen)
    chosen = one_for_each_split(seen.pixels, seen.root)
    asked = AskedIds(sample.columns.names[0], sample.columns.texts(0)) if sample else None
    catalog = scan_files(seen.root, chosen.files, lister.tally, context, asked)
    catalog = replace(catalog, warnings=(*catalog.warnings, *chosen.notes))
    return _completed(catalog, Match(()), seen, lister, context)


def _completed(
    catalog: Catalog, match: Match, seen: Seen, lister: Lister, context: Context
) -> Catalog:
    """Add to a catalog what its listing, a sample submission and `--label-names` tell."""
    given = context.options.label_names
    if given and match.files:  # tables of pixels have asked for it already
        catalog = named_classes(catalog, given, seen.root)
    files = [file.blob for file in match.files]
    on_disk = [blob for blob in files if isinstance(blob, str) and not is_url(blob)]
    return replace(
        catalog,
        bad=(*catalog.bad, *sorted(lister.bad)),
        ignored=catalog.ignored or lister.tally.ignored(),
        warnings=(*lister.warnings, *catalog.warnings),
        submission=submission_of(Reading(sample=find_sample(seen)), context.options),
        stamp=catalog.stamp.merged(lister.stamp, *map(stamp_of, on_disk)),
        homes=lister.homes,
    )


def _scan_rows(lister: Lister, seen: Seen, reading: Reading, context: Context) -> Catalog:
    index = ImageIndex(seen.images, seen.file_of)
    test_index = ImageIndex(seen.test_images, seen.file_of) if seen.test_images else index
    tables = tables_of(reading, index, test_index, context.options)
    refuse_ambiguous(tables, index, seen.root)
    tables, notes = _without_absent_tests(tables, test_index)
    copies = [table.copy for table in seen.tables.values() if table.copy]
    files = ManifestFiles(
        folder=lister.root,
        paths=tuple(copies),
        names=tuple(table.name for table in tables),
        is_folder=False,
    )
    images = images_of(lister, lister.root)
    options = _row_options(reading, context.options)
    catalog = resolve(files, tables, images, {}, replace(context, options=options))
    order = _class_order(reading)
    return replace(
        catalog,
        layout=describe(reading, tables),
        class_order=order or catalog.class_order,
        warnings=(
            *catalog.warnings,
            *notes,
            *_left_alone(reading),
            *_offers(reading, context.options),
        ),
    )


def _without_absent_tests(tables: list[Table], index: ImageIndex) -> tuple[list[Table], list[str]]:
    """Leave out a test set none of whose images was downloaded."""
    kept_tables, notes = [], []
    for table in tables:
        is_test = bool(table.rows) and all(row[2] == TEST and not row[1] for row in table.rows)
        if is_test and not any(index.knows(str(row[0])) for row in table.rows):
            ids = number(len(table.rows), "id")
            notes.append(f"{table.name}: none of its {ids} names an image, so there is no test set")
        else:
            kept_tables.append(table)
    return kept_tables, notes


def _row_options(reading: Reading, options: SourceOptions) -> SourceOptions:
    """Return the options by which `resolve` reads the rows that were made."""
    columns = [column for column in options.columns if column.name != ID]
    onehot: tuple[str, ...] = ()
    if reading.by_table is not None and not reading.by_table.target.is_single:
        names = reading.by_table.tables[0].columns.names
        onehot = tuple(names[at] for at in reading.by_table.target.columns)
    return replace(
        options,
        path_col=IMAGE,
        label_col="" if onehot else LABEL,
        split_col=SPLIT,
        label_sep="",
        onehot=onehot,
        columns=((*([ColumnOption(ID, ColumnKind.TEXT)] * (reading.lists is None)), *columns)),
    )


def _class_order(reading: Reading) -> tuple[str, ...]:
    """Return the order of classes that a map of numbers to names tells."""
    if reading.by_table is None:
        return ()
    by_table = reading.by_table
    if by_table.target.is_onehot:
        columns = by_table.tables[0].columns
        return tuple(columns.names[at] for at in by_table.target.columns)
    names = by_table.names
    if not all(key.isdecimal() for key in names):
        return ()
    return tuple(names[key] for key in sorted(names, key=int))


def _left_alone(reading: Reading) -> list[str]:
    beside = reading.by_folder.beside if reading.by_folder else ()
    return [f"{path}/ is left alone" for path in beside]


def _offers(reading: Reading, options: SourceOptions) -> list[str]:
    """Say how to read the table otherwise, and what its columns could be used for."""
    groups = reading.by_table.groups if reading.by_table else ()
    is_parted = reading.by_table is not None and reading.by_table.separator
    parted = "cells are read as lists of labels; --label-sep none takes each as one label"
    return [
        *([parted] if is_parted and not options.label_sep else ()),
        *(f"--group-col {name} would keep images of one {name} in one split" for name in groups),
    ]


def describe(reading: Reading, tables: list[Table]) -> str:
    """Say what was understood, in a line for the labels and one for the test set."""
    first = _labels_line(reading)
    tests = [table for table in tables if table.rows and table.rows[0][2] == TEST]
    lines = [first]
    if reading.test is not None and tests:
        where = _folder_of(tests[-1])
        lines.append(
            f"test: {number(len(tests[-1].rows), 'id')} of {reading.test.where} -> {where}, "
            "without labels"
        )
    return "\n".join(lines)


def _labels_line(reading: Reading) -> str:
    if reading.by_table is None:
        by = "file names" if reading.by_folder and reading.by_folder.label_regex else "folders"
        return f"classes from {by}{_splits_from(reading)}"
    by_table = reading.by_table
    columns = by_table.tables[0].columns
    names = [columns.names[at] for at in by_table.target.columns]
    where = ", ".join(part.columns.where for part in by_table.tables)
    if by_table.target.is_onehot:
        told = f"{len(names)} columns of 0 and 1 -> label{'s' * (not by_table.target.is_single)}"
    elif by_table.separator:
        told = f"{names[0]} -> labels, parted by {by_table.separator!r}"
    else:
        told = f"{names[0]} -> label"
    named = f", named by {by_table.names_from}" if by_table.names_from else ""
    image = columns.names[by_table.tables[0].id_at]
    return f"{where}: {image} -> image, {told}{named}{_splits_from(reading)}"


def _splits_from(reading: Reading) -> str:
    return f", splits from {reading.lists.where}" if reading.lists else ""


def _folder_of(table: Table) -> str:
    folders = Counter(str(row[0]).rpartition("/")[0] for row in table.rows)
    commonest = folders.most_common(1)[0][0]
    return f"{commonest}/" if commonest else "images"
