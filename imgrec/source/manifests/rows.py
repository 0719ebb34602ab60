"""All rows of a manifest as one table, whichever files they are in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from imgrec.errors import SourceError
from imgrec.notes import Note
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
    bad: tuple[Note, ...]
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

    def files(self) -> list[str]:
        """Return the file that each row is in."""
        ends = (*self._starts[1:], self.count)
        spans = zip(self._parts, self._starts, ends, strict=True)
        return [part for part, start, end in spans for _ in range(start, end)]

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
    tables: Sequence[Table],
    where: str,
    options: SourceOptions,
    is_image: Callable[[str], bool],
    unlabelled: Container[str] = (),
) -> Rows:
    """Put the tables of a manifest together.

    The tables called as in `unlabelled` may lack columns, such as labels, that others have.
    Raises SourceError if there are no rows, or if other tables differ in their columns.
    """
    bad = tuple(
        Note(text or f"{table.name}:{line}", f"{table.name}:{line}: {reason}")
        for table in tables
        for line, text, reason in table.faults
    )
    filled = [table for table in tables if table.rows]
    first = f" that can be read; {bad[0].reason}" if bad else ""
    if not filled:
        raise SourceError(f"{where} has no rows{first}", hint="give a row for each image")
    _refuse_other_kinds(filled)
    main = next((table for table in filled if table.name not in unlabelled), filled[0])
    head = tuple(str(cell).strip() for cell in main.rows[0])
    is_told = bool(main.keys) or has_header(head, where, options, is_image)
    skipped = 1 if is_told and not main.keys else 0
    heads = {table.name: _head(table, is_told=is_told) for table in filled}
    names = heads[main.name]
    if main.kind is TableKind.JSONL:
        names = tuple(dict.fromkeys(chain.from_iterable(heads.values())))
    else:
        _refuse_other_columns(heads, main.name, unlabelled)
    rows = [_cells(table.rows[skipped:], heads[table.name], names) for table in filled]
    count = sum(map(len, rows))
    if not count:
        raise SourceError(
            f"{where} has a header but no rows{first}", hint="give a row for each image"
        )
    return Rows(
        kind=main.kind,
        header=Header(where=where, names=names, is_told=is_told),
        columns=tuple(zip(*chain.from_iterable(rows), strict=True)),
        count=count,
        bad=bad,
        unusable={name: kind for table in filled for name, kind in table.unusable.items()},
        _parts=tuple(table.name for table in filled),
        _starts=tuple(accumulate(map(len, rows), initial=0))[:-1],
        _lines=tuple(chain.from_iterable(table.lines[skipped:] for table in filled)),
    )


def _refuse_other_kinds(tables: Sequence[Table]) -> None:
    first = tables[0]
    if odd := next((table for table in tables if table.kind is not first.kind), None):
        raise SourceError(
            f"{odd.name} is {odd.kind}, but {first.name} is {first.kind}",
            hint="give tables of one kind",
        )


def _head(table: Table, *, is_told: bool) -> tuple[str, ...]:
    """Return the names of a table's columns, or their numbers from 1 if it has no names."""
    if table.keys:
        return table.keys
    if is_told:
        return tuple(str(cell).strip() for cell in table.rows[0])
    return tuple(map(str, range(1, len(table.rows[0]) + 1)))


def _refuse_other_columns(
    heads: Mapping[str, tuple[str, ...]], main: str, unlabelled: Container[str]
) -> None:
    names = heads[main]
    for table, head in heads.items():
        if head != names and not (table in unlabelled and set(head) < set(names)):
            raise SourceError(
                f"{table} has other columns than {main}: "
                f"{', '.join(head)[:200]} instead of {', '.join(names)[:200]}",
                hint="give files of one table, or one file",
            )


def _cells(
    rows: Sequence[Sequence[Cell]], head: tuple[str, ...], names: tuple[str, ...]
) -> Sequence[Sequence[Cell]]:
    if head == names:
        return rows
    places = {key: place for place, key in enumerate(head)}
    order = [places.get(name) for name in names]
    return [["" if at is None else row[at] for at in order] for row in rows]
