"""Where tasks run."""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

from imgrec.errors import ExecutionError, ImgrecError

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Anything that calls a picklable function on each of many tasks."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and can read its files."""
        ...

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield the results in any order; raise the first error; stop working when closed.

        Work may begin before the first result is requested.
        """
        ...


def answer(function: Callable[[T], R], task: T) -> tuple[R | None, ImgrecError | None]:
    """Call a function in a worker; return its result, or the error for the caller to raise."""
    try:
        return function(task), None
    except ImgrecError as error:
        return None, error
    except Exception as error:  # noqa: BLE001  # the caller raises it
        return None, _unexpected(error)


def _unexpected(error: Exception) -> ExecutionError:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    return ExecutionError(
        f"a worker failed with {type(error).__name__}: {error} ({where.filename}:{where.lineno})",
        hint="this should not happen: please report it with this message",
    )
