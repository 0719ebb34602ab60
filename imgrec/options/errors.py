"""Errors about options, in the words of whoever gave them."""

from __future__ import annotations

from collections.abc import Callable

from imgrec.errors import UsageError

_SHOWN = 100


class OptionError(UsageError):
    """An option has an unusable value, or options do not go together.

    `{0}` in message and hint stands for the first of `options`, `{1}` for the second. Python
    callers read `val_split`; the command line asks for the same error with `--val-split`.
    """

    def __init__(self, message: str, *options: str, hint: str = "") -> None:
        super().__init__(message.format(*options), hint=hint.format(*options))
        self._template = message, options, hint

    def spelled(self, spell: Callable[[str], str]) -> UsageError:
        """Return this error with the options as the caller writes them."""
        message, options, hint = self._template
        return OptionError(message, *map(spell, options), hint=hint)

    def __reduce__(self) -> tuple[Callable[..., UsageError], tuple[object, ...]]:
        return _rebuild, self._template


def _rebuild(message: str, options: tuple[str, ...], hint: str) -> UsageError:
    return OptionError(message, *options, hint=hint)


def refusal(name: str, value: object, hint: str) -> OptionError:
    """Return the error for a value that an option cannot have."""
    return OptionError(f"{{0}} cannot be {quoted(value)}", name, hint=verbatim(hint))


def quoted(value: object) -> str:
    """Return a value for the message of an `OptionError`: in one line, and not too long."""
    try:
        shown = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of more than 4,300 digits
        shown = f"that {type(value).__name__}"
    return verbatim(shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}...")


def verbatim(text: str) -> str:
    """Return text in which braces stand for themselves."""
    return text.replace("{", "{{").replace("}", "}}")
