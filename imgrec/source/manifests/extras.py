"""The columns of a manifest that travel into the records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from imgrec.model import Column
from imgrec.options import ColumnKind, ColumnOption
from imgrec.options.source import ColumnValue
from imgrec.source.manifests.tables import is_missing_number
from imgrec.spelling import as_integer

_INT64 = range(-(1 << 63), 1 << 63)
_MAX_FLOAT32 = 3.4028235e38


class ExtraColumn(NamedTuple):
    """A column's values, "" for those of the rows that have faults."""

    column: Column
    faults: dict[int, str]
    doubt: str = ""
    """How many cells are missing, and what they become; empty if none is."""


def read_column(cells: Sequence[str], name: str, option: ColumnOption) -> ExtraColumn:
    """Read the values of a column called `name`, and infer their kind if the option has none.

    Missing values get the option's default.
    """
    uses = Counter(cells)
    kind = option.kind or _kind_of(uses)
    default = option.missing(kind)
    missing = {cell for cell in uses if _is_missing(cell, kind)}
    values = {cell: default if cell in missing else _READERS[kind](cell) for cell in uses}
    faults = {
        row: f"{cell!r} in the column {name} is no {kind}"
        for row, cell in enumerate(cells)
        if values[cell] is None
    }
    kept = tuple([value if (value := values[cell]) is not None else "" for cell in cells])
    count = sum(uses[cell] for cell in missing)
    is_held = any(value == default for cell, value in values.items() if cell not in missing)
    doubt = missing_cells(name, count, len(cells), default, is_held=is_held) if count else ""
    return ExtraColumn(Column(name, kind, kept), faults, doubt)


def missing_cells(
    name: str, missing: int, cells: int, default: ColumnValue, *, is_held: bool
) -> str:
    """Say how many cells of a column are missing, and what becomes of them.

    `is_held` is whether other cells hold the default, too.
    """
    told = f'"{default}"' if isinstance(default, str) else default
    doubt = f"{name}: {missing:,} of {cells:,} cells are missing, and become {told}"
    if is_held:
        doubt += ", which other cells hold too; pass another default to tell them apart"
    return doubt


def _is_missing(cell: str, kind: ColumnKind) -> bool:
    # "NA" and "None" may be words: of texts, only the empty one is missing.
    return not cell if kind is ColumnKind.TEXT else is_missing_number(cell)


def _kind_of(cells: Collection[str]) -> ColumnKind:
    """Return the narrowest kind that holds all cells with a value."""
    present = [cell for cell in cells if not is_missing_number(cell)]
    # pandas turns whole numbers into floats, 3 into 3.0, where some are missing.
    is_int = _is_int if len(present) == len(cells) else _is_whole
    if present and all(map(is_int, present)):
        return ColumnKind.INT
    if present and all(_float(cell) is not None for cell in present):
        return ColumnKind.FLOAT
    return ColumnKind.TEXT


def _is_int(cell: str) -> bool:
    return "." not in cell and _is_whole(cell)


def _is_whole(cell: str) -> bool:
    return _int(cell) is not None


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


_READERS: Mapping[ColumnKind, Callable[[str], ColumnValue | None]] = {
    ColumnKind.INT: _int,
    ColumnKind.FLOAT: _float,
    ColumnKind.TEXT: _text,
}
