"""Turn what a caller asks for into a source and its options: keywords, files and manifests."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from imgrec.errors import UsageError
from imgrec.options import OptionError, PackOptions, SourceKind, SourceOptions
from imgrec.options.card import read_card
from imgrec.options.declaration import declared_options, options_of, renamed_hint
from imgrec.options.parsing import exclusive, parse_text, split_names
from imgrec.planning.classes import parse_classes, parse_map
from imgrec.source.label_names import parse_label_names
from imgrec.storage.named_files import read_small_text
from imgrec.storage.urls import is_url
from imgrec.text import given_path, suggestion


def pack_options(given: object) -> PackOptions:
    """Return options as they are, made from a dict, or the defaults for None."""
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return options_from(given)
    return options_of(PackOptions, given)


def options_from(
    given: Mapping[str, object],
    defaults: PackOptions | None = None,
    spell: Callable[[str], str] = str,
) -> PackOptions:
    """Make options from keywords, named as on the command line with `_` for `-`.

    None stands for the default. Options that take a file on the command line may name a file here.
    Raises UsageError for unknown names and unusable values; `spell` writes an option's name as
    the caller does.
    """
    refuse_unknown(given)
    defaults = defaults or PackOptions()
    values = {name: _read(name, value, spell) for name, value in given.items() if value is not None}
    if "shards" in values and "shard_size" in values:
        raise exclusive("shards", "shard_size", hint="leave out one of them")
    source = options_of(SourceOptions, values.pop("source", defaults.source), "source")
    of_source = {name: values.pop(name) for name in [*values] if name in _SOURCE}
    return replace(defaults, source=replace(source, **of_source), **values)


def source_options_from(given: Mapping[str, object], defaults: object = None) -> SourceOptions:
    """Make options for reading a source from keywords, over options or a dict of them."""
    _refuse_unknown(given, {*_SOURCE})
    source = options_of(SourceOptions, defaults, "source")
    return options_from(given, PackOptions(source=source)).source


def refuse_unknown(given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise UsageError for a keyword that is neither an option nor one of `others`."""
    _refuse_unknown(given, {*_PACK, *_SOURCE, *others})


def _refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(known)
    for name in given:
        if name not in names:
            hint = renamed_hint(name) or suggestion(names, name)
            raise UsageError(f"there is no option {name!r}", hint=hint)


def resolve_manifest(source: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    """Return the source and its options after deciding what `manifest` means.

    A manifest is a table inside the source unless a file of that name exists. Such a file is the
    source itself, and `source` holds its images. `~` is expanded in all paths. Raises UsageError
    without any source.
    """
    source, manifest = os.path.expanduser(source), os.path.expanduser(options.manifest)
    options = replace(
        options,
        manifest=manifest,
        images=os.path.expanduser(options.images),
        test_images=os.path.expanduser(options.test_images),
    )
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
    """Return the value of an option; read the file that it names, or split a list of names."""
    if not isinstance(value, str | os.PathLike):
        return value
    if name in _FILES:
        parse, hint = _FILES[name]
        title = f"{spell(name)} {parse_text(name, value)}"
        return parse(read_small_text(parse_text(name, value), title, hint), title)
    return split_names(parse_text(name, value)) if name in _NAME_LISTS else value


def _parse_label_names(text: str, title: str) -> object:
    return parse_label_names(text, title) or parse_classes(text, title)


_PACK = declared_options(PackOptions)
_SOURCE = declared_options(SourceOptions)
_NAME_LISTS = frozenset({"onehot", "only_classes", "drop_classes"})
_FILES: Mapping[str, tuple[Callable[[str, str], object], str]] = {
    "classes": (parse_classes, "give a file with one class name per line"),
    "label_names": (
        _parse_label_names,
        "give a file with one name per line, a CSV of label,name or a JSON map",
    ),
    "map": (parse_map, "give a CSV file of old,new"),
    "card": (read_card, "give a YAML file, or the README.md of the dataset"),
}
"""Options that name a file: how to parse its text, and the hint if it cannot be read."""
