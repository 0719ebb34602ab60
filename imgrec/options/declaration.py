"""One declaration for each option: a dataclass field with its help text and its parser.

The command line, keyword arguments, `builder_kwargs` and `help()` are all derived from it.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache, partial, wraps
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from imgrec.errors import UsageError
from imgrec.options.errors import refusal
from imgrec.options.parsing import (
    Parser,
    parse_flag,
    parse_number,
    parse_several,
    parse_text,
    parse_whole,
    parse_word,
    parse_words,
)
from imgrec.unknown import among

T = TypeVar("T")

RENAMED = {
    "val_fraction": "val_split",
    "test_fraction": "test_split",
    "shard_bytes": "shard_size",
    "columns": "column",
    "class_map": "map",
    "no_resume": "resume",
}
"""Options by the names that they had once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What an option is, beyond the name, type and default of its field."""

    help: str
    group: str = ""
    """Its section in the help of the command line; empty if it has no flag there."""
    metavar: str = ""
    parse: Parser | None = None
    """Makes the field's value from a plain one; None if the type of the field suffices."""
    text: Callable[[str], object] | None = None
    """Makes a plain value from the words of the command line; None if the type suffices."""


def option(
    default: T,
    help: str,  # noqa: A002  # the word of argparse
    *,
    group: str = "",
    metavar: str = "",
    parse: Parser | None = None,
    text: Callable[[str], object] | None = None,
) -> T:
    """Declare a field of a dataclass as an option."""
    declared = Option(help=help, group=group, metavar=metavar, parse=parse, text=text)
    return field(default=default, metadata={"option": declared})


def declared_options(kind: type) -> dict[str, tuple[Field[Any], Option]]:
    """Return the options of a dataclass by name, in their order."""
    return {one.name: (one, one.metadata["option"]) for one in fields(kind) if one.metadata}


def parsed(kind: type[T]) -> type[T]:
    """Let a dataclass of options take plain values; raise UsageError for unusable ones.

    Each field is parsed by its type: words become choices, paths become text, a single string
    becomes a tuple of one, and dicts become options. An option may have its own parser.
    `__post_init__` sees the declared types. The docstring lists all options.
    """
    make: Callable[..., None] = kind.__init__
    own: type = kind  # mypy takes no `type[T]` for hashable

    @wraps(make)
    def __init__(self: T, *given: object, **named: object) -> None:  # noqa: N807  # it is one
        parsers = _parsers(own)
        if given:
            raise UsageError(
                f"{kind.__name__} takes its options by name",
                hint=f"write {kind.__name__}({next(iter(parsers))}=...)",
            )
        for name in named:
            if name not in parsers:
                raise UsageError(f"{kind.__name__} has no option {name!r}", hint=_meant(own, name))
        make(self, **{name: parsers[name](name, value) for name, value in named.items()})

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]  # it takes what that does
    kind.__doc__ = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{_listing(own)}"
    return kind


def options_of(kind: type[T], given: object, name: str = "options") -> T:
    """Return options as they are, made of a dict, or the defaults for None."""
    return kind() if given is None else _parse_options(kind, name, given)


def renamed_hint(name: str) -> str:
    """Return the hint for an option that has another name now; "" if it has not."""
    new = RENAMED.get(name)
    return f"it is called {new} now" if new else ""


def _listing(kind: type) -> str:
    """Return the options of a dataclass with their help, for `help()`."""
    lines = (
        textwrap.indent(textwrap.fill(f"{name}: {one.help}", 96, subsequent_indent="    "), "    ")
        for name, (_, one) in declared_options(kind).items()
    )
    return "\n".join(lines)


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
    """Return the parser of each field of a dataclass."""
    hints = get_type_hints(kind)
    own = {name: one.parse for name, (_, one) in declared_options(kind).items()}
    return {name: _parser(hint, own.get(name)) for name, hint in hints.items()}


def _parser(hint: Any, own: Parser | None = None) -> Parser:  # a type, or a union of some
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in arguments:
        inner = own or _parser(next(one for one in arguments if one is not NoneType))
        return lambda name, value: None if value is None else inner(name, value)
    if own:
        return own
    if origin is tuple and arguments[1:] == (...,):
        if isinstance(arguments[0], type) and issubclass(arguments[0], StrEnum):
            return partial(parse_words, arguments[0])
        return partial(parse_several, _parser(arguments[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(_parse_options, hint)
    return _PLAIN.get(hint) or partial(parse_word, hint)


def _meant(kind: type, name: str) -> str:
    """Return the hint for an unknown name."""
    for field_name, hint in get_type_hints(kind).items():
        if isinstance(hint, type) and is_dataclass(hint) and name in _parsers(hint):
            return f"write {field_name}={hint.__name__}({name}=...)"
    return renamed_hint(name) or among(list(_parsers(kind)), name)
