"""Scan a download: decide how to read it, then list its images with labels, splits and ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from imgrec.codec.json_files import encode_table
from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog, Submission
from imgrec.options import ColumnKind, ColumnOption, SourceOptions
from imgrec.source.download.contents import Contents
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.label_tables import find_sample
from imgrec.source.download.reading import Reading, TableReading, understand
from imgrec.source.download.rows import ID, IMAGE, LABEL, SPLIT, refuse_ambiguous, tables_of
from imgrec.source.download.tables import NamedTable
from imgrec.source.folder import catalog_of
from imgrec.source.label_names import read_label_names
from imgrec.source.manifests.files import ManifestFiles
from imgrec.source.manifests.images import images_of
from imgrec.source.manifests.manifest import resolve
from imgrec.source.manifests.tables import Table
from imgrec.source.tree import Context, Lister
from imgrec.text import globs_pattern, number


def scan_download(lister: Lister, contents: Contents, context: Context) -> Catalog:
    """Scan a folder or an archive of images, by its tables or by its folders.

    Raises SourceError if it can be read in two ways, or in none.
    """
    try:
        reading = understand(contents, context.options)
    except SourceError:
        lister.refuse_closed(context.options)  # a folder that cannot be listed may be why
        raise
    submission = _submission(reading, context.options)
    if reading.by_folder is not None and not reading.tests and not reading.lists:
        catalog = catalog_of(lister, context, reading.by_folder.places())
    else:
        catalog = _scan_rows(lister, contents, reading, context)
    return replace(
        catalog.warn(*reading.notes),
        submission=submission,
        matched_globs=_matched_globs(lister, context.options),
    )


def _matched_globs(lister: Lister, options: SourceOptions) -> frozenset[str]:
    """Return the patterns of `--include` and `--exclude` that match some file."""
    found = set()
    for glob in (*options.include, *options.exclude):
        pattern = globs_pattern([glob])
        for folder in lister.folders():
            prefix = f"{folder.path}/" if folder.path else ""
            if any(pattern.match(prefix + name) for name in folder.files):
                found.add(glob)
                break
    return frozenset(found)


def _scan_rows(lister: Lister, contents: Contents, reading: Reading, context: Context) -> Catalog:
    """Scan the images that the rows of a reading name."""
    tables = tables_of(reading, contents, context.options)
    refuse_ambiguous(tables, contents.index, contents.root)
    tables, notes = _without_absent_tests(tables, contents.test_index)
    files = ManifestFiles(
        folder=lister.root,
        paths=tuple(table.copy for table in contents.tables.values() if table.copy),
        names=tuple(table.name for table in tables),
        is_folder=False,
    )
    images = images_of(lister, lister.root)
    options = _row_options(reading, context.options)
    catalog = resolve(files, tables, images, {}, replace(context, options=options))
    beside = reading.by_folder.beside if reading.by_folder else ()
    return replace(
        catalog,
        layout=_describe(reading, tables),
        class_order=_class_order(reading) or catalog.class_order,
    ).warn(
        *notes,
        *(f"{path}/ is left alone" for path in beside),
        *_offers(reading, context.options),
    )


def _without_absent_tests(tables: list[Table], index: ImageIndex) -> tuple[list[Table], list[str]]:
    """Leave out a test set if none of its images was downloaded."""
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
    """Return the options with which `resolve` reads the rows that were made."""
    columns = [column for column in options.column if column.name != ID]
    onehot: tuple[str, ...] = ()
    if reading.by_table is not None and not reading.by_table.target.is_single:
        names = reading.by_table.tables[0].table.columns
        onehot = tuple(names[at] for at in reading.by_table.target.columns)
    return replace(
        options,
        path_col=IMAGE,
        label_col="" if onehot else LABEL,
        split_col=SPLIT,
        label_sep="",
        onehot=onehot,
        column=((*([ColumnOption(ID, ColumnKind.TEXT)] * (reading.lists is None)), *columns)),
    )


def _class_order(reading: Reading) -> tuple[str, ...]:
    """Return the order of classes: of columns of 0 and 1, or of the numbers that are named."""
    if reading.by_table is None:
        return ()
    by_table = reading.by_table
    if by_table.target.is_onehot:
        columns = by_table.tables[0].table.columns
        return tuple(columns[at] for at in by_table.target.columns)
    names = by_table.names
    if not all(key.isdecimal() for key in names):
        return ()
    return tuple(names[key] for key in sorted(names, key=int))


def _offers(reading: Reading, options: SourceOptions) -> Iterator[str]:
    """Yield how the table could be read otherwise, and what its columns could be used for."""
    if reading.by_table is None:
        return
    if reading.by_table.separator and not options.label_sep:
        yield "cells are read as lists of labels; --label-sep none takes each as one label"
    for name in reading.by_table.groups:
        yield f"--group-col {name} would keep images of one {name} in one split"


def _describe(reading: Reading, tables: list[Table]) -> str:
    """Describe a reading in a line for the labels and one for each test set."""
    wheres = {test.where for test in reading.tests}
    tests = [table for table in tables if table.name in wheres and not table.rows[0][1]]
    lines = [
        f"test: {number(len(table.rows), 'id')} of {table.name} -> {_folder_of(table)}, "
        "without labels"
        for table in tests
    ]
    return "\n".join([_labels_line(reading), *lines])


def _labels_line(reading: Reading) -> str:
    splits = f", splits from {reading.lists.where}" if reading.lists else ""
    if reading.by_table is None:
        by = "file names" if reading.by_folder and reading.by_folder.label_regex else "folders"
        return f"classes from {by}{splits}"
    by_table = reading.by_table
    columns = by_table.tables[0].table.columns
    names = [columns[at] for at in by_table.target.columns]
    where = ", ".join(part.name for part in by_table.tables)
    if by_table.target.is_onehot:
        label = f"{len(names)} columns of 0 and 1 -> label{'s' * (not by_table.target.is_single)}"
    elif by_table.separator:
        label = f"{names[0]} -> labels, parted by {by_table.separator!r}"
    else:
        label = f"{names[0]} -> label"
    named = f", named by {by_table.names_from}" if by_table.names_from else ""
    image = columns[by_table.tables[0].id_at]
    return f"{where}: {image} -> image, {label}{named}{splits}"


def _folder_of(table: Table) -> str:
    folders = Counter(str(row[0]).rpartition("/")[0] for row in table.rows)
    commonest = folders.most_common(1)[0][0]
    return f"{commonest}/" if commonest else "images"


def sample_form(contents: Contents, options: SourceOptions) -> Submission | None:
    """Return the form of predictions that a sample submission alone shows."""
    return _submission(Reading(sample=find_sample(contents)), options)


def _submission(reading: Reading, options: SourceOptions) -> Submission | None:
    """Return the form of predictions; None if a download shows none.

    A sample submission shows most. Tables of labels show the names of columns and labels.
    """
    by_table, sample = reading.by_table, reading.sample
    if by_table is None and sample is None:
        return None
    names = {}
    if by_table is not None:
        columns, target = by_table.tables[0].table.columns, by_table.target
        names["id_column"] = columns[by_table.tables[0].id_at]
        if not target.is_onehot:
            names["label_column"] = columns[target.columns[0]]
        if by_table.separator:
            names["separator"] = by_table.separator
    return Submission(
        **names,
        values=_written_labels(by_table, options),
        sample=_encode(sample) if sample else b"",
    )


def _written_labels(by_table: TableReading | None, options: SourceOptions) -> dict[str, str]:
    """Return what a table writes for each class that has another name."""
    names = by_table.names if by_table else {}
    if options.label_names is not None:
        labels: Collection[str] = by_table.labels() if by_table else ["0"]
        names = read_label_names(options.label_names, labels).names
    return {name: label for label, name in names.items()}


def _encode(table: NamedTable) -> bytes:
    cells = map(table.texts, range(len(table.columns)))
    return encode_table(table.columns, zip(*cells, strict=True))
