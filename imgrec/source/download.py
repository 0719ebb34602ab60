"""Downloads: folders and archives of images that tables or folders explain.

`choose_reading` decides how to read a download. Its labels, splits and ids then become one table,
which `manifest.resolve` matches with the images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace
from itertools import compress

from imgrec.codec.json_files import encode_table
from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, Catalog, SourceLayout, Submission
from imgrec.options import ColumnKind, ColumnOption, SourceKind, SourceOptions
from imgrec.source.cells import flag
from imgrec.source.columns import Header, Roles, refuse_bad_columns
from imgrec.source.download_contents import Contents
from imgrec.source.download_reading import Reading, TableReading, choose_reading, group_offer
from imgrec.source.download_tables import ImageTable
from imgrec.source.folder import catalog_of
from imgrec.source.image_names import ImageIndex, ManifestImages, stem_of
from imgrec.source.label_names import read_label_names
from imgrec.source.manifest import TableSource, concatenate, no_rows, resolve
from imgrec.source.tables import Cell, Table, TableKind
from imgrec.source.tree import Context, Lister
from imgrec.source.words import read_splits
from imgrec.text import folder_name, globs_pattern, number, unmatched_glob

_IMAGE, _LABEL, _SPLIT, _ID = "(image)", "(label)", "(split)", "id"
"""The columns of the table that a download becomes; others follow."""
_SHOWN = 3


def scan_download(lister: Lister, contents: Contents, context: Context) -> Catalog:
    """Scan a folder or an archive of images, by its tables or by its folders.

    Raises SourceError if it can be read in two ways, or in none.
    """
    options = context.options
    matched = frozenset(_matched_globs(lister, options))
    try:
        catalog = _scan(lister, contents, context)
    except SourceError as error:
        if contents.foreign and not contents.images:
            hint = (
                f"imgrec does not read {contents.foreign}: write it as images and a CSV of labels"
            )
            error = type(error)(error.message, hint=hint, path=error.path)
        raise _with_unmatched(error, lister, options, matched) from error
    return replace(catalog, matched_globs=matched)


def _scan(lister: Lister, contents: Contents, context: Context) -> Catalog:
    options = context.options
    try:
        reading = choose_reading(contents, options)
    except SourceError:
        lister.refuse_closed(options)  # a folder that cannot be listed may be why
        raise
    submission = _submission(contents, reading.by_table, options) if contents.images else None
    has_more = reading.tests or reading.lists or reading.flat
    if reading.by_folder is not None and not has_more:
        catalog = catalog_of(lister, context, reading.by_folder.places())
    else:
        catalog = _scan_rows(lister, contents, reading, context)
    return replace(catalog.warn(*reading.notes), submission=submission)


def _with_unmatched(
    error: SourceError, lister: Lister, options: SourceOptions, matched: Container[str]
) -> SourceError:
    """Return an error that also names the globs that matched no file: they may be why."""
    example = next((file.path for file in lister.files()), "")
    unmatched = [
        unmatched_glob(option, glob, example)
        for option, globs in (("--include", options.include), ("--exclude", options.exclude))
        for glob in globs
        if glob not in matched
    ]
    if not unmatched:
        return error
    hint = "; ".join(filter(None, (error.hint, *unmatched)))
    return type(error)(error.message, hint=hint, path=error.path, offset=error.offset)


def _matched_globs(lister: Lister, options: SourceOptions) -> Iterator[str]:
    """Yield the patterns of `--include` and `--exclude` that match some file."""
    for glob in (*options.include, *options.exclude):
        pattern = globs_pattern([glob])
        for folder in lister.folders():
            prefix = f"{folder.path}/" if folder.path else ""
            if any(pattern.match(prefix + name) for name in folder.files):
                yield glob
                break


def _scan_rows(lister: Lister, contents: Contents, reading: Reading, context: Context) -> Catalog:
    """Scan the images that the rows of a reading name."""
    options = context.options
    by_table = reading.by_table
    is_multi = by_table is not None and not by_table.target.is_single
    onehot = by_table.target_names if by_table is not None and is_multi else ()
    columns = tuple(column for column in options.column if column.name != _ID)
    wanted = (options.group_col, *(column.name for column in columns), *onehot)
    others = tuple(dict.fromkeys(name for name in wanted if name and name != _ID))
    names = (_IMAGE, _LABEL, _SPLIT, _ID, *others)
    tables = list(_tables_of(reading, contents, names))
    _refuse_ambiguous(tables, contents.index, contents.root)
    tables, notes = _without_absent_tests(tables, contents.test_index)
    _refuse_second_test(tables, reading, contents)
    # Records of a download have its ids, except where folders and lists explain it alone.
    ids = () if reading.lists else (ColumnOption(_ID, ColumnKind.TEXT),)
    label_col = "" if onehot else options.label_col
    options = replace(
        options, label_sep="", label_col=label_col, onehot=onehot, column=(*ids, *columns)
    )
    refuse_bad_columns(options)
    where = tables[0].name if len(tables) == 1 else folder_name(lister.root)
    filled = [table for table in tables if table.lines]
    if not filled:
        raise no_rows(where, tables)
    source = TableSource(
        tables=tables,
        rows=concatenate(filled, where, names),
        roles=Roles(
            path=0,
            label=None if onehot else 1,
            split=2,
            group=names.index(options.group_col) if options.group_col else None,
            onehot=tuple(map(names.index, onehot)),
            extras=tuple((names.index(column.name), column.name) for column in options.column),
        ),
        images=ManifestImages.of(lister),
        own_files={
            *(name for name, table in contents.tables.items() if table.path),
            *([by_table.names_from] if by_table else ()),
            *(reading.lists.files if reading.lists else ()),
            *(reading.flat.files if reading.flat else ()),
        },
    )
    catalog = resolve(source, replace(context, options=options))
    beside = reading.by_folder.beside if reading.by_folder else ()
    return replace(
        catalog,
        layout=_layout(reading, tables),
        class_order=_class_order(by_table) or catalog.class_order,
    ).warn(
        *notes,
        *(f"{path}/ is not packed" for path in beside),
        *_offers(by_table, context.options),
    )


# The rows of a reading


def _tables_of(reading: Reading, contents: Contents, names: tuple[str, ...]) -> Iterator[Table]:
    """Yield a table with the given columns for each file that a reading uses."""
    by_table, lists = reading.by_table, reading.lists
    listed = lists.splits if lists else {}
    flat = reading.flat.labels if reading.flat else {}

    def table(name: str, lines: Sequence[int], *columns: Sequence[Cell]) -> Table:
        missing = [("",) * len(lines)] * (len(names) - len(columns))
        kind = TableKind.PARQUET  # its columns have names, and cells may be lists
        return Table(name=name, kind=kind, names=names, columns=(*columns, *missing), lines=lines)

    if by_table is not None:
        for part, split_at in zip(by_table.tables, by_table.split_at, strict=True):
            splits = _splits(part, split_at, by_table, has_test=bool(reading.tests))
            images = [
                _image(text, split or TRAIN, contents.index, by_table.template)
                for text, split in zip(part.ids(), splits, strict=True)
            ]
            if listed:
                splits = [listed.get(x, split) for x, split in zip(images, splits, strict=True)]
            ids = [text.strip() for text in part.ids()]
            others = [_column(part.table, name) for name in names[4:]]
            made = table(
                part.name, part.table.lines, images, _labels(part, by_table), splits, ids, *others
            )
            yield replace(made, faults=part.table.faults, warning=part.table.warning)
    elif reading.by_folder is not None:
        places = reading.by_folder.places()
        rows = []
        for path in contents.images:
            folder, _, name = path.rpartition("/")
            place = places.of_file(folder, name)
            if isinstance(place, str) or (lists and path not in listed):
                continue
            if label := place.class_name or flat.get(path, ""):
                split = listed.get(path, place.split) or (TRAIN if reading.tests else "")
                rows.append((path, label, split, stem_of(name)))
        columns = zip(*rows, strict=True) if rows else [()] * 4
        yield table(lists.where if lists else "folders", (1,) * len(rows), *columns)
    template = by_table.template if by_table else ""
    for test in reading.tests:
        index = contents.test_index
        paths = test.paths or [_image(text, TEST, index, template) for text in test.ids]
        count = len(test.ids)
        ids = [text.strip() for text in test.ids]
        yield table(test.where, test.lines, paths, ("",) * count, (TEST,) * count, ids)


def _column(table: Table, name: str) -> Sequence[Cell]:
    return table.columns[Header(where=table.name, names=table.names).only(name, "column")]


def _image(text: str, split: str, index: ImageIndex, template: str) -> str:
    """Return the path of the image that an id means, or a text that names none or several."""
    name = template.replace("{id}", text.strip()) if template else text
    found = index.find(name, split)
    if len(found) == 1:
        return found[0]
    if not found and index.knows(name):
        return f"{split}/{name.strip()}"  # it is only among the images of the other split
    return name


def _splits(
    part: ImageTable, at: int | None, reading: TableReading, *, has_test: bool
) -> Sequence[str]:
    """Return the split of each row: from a column, from the file, or train beside a test set."""
    if at is not None:
        return read_splits(part.table.texts(at), part.table.names[at], part.name).splits
    split = part.split if len(reading.tables) > 1 else TRAIN if has_test else ""
    return [split] * len(part.table.lines)


def _labels(part: ImageTable, reading: TableReading) -> Sequence[Cell]:
    """Return the label of each row, by its name where that is known."""
    table, target = part.table, reading.target
    if not target.is_single:
        return [""] * len(table.lines)
    if target.is_onehot:
        flags = [map(flag, table.texts(at)) for at in target.columns]
        names = [table.names[at] for at in target.columns]
        return ["".join(compress(names, row)) for row in zip(*flags, strict=True)]
    cells = table.columns[target.columns[0]]
    if separator := reading.separator:
        cells = [tuple(filter(None, map(str.strip, str(x).split(separator)))) for x in cells]
    names_of = reading.names
    if not names_of:
        return cells
    return [
        tuple(names_of.get(word.strip(), word) for word in cell)
        if isinstance(cell, tuple)
        else names_of.get(cell.strip(), cell)
        for cell in cells
    ]


def _refuse_ambiguous(tables: Sequence[Table], index: ImageIndex, root: str) -> None:
    """Raise SourceError if most ids of a table name several images."""
    for table in tables:
        several = [
            (id_, found)
            for image, id_ in zip(table.texts(0), table.texts(3), strict=True)
            if "/" not in image and len(found := index.find(image)) > 1
        ]
        if len(several) * 2 > len(table.lines):
            text, found = several[0]
            folders = sorted({path.rpartition("/")[0] for path in found})
            raise SourceError(
                f"{root}: ids of {table.name} name several images: {text} may be "
                f"{', '.join(found[:_SHOWN])}",
                hint=f"leave some out, as with --exclude '{folders[-1]}/*'",
                path=root,
            )


def _without_absent_tests(tables: list[Table], index: ImageIndex) -> tuple[list[Table], list[str]]:
    """Leave out a test set if none of its images was downloaded."""
    kept, notes = [], []
    for table in tables:
        images, labels, splits = table.columns[:3]
        is_test = bool(images) and not any(labels) and set(splits) == {TEST}
        if is_test and not any(index.knows(str(image)) for image in images):
            ids = number(len(images), "id")
            notes.append(f"{table.name}: none of its {ids} names an image, so there is no test set")
        else:
            kept.append(table)
    return kept, notes


def _refuse_second_test(tables: Sequence[Table], reading: Reading, contents: Contents) -> None:
    """Raise SourceError if images without labels would join those of test that have labels."""
    wheres = {test.where for test in reading.tests}
    unlabelled = [table.name for table in tables if table.name in wheres]
    labelled = [
        image
        for table in tables
        if table.name not in wheres
        for image, split in zip(table.texts(0), table.texts(2), strict=True)
        if split == TEST
    ]
    if unlabelled and labelled:
        option = contents.test_images or contents.test_table
        first = unlabelled[0]
        leave_out = "leave out --test-images" if option else f"pass --exclude {first!r}"
        top = min(labelled).rpartition("/")[0].partition("/")[0]
        rather = f", or leave out those with labels with --exclude '{top}/*'" if top else ""
        raise SourceError(
            f"{contents.root}: the images of {first} have no labels and would be the split test, "
            f"but test has {number(len(labelled), 'image')} with labels, such as {min(labelled)}",
            hint=f"{leave_out}{rather}",
            path=contents.root,
        )


# The description of a reading


def _class_order(by_table: TableReading | None) -> tuple[str, ...]:
    """Return the order of classes: of one-hot columns, or of the numbers that have names."""
    if by_table is None:
        return ()
    if by_table.target.is_onehot:
        return by_table.target_names
    names = by_table.names
    if not all(key.isdecimal() for key in names):
        return ()
    return tuple(names[key] for key in sorted(names, key=int))


def _offers(by_table: TableReading | None, options: SourceOptions) -> Iterator[str]:
    """Yield other ways to read the table, and uses for its columns."""
    if by_table is None:
        return
    if by_table.separator and not options.label_sep:
        yield "cells are read as lists of labels; --label-sep none takes each as one label"
    for name in by_table.groups:
        yield group_offer(name)


def _layout(reading: Reading, tables: list[Table]) -> SourceLayout:
    """Describe a reading in a line for the labels and one for each test set."""
    wheres = {test.where for test in reading.tests}
    lines = [_labels_line(reading)]
    for table in tables:
        if table.name in wheres and not table.columns[1][0]:
            folders = Counter(image.rpartition("/")[0] for image in table.texts(0))
            folder = folders.most_common(1)[0][0]
            ids = number(len(table.lines), "id")
            place = f"{folder}/" if folder else "images"
            lines.append(f"test: {ids} of {table.name} -> {place}, without labels")
    return SourceLayout(kind=SourceKind.FOLDER, sentence="\n".join(lines))


def _labels_line(reading: Reading) -> str:
    splits = f", splits from {reading.lists.where}" if reading.lists else ""
    by_table = reading.by_table
    if by_table is None:
        by = "file names" if reading.by_folder and reading.by_folder.label_regex else "folders"
        flat = f", and for others from {', '.join(reading.flat.files)}" if reading.flat else ""
        return f"classes from {by}{splits}{flat}"
    names = by_table.target_names
    where = ", ".join(part.name for part in by_table.tables)
    if by_table.target.is_onehot:
        label = f"{len(names)} columns of 0 and 1 -> label{'s' * (not by_table.target.is_single)}"
    elif by_table.separator:
        label = f"{names[0]} -> labels, separated by {by_table.separator!r}"
    else:
        label = f"{names[0]} -> label"
    named = f", named by {by_table.names_from}" if by_table.names_from else ""
    image = by_table.first.names[by_table.tables[0].id_at]
    return f"{where}: {image} -> image, {label}{named}{splits}"


def sample_form(contents: Contents, options: SourceOptions) -> Submission | None:
    """Return the form of predictions that a sample submission alone shows."""
    return _submission(contents, None, options)


def _submission(
    contents: Contents, by_table: TableReading | None, options: SourceOptions
) -> Submission | None:
    """Return the form of predictions; None if a download shows none.

    A sample submission shows most. Tables of labels show the names of columns and labels.
    """
    sample = contents.sample
    if by_table is None and sample is None:
        return None
    form = {}
    if by_table is not None:
        form["id_column"] = by_table.first.names[by_table.tables[0].id_at]
        if not by_table.target.is_onehot:
            form["label_column"] = by_table.target_names[0]
        if by_table.separator:
            form["separator"] = by_table.separator
    names = by_table.names if by_table else {}
    if options.label_names is not None and not (by_table and by_table.target.is_onehot):
        labels: Collection[str] = by_table.labels() if by_table else ["0"]
        names = read_label_names(options.label_names, labels).names
    encoded = b""
    if sample is not None:
        columns = map(sample.texts, range(len(sample.names)))
        encoded = encode_table(sample.names, zip(*columns, strict=True))
    return Submission(**form, values={name: label for label, name in names.items()}, sample=encoded)
