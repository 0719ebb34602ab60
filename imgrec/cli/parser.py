"""The parser of the command line: what it cannot read is one sentence and a hint."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from imgrec.errors import UsageError
from imgrec.unknown import closest

_REQUIRED = "the following arguments are required: "
_UNKNOWN = "unrecognized arguments: "
_EXAMPLE = re.compile(r'(?:eval "\$\()?imgrec \S.*?(?=  |$)', re.MULTILINE)
_NUMBERS = {"int": "whole number", "float": "number"}


class Help(argparse.HelpFormatter):
    """Help whose indented lines, such as examples, stay as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (
            [line] if line.startswith(" ") else textwrap.wrap(line, width) or [""]
            for line in text.splitlines()
        )
        return "\n".join(indent + line for wrapped in lines for line in wrapped)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, with what was likely meant, instead of leaving."""

    def __init__(self, **options: Any) -> None:  # whatever argparse takes
        # Errors that are raised come with the argument that they are about.
        ours = {"formatter_class": Help, "allow_abbrev": False, "exit_on_error": False}
        super().__init__(**{**ours, **options})

    def parse_known_args(  # type: ignore[override]  # of its overloads, the one that is used
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; raise UsageError for those that the verb does not have."""
        try:
            parsed, unknown = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise self._wrong(error) from error
        if unknown:
            raise self._unknown(unknown[0])
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for what argparse finds without an argument to name."""
        if message.startswith(_REQUIRED):
            raise self._missing(message.removeprefix(_REQUIRED))
        raise UsageError(message.removeprefix(_UNKNOWN), hint=self._help())

    def _missing(self, arguments: str) -> UsageError:
        if verbs := [verb for verb, _ in verb_parsers(self)]:
            hint = f"give {_either(verbs)}; or --help, or --version"
            return UsageError("there is no verb", hint=hint)
        example = _EXAMPLE.search(self.epilog or "")
        hint = f"for example: {example[0].rstrip()}" if example else self._help()
        return UsageError(f"{self._verb()} needs {arguments}", hint=hint)

    def _unknown(self, text: str) -> UsageError:
        if not text.startswith("-"):
            return UsageError(f"{text!r} is one argument too many", hint=self._help())
        name = text.partition("=")[0]
        if any(name in verb._option_string_actions for _, verb in verb_parsers(self)):
            hint = f"options come after the verb, as in imgrec VERB {name}"
            return UsageError(f"{name} stands before the verb", hint=hint)
        options = [option for action in self._actions for option in action.option_strings]
        meant = _meant(options, name)
        hint = f"did you mean {meant}? " if meant else ""
        return UsageError(f"{self._verb()} has no option {name}", hint=hint + self._help())

    def _wrong(self, error: argparse.ArgumentError) -> UsageError:
        """Say what is wrong with the value of an argument."""
        name = error.argument_name or ""
        action = next((one for one in self._actions if _name(one) == name), None)
        if action is None:
            return UsageError(f"{name}: {error.message}" if name else error.message)
        if isinstance(action, argparse._SubParsersAction):
            return _wrong_verb(error.message, list(action.choices))
        message, hint = _said(name, action, error.message)
        return UsageError(message, hint=hint or self._help())

    def _verb(self) -> str:
        return self.prog.rpartition(" ")[2]

    def _help(self) -> str:
        return f"{self.prog} --help shows what there is"


def _name(action: argparse.Action) -> str:
    """Name an argument as argparse does in its errors."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def verb_parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the verbs of a command line, in their order, and the parser of each."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _meant(options: Sequence[str], wanted: str) -> str:
    """Return the options that begin as what was written does, else the one that is like it."""
    if begun := [one for one in options if wanted.startswith("--") and one.startswith(wanted)]:
        return _either(begun)
    by_word = {one.lstrip("-"): one for one in options}  # all begin alike: that tells nothing
    return by_word.get(closest(list(by_word), wanted.lstrip("-")), "")


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def _wrong_verb(message: str, verbs: Sequence[str]) -> UsageError:
    wanted = _quoted(message)
    meant = closest(verbs, wanted)
    hint = f"did you mean {meant}? " if meant else ""
    return UsageError(f"there is no verb {wanted!r}", hint=f"{hint}There is {', '.join(verbs)}")


def _quoted(message: str) -> str:
    """Return the value that a message of argparse quotes."""
    match = re.search(r"'(.*?)'(?= \(choose|$)", message)
    return match[1] if match else ""


def _said(name: str, action: argparse.Action, message: str) -> tuple[str, str]:
    """Say an error of argparse in our words, with a hint."""
    is_place = not action.option_strings
    hint = f"{name} {action.metavar}: {plain_help(action)}" if action.metavar else ""
    if message.startswith("expected "):
        return f"{name} needs a value", hint
    if message.startswith("ignored explicit argument"):
        return f"{name} takes no value", ""
    if message.startswith("invalid choice"):
        choices = [str(choice) for choice in action.choices or ()]
        wanted = _quoted(message)
        meant = closest(choices, wanted)
        shown = "" if is_place else f"{name} "
        hint = f"did you mean {shown}{meant}?" if meant else "" if is_place else hint
        return f"{shown}{wanted!r} is none of {', '.join(choices)}", hint
    if match := re.match(r"not allowed with argument (.*)", message):
        return f"{name} and {match[1]} do not go together", "leave out one of them"
    if match := re.match(r"invalid (int|float) value: (.*)", message):
        return f"{name} {match[2]} is no {_NUMBERS[match[1]]}", _as_fraction(match[2]) or hint
    return f"{name}: {message}", hint


def _as_fraction(value: str) -> str:
    """Return the hint of how a percentage is written; "" if the value is none."""
    match = re.fullmatch(r"'(\d+\.?\d*)\s*%'", value)
    return f"write it as {float(match[1]) / 100:g}" if match else ""


def plain_help(action: argparse.Action) -> str:
    """Return what is said of an argument, as help shows it."""
    text = str(action.help or "").replace("%(default)s", str(action.default))
    return text.replace("%%", "%")
