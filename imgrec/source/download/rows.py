"""A reading of a download as one table: a row for each image, with its label, split and id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN
from imgrec.options import SourceOptions
from imgrec.source.download.contents import Contents
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.label_tables import LabelTable, TestSet
from imgrec.source.download.reading import Reading, TableReading
from imgrec.source.download.tables import NamedTable
from imgrec.source.manifests.labels import flag
from imgrec.source.manifests.tables import Cell, Table, TableKind
from imgrec.source.split_words import read_splits

IMAGE, LABEL, SPLIT, ID = "(image)", "(label)", "(split)", "id"
_SHOWN = 3


class Row(NamedTuple):
    """One image: its label, split and id."""

    line: int
    image: str
    label: Cell
    split: str
    id: str
    others: tuple[Cell, ...]
    """The cells of the columns that were asked for."""


def tables_of(reading: Reading, contents: Contents, options: SourceOptions) -> list[Table]:
    """Return a reading as tables with the columns of `Row`, one for each file it comes from."""
    others = _other_columns(reading, options)
    found: list[Table] = []
    if reading.by_table is not None:
        has_test = bool(reading.tests)
        parts = zip(reading.by_table.tables, reading.by_table.split_at, strict=True)
        for part, split_at in parts:
            splits = _splits(part, split_at, reading.by_table, has_test=has_test)
            rows = _labelled(part, reading.by_table, contents.index, others, splits)
            if reading.lists:
                told = reading.lists.splits
                rows = (row._replace(split=told.get(row.image, row.split)) for row in rows)
            found.append(_table(part.name, rows, others, part.table))
    elif reading.by_folder is not None:
        rows = _of_folders(reading, contents.images, len(others))
        found.append(_table(reading.lists.where if reading.lists else "folders", rows, others))
    template = reading.by_table.template if reading.by_table else ""
    for test in reading.tests:
        rows = _unlabelled(test, contents.test_index, len(others), template)
        found.append(_table(test.where, rows, others))
    return found


def _other_columns(reading: Reading, options: SourceOptions) -> tuple[str, ...]:
    """Return the columns of the tables of labels that the options ask for."""
    if reading.by_table is None:
        return ()
    columns = reading.by_table.tables[0].table.columns
    wanted = [options.group_col, *(column.name for column in options.column)]
    if not reading.by_table.target.is_single:
        wanted += [columns[at] for at in reading.by_table.target.columns]
    return tuple(dict.fromkeys(name for name in wanted if name and name != ID))


def _table(
    name: str, rows: Iterator[Row], others: Sequence[str], source: NamedTable | None = None
) -> Table:
    cells = list(rows)
    return Table(
        faults=source.faults if source else (),
        doubt=source.doubt if source else "",
        name=name,
        kind=TableKind.PARQUET,  # its columns have names, and cells may be lists
        keys=(IMAGE, LABEL, SPLIT, ID, *others),
        rows=[(row.image, row.label, row.split, row.id, *row.others) for row in cells],
        lines=[row.line for row in cells],
    )


def _labelled(
    part: LabelTable,
    reading: TableReading,
    index: ImageIndex,
    others: Sequence[str],
    splits: Sequence[str],
) -> Iterator[Row]:
    table = part.table
    labels = _labels(part, reading)
    places = [table.find(name) for name in others]
    missing = [name for name, at in zip(others, places, strict=True) if at is None]
    if missing:
        raise SourceError(
            f"{table.name} has no column {missing[0]}",
            hint=f"it has the columns {', '.join(table.columns)}",
        )
    extra = [table.cells[at] for at in places if at is not None]
    for row, text in enumerate(part.ids()):
        image = _image(text, splits[row] or TRAIN, index, reading.template)
        yield Row(
            line=part.table.lines[row],
            image=image,
            label=labels[row],
            split=splits[row],
            id=text.strip(),
            others=tuple([cells[row] for cells in extra]),
        )


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
    part: LabelTable, at: int | None, reading: TableReading, *, has_test: bool
) -> Sequence[str]:
    """Return the split of each row: of a column, of the file, or train beside a test set."""
    if at is not None:
        return read_splits(part.table.texts(at), part.table.columns[at], part.name).splits
    split = part.split if len(reading.tables) > 1 else TRAIN if has_test else ""
    return [split] * len(part.table.lines)


def _labels(part: LabelTable, reading: TableReading) -> Sequence[Cell]:
    """Return the label of each row, by its name where that is known."""
    if not reading.target.is_single:
        return [""] * len(part.table.lines)
    if reading.target.is_onehot:
        classes = [part.table.columns[at] for at in reading.target.columns]
        flags = [map(flag, part.table.texts(at)) for at in reading.target.columns]
        return ["".join(compress(classes, row)) for row in zip(*flags, strict=True)]
    (at,) = reading.target.columns
    cells = part.table.cells[at]
    if reading.separator:
        cells = [
            tuple(word for text in str(cell).split(reading.separator) if (word := text.strip()))
            for cell in cells
        ]
    names = reading.names
    return [_named(cell, names) for cell in cells] if names else list(cells)


def _named(cell: Cell, names: Mapping[str, str]) -> Cell:
    if isinstance(cell, tuple):
        return tuple(names.get(word.strip(), word) for word in cell)
    return names.get(cell.strip(), cell)


def _of_folders(reading: Reading, paths: Sequence[str], others: int) -> Iterator[Row]:
    """Yield the images that folders or file names give a class."""
    assert reading.by_folder is not None
    places = reading.by_folder.places()
    lists = reading.lists.splits if reading.lists else {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        place = places.of_file(folder, name)
        if isinstance(place, str) or not place.class_name or (lists and path not in lists):
            continue
        split = lists.get(path, place.split) or (TRAIN if reading.tests else "")
        yield Row(1, path, place.class_name, split, name.rpartition(".")[0] or name, ("",) * others)


def _unlabelled(test: TestSet, index: ImageIndex, others: int, template: str) -> Iterator[Row]:
    for row, (line, text) in enumerate(zip(test.lines, test.ids, strict=True)):
        image = test.paths[row] if test.paths else _image(text, TEST, index, template)
        yield Row(line, image, "", TEST, text.strip(), ("",) * others)


def refuse_ambiguous(tables: Sequence[Table], index: ImageIndex, root: str) -> None:
    """Raise SourceError if most ids of a table name several images."""
    for table in tables:
        several = [
            (str(row[3]), found)
            for row in table.rows
            if "/" not in str(row[0]) and len(found := index.find(str(row[0]))) > 1
        ]
        if len(several) * 2 > len(table.rows):
            text, found = several[0]
            folders = sorted({path.rpartition("/")[0] for path in found})
            raise SourceError(
                f"{root}: ids of {table.name} name several images: {text} may be "
                f"{', '.join(found[:_SHOWN])}",
                hint=f"leave some out, as with --exclude '{folders[-1]}/*'",
                path=root,
            )
