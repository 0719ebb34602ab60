"""Parsers of plain values: from what a caller gives to the types of options.

Each takes the name and the value of an option, and raises `OptionError` for a wrong value.
"""

from __future__ import annotations

import csv
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Set
from enum import StrEnum
from numbers import Real
from typing import Any, TypeAlias

from imgrec.options.errors import OptionError, quoted, refusal, verbatim

Parser: TypeAlias = Callable[[str, object], Any]
"""Takes the name and the value of an option; returns what its field holds."""

_LARGEST = (1 << 63) - 1
_NO_LISTS = (bytes, bytearray, memoryview, Mapping, Set)
"""Iterables that are not lists of values: the order of a set is not fixed."""
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}


def parse_text(name: str, value: object) -> str:
    """Take text or a path."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise refusal(name, value, "give text")
    if "\0" in text or any("\ud800" <= character <= "\udc7f" for character in text):
        raise refusal(name, value, "leave out characters that no file name can have")
    return str(text)  # NumPy has strings of its own


def parse_flag(name: str, value: object) -> bool:
    """Take True or False, but no words for them."""
    if not isinstance(value, bool):
        raise refusal(name, value, "give True or False")
    return value


def parse_whole(name: str, value: object) -> int:
    """Take a whole number, also one of NumPy's, but neither True nor text."""
    hint = "give a whole number"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refusal(name, value, hint)
    try:
        whole = operator.index(value)
    except TypeError as error:  # an array
        raise refusal(name, value, hint) from error
    if abs(whole) > _LARGEST:
        raise refusal(name, value, "give a whole number of at most 64 bits")
    return whole


def parse_number(name: str, value: object) -> float:
    """Take any number, but neither True nor text."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise refusal(name, value, "give a number")
    try:
        return float(value)
    except OverflowError as error:
        raise refusal(name, value, "give a smaller number") from error


def parse_several(item: Parser, name: str, value: object) -> tuple[Any, ...]:
    """Take a list of values; a single string or path is a list of one."""
    if isinstance(value, str | os.PathLike):
        return (item(name, value),)
    return tuple(item(name, one) for one in _listed(name, value, "give text, or a list of it"))


def parse_pair(item: Parser, name: str, value: object, hint: str) -> tuple[Any, Any]:
    """Take two values, in a list, a tuple or an array."""
    pair = _listed(name, value, hint)
    if len(pair) != 2:
        raise refusal(name, value, hint)
    try:
        return item(name, pair[0]), item(name, pair[1])
    except OptionError as error:
        raise refusal(name, value, hint) from error


def parse_size(name: str, value: object) -> tuple[int, int] | None:
    """Take height and width in pixels, or one number for both; None is no size.

    >>> parse_size("image_size", 224), parse_size("image_size", [192, 256])
    ((224, 224), (192, 256))
    """
    if value is None:
        return None
    hint = f"give one number or, height first, two, such as {name}=(192, 256)"
    sides = value if isinstance(value, Iterable) else (value, value)
    try:
        height, width = parse_pair(parse_whole, name, sides, hint)
    except OptionError:
        height = width = 0
    if height < 1 or width < 1:
        raise refusal(name, value, hint)
    return height, width


def _listed(name: str, value: object, hint: str) -> tuple[object, ...]:
    """Take the values of a list or another ordered iterable."""
    if isinstance(value, (str, *_NO_LISTS)) or not isinstance(value, Iterable):
        raise refusal(name, value, hint)
    try:
        return tuple(value)
    except TypeError as error:  # an array of no dimension
        raise refusal(name, value, hint) from error


def parse_word(kind: type[StrEnum], name: str, value: object) -> StrEnum:
    """Take one of the words of an enum."""
    try:
        return kind(value)  # type: ignore[arg-type]  # any other value is a ValueError
    except ValueError as error:
        raise refusal(name, value, f"choose from {', '.join(kind)}") from error


def parse_words(kind: type[StrEnum], name: str, value: object) -> tuple[StrEnum, ...]:
    """Take words, each once."""
    hint = f"choose from {', '.join(kind)}"
    words = (value,) if isinstance(value, str) else _listed(name, value, hint)
    return tuple(dict.fromkeys(parse_word(kind, name, word) for word in words))


def at_least(least: int) -> Parser:
    """Return the parser of whole numbers that are not smaller than one."""

    def parse(name: str, value: object) -> int:
        number = parse_whole(name, value)
        if number < least:
            raise OptionError(f"{{0}} must be at least {least}", name, hint=f"{number} was given")
        return number

    return parse


def between(least: float, most: float, *, without_most: bool = False) -> Parser:
    """Return the parser of numbers in a range."""

    def parse(name: str, value: object) -> float:
        number = parse_number(name, value)
        if not least <= number <= most or (without_most and number == most):
            upper = f"less than {most:g}" if without_most else f"at most {most:g}"
            message = f"{{0}} must be at least {least:g} and {upper}"
            raise OptionError(message, name, hint=f"{number:g} was given; write 0.1 for 10 %")
        return number

    return parse


def parse_bytes(name: str, value: object) -> int:
    """Take a number of bytes, or text with a unit.

    >>> parse_bytes("shard_size", "1.5KiB")
    1536
    """
    if not isinstance(value, str):
        size = parse_whole(name, value)
    else:
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None or math.isinf(float(match[1])):
            raise OptionError(
                f"{{0}} cannot be {quoted(value)}", name, hint="write a size such as 128MiB or 1GB"
            )
        size = parse_whole(name, int(float(match[1]) * unit))
    if size < 1:
        raise OptionError("{0} must be at least 1 byte", name, hint="give a size such as 128MiB")
    return size


def parse_pattern(name: str, value: object) -> str:
    """Take a regular expression, as text."""
    text = parse_text(name, value)
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(
            f"{{0}} {quoted(text)} is not a regular expression: {verbatim(str(error))}",
            name,
            hint="use the syntax of Python's re module, quoted for the shell",
        ) from error
    return text


def split_names(text: str) -> list[str]:
    """Split "rose,tulip" into names; one with a comma is written in double quotes, as in CSV.

    >>> split_names('rose, "tulip, red"')
    ['rose', 'tulip, red']
    """
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]
