"""From the keywords of a builder to what is asked of a pack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, replace
from typing import Any, NamedTuple

from imgrec.errors import UsageError
from imgrec.options import PackOptions, SourceKind, SourceOptions
from imgrec.options.parsing import COMMAND_LINE_NAMES, parse_flag, parse_text
from imgrec.unknown import closest

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
        source = parse_text("manifest", manifest)
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
        COMMAND_LINE_NAMES.get(field.name, field.name): field
        for field in fields(kind)
        if field.name not in _ELSEWHERE
    }


def _values(
    kind: type[PackOptions | SourceOptions], given: Mapping[str, object]
) -> dict[str, Any]:  # as many types as there are options, which check them themselves
    return {
        field.name: _READERS[field.name](name, given[name])
        if field.name in _READERS
        else given[name]
        for name, field in _names(kind).items()
        if name in given
    }


def _no_flag(name: str, value: object) -> bool:
    return not parse_flag(name, value)


def _parted(_name: str, value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


def _lines(name: str, value: object) -> object:
    """Read names: from a file of them, one a line, or as they are."""
    if not isinstance(value, str | os.PathLike):
        return value
    from imgrec.plan.labels import parse_classes
    from imgrec.storage.small_text import read_small_text

    called = f"{name} {value}"
    hint = "give a file with a name a line, or a list of names"
    return parse_classes(read_small_text(parse_text(name, value), called, hint), called)


def _label_names(name: str, value: object) -> object:
    """Read names of labels: from a file of them, or as they are."""
    if not isinstance(value, str | os.PathLike):
        return value
    from imgrec.plan.labels import parse_classes
    from imgrec.source.label_names import parse_label_names
    from imgrec.storage.small_text import read_small_text

    called = f"{name} {value}"
    hint = "give a file with a name a line, a CSV of label,name or a JSON map; or a list or a dict"
    text = read_small_text(parse_text(name, value), called, hint)
    return parse_label_names(text, called) or parse_classes(text, called)


def _map(name: str, value: object) -> object:
    """Read new names of classes: from a file of them, or as they are."""
    if not isinstance(value, str | os.PathLike):
        return value
    from imgrec.plan.classes import parse_map
    from imgrec.storage.small_text import read_small_text

    called = f"{name} {value}"
    hint = "give a CSV file of old,new, or a dict"
    return parse_map(read_small_text(parse_text(name, value), called, hint), called)


_READERS: Mapping[str, Callable[[str, object], object]] = {
    "class_map": _map,
    "classes": _lines,
    "drop_classes": _parted,
    "only_classes": _parted,
    "label_names": _label_names,
    "onehot": _parted,
    "resume": _no_flag,
}
"""What the command line writes otherwise than `PackOptions` and `SourceOptions` do."""
