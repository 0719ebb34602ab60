"""Many 64-bit hashes in little memory: which of them are there twice."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

_BUCKETS = 256


class Hashes:
    """Hashes of 8 bytes each, in buckets by their first bits, so that few are compared at once."""

    def __init__(self) -> None:
        self.buckets = tuple(array("Q") for _ in range(_BUCKETS))

    def add(self, values: Iterable[int]) -> None:
        """Add some hashes."""
        buckets = self.buckets
        for value in values:
            buckets[value >> 56].append(value)

    def repeated(self) -> set[int]:
        """Return those that are there more than once."""
        found: set[int] = set()
        for bucket in self.buckets:
            if len(set(bucket)) < len(bucket):
                found.update(value for value, times in Counter(bucket).items() if times > 1)
        return found


def shared(groups: Sequence[Hashes]) -> set[int]:
    """Return the hashes that are in more than one group."""
    found: set[int] = set()
    for buckets in zip(*(group.buckets for group in groups), strict=True):
        seen: set[int] = set()
        for values in map(set, buckets):
            found |= seen & values
            seen |= values
    return found
