"""Cells that hold no value."""

from __future__ import annotations

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
