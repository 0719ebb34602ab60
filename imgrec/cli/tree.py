"""The verbs of the command line and what each takes, as plain values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import StrEnum

from imgrec.cli.parser import plain_help, verb_parsers


class Kind(StrEnum):
    """What the value of an argument is, for those who complete it."""

    NONE = "none"
    """It has no value."""
    OTHER = "other"
    CHOICE = "choice"
    FILE = "file"
    FOLDER = "folder"
    DATASET = "dataset"


_KINDS = {
    "DIR": Kind.FOLDER,
    "FILE": Kind.FILE,
    "CSV": Kind.FILE,
    "PNG": Kind.FILE,
    "SOURCE": Kind.FILE,
    "PREDICTIONS": Kind.FILE,
    "DATASET": Kind.DATASET,
    "DATASET|SOURCE": Kind.DATASET,
    "PATH|NAME": Kind.DATASET,
}
"""By the word that stands for the value. Whoever completes datasets completes files as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument or option of a verb."""

    flags: tuple[str, ...]
    """Empty for what is told by its place."""
    value: str
    """The word that stands for the value; "" if it has none."""
    help: str
    kind: Kind
    choices: tuple[str, ...]
    repeats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb."""

    name: str
    help: str
    options: tuple[Argument, ...]
    places: tuple[Argument, ...]
    """What is told by its place, in order."""


def read_tree(parser: argparse.ArgumentParser) -> tuple[Verb, ...]:
    """Return all verbs of a command line."""
    helps = {
        choice.dest: str(choice.help or "")
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    return tuple(_verb(name, helps[name], verb) for name, verb in verb_parsers(parser))


def _verb(name: str, text: str, parser: argparse.ArgumentParser) -> Verb:
    arguments = [_argument(action) for action in parser._actions]
    return Verb(
        name=name,
        help=text,
        options=tuple(argument for argument in arguments if argument.flags),
        places=tuple(argument for argument in arguments if not argument.flags),
    )


def _argument(action: argparse.Action) -> Argument:
    has_value = action.nargs != 0
    metavar = str(action.metavar or action.dest.upper()) if has_value else ""
    choices = tuple(map(str, action.choices or ()))
    kind = Kind.CHOICE if choices else _KINDS.get(metavar, Kind.OTHER)
    return Argument(
        flags=tuple(action.option_strings),
        value=metavar,
        help=plain_help(action),
        kind=kind if has_value else Kind.NONE,
        choices=choices,
        repeats=isinstance(action, argparse._AppendAction),
    )
