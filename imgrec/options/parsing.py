"""From the plain values that people give to the types of options."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import is_dataclass
from enum import StrEnum
from functools import lru_cache, partial, wraps
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from imgrec.errors import UsageError
from imgrec.unknown import among

T = TypeVar("T")
Parser: TypeAlias = Callable[[str, object], Any]
"""Takes the name and the value of an option; returns what its field holds, or raises UsageError."""

COMMAND_LINE_NAMES = {
    "val_fraction": "val_split",
    "test_fraction": "test_split",
    "shard_bytes": "shard_size",
    "columns": "column",
    "resume": "no_resume",
    "class_map": "map",
}
"""Fields that the command line calls otherwise, with `_` for `-`."""

_LARGEST = (1 << 63) - 1
_SHOWN = 100
_NO_LISTS = (bytes, bytearray, memoryview, Mapping, Set)
"""What can be iterated over, but is not a list of values: the order of a set is not fixed."""


def parsed(kind: type[T]) -> type[T]:
    """Let a dataclass of options take plain values; any others are a UsageError.

    Each field is parsed by its type: words become choices, paths become text, a single string
    becomes a sequence of one, and dicts become options. A type that needs a parser of its own
    carries it: `Annotated[int, parse_depth]`. `__post_init__` sees the types that are declared.
    """
    make: Callable[..., None] = kind.__init__
    own: type = kind  # mypy takes no `type[T]` for hashable

    @wraps(make)
    def __init__(self: T, *given: object, **named: object) -> None:  # noqa: N807  # it is one
        if given:
            raise UsageError(
                f"{kind.__name__} takes its options by name",
                hint=f"write it as {kind.__name__}({next(iter(_parsers(own)))}=...)",
            )
        parsers = _parsers(own)
        for name in named:
            if name not in parsers:
                raise UsageError(f"{kind.__name__} has no option {name!r}", hint=_meant(kind, name))
        make(self, **{name: parsers[name](name, value) for name, value in named.items()})

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]  # it takes what that does
    return kind


def options_of(kind: type[T], given: object, name: str = "options") -> T:
    """Return options as they are, made of a dict, or the defaults for None."""
    return kind() if given is None else _parse_options(kind, name, given)


def refusal(name: str, value: object, hint: str) -> UsageError:
    """Return the error for a value that an option cannot have."""
    try:
        shown = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of more than 4,300 digits
        shown = f"that {type(value).__name__}"
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return UsageError(f"{name} cannot be {shown}", hint=hint)


def parse_text(name: str, value: object) -> str:
    """Take text or a path."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise refusal(name, value, "give text")
    if "\0" in text or any("\ud800" <= character <= "\udc7f" for character in text):
        raise refusal(name, value, "leave out characters that no file name can have")
    return str(text)  # NumPy has strings of its own


def parse_flag(name: str, value: object) -> bool:
    """Take True or False; no word is either."""
    if not isinstance(value, bool):
        raise refusal(name, value, "give True or False")
    return value


def parse_whole(name: str, value: object) -> int:
    """Take a whole number, of NumPy too; True is none, nor is text."""
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
    """Take any number; True is none, nor is text."""
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
    except UsageError as error:
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
    except UsageError:
        height = width = 0
    if height < 1 or width < 1:
        raise refusal(name, value, hint)
    return height, width


def _listed(name: str, value: object, hint: str) -> tuple[object, ...]:
    """Take the values of a list, or of what is iterated over as one."""
    if isinstance(value, (str, *_NO_LISTS)) or not isinstance(value, Iterable):
        raise refusal(name, value, hint)
    try:
        return tuple(value)
    except TypeError as error:  # an array of no dimension
        raise refusal(name, value, hint) from error


def _parse_word(kind: type[StrEnum], name: str, value: object) -> StrEnum:
    try:
        return kind(value)  # type: ignore[arg-type]  # if it is none, that is a ValueError
    except ValueError as error:
        raise refusal(name, value, f"choose from {', '.join(kind)}") from error


def _parse_words(kind: type[StrEnum], name: str, value: object) -> tuple[StrEnum, ...]:
    """Take words, each once."""
    hint = f"choose from {', '.join(kind)}"
    words = (value,) if isinstance(value, str) else _listed(name, value, hint)
    return tuple(dict.fromkeys(_parse_word(kind, name, word) for word in words))


def _parse_options(kind: type[T], name: str, value: object) -> T:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(name, value, f"give {kind.__name__}(...), or a dict of its options")
    return kind(**value)


_PLAIN: Mapping[object, Parser] = {
    str: parse_text,
    bool: parse_flag,
    int: parse_whole,
    float: parse_number,
}


@lru_cache(maxsize=16)
def _parsers(kind: Any) -> Mapping[str, Parser]:
    """Return what parses each field of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: _parser(hint) for name, hint in hints.items()}


def _parser(hint: Any) -> Parser:  # a type, or what typing makes of several
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        own: Parser = arguments[1]
        return own
    if origin in (Union, UnionType):
        (inner,) = (_parser(one) for one in arguments if one is not NoneType)
        return lambda name, value: None if value is None else inner(name, value)
    if origin is tuple and arguments[1:] == (...,):
        if isinstance(arguments[0], type) and issubclass(arguments[0], StrEnum):
            return partial(_parse_words, arguments[0])
        return partial(parse_several, _parser(arguments[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(_parse_options, hint)
    return _PLAIN.get(hint) or partial(_parse_word, hint)


def _meant(kind: type, name: str) -> str:
    """Return the hint for a name that no option has."""
    for field, hint in get_type_hints(kind).items():
        if COMMAND_LINE_NAMES.get(field) == name:
            return f"did you mean {field}?"
        if isinstance(hint, type) and is_dataclass(hint) and name in _parsers(hint):
            return f"say it as {field}={hint.__name__}({name}=...)"
    return among(list(_parsers(kind)), name)
