"""The first of many things that are to be named, where there may be too many to name them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from imgrec.model import SameImage, Skipped

N = TypeVar("N", Skipped, SameImage)


class First(Generic[N]):
    """The first `most` of all that were added, in their order, and how many there are."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._items: list[N] = []
        self.total = 0

    def add(self, items: Iterable[N]) -> None:
        """Add some."""
        before = len(self._items)
        self._items.extend(items)
        self.total += len(self._items) - before
        if self._most is not None and len(self._items) > 2 * self._most:
            self._items = list(self.listed())

    def listed(self) -> tuple[N, ...]:
        """Return the first, in their order."""
        return tuple(sorted(self._items)[: self._most])

    @property
    def more(self) -> int:
        """Count those that are not among the first."""
        return max(self.total - self._most, 0) if self._most is not None else 0

    def unlisted(self, what: str) -> tuple[str, ...]:
        """Return a warning about those that are not among the first, if there are any."""
        return (f"{self.more:,} more {what} are not listed",) if self.more else ()
