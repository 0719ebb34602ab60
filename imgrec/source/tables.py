"""Tables in files: CSV, TSV, text lists, JSON lines and Parquet, plain or gzipped.

A table is kept by column. A row that cannot be parsed is a fault, not an error: the rest is read.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.codec.untrusted import read_bounded
from imgrec.errors import SourceError
from imgrec.source.text_lines import FALLBACK, encoding_of, head_of, lines_of, with_fallback
from imgrec.storage.paths import seekable

if TYPE_CHECKING:
    import pyarrow as pa

Cell: TypeAlias = str | tuple[str, ...]
"""Text ("" for no value), or a list where the format has lists."""


def cell_text(cell: Cell) -> str:
    """Return a cell as text, as a feature or a group has it.

    >>> cell_text(("1", "2")), cell_text("1")
    ('[1, 2]', '1')
    """
    return cell if isinstance(cell, str) else f"[{', '.join(cell)}]"


class TableKind(StrEnum):
    """The format of a table."""

    CSV = "CSV"
    TSV = "TSV"
    TEXT = "text"
    JSONL = "JSONL"
    PARQUET = "Parquet"


_SUFFIXES = {
    ".csv": TableKind.CSV, ".tsv": TableKind.TSV, ".tab": TableKind.TSV, ".txt": TableKind.TEXT,
    ".lst": TableKind.TEXT, ".list": TableKind.TEXT,
    ".jsonl": TableKind.JSONL, ".ndjson": TableKind.JSONL, ".parquet": TableKind.PARQUET,
}  # fmt: skip
_FORMATS = "give CSV, TSV, JSON lines or Parquet"
_HEAD_BYTES = 1 << 16
_SHOWN = 80


class Fault(NamedTuple):
    """A row that could not be parsed."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file, by column."""

    name: str
    """The file's name in messages."""
    kind: TableKind
    names: tuple[str, ...]
    """The names of the columns; () if the format has none and the first row may hold them."""
    columns: tuple[Sequence[Cell], ...]
    lines: Sequence[int]
    """The first line of each row, or its number in a Parquet file."""
    faults: tuple[Fault, ...] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)
    """The types of columns that hold neither text nor numbers. Their cells are empty."""
    warning: str = ""
    """About the encoding; "" if it is certain."""
    path: str = ""
    """The file; "" for a table made from JSON."""
    has_single_labels: bool = False
    """Whether each label is known to be one name, even with spaces in it."""

    def texts(self, at: int) -> list[str]:
        """Return the cells of a column as texts."""
        return [cell if isinstance(cell, str) else "|".join(cell) for cell in self.columns[at]]

    def first_row(self) -> tuple[str, ...]:
        """Return the cells of the first row, stripped."""
        return tuple(str(column[0]).strip() for column in self.columns)

    def with_header(self) -> Table:
        """Return the table with its first row as the names of the columns."""
        columns = tuple(column[1:] for column in self.columns)
        return replace(self, names=self.first_row(), columns=columns, lines=self.lines[1:])


# Formats


def is_table(path: str) -> bool:
    """Return whether a file is a table, by its suffix, or by its content if it has none."""
    return kind_of(path) is not None


def kind_of(path: str) -> TableKind | None:
    """Return the format of a table; None for any other file."""
    if not os.path.isfile(path):
        return None
    stem, suffix = os.path.splitext(path.lower())
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]
    if suffix in ("", ".json"):
        return _sniff(head_of(path, _HEAD_BYTES), is_json=suffix == ".json")
    return _SUFFIXES.get(suffix)


_CONTROLS = re.compile("[\x00\x02-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
"""Characters that are not in text of any encoding. \x01, the delimiter of Hive, is."""


def _sniff(head: bytes, *, is_json: bool) -> TableKind | None:
    """Detect the format of a part file: Spark and Hive write some without a suffix."""
    if head.startswith(b"PAR1"):
        return TableKind.PARQUET
    try:
        # The head may end in the middle of a character.
        text = head.decode(encoding_of(head), "strict" if len(head) < _HEAD_BYTES else "ignore")
    except UnicodeError:
        text = head.decode(FALLBACK, "replace")
        if _CONTROLS.search(text):
            return None
    if "\0" in text:
        return None
    if _is_json_object(text.lstrip().partition("\n")[0]):
        return TableKind.JSONL
    return None if is_json else TableKind.TEXT


def _is_json_object(line: str) -> bool:
    try:
        return line.startswith("{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_table(path: str, name: str, encoding: str = "") -> Table:
    """Read a table, called `name` in messages; raise SourceError if it is not a table.

    Without an `encoding`, text is UTF-8, UTF-16 with a byte order mark, or else Windows-1252.
    """
    kind = kind_of(path)
    if kind is None:
        raise SourceError(f"{name} is not a table", hint=_FORMATS, path=path)
    if kind is TableKind.PARQUET:
        return _read_parquet(path, name)
    read = _read_json_lines if kind is TableKind.JSONL else _read_delimited
    table, warning = with_fallback(partial(read, path, name), name, encoding)
    return replace(table, warning=warning)


# CSV, TSV and text

_HIVE, _HIVE_NULL = "\x01", "\\N"
_DELIMITERS = {TableKind.CSV: ",;\t", TableKind.TSV: "\t", TableKind.TEXT: f"{_HIVE}\t,; "}
"""The likeliest first."""


def _read_delimited(path: str, name: str, encoding: str) -> Table:
    faults: list[Fault] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    limit = _RowLimit(path, name)
    for line, cells in delimited_rows(path, name, faults, encoding):
        limit.take(len(cells))
        rows.append(cells)
        lines.append(line)
    return Table(
        name=name,
        kind=TableKind.TSV if _delimiter(path, name, encoding) == "\t" else TableKind.CSV,
        names=(),
        columns=tuple(zip(*rows, strict=True)),
        lines=lines,
        faults=tuple(sorted(faults)),
        path=path,
    )


def delimited_rows(
    path: str, name: str, faults: list[Fault], encoding: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV or TSV file, each with its first line; add bad rows to `faults`.

    All rows have as many cells as the first. Raises SourceError if the file is unreadable, or if a
    quote that is never closed swallows the rest of it.
    """
    delimiter = _delimiter(path, name, encoding)
    reader = csv.reader(
        lines_of(path, name, encoding),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=delimiter == " ",  # lists may be padded with spaces
        quoting=csv.QUOTE_NONE if delimiter == _HIVE else csv.QUOTE_MINIMAL,
    )
    width = 0
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            _add_fault(faults, name, _quoting_fault(error, name, line, reader.line_num))
            continue
        if not cells:
            continue
        while delimiter == " " and not cells[-1] and len(cells) > 1:
            cells.pop()
        if delimiter == _HIVE:
            cells = ["" if cell == _HIVE_NULL else cell for cell in cells]
        width = width or len(cells)
        if len(cells) == width:
            yield line, cells
        else:
            reason = f"{len(cells)} cells instead of {width}"
            _add_fault(faults, name, Fault(line, delimiter.join(cells)[:_SHOWN], reason))


def _delimiter(path: str, name: str, encoding: str) -> str:
    """Return the likeliest delimiter in the first line, outside quotes."""
    kind = kind_of(path) or TableKind.TEXT
    usual = "\t" if kind is TableKind.TSV else ","
    first = next((line for line in lines_of(path, name, encoding) if line.strip("\r\n")), "")
    unquoted = "".join(first.strip("\r\n").split('"')[::2])
    return next((choice for choice in _DELIMITERS.get(kind, usual) if choice in unquoted), usual)


def _quoting_fault(error: csv.Error, name: str, first: int, last: int) -> Fault:
    if "limit" in str(error):
        raise SourceError(
            f"{name}:{first}: a cell of more than {csv.field_size_limit():,} characters",
            hint="a quote may have been opened there that is not closed",
        ) from error
    if "end of data" in str(error):
        raise SourceError(
            f"{name}:{first}: a quote that is not closed",
            hint='close it, or write "" for a quote inside quotes',
        ) from error
    span = f"lines {first} to {last}: " if last > first else ""
    return Fault(first, "", f"{span}text after a closing quote")


# JSON lines

_FREE_CELLS, _CELLS_PER_VALUE = 10_000_000, 50
"""How many empty cells JSON lines may lead to: some, and more for each value."""


def _read_json_lines(path: str, name: str, encoding: str) -> Table:
    faults: list[Fault] = []
    objects: list[dict[str, Cell]] = []
    lines: list[int] = []
    limit = _RowLimit(path, name)
    for number, line in enumerate(lines_of(path, name, encoding), 1):
        if not line.strip():
            continue
        try:
            found = _parse_object(line)
        except (ValueError, RecursionError) as error:
            _add_fault(faults, name, Fault(number, line.strip()[:_SHOWN], _json_reason(error)))
            continue
        limit.take(sum(len(cell) if isinstance(cell, tuple) else 1 for cell in found.values()))
        objects.append(found)
        lines.append(number)
    keys = tuple(dict.fromkeys(key for found in objects for key in found))
    if len(keys) * len(objects) > _FREE_CELLS + _CELLS_PER_VALUE * sum(map(len, objects)):
        raise SourceError(
            f"{name} has {len(keys):,} different keys in {len(objects):,} rows",
            hint="write values that differ from row to row as values, not as keys",
        )
    return Table(
        name=name,
        kind=TableKind.JSONL,
        names=keys,
        columns=tuple([found.get(key, "") for found in objects] for key in keys),
        lines=lines,
        faults=tuple(faults),
        path=path,
    )


def _parse_object(line: str) -> dict[str, Cell]:
    """Parse a line of JSON; raise ValueError unless it is an object of valid text."""
    found = json.loads(line, object_pairs_hook=_unique_keys)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    if "\\ud" in line.lower():
        json.dumps(found, ensure_ascii=False).encode()  # raises for half a surrogate pair
    return {key: cell_of(value) for key, value in found.items()}


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a JSON object with one key twice")
    return found


def _json_reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeError):
        return "not valid Unicode text"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def cell_of(value: object) -> Cell:
    """Return the cell for a value of JSON, of Arrow or of a DataFrame."""
    if isinstance(value, str):
        return value
    return tuple(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: object) -> str:
    if value is None or value != value:  # pandas writes NaN where a value is missing
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(value)


# Parquet


def _read_parquet(path: str, name: str) -> Table:
    """Read the columns of text, numbers and lists of them, but not of bytes: whole images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = seekable(Path(path))
        with pq.ParquetFile(opened) as file:
            schema = file.schema_arrow
            kept = [field.name for field in schema if _is_plain(field.type)]
            table = read_bounded(file, opened, kept)
            _RowLimit(path, name).take(_count_cells(table), table.num_rows)
            cells = {
                key: tuple(map(cell_of, table.column(key).to_pylist()))
                for key in dict.fromkeys(kept)
            }
    # UnicodeDecodeError and out-of-range dates are among the ValueErrors.
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(f"cannot read {name} as Parquet: {reason}", path=path) from error
    count = len(next(iter(cells.values()), ()))
    return Table(
        name=name,
        kind=TableKind.PARQUET,
        names=tuple(schema.names),
        columns=tuple(cells.get(key, ("",) * count) for key in schema.names),
        lines=range(1, count + 1),
        unusable={field.name: str(field.type) for field in schema if field.name not in cells},
        path=path,
    )


def _count_cells(table: pa.Table) -> int:
    """Count the values of a table, and each value of a list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = [column for column in table.columns if pa.types.is_nested(column.type)]
    listed = sum(int(pc.sum(pc.list_value_length(column)).as_py() or 0) for column in lists)
    return table.num_rows * table.num_columns + listed


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return not pa.types.is_nested(kind.value_type) and _is_plain(kind.value_type)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return not (is_bytes or pa.types.is_fixed_size_binary(kind) or pa.types.is_nested(kind))


# Limits: a small file must not fill the memory

_RATIO = 200
"""Memory to bytes on disk: the shortest rows of a plain table take less than half of that."""
_FREE_BYTES = 1 << 30
_ROW_BYTES, _CELL_BYTES = 128, 16
"""What Python needs for a row, and for each cell in addition to its text."""
_MOST_FAULTS = 1_000_000


class _RowLimit:
    """Counts the memory that the rows of a table take."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name
        self._bytes_left = max(_FREE_BYTES, _RATIO * os.path.getsize(path))

    def take(self, cells: int, rows: int = 1) -> None:
        self._bytes_left -= _ROW_BYTES * rows + _CELL_BYTES * cells
        if self._bytes_left < 0:
            raise SourceError(
                f"{self._name} has more rows and cells than a table of its size should have",
                hint="if you trust it, unpack it, or save it as plain CSV",
                path=self._path,
            )


def _add_fault(faults: list[Fault], name: str, fault: Fault) -> None:
    faults.append(fault)
    if len(faults) > _MOST_FAULTS:
        raise SourceError(
            f"{name} has more than {_MOST_FAULTS:,} rows that cannot be read, such as: "
            f"{fault.reason}",
            hint=_FORMATS,
        )
