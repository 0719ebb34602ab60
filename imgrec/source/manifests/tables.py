"""Tables in files: CSV, TSV, JSON lines and Parquet as rows, each with its line."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from imgrec.errors import SourceError
from imgrec.source.manifests.parquet_file import PARQUET_MAGIC, read_parquet
from imgrec.source.manifests.row_limit import RowLimit, refuse_many_faults
from imgrec.source.manifests.text_file import (
    FALLBACK,
    encoding_of,
    head_of,
    lines_of,
    with_fallback,
)

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
