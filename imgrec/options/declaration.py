"""One declaration per option: a dataclass field with its type and its help text.

The command line, keyword arguments, `builder_kwargs` and `help()` are derived from it.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial, wraps
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from imgrec.errors import UsageError
from imgrec.near.clusters import LEAST_ALIKE
from imgrec.options.parsing import (
    Parser,
    at_least,
    fraction,
    parse_bytes,
    parse_column_name,
    parse_flag,
    parse_number,
    parse_pattern,
    parse_several,
    parse_size,
    parse_text,
    parse_whole,
    parse_word,
    parse_words,
    refusal,
)
from imgrec.text import printable, suggestion

P = ParamSpec("P")
T = TypeVar("T")

RENAMED = {
    "val_fraction": "val_split",
    "test_fraction": "test_split",
    "shard_bytes": "shard_size",
    "columns": "column",
    "class_map": "map",
    "no_resume": "resume",
    "distance": "alike",
}
"""Former names of options."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of an annotated type are parsed and shown."""

    parse: Parser
    metavar: str = ""
    from_text: Callable[[str], object] | None = None
    """Converts the text of the command line for `parse`; None if the type is enough."""


Count: TypeAlias = Annotated[int, Kind(at_least(0), "N")]
Positive: TypeAlias = Annotated[int, Kind(at_least(1), "N")]
Pixels: TypeAlias = Annotated[int, Kind(at_least(1), "PX")]
Quality: TypeAlias = Annotated[int, Kind(at_least(1, 100), "Q")]
Alike: TypeAlias = Annotated[int, Kind(at_least(LEAST_ALIKE, 100), "PERCENT")]
Bytes: TypeAlias = Annotated[int, Kind(parse_bytes, "SIZE", str)]
Fraction: TypeAlias = Annotated[float, Kind(fraction(), "F")]
Part: TypeAlias = Annotated[float, Kind(fraction(below_one=True), "F")]
Regex: TypeAlias = Annotated[str, Kind(parse_pattern, "REGEX")]
ColumnName: TypeAlias = Annotated[str, Kind(parse_column_name, "C")]
ImageSize: TypeAlias = Annotated[tuple[int, int], Kind(parse_size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option, resolved from its field."""

    default: object
    type: Any  # a class, or an alias such as tuple[int, int]
    """The type of its value; for a list, the type of the items."""
    is_list: bool
    parse: Parser
    help: str
    group: str
    """Its section in the help of the command line; empty if it has no flag there."""
    metavar: str
    from_text: Callable[[str], object] | None


def option(default: T, help: str, group: str = "", metavar: str = "") -> T:  # noqa: A002  # as in argparse
    """Declare a field of a dataclass as an option."""
    return field(default=default, metadata={"help": help, "group": group, "metavar": metavar})


@cache
def declared_options(kind: Any) -> Mapping[str, Option]:  # a dataclass
    """Return the options of a dataclass by name, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: _resolve(hints[one.name], one.default, one.metadata) for one in fields(kind)}


def _resolve(hint: Any, default: object, declared: Mapping[str, str]) -> Option:
    """Find out how to parse a field: by the kind of its type, of its items, or by a plain type."""
    is_optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    if is_optional:
        hint = next(one for one in get_args(hint) if one is not NoneType)
    hint, own = _unwrapped(hint)
    is_list = get_origin(hint) is tuple and get_args(hint)[1:] == (...,)
    item, of_item = _unwrapped(get_args(hint)[0]) if is_list else (hint, own)
    parse = of_item.parse if of_item else _plain_parser(item)
    if is_list:
        is_choice = isinstance(item, type) and issubclass(item, StrEnum)
        parse = partial(parse_words, item) if is_choice else partial(parse_several, parse)
    shown = own or of_item or Kind(parse)
    parse = own.parse if own else parse
    return Option(
        default=None if default is MISSING else default,
        type=item,
        is_list=is_list,
        parse=_or_none(parse) if is_optional else parse,
        help=declared.get("help", ""),
        group=declared.get("group", ""),
        metavar=declared.get("metavar") or shown.metavar,
        from_text=shown.from_text,
    )


def _unwrapped(hint: Any) -> tuple[Any, Kind | None]:
    """Return the type and the kind of `Annotated[type, kind]`; no kind for a plain type."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__[0]
    return hint, None


def _plain_parser(hint: Any) -> Parser:
    if _is_options(hint):
        return partial(_parse_options, hint)
    plain = {str: parse_text, bool: parse_flag, int: parse_whole, float: parse_number}
    return plain.get(hint) or partial(parse_word, hint)


def _is_options(hint: object) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _or_none(parse: Parser) -> Parser:
    return lambda name, value: None if value is None else parse(name, value)


def parsed(kind: type[T]) -> type[T]:
    """Let a dataclass of options take plain values; raise UsageError for unusable ones.

    Each field is parsed by its type: words become choices, paths become text, a single string
    becomes a tuple of one, and dicts become options. `__post_init__` sees the declared types. The
    docstring lists all options.
    """
    make: Callable[..., None] = kind.__init__
    own: Any = kind  # mypy does not take `type[T]` for a dataclass

    @wraps(make)
    def __init__(self: T, *given: object, **named: object) -> None:  # noqa: N807  # it is one
        options = declared_options(own)
        if given:
            raise UsageError(
                f"{kind.__name__} takes its options by name",
                hint=f"write {kind.__name__}({next(iter(options))}=...)",
            )
        for name in named:
            if name not in options:
                hint = _hint_for_unknown(options, name)
                raise UsageError(f"{kind.__name__} has no option {name!r}", hint=hint)
        make(self, **{name: options[name].parse(name, value) for name, value in named.items()})

    kind.__init__ = __init__  # type: ignore[method-assign, assignment]  # it takes the same
    kind.__doc__ = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{listing_of(own)}"
    return kind


def with_known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Raise UsageError for an unknown argument, with a suggestion, where Python has none."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                hint = suggestion(known, name)
                raise UsageError(f"imgrec.{function.__name__} has no argument {name!r}", hint=hint)
        return function(*args, **keywords)

    return checked


def listing_of(*kinds: Any) -> str:  # dataclasses
    """Return the name and the help text of every option, for docstrings."""
    listed = (
        textwrap.fill(f"{one.name}: {one.metadata['help']}", 96, subsequent_indent="    ")
        for kind in kinds
        for one in fields(kind)
        if one.metadata
    )
    return textwrap.indent("\n".join(listed), "    ")


def given_options(options: Any, without: Collection[str]) -> dict[str, object]:  # of a dataclass
    """Return the options that differ from their defaults, as plain values for the report."""
    kind: Any = type(options)  # which mypy does not take for hashable
    return {
        name: _plain(getattr(options, name))
        for name, declared in declared_options(kind).items()
        if name not in without and getattr(options, name) != declared.default
    }


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return printable(str(value)) if isinstance(value, str) else value


def options_of(kind: type[T], given: object, name: str = "options") -> T:
    """Return options as they are, made from a dict, or the defaults for None."""
    return kind() if given is None else _parse_options(kind, name, given)


def _parse_options(kind: type[T], name: str, value: object) -> T:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(name, value, f"give {kind.__name__}(...), or a dict of its options")
    return kind(**value)


def renamed_hint(name: str) -> str:
    """Return the hint for a former name of an option; "" for any other name."""
    new = RENAMED.get(name)
    return f"it is now called {new}" if new else ""


def _hint_for_unknown(options: Mapping[str, Option], name: str) -> str:
    for holder, one in options.items():
        if _is_options(one.type) and name in declared_options(one.type):
            return f"write {holder}={one.type.__name__}({name}=...)"
    return renamed_hint(name) or suggestion(list(options), name)
