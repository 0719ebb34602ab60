"""From what a caller asks for to a source and its options: keywords, files, and manifests."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from imgrec.errors import UsageError
from imgrec.options import OptionError, PackOptions, SourceKind, SourceOptions
from imgrec.options.declaration import declared_options, options_of, renamed_hint
from imgrec.options.parsing import parse_text, split_names
from imgrec.plan.classes import parse_classes, parse_map
from imgrec.source.label_names import parse_label_names
from imgrec.storage.named_files import read_small_text
from imgrec.storage.urls import is_url
from imgrec.text import given_path, suggestion


class Request(NamedTuple):
    """A source to pack, and how."""

    source: str
    options: PackOptions


def pack_options(given: object) -> PackOptions:
    """Return options as they are, made of a dict, or the defaults for None."""
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return options_from(given)
    return options_of(PackOptions, given)


def options_from(
    given: Mapping[str, object],
    defaults: PackOptions | None = None,
    spell: Callable[[str], str] = str,
) -> PackOptions:
    """Make options of keywords, named as on the command line with `_` for `-`.

    None stands for the default. Options that are files on the command line may be files here.
    Raises UsageError for unknown names and unusable values; `spell` writes an option's name as
    the caller does.
    """
    refuse_unknown(given)
    defaults = defaults or PackOptions()
    values = {name: _read(name, value, spell) for name, value in given.items() if value is not None}
    if "shards" in values and "shard_size" in values:
        raise OptionError(
            "{0} and {1} cannot be combined", "shards", "shard_size", hint="leave out one of them"
        )
    source = options_of(SourceOptions, values.pop("source", defaults.source), "source")
    of_source = {name: values.pop(name) for name in [*values] if name in _SOURCE}
    return replace(defaults, source=replace(source, **of_source), **values)


def refuse_unknown(given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise UsageError for a keyword that is neither an option nor one of `others`."""
    names = sorted({*_PACK, *_SOURCE, *others})
    for name in given:
        if name not in names:
            hint = renamed_hint(name) or suggestion(names, name)
            raise UsageError(f"there is no option {name!r}", hint=hint)


def resolve_manifest(source: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    """Return the source and its options after deciding what `manifest` means.

    A manifest is a table inside the source if nothing else has that name. Otherwise it is the
    source itself, and `source` holds its images. Raises UsageError without any source.
    """
    manifest = options.manifest
    if not (source or manifest):
        raise UsageError("no source given", hint="name a folder, an archive or a file")
    if not manifest or (source and _is_inside(manifest)):
        return source, options
    if source and options.images:
        raise OptionError(
            "{0} and the source both give the folder of the images",
            "images",
            hint="with a manifest, leave out one of them",
        )
    images = options.images or source
    return manifest, replace(options, kind=SourceKind.MANIFEST, manifest="", images=images)


def _is_inside(manifest: str) -> bool:
    is_pattern = is_url(manifest) or glob.has_magic(manifest)
    return not is_pattern and not os.path.lexists(given_path(manifest))


def _read(
    name: str, value: object, spell: Callable[[str], str]
) -> Any:  # as many types as options, which check them
    """Return the value of an option; read it if it names a file."""
    if not isinstance(value, str | os.PathLike) or name not in _READERS:
        return value
    return _READERS[name](spell(name), parse_text(name, value))


def _read_file(name: str, filename: str, hint: str) -> tuple[str, str]:
    """Return the text of a file, and what errors call it."""
    called = f"{name} {filename}"
    return read_small_text(filename, called, hint), called


def _read_classes(name: str, filename: str) -> object:
    return parse_classes(*_read_file(name, filename, "give a file with one class name a line"))


def _read_label_names(name: str, filename: str) -> object:
    hint = "give a file with one name a line, a CSV of label,name or a JSON map"
    text, called = _read_file(name, filename, hint)
    return parse_label_names(text, called) or parse_classes(text, called)


def _read_map(name: str, filename: str) -> object:
    return parse_map(*_read_file(name, filename, "give a CSV file of old,new"))


def _split(_name: str, text: str) -> object:
    return split_names(text)


_PACK = declared_options(PackOptions)
_SOURCE = declared_options(SourceOptions)
_READERS: Mapping[str, Callable[[str, str], object]] = {
    "classes": _read_classes,
    "label_names": _read_label_names,
    "map": _read_map,
    "onehot": _split,
    "only_classes": _split,
    "drop_classes": _split,
}
"""Options whose text means more than itself: a file to read, or a list."""
