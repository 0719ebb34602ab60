"""Parsers for option values, and the error that names an option as its caller writes it.

A parser takes the name and the value of an option. It returns what the field holds, or raises
`OptionError`.
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
from typing import Any, TypeAlias, TypeVar

from imgrec.errors import UsageError
from imgrec.text import closest

Parser: TypeAlias = Callable[[str, object], Any]
Word = TypeVar("Word", bound=StrEnum)

_MOST_SHOWN = 100
_LARGEST = (1 << 63) - 1
_NOT_LISTS = (bytes, bytearray, memoryview, Mapping, Set)
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


class OptionError(UsageError):
    """An option has an unusable value, or options cannot be combined.

    `{0}` in message and hint stands for the first of `options`, `{1}` for the second. Python
    callers read `val_split`; the command line shows the same error with `--val-split`.
    """

    def __init__(self, message: str, *options: str, hint: str = "") -> None:
        super().__init__(message.format(*options), hint=hint.format(*options))
        self._template = message, options, hint

    def spelled(self, spell: Callable[[str], str]) -> UsageError:
        """Return this error with option names as the caller writes them."""
        message, options, hint = self._template
        return OptionError(message, *map(spell, options), hint=hint)

    def __reduce__(self) -> tuple[Callable[..., UsageError], tuple[object, ...]]:
        return _rebuild, self._template


def _rebuild(message: str, options: tuple[str, ...], hint: str) -> UsageError:
    return OptionError(message, *options, hint=hint)


def refusal(name: str, value: object, hint: str) -> OptionError:
    """Return the error for an unusable value."""
    return OptionError(f"{{0}} cannot be {quoted(value)}", name, hint=verbatim(hint))


def exclusive(one: str, other: str, hint: str = "choose one of them") -> OptionError:
    """Return the error for two options that cannot be combined."""
    return OptionError("{0} and {1} cannot be combined", one, other, hint=hint)


def quoted(value: object) -> str:
    """Return a value for the message of an `OptionError`: in one line, and not too long."""
    try:
        shown = " ".join(repr(value).split())
    except ValueError:  # Python refuses to print numbers of more than 4,300 digits
        shown = f"that {type(value).__name__}"
    return verbatim(shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}...")


def verbatim(text: str) -> str:
    """Return text with its braces escaped, for the message of an `OptionError`."""
    return text.replace("{", "{{").replace("}", "}}")


def parse_text(name: str, value: object) -> str:
    """Take text or a path."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise refusal(name, value, "give text")
    if "\0" in text or any("\ud800" <= character <= "\udc7f" for character in text):
        raise refusal(name, value, "leave out characters that no file name can have")
    return str(text)  # NumPy has its own string type


def parse_flag(name: str, value: object) -> bool:
    """Take True or False, not words for them."""
    if not isinstance(value, bool):
        raise refusal(name, value, "give True or False")
    return value


def parse_whole(name: str, value: object) -> int:
    """Take a whole number, including NumPy's, but neither True nor text."""
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
    return tuple(item(name, one) for one in _items(name, value, "give text, or a list of it"))


def parse_pair(item: Parser, name: str, value: object, hint: str) -> tuple[Any, Any]:
    """Take two values in a list, a tuple or an array."""
    pair = _items(name, value, hint)
    if len(pair) != 2:
        raise refusal(name, value, hint)
    try:
        return item(name, pair[0]), item(name, pair[1])
    except OptionError as error:
        raise refusal(name, value, hint) from error


def parse_size(name: str, value: object) -> tuple[int, int] | None:
    """Take height and width in pixels, or one number for both; None means no size.

    >>> parse_size("image_size", 224), parse_size("image_size", [192, 256])
    ((224, 224), (192, 256))
    """
    if value is None:
        return None
    hint = f"give one number, or height and width, such as {name}=(192, 256)"
    sides = value if isinstance(value, Iterable) else (value, value)
    try:
        height, width = parse_pair(parse_whole, name, sides, hint)
    except OptionError:
        height = width = 0
    if height < 1 or width < 1:
        raise refusal(name, value, hint)
    return height, width


def _items(name: str, value: object, hint: str) -> tuple[object, ...]:
    """Take the items of a list or another ordered iterable."""
    if isinstance(value, (str, *_NOT_LISTS)) or not isinstance(value, Iterable):
        raise refusal(name, value, hint)
    try:
        return tuple(value)
    except TypeError as error:  # an array without dimensions
        raise refusal(name, value, hint) from error


def parse_word(kind: type[Word], name: str, value: object) -> Word:
    """Take one of the words of an enum."""
    try:
        return kind(value)  # type: ignore[arg-type]  # any other value is a ValueError
    except ValueError as error:
        meant = closest([*kind], value) if isinstance(value, str) else ""
        ask = f"did you mean {meant}? " if meant else ""
        raise refusal(name, value, f"{ask}choose from {', '.join(kind)}") from error


def parse_words(kind: type[StrEnum], name: str, value: object) -> tuple[StrEnum, ...]:
    """Take words of an enum; repeated ones count once."""
    hint = f"choose from {', '.join(kind)}"
    words = (value,) if isinstance(value, str) else _items(name, value, hint)
    return tuple(dict.fromkeys(parse_word(kind, name, word) for word in words))


def at_least(least: int, most: int = _LARGEST) -> Parser:
    """Return a parser of whole numbers from `least` to `most`."""

    def parse(name: str, value: object) -> int:
        number = parse_whole(name, value)
        if not least <= number <= most:
            limit = f"at least {least}" if number < least else f"at most {most}"
            raise OptionError(f"{{0}} must be {limit}", name, hint=f"{number} was given")
        return number

    return parse


def fraction(*, below_one: bool = False) -> Parser:
    """Return a parser of fractions from 0 to 1, or of those below 1."""

    def parse(name: str, value: object) -> float:
        number = parse_number(name, value)
        if not 0 <= number <= 1 or (below_one and number == 1):
            upper = "less than 1" if below_one else "at most 1"
            hint = f"{number:g} was given; write 0.1 for 10 %"
            raise OptionError(f"{{0}} must be at least 0 and {upper}", name, hint=hint)
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
            raise refusal(name, value, "write a size such as 128MiB or 1GB")
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


def parse_column_name(name: str, value: object) -> str:
    """Take the name of a column, or its number in a table without a header."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(parse_whole(name, value)) if is_number else parse_text(name, value)


def split_names(text: str) -> list[str]:
    """Split "rose,tulip" into names; names with a comma are double-quoted, as in CSV.

    >>> split_names('rose, "tulip, red"')
    ['rose', 'tulip, red']
    """
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]
