"""JSON of strangers: bounded in memory, and read into values of known types."""

from __future__ import annotations

import json
from typing import Any

from imgrec.text import printable

_MOST_VALUES = 1 << 23
"""Of honest reports, a million skipped files are 2 million. An empty list takes 3 bytes in a file
and 64 in memory."""
_MOST_COUNT = 1 << 63


def parse_json(data: bytes | str) -> Any:  # JSON is untyped until it is looked at
    """Parse JSON; raise ValueError if it is none, is nested too deeply, or has too many values."""
    commas = data.count(",") if isinstance(data, str) else data.count(b",")
    if commas > _MOST_VALUES:
        raise ValueError(f"it holds more than {_MOST_VALUES:,} values")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def text_of(value: object) -> str:
    """Return a text, without halves of characters; raise TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError("no text")
    return printable(value)


def texts_of(value: object) -> tuple[str, ...]:
    """Return a list of texts; raise TypeError for anything else."""
    return tuple(map(text_of, list_of(value)))


def count_of(value: object) -> int:
    """Return a number of things; raise TypeError for anything else."""
    if type(value) is not int or not 0 <= value < _MOST_COUNT:
        raise TypeError("no number of things")
    return value


def counts_of(value: object) -> tuple[int, ...]:
    """Return a list of numbers of things; raise TypeError for anything else."""
    return tuple(map(count_of, list_of(value)))


def list_of(value: object) -> list[Any]:
    """Return a list; raise TypeError for anything else."""
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def option_of(value: object) -> object:
    """Return an option's value, a list of such, or a map of texts; raise TypeError else."""
    if isinstance(value, list):
        return [_scalar(item) for item in value]
    if isinstance(value, dict):
        return {text_of(key): text_of(item) for key, item in value.items()}
    return _scalar(value)


def _scalar(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    if value is not None and not isinstance(value, bool | int | float):
        raise TypeError("no value of an option")
    return value
