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

from collections.abc import Callable
from typing import ClassVar, TypeVar

E = TypeVar("E", bound="ImgrecError")


class ImgrecError(Exception):
    """What went wrong, where, and (in `hint`) what to do about it.

    The message is for people; `path` and `offset` are for programs.
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
            self.add_note(f"hint: {hint}")  # shown in a traceback

    # KeyError's would quote the message. TFDS replaces errors that define a __str__ of their own.
    __str__ = BaseException.__str__

    def __reduce__(self) -> tuple[Callable[..., ImgrecError], tuple[object, ...]]:
        # Exceptions pickle only their positional arguments; workers must not lose the rest.
        return _rebuild, (type(self), self.message, self.hint, self.path, self.offset)


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
