"""From the keywords of a builder to what is asked of a pack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from imgrec.errors import UsageError
from imgrec.options import LEAF, PackOptions, SourceKind, SourceOptions
from imgrec.unknown import closest

_ON_THE_COMMAND_LINE = {
    "val_fraction": "val_split",
    "test_fraction": "test_split",
    "shard_bytes": "shard_size",
    "columns": "column",
    "resume": "no_resume",
}
_ELSEWHERE = frozenset({"source", "version", "data_dir"})
"""Fields of `PackOptions` that a builder has keywords of its own for."""


class Request(NamedTuple):
    """A pack that is asked for."""

    source: str
    options: PackOptions


def read_request(source: str, given: Mapping[str, object], defaults: PackOptions) -> Request:
    """Turn keywords, called as the options of the command line are, into what is to be packed.

    None stands for the default. Raises UsageError for what is no option, or cannot be its value.
    """
    given = {name: value for name, value in given.items() if value is not None}
    manifest = given.pop("manifest", "")
    refuse_unknown(given)
    ours, sources = (_values(kind, given) for kind in (PackOptions, SourceOptions))
    if manifest:
        if source and "images" in given:
            raise UsageError(
                f"images {given['images']} and source {source} both say where the images are",
                hint="with manifest, leave out one of them",
            )
        sources = {"images": source, **sources, "kind": SourceKind.MANIFEST}
        source = as_text("manifest", manifest)
    options = replace(defaults, source=replace(defaults.source, **sources), **ours)
    return Request(source, options)


def refuse_unknown(given: Iterable[str]) -> None:
    """Raise UsageError, which lists all options, if one is not known."""
    names = sorted([*_names(PackOptions), *_names(SourceOptions), "dataset", "manifest", "source"])
    for name in given:
        if name not in names:
            close = closest(names, name)
            meant = f"did you mean {close}? There is " if close else "there is "
            raise UsageError(f"there is no option {name!r}", hint=meant + ", ".join(names))


def _names(kind: type[PackOptions | SourceOptions]) -> dict[str, Field[Any]]:
    """Return the fields that can be given, as the command line calls them."""
    return {
        _ON_THE_COMMAND_LINE.get(field.name, field.name): field
        for field in fields(kind)
        if field.name not in _ELSEWHERE
    }


def _values(
    kind: type[PackOptions | SourceOptions], given: Mapping[str, object]
) -> dict[str, Any]:  # as many types as there are options, which check them themselves
    return {
        field.name: _READERS.get(field.name, _reader(field))(name, given[name])
        for name, field in _names(kind).items()
        if name in given
    }


def _reader(field: Field[Any]) -> Callable[[str, object], object]:
    if type(field.default) is str:
        return as_text
    return _flag if isinstance(field.default, bool) else _as_it_is


def _as_it_is(_name: str, value: object) -> object:
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} cannot be {value!r}", hint="give True or False")
    return value


def _no_flag(name: str, value: object) -> bool:
    return not _flag(name, value)


def as_text(name: str, value: object) -> str:
    """Read text, a path, or a number: columns may be given by theirs."""
    if isinstance(value, bool) or not isinstance(value, str | os.PathLike | int):
        raise UsageError(f"{name} cannot be {value!r}", hint="give text")
    return str(value)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | os.PathLike):
        return (str(value),)
    if not isinstance(value, Iterable):
        raise UsageError(f"{name} cannot be {value!r}", hint="give text, or a list of it")
    return tuple(as_text(name, one) for one in value)


def _parted(name: str, value: object) -> tuple[str, ...]:
    return tuple(value.split(",")) if isinstance(value, str) else _texts(name, value)


def _lines(name: str, value: object) -> tuple[str, ...]:
    """Read names: from a file of them, one a line, or as they are."""
    if not isinstance(value, str | os.PathLike):
        return _texts(name, value)
    from imgrec.plan.labels import parse_classes

    try:
        return parse_classes(Path(value).read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {name} {value}: {error.strerror}",
            hint="give a file with a name a line, or a list of names",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} {value} is not UTF-8 text") from error


def _depth(_name: str, value: object) -> object:
    return LEAF if value == "leaf" else value


_READERS: Mapping[str, Callable[[str, object], object]] = {
    "classes": _lines,
    "label_names": _lines,
    "include": _texts,
    "exclude": _texts,
    "onehot": _parted,
    "class_depth": _depth,
    "resume": _no_flag,
}
