"""The one exception tree of imgrec, each class with its exit code.

ImgrecError
├── UsageError        2   an option or argument that cannot be
├── SourceError       3   the images, as found, cannot be packed
│   └── BadImage          one image that cannot be packed
├── PlanError         4   the options do not fit the source
├── DatasetError      5   a packed dataset is missing, in the way, or wrong
│   ├── DatasetNotFound
│   ├── DatasetExists
│   ├── CorruptRecord
│   ├── UnknownName       a split, class or file that a dataset does not have
│   └── OutOfRange        a record number that a split does not have
├── ExecutionError    6   the run itself failed: a worker, a disk, another run
└── MissingExtra      7   a package that this needs is not installed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

E = TypeVar("E", bound="ImgrecError")


class ImgrecError(Exception):
    """Say what went wrong, where, and (in `hint`) what to do about it.

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
            self.add_note(f"hint: {hint}")  # for those who see a traceback

    # Not KeyError's, which quotes; nor one of our own, in place of which TFDS raises another error.
    __str__ = BaseException.__str__

    def __reduce__(self) -> tuple[Callable[..., ImgrecError], tuple[object, ...]]:
        # Exceptions pickle by their positional arguments alone; workers must not lose the rest.
        return _rebuild, (type(self), self.message, self.hint, self.path, self.offset)


def _rebuild(kind: type[E], message: str, hint: str, path: str, offset: int | None) -> E:
    return kind(message, hint=hint, path=path, offset=offset)


class UsageError(ImgrecError, ValueError):
    """An option or argument is not one that imgrec can take."""

    exit_code = 2


class SourceError(ImgrecError, ValueError):
    """The source cannot be packed as it stands."""

    exit_code = 3


class BadImage(SourceError):
    """One image cannot be packed; the message is the reason, without the file's name."""


class PlanError(ImgrecError, ValueError):
    """The options do not fit the source."""

    exit_code = 4


class DatasetError(ImgrecError, ValueError):
    """A packed dataset is not what it should be."""

    exit_code = 5


class DatasetNotFound(DatasetError, LookupError):
    """No packed dataset answers to that name or path."""


class DatasetExists(DatasetError):
    """A different dataset already stands where this one should go."""


class CorruptRecord(DatasetError):
    """A shard does not hold what a TFRecord file must; `path` and `offset` say where."""


class UnknownName(DatasetError, KeyError):
    """A dataset has no split, class or file of that name; the hint lists what there is."""


class OutOfRange(DatasetError, IndexError):
    """A split has no record of that number."""


class ExecutionError(ImgrecError, RuntimeError):
    """The run failed for a reason outside the source and the plan."""

    exit_code = 6


class MissingExtra(ImgrecError, ModuleNotFoundError):  # type: ignore[misc]  # ours is a str, as its is
    """A package needed for this is not installed; the hint is the pip command."""

    exit_code = 7
