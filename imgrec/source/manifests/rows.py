"""All rows of a manifest as one table, whichever files they are in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from imgrec.errors import SourceError
from imgrec.model import Skipped
from imgrec.options import SourceOptions
from imgrec.source.manifests.columns import Header, has_header
from imgrec.source.manifests.tables import Cell, Table, TableKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a manifest, by column."""

    kind: TableKind
    header: Header
    columns: tuple[tuple[Cell, ...], ...]
    count: int
    bad: tuple[Skipped, ...]
    """Lines that are no rows."""
    unusable: dict[str, str]
    """As in `Table`."""
    _parts: tuple[str, ...]
    _starts: tuple[int, ...]
    """The number of each part's first row."""
    _lines: tuple[int, ...]

    def where(self, row: int) -> str:
        """Return the file and line of a row."""
        part = self._parts[bisect_right(self._starts, row) - 1]
        return f"{part}:{self._lines[row]}"

    def column(self, number: int) -> tuple[Cell, ...]:
        """Return the cells of a column; raise SourceError if they are neither text nor numbers."""
        name = self.header.names[number]
        if name in self.unusable:
            raise SourceError(
                f"{self.header.where}: the column {name} holds {self.unusable[name]}, "
                "neither text nor numbers",
                hint="give a column of text or numbers",
            )
        return self.columns[number]

    def texts(self, number: int) -> tuple[str, ...]:
        """Return the cells of a column as texts."""
        cells = self.column(number)
        if all(isinstance(cell, str) for cell in cells):
            return cells  # type: ignore[return-value]  # just looked at
        return tuple(cell if isinstance(cell, str) else f"[{', '.join(cell)}]" for cell in cells)


def join(
    tables: Sequence[Table], where: str, options: SourceOptions, is_image: Callable[[str], bool]
) -> Rows:
    """Put the tables of a manifest together.

    Raises SourceError if they have no rows or differ in their columns.
    """
    bad = tuple(
        Skipped(text or f"{table.name}:{line}", f"{table.name}:{line}: {reason}")
        for table in tables
        for line, text, reason in table.faults
    )
    filled = [table for table in tables if table.rows]
    first = f" that can be read; {bad[0].reason}" if bad else ""
    if not filled:
        raise SourceError(f"{where} has no rows{first}", hint="give a row for each image")
    header, skipped = _header(filled, where, options, is_image)
    rows = [_cells(table, header)[skipped:] for table in filled]
    count = sum(map(len, rows))
    if not count:
        raise SourceError(
            f"{where} has a header but no rows{first}", hint="give a row for each image"
        )
    return Rows(
        kind=filled[0].kind,
        header=header,
        columns=tuple(zip(*chain.from_iterable(rows), strict=True)),
        count=count,
        bad=bad,
        unusable={name: kind for table in filled for name, kind in table.unusable.items()},
        _parts=tuple(table.name for table in filled),
        _starts=tuple(accumulate(map(len, rows), initial=0))[:-1],
        _lines=tuple(chain.from_iterable(table.lines[skipped:] for table in filled)),
    )


def _header(
    tables: Sequence[Table], where: str, options: SourceOptions, is_image: Callable[[str], bool]
) -> tuple[Header, int]:
    """Return the columns of all tables, and how many first rows of each are none."""
    first = tables[0]
    if odd := next((table for table in tables if table.kind is not first.kind), None):
        raise SourceError(
            f"{odd.name} is {odd.kind}, but {first.name} is {first.kind}",
            hint="give tables of one kind",
        )
    if first.keys:
        if first.kind is TableKind.JSONL:
            names = tuple(dict.fromkeys(chain.from_iterable(table.keys for table in tables)))
        else:
            names = first.keys
            _refuse_other_columns(tables, [table.keys for table in tables])
        return Header(where=where, names=names, is_told=True), 0
    heads = [tuple(str(cell).strip() for cell in table.rows[0]) for table in tables]
    if has_header(heads[0], where, options, is_image):
        _refuse_other_columns(tables, heads)
        return Header(where=where, names=heads[0], is_told=True), 1
    numbers = [tuple(map(str, range(1, len(head) + 1))) for head in heads]
    _refuse_other_columns(tables, numbers)
    return Header(where=where, names=numbers[0], is_told=False), 0


def _refuse_other_columns(tables: Sequence[Table], heads: Sequence[tuple[str, ...]]) -> None:
    for table, head in zip(tables, heads, strict=True):
        if head != heads[0]:
            raise SourceError(
                f"{table.name} has other columns than {tables[0].name}: "
                f"{', '.join(head)[:200]} instead of {', '.join(heads[0])[:200]}",
                hint="give files of one table, or one file",
            )


def _cells(table: Table, header: Header) -> Sequence[Sequence[Cell]]:
    if table.kind is not TableKind.JSONL or table.keys == header.names:
        return table.rows
    places = {key: place for place, key in enumerate(table.keys)}
    order = [places.get(name) for name in header.names]
    return [["" if at is None else row[at] for at in order] for row in table.rows]
