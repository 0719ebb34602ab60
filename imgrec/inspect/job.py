"""Who does the work of an inspection, and who is told how far it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage, how many more records are done, and of how many."""


class Run(Protocol):
    """Calls a picklable function on each of many tasks, somewhere."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield the results in any order; when closed, stop working."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Who works, and who is told."""

    run: Run
    on_progress: OnProgress | None = None

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Tell how many more records are done."""
        if self.on_progress:
            self.on_progress(stage, done, total)
