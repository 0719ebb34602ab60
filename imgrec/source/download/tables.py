"""Tables of a download by column: CSV and the like, COCO-style JSON, and names of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import SourceError
from imgrec.source.manifests.columns import same_column, squashed
from imgrec.source.manifests.tables import Cell, Fault, Table, TableKind, read_table

_MOST_COLUMNS = 10_000
_FILE, _LABEL = "file_name", "category"


class NamedTable(NamedTuple):
    """A table whose columns have names."""

    name: str
    """Its path in the download."""
    columns: tuple[str, ...]
    cells: tuple[Sequence[Cell], ...]
    """Of each column."""
    lines: Sequence[int]
    """The line of each row."""
    copy: str = ""
    """Where it can be read; "" if it was made of JSON."""
    faults: tuple[Fault, ...] = ()
    """Lines that could not be parsed."""
    doubt: str = ""
    """What to tell users about how the file was read."""
    has_names: bool = False
    """Whether each label is known to be one name, even with blanks in it."""

    def find(self, name: str) -> int | None:
        """Return the only column of a name, or None."""
        found = same_column(self.columns, name)
        return found[0] if len(found) == 1 else None

    def texts(self, at: int) -> list[str]:
        """Return the cells of a column as texts."""
        return [cell if isinstance(cell, str) else "|".join(cell) for cell in self.cells[at]]


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return names for columns that have none."""
    return tuple(f"column_{number}" for number in range(1, count + 1))


def read_named_table(path: str, copy: str, encoding: str) -> NamedTable | None:
    """Read the table at `copy`, which the download has at `path`; None if it has no header.

    Raises SourceError if it cannot be read, or has too many columns.
    """
    table = _without_empty_columns(read_table(copy, path, encoding))
    names, skipped = _header(table)
    if len(names) > _MOST_COLUMNS:
        raise SourceError(f"it has more than {_MOST_COLUMNS:,} columns")
    if not names:
        return None
    rows = table.rows[skipped:]
    return NamedTable(
        name=path,
        columns=names,
        cells=tuple(map(_unbracketed, zip(*rows, strict=True))) if rows else ((),) * len(names),
        lines=table.lines[skipped:],
        copy=copy,
        faults=table.faults,
        doubt=table.doubt,
    )


def _without_empty_columns(table: Table) -> Table:
    """Return a table without empty last columns, which spreadsheets write."""
    width = max(map(len, table.rows), default=0)
    if table.keys or any(len(row) != width for row in table.rows):
        return table
    kept = width
    while kept > 1 and not any(row[kept - 1] for row in table.rows):
        kept -= 1
    return table if kept == width else replace(table, rows=[row[:kept] for row in table.rows])


def _unbracketed(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of a column, as tuples if all are lists in brackets: "['a', 'b']"."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    if not texts or not all(text[0] + text[-1] == "[]" for text in texts):
        return cells
    return [
        tuple(word for part in cell.strip("[] ").split(",") if (word := part.strip(" '\"")))
        if isinstance(cell, str)
        else cell
        for cell in cells
    ]


def _header(table: Table) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and how many rows they take; () for no header."""
    if table.kind in (TableKind.JSONL, TableKind.PARQUET):
        return table.keys, 0
    if not table.rows:
        return (), 0
    names = tuple(str(cell).strip() for cell in table.rows[0])
    is_header = all(names[1:]) and len(set(names)) == len(names)
    has_paths = any(extension(name) in IMAGE_EXTENSIONS for name in names)
    return (names, 1) if is_header and not has_paths else ((), 0)


def label_names_in(table: NamedTable) -> Mapping[str, str]:
    """Return the names that a table gives to labels: its first column, named by another.

    Empty if it is another kind of table.
    """
    if len(table.columns) < 2:
        return {}
    named = [at for at, name in enumerate(table.columns) if at and "name" in squashed(name)]
    if len(named) != 1 and len(table.columns) > 2:
        return {}
    at = named[0] if len(named) == 1 else 1
    keys = [text.strip() for text in table.texts(0)]
    names = [text.strip() for text in table.texts(at)]
    is_map = len(set(keys)) == len(keys) and len(set(names)) == len(names) and all(names)
    return dict(zip(keys, names, strict=True)) if is_map else {}


def label_names_of_json(document: object) -> Mapping[str, str]:
    """Return the names that a JSON object gives to labels; empty if it is another document."""
    if not isinstance(document, dict) or not document:
        return {}
    values = document.values()
    if all(isinstance(value, str) for value in values):
        return {str(key).strip(): value.strip() for key, value in document.items()}
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return {str(value): str(key).strip() for key, value in document.items()}
    return {}


class Coco(NamedTuple):
    """COCO-style JSON as a table."""

    table: NamedTable
    """File name and category of each annotated image; of each image if there are no annotations."""
    file_of: Mapping[str, str]
    """The file of each image's id."""


def parse_coco(document: object, path: str) -> Coco | None:
    """Read a JSON document; return None if it is not COCO-style.

    A list of images alone is, too. Some competitions have other words for `id` and `name`.
    """
    if isinstance(document, list):
        document = {"images": document}
    if not isinstance(document, dict):
        return None
    images = _objects(document.get("images"))
    files = {_first(image, "id", "image_id"): _first(image, "file_name") for image in images}
    files = {id_: name for id_, name in files.items() if id_ and name}
    if not files:
        return None
    names = {
        _first(category, "id", "category_id"): _first(category, "name", "scientificName")
        for category in _objects(document.get("categories"))
    }
    pairs = [
        (files.get(_text(one.get("image_id")), ""), _text(one.get("category_id")))
        for one in _objects(document.get("annotations"))
    ]
    pairs = [(name, category) for name, category in pairs if name and category]
    is_named = len(set(names.values())) == len(names) and all(names.get(key) for _, key in pairs)
    columns: dict[str, Sequence[str]] = {_FILE: tuple(files.values())}
    if pairs:
        columns = {
            _FILE: [name for name, _ in pairs],
            _LABEL: [names[category] if is_named else category for _, category in pairs],
        }
    lines = range(1, len(columns[_FILE]) + 1)
    table = NamedTable(path, tuple(columns), tuple(columns.values()), lines, has_names=True)
    return Coco(table, files)


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _first(one: Mapping[str, object], *keys: str) -> str:
    """Return the value of the first key that an object has, as text."""
    return next((text for key in keys if (text := _text(one.get(key)))), "")


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int) and value != "" else ""
