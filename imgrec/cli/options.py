"""Options on the command line, derived from their declarations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from imgrec.cli import render
from imgrec.options import PackOptions, SourceOptions
from imgrec.options.declaration import Option, declared_options
from imgrec.options.packing import IMAGES, OUTPUT, SHARDS
from imgrec.options.source import DATASET, MANIFESTS, PART, SOURCE, SPLITS

Add: TypeAlias = Callable[..., object]
"""The method that adds an option to a parser or a group."""
_OPTIONS = {
    name: one
    for kind in (PackOptions, SourceOptions)
    for name, one in declared_options(kind).items()
    if one.group
}


def whole(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError as error:
        percent = text.strip().removesuffix("%")
        is_percentage = percent != text.strip() and percent.replace(".", "", 1).isdecimal()
        hint = f"; write {float(percent) / 100:g}" if is_percentage else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a number{hint}") from error


def add_option(add: Add, name: str) -> None:
    """Add a declared option; its value is None unless it is given."""
    declared = _OPTIONS[name]
    flag = flag_of(name)
    if declared.type is bool:
        action = "store_false" if declared.default else "store_true"
        flag = flag.replace("--", "--no-", 1) if declared.default else flag
        add(flag, dest=name, action=action, default=None, help=declared.help)
        return
    settings: dict[str, Any] = {"metavar": declared.metavar, "help": _escaped(declared)}
    if _is_enum(declared.type):
        settings["choices"] = choices = list(map(str, declared.type))
        default = f"; default: {declared.default}" if declared.default else ""
        settings |= {"metavar": "|".join(choices), "help": _escaped(declared) + default}
    elif declared.from_text is None:
        settings["type"] = {int: whole, float: number}.get(declared.type, str)
    if declared.is_list and declared.metavar != "FILE":
        settings["action"] = "append"
    add(flag, dest=name, default=None, **settings)


def flag_of(name: str) -> str:
    """Return the flag of an option."""
    return f"--{name.replace('_', '-')}"


def _is_enum(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _escaped(declared: Option) -> str:
    return declared.help.replace("%", "%%")


def _add_groups(parser: argparse.ArgumentParser, groups: Iterable[str]) -> None:
    for title in groups:
        group = parser.add_argument_group(title)
        for name, declared in _OPTIONS.items():
            if declared.group == title:
                add_option(group.add_argument, name)


def given_options(parsed: argparse.Namespace) -> dict[str, object]:
    """Return the declared options that the command line has, as plain values."""
    values = {name: getattr(parsed, name, None) for name in _OPTIONS}
    return {name: _plain(name, value) for name, value in values.items() if value is not None}


def _plain(name: str, value: object) -> object:
    """Make a plain value of the words of the command line."""
    text = _OPTIONS[name].from_text
    if text is None:
        return value
    if isinstance(value, list):
        return [one for word in value for one in text(word)]  # type: ignore[attr-defined]  # lists
    return text(str(value))


def add_pack_options(parser: argparse.ArgumentParser) -> None:
    """Add the source and all options of `PackOptions` to a verb."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        default="",
        help="folder, archive, manifest, CIFAR or IDX files; imgrec detects which",
    )
    _add_groups(parser, (DATASET, SOURCE, MANIFESTS, PART, SPLITS, IMAGES, SHARDS, OUTPUT))
    add_output(parser.add_argument)


def add_output(add: Add) -> None:
    """Add the form of the output."""
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="show no progress")


def pack_options(parsed: argparse.Namespace) -> PackOptions:
    """Return the options of a pack."""
    from imgrec.request import options_from

    return options_from(given_options(parsed), spell=flag_of)


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """Add a dataset, and where to look it up."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="a name, name:version, or a path at any level"
    )
    add_data_dir(parser.add_argument)


def add_data_dir(add: Add, text: str = "where to look up names; default: where TFDS looks") -> None:
    """Add the data directory of a verb that reads datasets."""
    add("--data-dir", default="", metavar="DIR", help=text)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the number of workers, and the form of the output."""
    add_option(parser.add_argument, "workers")
    add_output(parser.add_argument)


class Subject(NamedTuple):
    """A dataset or a source to look at."""

    what: str
    options: SourceOptions


def add_subject(parser: argparse.ArgumentParser) -> None:
    """Add a dataset or a source, and the options for reading a source."""
    parser.add_argument(
        "source",
        metavar="DATASET|SOURCE",
        nargs="?",
        default="",
        help="a dataset's name, name:version or path; or a source to be packed",
    )
    add_data_dir(parser.add_argument)
    _add_groups(parser, (SOURCE, MANIFESTS))


def subject_of(parsed: argparse.Namespace) -> Subject:
    """Return the dataset or source to look at; note when a dataset hides a folder."""
    from imgrec.inspect.subject import shadowing
    from imgrec.request import options_from

    given = {name: value for name, value in given_options(parsed).items() if name in _OF_SOURCE}
    subject = Subject(parsed.source, options_from(given, spell=flag_of).source)
    if root := subject.what and shadowing(subject.what, subject.options, parsed.data_dir):
        what = subject.what
        note = f"{what}: the dataset in {root}; for the folder here, write ./{what}"
        print(render.safe(note), file=sys.stderr)
    return subject


_OF_SOURCE: Mapping[str, object] = declared_options(SourceOptions)
