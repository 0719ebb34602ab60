"""Where tasks run."""

from collections.abc import Callable, Generator, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from imgrec.engine.logged import Logged, collected
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


class Answer(NamedTuple, Generic[R]):
    """What a worker sends back for a task."""

    result: R | None
    error: ImgrecError | None
    """For the caller to raise."""
    logged: list[Logged]


def answer(function: Callable[[T], R], task: T) -> Answer[R]:
    """Call a function in a worker; return its result, or its error, and what it logged."""
    with collected() as logged:
        try:
            return Answer(function(task), None, logged)
        except ImgrecError as error:
            return Answer(None, error, logged)
        except Exception as error:  # noqa: BLE001  # the caller raises it
            return Answer(None, _unexpected(error), logged)


def _unexpected(error: Exception) -> ExecutionError:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    return ExecutionError(
        f"a worker failed with {type(error).__name__}: {error} ({where.filename}:{where.lineno})",
        hint="this should not happen: please report it with this message",
    )
