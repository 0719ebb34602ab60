"""Where tasks run."""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Anything that calls a picklable function on each of many tasks."""

    @property
    def is_local(self) -> bool:
        """Tell whether tasks run on this machine, where they see all of its files."""
        ...

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield the results in any order; raise the first error; when closed, stop working.

        Work may begin before the first result is asked for.
        """
        ...

    def prepare(self, function: Callable[[T], object], task: T) -> None:
        """Have each worker call `function(task)` soon, for what it imports; results are lost."""
        ...
