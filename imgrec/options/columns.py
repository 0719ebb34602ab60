"""Columns of a manifest that are copied into the records: `--column NAME[:TYPE[=DEFAULT]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from imgrec.options.choices import ColumnKind
from imgrec.options.errors import OptionError, refusal, verbatim
from imgrec.options.parsing import parse_number, parse_several, parse_text, parse_whole

ColumnValue: TypeAlias = int | float | str
_MISSING: Mapping[ColumnKind, ColumnValue] = {
    ColumnKind.INT: -1,
    ColumnKind.FLOAT: math.nan,
    ColumnKind.TEXT: "",
}
_READERS: Mapping[ColumnKind, Callable[[str], ColumnValue]] = {
    ColumnKind.INT: int,
    ColumnKind.FLOAT: float,
    ColumnKind.TEXT: str,
}
_INT64 = range(-(1 << 63), 1 << 63)
_COLUMN = re.compile(r"(?P<name>.+?):(?P<kind>int|float|text)(=(?P<default>.*))?", re.DOTALL)
_OTHER_KINDS = ("bool", "str", "string", "bytes", "integer", "int64", "double", "float32", "date")


class ColumnOption(NamedTuple):
    """A column of a manifest that is copied into the records."""

    name: str
    kind: ColumnKind | None = None
    """The type of its values; imgrec detects it when None."""
    default: ColumnValue | None = None
    """The value of missing cells; -1, NaN or "" when None. It needs a kind."""

    @classmethod
    def parse(cls, text: str) -> ColumnOption:
        """Parse NAME[:TYPE[=DEFAULT]]; raise UsageError for another type or a bad default.

        >>> ColumnOption.parse("age:int=0")
        ColumnOption(name='age', kind=<ColumnKind.INT: 'int'>, default=0)
        """
        match = _COLUMN.fullmatch(text)
        if match is None:
            name, _, word = text.partition("=")[0].rpartition(":")
            if name and word in _OTHER_KINDS:
                raise _wrong(text, f"{word} is not a type of column", "write int, float or text")
            return cls(text)
        kind, default = ColumnKind(match["kind"]), match["default"]
        try:
            value = None if default is None else _READERS[kind](default)
        except ValueError:
            value = default
        return cls(match["name"], kind, value).checked()

    def checked(self) -> ColumnOption:
        """Return this column with a `ColumnKind`; raise UsageError for a bad default."""
        name, kind, default = self
        if kind is not None and kind not in tuple(ColumnKind):
            raise _wrong(name, f"{kind} is not a type of column", "write int, float or text")
        if kind is None or default is None:
            if default is not None:
                raise _wrong(name, "a default needs a type", "write it as age:int=0")
            return self if kind is None else ColumnOption(name, ColumnKind(kind))
        if kind == ColumnKind.FLOAT and type(default) is int:
            default = parse_number("default", default)
        is_fit = type(default) is type(_MISSING[ColumnKind(kind)])
        if not is_fit or (isinstance(default, int) and default not in _INT64):
            raise _wrong(
                name,
                f"the default {default!r} does not fit the type {kind}",
                "write it as age:int=0, score:float=0.5 or note:text=none",
            )
        return ColumnOption(name, ColumnKind(kind), default)

    def missing(self, kind: ColumnKind) -> ColumnValue:
        """Return the value of missing cells in this column of type `kind`."""
        return _MISSING[kind] if self.default is None else self.default


def parse_columns(name: str, value: object) -> tuple[ColumnOption, ...]:
    """Take columns as text such as "age:int=0", or as `ColumnOption`; one is a list of one."""
    one = isinstance(value, ColumnOption)
    return parse_several(_parse_column, name, (value,) if one else value)


def _parse_column(name: str, value: object) -> ColumnOption:
    if not isinstance(value, tuple):
        return ColumnOption.parse(parse_column_name(name, value))
    try:
        column = ColumnOption(*value)
    except TypeError as error:
        hint = "give a column's name, such as age, its type and its default"
        raise refusal(name, value, hint) from error
    return column._replace(name=parse_column_name(name, column.name)).checked()


def parse_column_name(name: str, value: object) -> str:
    """Take the name of a column, or its number in a table without a header."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(parse_whole(name, value)) if is_number else parse_text(name, value)


def _wrong(column: str, fault: str, hint: str) -> OptionError:
    return OptionError("{0} " + verbatim(f"{column}: {fault}"), "column", hint=hint)
