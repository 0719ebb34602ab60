"""The parser of the command line. Its errors are one sentence and a hint."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from imgrec.errors import UsageError
from imgrec.options.declaration import renamed_hint
from imgrec.text import closest

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` returns; argparse does not name the type."""
VERBS: Mapping[str, str] = {
    "pack": "pack a source into a dataset",
    "plan": "show what pack would do, without writing anything",
    "info": "show splits, classes and sizes of a dataset",
    "report": "show a dataset or a source as one HTML page",
    "preview": "show some images of a dataset or a source",
    "head": "show the first records of a dataset",
    "show": "show one record of a dataset",
    "view": "browse a dataset in a local web page",
    "verify": "check every byte of a dataset",
    "unpack": "restore the files that a dataset was packed from",
    "leaks": "find exact and near-duplicates",
    "submit": "write predictions as a competition expects them",
    "doctor": "explain why tfds.load fails",
    "clean": "remove the remains of interrupted packs",
    "completion": "print a script that completes imgrec in a shell",
}
"""What each verb does. The verb is in the module of its name, which is imported only to run it."""
_EXAMPLE = re.compile(r'(?:eval "\$\()?imgrec \S.*?(?=  |$)', re.MULTILINE)


class Help(argparse.HelpFormatter):
    """Help that keeps indented lines, such as examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            [line] if line.startswith(" ") else textwrap.wrap(line, width) or [""]
            for line in text.splitlines()
        )
        return "\n".join(indent + line for wrapped in lines for line in wrapped)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError with a hint instead of leaving.

    argparse raises errors in four places, told apart by their structure and never by their text:
    a type function raised ArgumentTypeError, with our own sentence; a value is none of `choices`;
    an option has too few or too many values; or (through `error`) arguments are missing.
    """

    def __init__(self, **options: Any) -> None:  # whatever argparse takes
        ours = {"formatter_class": Help, "allow_abbrev": False, "exit_on_error": False}
        super().__init__(**{**ours, **options})

    def parse_known_args(  # type: ignore[override]  # of its overloads, the one that is used
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; raise UsageError for unknown ones."""
        try:
            parsed, unknown = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise self._wrong_value(error) from error
        if unknown:
            raise self._unknown(unknown[0])
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for missing arguments: argparse has no other error without an action."""
        del message
        raise self._missing()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise UsageError, with the likely choice, for a value that is not among the choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        meant = closest(choices, str(value))
        hint = f"did you mean {meant}? " if meant else ""
        if isinstance(action, argparse._SubParsersAction):
            raise UsageError(
                f"there is no verb {value!r}", hint=f"{hint}Choose from {_or(choices)}"
            )
        name = f"{action.option_strings[-1]} " if action.option_strings else ""
        raise UsageError(f"{name}{value!r} is not a choice", hint=f"{hint}Choose {_or(choices)}")

    def spell(self, name: str) -> str:
        """Return an option as the command line writes it."""
        names = (
            one.option_strings[-1]
            for one in self._actions
            if one.dest == name and one.option_strings
        )
        return next(names, name)

    def _missing(self) -> UsageError:
        if verbs := [verb for verb, _ in verb_parsers(self)]:
            return UsageError("no verb given", hint=f"choose {_or(verbs)}; or --help, or --version")
        example = _EXAMPLE.search(self.epilog or "")
        hint = f"for example: {example[0].rstrip()}" if example else self._help()
        needed = [str(one.metavar) for one in self._actions if one.required]
        return UsageError(f"{self._verb()} needs {' and '.join(needed)}", hint=hint)

    def _unknown(self, text: str) -> UsageError:
        if not text.startswith("-"):
            return UsageError(f"unexpected argument {text!r}", hint=self._help())
        name = text.partition("=")[0]
        if any(name in verb._option_string_actions for _, verb in verb_parsers(self)):
            return UsageError(f"{name} must come after the verb", hint=f"write imgrec VERB {name}")
        options = [option for action in self._actions for option in action.option_strings]
        renamed = renamed_hint(name.removeprefix("--").replace("-", "_")).replace("_", "-")
        meant = _meant(options, name)
        hint = f"{renamed}. " if renamed else f"did you mean {meant}? " if meant else ""
        return UsageError(f"{self._verb()} has no option {name}", hint=hint + self._help())

    def _wrong_value(self, error: argparse.ArgumentError) -> UsageError:
        name = error.argument_name or ""
        action = next((one for one in self._actions if _name(one) == name), None)
        if action is None:
            return self._missing()
        hint = f"{name} {action.metavar}: {plain_help(action)}" if action.metavar else self._help()
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


def verb_parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the verbs of a command line, in their order, and the parser of each."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _meant(options: Sequence[str], wanted: str) -> str:
    """Return the options that begin like a word, else the most similar one."""
    if begun := [one for one in options if wanted.startswith("--") and one.startswith(wanted)]:
        return _or(begun)
    by_word = {one.lstrip("-"): one for one in options}  # dashes would make all of them similar
    return by_word.get(closest(list(by_word), wanted.lstrip("-")), "")


def _or(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def plain_help(action: argparse.Action) -> str:
    """Return the help of an argument as people see it."""
    return str(action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
