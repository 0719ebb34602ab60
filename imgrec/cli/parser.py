"""Verbs as declarations, and the parser that reads their command line."""

from __future__ import annotations

import argparse
import re
import textwrap
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from imgrec.errors import UsageError
from imgrec.options.declaration import RENAMED
from imgrec.text import closest

VERBS: Mapping[str, tuple[str, str]] = {
    "pack": ("pack", "pack a source into a dataset"),
    "plan": ("pack", "show what pack would do, without writing anything"),
    "info": ("info", "show splits, classes and sizes of a dataset"),
    "report": ("browse", "show a dataset or a source as one HTML page"),
    "preview": ("browse", "show some images of a dataset or a source"),
    "head": ("records", "show the first records of a dataset"),
    "show": ("records", "show one record of a dataset"),
    "view": ("browse", "browse a dataset in a local web page"),
    "verify": ("checks", "check every byte of a dataset"),
    "unpack": ("export", "restore the files that a dataset was packed from"),
    "export": ("export", "write a dataset in the format of another library"),
    "update": ("growth", "pack the next version of a dataset from its source"),
    "edit": ("growth", "relabel, drop or move images, as the next version"),
    "diff": ("diff", "compare two versions of a dataset"),
    "leaks": ("checks", "find exact and near-duplicates"),
    "submit": ("export", "write predictions as a competition expects them"),
    "doctor": ("checks", "explain why tfds.load fails"),
    "list": ("maintenance", "list the datasets of a data directory"),
    "clean": ("maintenance", "remove the remains of interrupted packs, or old versions"),
    "completion": ("maintenance", "print a script that completes imgrec in a shell"),
}
"""The module of each verb, imported only for that verb (all take 0.2 s), and what the verb does."""
_SCHEMAS: Mapping[str, int] = {}
"""The version of a verb's JSON, if a field was removed or changed its meaning since 1."""
_VERBOSE = "show retries, slow stores, copies and other decisions on standard error"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a verb, as `add_argument` of argparse takes it."""

    flag: str
    settings: Mapping[str, Any]  # whatever argparse takes
    group: str = ""
    """Its section in the help."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb does, with examples, its arguments, and the function that runs it."""

    description: str
    examples: Sequence[str]
    arguments: Sequence[Argument]
    run: Callable[[Namespace], int]
    """Prints what it did, and returns the exit code."""


def argument(flag: str, metavar: str, what: str, **settings: Any) -> Argument:  # as argparse has
    """Declare an argument with a value, which is empty text if it is not given."""
    return Argument(flag, {"default": "", "metavar": metavar, "help": what, **settings})


def switch(flag: str, what: str) -> Argument:
    """Declare an option without a value."""
    return Argument(flag, {"action": "store_true", "help": what})


def verb(
    examples: Sequence[str], arguments: Sequence[Argument]
) -> Callable[[Callable[[Namespace], int]], Verb]:
    """Declare a function as a verb. Its docstring becomes the description in the help."""

    def declare(run: Callable[[Namespace], int]) -> Verb:
        return Verb(" ".join((run.__doc__ or "").split()), examples, arguments, run)

    return declare


def load_verb(name: str) -> Verb:
    """Import a verb."""
    found: Verb = getattr(import_module(f"imgrec.cli.{VERBS[name][0]}"), name)
    return found


def verb_parser(name: str) -> Parser:
    """Return the parser of a verb's command line."""
    declared = load_verb(name)
    examples = "\n".join(f"  {line}" for line in declared.examples)
    parser = Parser(
        prog=f"imgrec {name}",
        description=declared.description,
        epilog=f"examples:\n{examples}",
        formatter_class=_Help,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help=_VERBOSE)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for one in (*declared.arguments, switch("--json", "print one JSON object")):
        if one.group and one.group not in groups:
            groups[one.group] = parser.add_argument_group(one.group)
        (groups[one.group] if one.group else parser).add_argument(one.flag, **one.settings)
    parser.set_defaults(schema=f"imgrec/{name}/{_SCHEMAS.get(name, 1)}")
    return parser


class _Help(argparse.HelpFormatter):
    """Help that keeps indented lines, such as examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            [line] if line.startswith(" ") else textwrap.wrap(line, width) or [""]
            for line in text.splitlines()
        )
        return "\n".join(indent + line for wrapped in lines for line in wrapped)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, with a hint, instead of exiting.

    argparse reports errors in four ways, which have to be told apart by their structure, not by
    their text: a type function raised ArgumentTypeError, with our message; a value is not in
    `choices`; an option has too few or too many values; or (through `error`) arguments are missing.
    """

    def parse_known_args(  # type: ignore[override]  # the only one of its overloads that is used
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse arguments; raise UsageError for unknown ones."""
        try:
            parsed, unknown = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise self._wrong_value(error) from error
        if unknown:
            raise self._unknown(unknown[0])
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for missing arguments, the only error without an action."""
        del message
        raise self._missing()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UsageError, with the closest choice, for a value that is not a choice."""
        if action.choices is not None and value not in action.choices:
            name = f"{action.option_strings[-1]} " if action.option_strings else ""
            hint = choose(list(map(str, action.choices)), str(value))
            raise UsageError(f"{name}{value!r} is not a choice", hint=hint)

    def spell(self, name: str) -> str:
        """Return an option as the command line writes it."""
        flags = [one.option_strings[-1:] for one in self._actions if one.dest == name]
        return flags[0][0] if flags and flags[0] else name

    def has_option(self, flag: str) -> bool:
        """Return whether the verb has this option."""
        return flag in self._option_string_actions

    def _missing(self) -> UsageError:
        example = re.search(r"^ +(\S.*?)(?=  |$)", self.epilog or "", re.MULTILINE)
        missing = [str(one.metavar) for one in self._actions if one.required]
        hint = f"for example: {example[1]}" if example else self._help()
        return UsageError(f"{self._verb()} needs {' and '.join(missing)}", hint=hint)

    def _unknown(self, text: str) -> UsageError:
        if not text.startswith("-"):
            from imgrec.source.words import split_word

            split = split_word(text) if self.has_option("--split") else ""
            hint = f"did you mean --split {split}?" if split else self._help()
            return UsageError(f"unexpected argument {text!r}", hint=hint)
        name = text.partition("=")[0]
        flags = list(self._option_string_actions)
        if new := RENAMED.get(name.removeprefix("--").replace("-", "_")):
            hint = f"it is now called --{new.replace('_', '-')}; "
        else:
            meant = _closest_flags(flags, name)
            hint = f"did you mean {meant}? " if meant else ""
        return UsageError(f"{self._verb()} has no option {name}", hint=hint + self._help())

    def _wrong_value(self, error: argparse.ArgumentError) -> UsageError:
        if isinstance(error.__context__, UsageError):  # from a parser of ours
            return error.__context__
        name = error.argument_name or ""
        action = next((one for one in self._actions if _name(one) == name), None)
        if action is None:
            return self._missing()
        what = str(action.help or "").replace("%%", "%")
        hint = f"{name} {action.metavar}: {what}" if action.metavar else self._help()
        if isinstance(error.__context__, argparse.ArgumentTypeError):
            return UsageError(f"{name} {error.__context__}", hint=hint)
        if action.nargs == 0:
            return UsageError(f"{name} takes no value", hint=self._help())
        return UsageError(f"{name} needs a value", hint=hint)

    def _verb(self) -> str:
        return self.prog.rpartition(" ")[2]

    def _help(self) -> str:
        return f"see {self.prog} --help"


def _name(action: argparse.Action) -> str:
    """Name an argument as `ArgumentError.argument_name` does."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def _closest_flags(flags: Sequence[str], wanted: str) -> str:
    """Return the options that begin with a word, else the most similar one."""
    if begun := [one for one in flags if wanted.startswith("--") and one.startswith(wanted)]:
        return _or(begun)
    by_word = {one.lstrip("-"): one for one in flags}  # dashes would make all of them similar
    return by_word.get(closest(list(by_word), wanted.lstrip("-")), "")


def choose(choices: Sequence[str], wanted: str) -> str:
    """Return the hint that lists choices, the closest one first."""
    meant = closest(choices, wanted)
    return f"did you mean {meant}? Choose {_or(choices)}" if meant else f"choose {_or(choices)}"


def _or(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
