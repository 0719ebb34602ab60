"""Which of the rows that speak of one image speaks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_SHOWN = 5


class Fact(NamedTuple):
    """What the rows say of one thing."""

    name: str
    values: Sequence[object]
    """One for each row."""


class Settled(NamedTuple):
    """Which row speaks for each image."""

    row_of: dict[int, int]
    """By the image's number."""
    repeated: list[int]
    """Rows that say again what an earlier one says."""
    faults: dict[int, str]
    """Rows that another contradicts, and where."""


def settle(
    named: Iterable[tuple[int, int]], facts: Sequence[Fact], where: Callable[[int], str]
) -> Settled:
    """Keep the first row of each image if all its rows agree on all facts, else none of them.

    `named` pairs rows with the numbers of their images.
    """
    row_of: dict[int, int] = {}
    more: dict[int, list[int]] = {}
    for row, image in named:
        if row_of.setdefault(image, row) != row:
            more.setdefault(image, [row_of[image]]).append(row)
    repeated: list[int] = []
    faults: dict[int, str] = {}
    for image, rows in more.items():
        if differing := [fact for fact in facts if len({fact.values[row] for row in rows}) > 1]:
            told = "; ".join(_contradiction(fact, rows, where) for fact in differing)
            faults.update(dict.fromkeys(rows, told))
            del row_of[image]
        else:
            repeated += rows[1:]
    return Settled(row_of, sorted(repeated), faults)


def _contradiction(fact: Fact, rows: Sequence[int], where: Callable[[int], str]) -> str:
    said = ", ".join(f"{_shown(fact.values[row])} in {where(row)}" for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"the rows of this image differ in {fact.name}: {said}{more}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " + ".join(map(str, value)) or "none"
    return str(value) or "none"
