"""From the parameters of an address to what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from starlette.datastructures import QueryParams

from imgrec.errors import UsageError
from imgrec.inspection.viewing.catalogue import Query
from imgrec.inspection.viewing.thumbnails import SIDES
from imgrec.model import UNLABELLED

T = TypeVar("T")

MOST_ROWS = 200
"""Of a page."""
_MOST_TEXT = 1000
_MOST_SIDE = 1 << 31


def query_of(parameters: QueryParams, classes: int) -> Query:
    """Return the filters that parameters ask for; raise UsageError if they are none."""
    labels = [
        _integer(text, UNLABELLED, classes - 1, "class") for text in parameters.getlist("class")
    ]
    return Query(
        splits=frozenset(parameters.getlist("split")),
        classes=frozenset(labels),
        formats=frozenset(parameters.getlist("format")),
        min_side=_integer(parameters.get("min") or "0", 0, _MOST_SIDE, "min"),
        max_side=_integer(parameters.get("max") or "0", 0, _MOST_SIDE, "max"),
        text=_short(parameters.get("q", "")),
    )


def page_of(parameters: QueryParams) -> slice:
    """Return which of the records found are asked for."""
    start = _integer(parameters.get("start", "0"), 0, 1 << 62, "start")
    return slice(start, start + _integer(parameters.get("count", "100"), 1, MOST_ROWS, "count"))


def number_of(parameters: QueryParams, records: int) -> int:
    """Return the number of the record that is asked for; raise UsageError if there is none."""
    return _integer(parameters.get("n", ""), 0, records - 1, "n")


def numbers_of(parameters: QueryParams, records: int) -> Sequence[int]:
    """Return the numbers of the records that are asked for, each once."""
    texts = parameters.get("n", "").split(",")[: MOST_ROWS + 1]
    if len(texts) > MOST_ROWS:
        raise UsageError(f"n is of more than {MOST_ROWS} records")
    return tuple(dict.fromkeys(_integer(text, 0, records - 1, "n") for text in texts))


def side_of(parameters: QueryParams) -> int:
    """Return how large thumbnails are asked for."""
    return _one_of(SIDES, _integer(parameters.get("side", ""), 0, SIDES[-1], "side"), "side")


def _integer(text: str, least: int, most: int, name: str) -> int:
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20
    if not is_number or not least <= int(text) <= most:
        raise UsageError(f"{name} is not a number from {least} to {most}")
    return int(text)


def _one_of(values: Sequence[T], value: T, name: str) -> T:
    if value not in values:
        raise UsageError(f"{name} is none of {', '.join(map(str, values))}")
    return value


def _short(text: str) -> str:
    if len(text) > _MOST_TEXT:
        raise UsageError(f"q is longer than {_MOST_TEXT} characters")
    return text
