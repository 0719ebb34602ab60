"""What an inspection finds, and how it is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from imgrec import layout
from imgrec.inspection.files import MISSING

MOST = 100_000
"""How many faults of one file are kept; the others are only counted, whatever it is made of."""


CHANGED = f"its SHA-256 is not the one that {layout.CHECKSUMS} has"
_NUMBER = re.compile("[0-9]+")
_DIGITS = 20


class Fault(NamedTuple):
    """One thing that is wrong, and where."""

    path: str
    """A file of the dataset, or of the source that it is compared with."""
    offset: int | None
    """The byte, before compression, where it is or begins; None where no byte is to blame."""
    what: str


class Faults:
    """Faults, as they are found."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._counts: Counter[str] = Counter()

    def add(self, path: str, what: str, offset: int | None = None) -> None:
        """Add a fault."""
        self.extend((Fault(path, offset, what),))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Add some faults."""
        for fault in faults:
            self._counts[fault.path] += 1
            if self._counts[fault.path] <= MOST:
                self._found.append(fault)

    def count(self, path: str) -> int:
        """Count the faults of one file."""
        return self._counts[path]

    def listed(self) -> tuple[Fault, ...]:
        """Return all faults by file and offset, but first files that are missing, or have changed.

        What others say of these is then no surprise.
        """
        more = [
            Fault(path, None, f"{count - MOST:,} more faults of this file")
            for path, count in self._counts.items()
            if count > MOST
        ]
        changed = {fault.path for fault in self._found if fault.what.startswith(CHANGED)}

        def place(fault: Fault) -> tuple[bool, bool, str, int, str]:
            # Numbers in the text, such as those of rows, count as such.
            what = _NUMBER.sub(lambda match: match[0].zfill(_DIGITS), fault.what)
            offset = -1 if fault.offset is None else fault.offset
            is_minor = fault.what != MISSING, fault.path not in changed
            return *is_minor, fault.path, offset, what

        return tuple(sorted({*self._found, *more}, key=place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The outcome of a verification."""

    name: str
    version: str
    path: str
    records: int
    """How many were read, sound or not."""
    shards: int
    bytes: int
    """Of the shards, as they are on disk."""
    files: int
    """How many files SHA256SUMS lists."""
    faults: tuple[Fault, ...]
    """All of them, by file and offset, but first files that are missing, or have changed."""
    notes: tuple[Fault, ...]
    """What the source is to blame for, not the pack: images in two splits that it has itself."""
    not_checked: tuple[str, ...]
    """What the dataset does not have, so that nothing could be said of it."""
    seconds: float
