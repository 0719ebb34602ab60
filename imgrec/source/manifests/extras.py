"""The columns of a manifest that travel into the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from imgrec.model import Column
from imgrec.options import ColumnKind, ColumnOption
from imgrec.source.manifests.labels import as_integer

_INT64 = range(-(1 << 63), 1 << 63)
_MAX_FLOAT32 = 3.4028235e38
Value = int | float | str


class ExtraColumn(NamedTuple):
    """A column's values, "" for those of the rows that have faults."""

    column: Column
    faults: dict[int, str]


def read_column(cells: Sequence[str], option: ColumnOption) -> ExtraColumn:
    """Read the values of a column, and find out what they are if it is not said.

    An empty cell is a text, but neither of the numbers.
    """
    distinct = dict.fromkeys(cells)
    kind = option.kind or _kind_of([cell for cell in distinct if cell.strip()])
    values = {cell: _READERS[kind](cell) for cell in distinct}
    faults = {
        row: f"{cell!r} in the column {option.name} is no {kind}"
        if cell.strip()
        else f"no {kind} in the column {option.name}"
        for row, cell in enumerate(cells)
        if values[cell] is None
    }
    kept = tuple([value if (value := values[cell]) is not None else "" for cell in cells])
    return ExtraColumn(Column(option.name, kind, kept), faults)


def _kind_of(cells: Sequence[str]) -> ColumnKind:
    if cells and all(_is_int(cell) for cell in cells):
        return ColumnKind.INT
    if cells and all(_float(cell) is not None for cell in cells):
        return ColumnKind.FLOAT
    return ColumnKind.TEXT


def _is_int(cell: str) -> bool:
    return "." not in cell and _int(cell) is not None


def _int(cell: str) -> int | None:
    whole = as_integer(cell.strip())
    if not whole or len(whole) > 20:
        return None
    return value if (value := int(whole)) in _INT64 else None


def _float(cell: str) -> float | None:
    if "_" in cell or not cell.isascii():
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if _MAX_FLOAT32 < abs(value) < math.inf else value


def _text(cell: str) -> str:
    return cell


_READERS: Mapping[ColumnKind, Callable[[str], Value | None]] = {
    ColumnKind.INT: _int,
    ColumnKind.FLOAT: _float,
    ColumnKind.TEXT: _text,
}
