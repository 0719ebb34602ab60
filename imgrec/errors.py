"""The exceptions of imgrec, each with its exit code.

ImgrecError
├── UsageError        2   an unusable option or argument
├── SourceError       3   the source cannot be packed
│   └── BadImage          one image that cannot be packed
├── PlanError         4   the options do not fit the source
├── DatasetError      5   a packed dataset is missing, damaged, or in the way
│   ├── DatasetNotFound
│   ├── DatasetExists
│   ├── CorruptRecord
│   ├── UnknownName       a split, class or file that does not exist
│   └── OutOfRange        a record number that does not exist
├── ExecutionError    6   the run failed: a worker, a disk, another run
└── MissingExtra      7   a required package is not installed
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import ClassVar, TypeVar

E = TypeVar("E", bound="ImgrecError")

_OPTION = re.compile(
    r"\b(?:imgrec|pip|zip) [^;`]*"  # a command, which stays one
    r"|(?<![\w-])-(?:-(?P<name>[a-z][a-z0-9-]*)|o\b)"
    r"(?: (?P<value>'[^']*'|[\w./*,-]*[\w/*](?=$|[;,)]| (?:to|if|or) )))?"
)
_SWITCHES = frozenset(
    {"classes_append", "fold_case", "follow_links", "keep_case", "overwrite", "yes"}
)


class ImgrecError(Exception):
    """What went wrong, where, and (in `hint`) what to do about it.

    The message is for people; `path` and `offset` are for programs. `hint` names options as on the
    command line; a traceback shows them as keyword arguments.
    """

    exit_code: ClassVar[int] = 6

    def __init__(
        self, message: str, *, hint: str = "", path: str = "", offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path
        self.offset = offset
        if hint:
            self.add_note(f"hint: {in_python(hint)}")  # shown in a traceback

    # KeyError's would quote the message. TFDS replaces errors that define a __str__ of their own.
    __str__ = BaseException.__str__

    def __reduce__(self) -> tuple[Callable[..., ImgrecError], tuple[object, ...]]:
        # Exceptions pickle only their positional arguments; workers must not lose the rest.
        return _rebuild, (type(self), self.message, self.hint, self.path, self.offset)


def in_python(hint: str) -> str:
    """Return a hint with options of the command line as keyword arguments.

    >>> in_python("give --data-dir, or pass --overwrite, --max-bad 0.2 or --on-bad skip")
    'give data_dir=, or pass overwrite=True, max_bad=0.2 or on_bad="skip"'
    """
    return _OPTION.sub(_keyword, hint)


def _keyword(match: re.Match[str]) -> str:
    if not match[0].startswith("-"):
        return match[0]
    name = (match["name"] or "o").replace("-", "_")
    name = {"o": "path", "class": "class_name"}.get(name, name)
    value = match["value"] or ""
    if name in _SWITCHES:
        return f"{name}=True"
    is_literal = value.startswith("'") or re.fullmatch(r"[\d.]*", value)
    return f"{name}={value}" if is_literal else f'{name}="{value}"'


def _rebuild(kind: type[E], message: str, hint: str, path: str, offset: int | None) -> E:
    return kind(message, hint=hint, path=path, offset=offset)


class UsageError(ImgrecError, ValueError):
    """An option or argument is unusable."""

    exit_code = 2


class SourceError(ImgrecError, ValueError):
    """The source cannot be packed."""

    exit_code = 3


class BadImage(SourceError):
    """One image cannot be packed; the message is the reason, without the file name."""


class PlanError(ImgrecError, ValueError):
    """The options do not fit the source."""

    exit_code = 4


class DatasetError(ImgrecError, ValueError):
    """A packed dataset is unusable."""

    exit_code = 5


class DatasetNotFound(DatasetError, LookupError):
    """There is no packed dataset of that name or path."""


class DatasetExists(DatasetError):
    """A different dataset already has this name and version."""


class CorruptRecord(DatasetError):
    """A shard is not a valid TFRecord file; `path` and `offset` say where."""


class UnknownName(DatasetError, KeyError):
    """A dataset has no split, class or file of that name; the hint lists those it has."""


class OutOfRange(DatasetError, IndexError):
    """A split has no record of that number."""


class ExecutionError(ImgrecError, RuntimeError):
    """The run failed for a reason outside the source and the options."""

    exit_code = 6


class MissingExtra(ImgrecError, ModuleNotFoundError):  # type: ignore[misc]  # `path` is a str in both
    """A required package is not installed; the hint is the pip command."""

    exit_code = 7


def import_extra(module: str, *, extra: str, what: str) -> ModuleType:
    """Import a package; if it is not installed, raise MissingExtra with the pip command.

    Example: `import_extra("torch", extra="torch", what="torch_dataset")`.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(
            f"{what} needs {module}, which is not installed",
            hint=f"pip install 'imgrec[{extra}]'",
        ) from error
