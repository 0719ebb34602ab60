"""Tables in files: CSV, TSV, JSON lines and Parquet as rows, each with its line."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from imgrec.codec.untrusted import read_bounded
from imgrec.errors import SourceError
from imgrec.source.manifests.text_file import (
    FALLBACK,
    encoding_of,
    head_of,
    lines_of,
    with_fallback,
)
from imgrec.storage.paths import seekable

if TYPE_CHECKING:
    import pyarrow as pa


Cell: TypeAlias = str | tuple[str, ...]
"""Text, as a number or a nothing ("") is too; or a list, where the format has them."""
_HEAD_BYTES = 1 << 16
_FREE_CELLS, _MOST_SPARSE = 10_000_000, 50
"""How many empty cells JSON lines may stand for: so many, and so many for each that is there."""
_SHOWN = 80
_CONTROLS = re.compile("[\x00\x02-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
"""What text in an unknown encoding does not hold; Hive's delimiter is none of them."""


class TableKind(StrEnum):
    """What a table is written as."""

    CSV = "CSV"
    TSV = "TSV"
    TEXT = "text"
    JSONL = "JSONL"
    PARQUET = "Parquet"


_SUFFIXES = {
    ".csv": TableKind.CSV, ".tsv": TableKind.TSV, ".tab": TableKind.TSV, ".txt": TableKind.TEXT,
    ".jsonl": TableKind.JSONL, ".ndjson": TableKind.JSONL, ".parquet": TableKind.PARQUET,
}  # fmt: skip
_HIVE, _HIVE_NULL = "\x01", "\\N"
_DELIMITERS = {TableKind.CSV: ",;\t", TableKind.TSV: "\t", TableKind.TEXT: f"{_HIVE}\t,; "}
"""What may part cells, the likeliest first. Hive writes no quotes."""


class Fault(NamedTuple):
    """A row that is none, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file."""

    name: str
    """What the file is called in messages."""
    kind: TableKind
    keys: tuple[str, ...]
    """The columns' names where the format has them; empty where the first row may tell."""
    rows: Sequence[Sequence[Cell]]
    lines: Sequence[int]
    """Where each row begins: its line, or its number in a Parquet file."""
    faults: tuple[Fault, ...] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)
    """The columns that hold neither text nor numbers, and what they do hold."""
    doubt: str = ""
    """What to tell users about how the file was read."""


def is_table(path: str) -> bool:
    """Tell whether a file is a table, by its suffix, or by its content if it has none."""
    return kind_of(path) is not None


def kind_of(path: str) -> TableKind | None:
    """Return what a table is written as; None for a file that is no table."""
    if not os.path.isfile(path):
        return None
    stem, suffix = os.path.splitext(path.lower())
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]
    if suffix in ("", ".json"):
        return _sniff(head_of(path, _HEAD_BYTES), is_json=suffix == ".json")
    return _SUFFIXES.get(suffix)


def _sniff(head: bytes, *, is_json: bool) -> TableKind | None:
    """Tell the kind of a part file: Spark and Hive give some no suffix, or JSON lines `.json`."""
    if head.startswith(PARQUET_MAGIC):
        return TableKind.PARQUET
    try:
        # The end may be in the middle of a character.
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
    """Read a table that is called `name` in messages; raise SourceError if it is none.

    Text is in `encoding`, or else in whatever fits.
    """
    kind = kind_of(path)
    if kind is None:
        raise SourceError(
            f"{name} is not a table", hint="give CSV, TSV, JSON lines or Parquet", path=path
        )
    if kind is TableKind.PARQUET:
        parquet = read_parquet(path, name)
        columns = [tuple(map(_cell, column)) for column in parquet.columns]
        rows = list(zip(*columns, strict=True))
        return Table(
            name=name,
            kind=kind,
            keys=parquet.names,
            rows=rows,
            lines=range(1, len(rows) + 1),
            unusable=parquet.unusable,
        )

    def read(encoding: str) -> Table:
        if kind is TableKind.JSONL:
            return _read_json_lines(name, lines_of(path, name, encoding), RowLimit(path, name))
        return _read_delimited(path, name, encoding)

    table, doubt = with_fallback(read, name, encoding)
    return replace(table, doubt=doubt)


def _read_delimited(path: str, name: str, encoding: str) -> Table:
    faults: list[Fault] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    limit = RowLimit(path, name)
    for line, cells in delimited_rows(path, name, faults, encoding):
        limit.take(len(cells))
        rows.append(cells)
        lines.append(line)
    kind = TableKind.TSV if _delimiter(path, name, encoding) == "\t" else TableKind.CSV
    return Table(
        name=name, kind=kind, keys=(), rows=rows, lines=lines, faults=tuple(sorted(faults))
    )


def delimited_rows(
    path: str, name: str, faults: list[Fault], encoding: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV or TSV file, each with its first line; add others to `faults`.

    All rows have as many cells as the first. `encoding` is as in `lines_of`. Raises SourceError if
    the file is unreadable, or if a quote that is never closed swallows the rest of it.
    """
    delimiter = _delimiter(path, name, encoding)
    reader = csv.reader(
        lines_of(path, name, encoding),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=delimiter == " ",  # lists may be padded with blanks
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
            faults.append(_quoting_fault(error, f"{name}:{line}", line, reader.line_num))
            refuse_many_faults(len(faults), name, faults[-1].reason)
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
            faults.append(Fault(line, delimiter.join(cells)[:_SHOWN], reason))
            refuse_many_faults(len(faults), name, reason)


def _delimiter(path: str, name: str, encoding: str) -> str:
    """Return the likeliest delimiter of those that the first line has outside of quotes."""
    kind = kind_of(path) or TableKind.TEXT
    usual = "\t" if kind is TableKind.TSV else ","
    first = next((line for line in lines_of(path, name, encoding) if line.strip("\r\n")), "")
    bare = "".join(first.strip("\r\n").split('"')[::2])
    return next((choice for choice in _DELIMITERS.get(kind, usual) if choice in bare), usual)


def _quoting_fault(error: csv.Error, where: str, first: int, last: int) -> Fault:
    if "limit" in str(error):
        raise SourceError(
            f"{where}: a cell of more than {csv.field_size_limit():,} characters",
            hint="a quote may have been opened there that is not closed",
        ) from error
    if "end of data" in str(error):
        raise SourceError(
            f"{where}: a quote that is not closed",
            hint='close it, or write "" for a quote inside quotes',
        ) from error
    span = f"lines {first} to {last}: " if last > first else ""
    return Fault(first, "", f"{span}text behind a closing quote")


def _read_json_lines(name: str, lines: Iterable[str], limit: RowLimit) -> Table:
    faults: list[Fault] = []
    objects: list[dict[str, Cell]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = _parse_object(line)
        except (ValueError, RecursionError) as error:
            faults.append(Fault(number, line.strip()[:_SHOWN], _json_reason(error)))
            refuse_many_faults(len(faults), name, faults[-1].reason)
            continue
        limit.take(sum(len(cell) if isinstance(cell, tuple) else 1 for cell in found.values()))
        objects.append(found)
        numbers.append(number)
    keys = tuple(dict.fromkeys(key for found in objects for key in found))
    if len(keys) * len(objects) > _FREE_CELLS + _MOST_SPARSE * sum(map(len, objects)):
        raise SourceError(
            f"{name} has {len(keys):,} different keys in {len(objects):,} rows",
            hint="write values that differ from row to row as values, not as keys",
        )
    rows = [tuple([found.get(key, "") for key in keys]) for found in objects]
    return Table(
        name=name,
        kind=TableKind.JSONL,
        keys=keys,
        rows=rows,
        lines=numbers,
        faults=tuple(faults),
    )


def _parse_object(line: str) -> dict[str, Cell]:
    """Parse a line of JSON; raise ValueError if it is no object, or not of valid text."""
    found = json.loads(line, object_pairs_hook=_no_key_twice)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    cells = {key: _cell(value) for key, value in found.items()}
    if "\\ud" in line.lower():
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
    return cells


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
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


def _cell(value: object) -> Cell:
    """Return a value of JSON or Parquet as text; a list as a tuple of texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(map(_text, value))
    return _text(value)


def _text(value: object) -> str:
    if value is None or value != value:  # pandas writes NaN where a value is missing
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return str(value)


PARQUET_MAGIC = b"PAR1"


class Parquet(NamedTuple):
    """The columns of a Parquet file."""

    names: tuple[str, ...]
    columns: tuple[list[object], ...]
    """The values of each; nothing for each row where they are unusable."""
    unusable: Mapping[str, str]
    """The columns of bytes or structures, and their types."""


def read_parquet(path: str, name: str) -> Parquet:
    """Read the columns of text, numbers and lists of them; raise SourceError if it is damaged.

    Columns of bytes, which may be whole images, are not read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = seekable(Path(path))
        with pq.ParquetFile(opened) as file:
            schema = file.schema_arrow
            kept = [field.name for field in schema if _is_plain(field.type)]
            table = read_bounded(file, opened, kept)
            RowLimit(path, name).take(_count_cells(table), table.num_rows)
            values = {key: table.column(key).to_pylist() for key in dict.fromkeys(kept)}
    # UnicodeDecodeError and out-of-range dates are among the ValueErrors.
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceError(f"cannot read {name} as Parquet: {reason}", path=path) from error
    count = len(next(iter(values.values()), ()))
    return Parquet(
        names=tuple(schema.names),
        columns=tuple([values.get(key) or [None] * count for key in schema.names]),
        unusable={field.name: str(field.type) for field in schema if field.name not in values},
    )


def _count_cells(table: pa.Table) -> int:
    """Count the values of a table, each of a list on its own."""
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


_RATIO = 200
"""Of memory to bytes on disk: the shortest rows of a plain table take less than half of that."""
_FREE_BYTES = 1 << 30
_ROW_BYTES, _CELL_BYTES = 128, 16
"""What Python needs for a row, and for each cell beside its text."""
_MOST_FAULTS = 1_000_000


@dataclass(slots=True)
class RowLimit:
    """What the rows of one table may still take."""

    path: str
    name: str
    """What the table is called in messages."""
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = max(_FREE_BYTES, _RATIO * os.path.getsize(self.path))

    def take(self, cells: int, rows: int = 1) -> None:
        """Count some rows, with so many cells in all; raise SourceError if they are too many."""
        self._left -= _ROW_BYTES * rows + _CELL_BYTES * cells
        if self._left < 0:
            raise SourceError(
                f"{self.name} has more rows and cells than a table of its size should have",
                hint="if you trust it, unpack it, or save it as plain CSV",
                path=self.path,
            )


def refuse_many_faults(count: int, name: str, reason: str) -> None:
    """Raise SourceError if so many rows of a table cannot be read that it is none."""
    if count > _MOST_FAULTS:
        raise SourceError(
            f"{name} has more than {_MOST_FAULTS:,} rows that cannot be read, such as: {reason}",
            hint="give CSV, TSV, JSON lines or Parquet",
        )


_MISSING_NUMBERS = frozenset(
    {"", "na", "n/a", "#n/a", "<na>", "nan", "+nan", "-nan", "null", "none", "\\n", "?", "-"}
)
"""How tables write a number that is not known; "\\N" is Hive's and MySQL's."""


def is_missing_number(cell: str) -> bool:
    """Tell whether a cell of a column of numbers has no value.

    >>> is_missing_number(" NaN"), is_missing_number("0")
    (True, False)
    """
    return cell.strip().casefold() in _MISSING_NUMBERS
