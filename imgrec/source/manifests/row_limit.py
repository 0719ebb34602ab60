"""How much memory the rows of a table may take: a guard against bombs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from imgrec.errors import SourceError

_RATIO = 200
"""Of memory to bytes on disk: the shortest rows of a plain table take less than half of that."""
_FREE_BYTES = 1 << 30
_ROW_BYTES, _CELL_BYTES = 128, 16
"""What Python needs for a row, and for each cell beside its text."""
_MOST_FAULTS = 1_000_000


@dataclass(slots=True)
class RowLimit:
    """What the rows of one table may still take."""

    path: str
    name: str
    """What the table is called in messages."""
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self._left = max(_FREE_BYTES, _RATIO * os.path.getsize(self.path))

    def take(self, cells: int, rows: int = 1) -> None:
        """Count some rows, with so many cells in all; raise SourceError if they are too many."""
        self._left -= _ROW_BYTES * rows + _CELL_BYTES * cells
        if self._left < 0:
            raise SourceError(
                f"{self.name} has more rows and cells than a table of its size should have",
                hint="if you trust it, unpack it, or save it as plain CSV",
                path=self.path,
            )


def refuse_many_faults(count: int, name: str, reason: str) -> None:
    """Raise SourceError if so many rows of a table cannot be read that it is none."""
    if count > _MOST_FAULTS:
        raise SourceError(
            f"{name} has more than {_MOST_FAULTS:,} rows that cannot be read, such as: {reason}",
            hint="give CSV, TSV, JSON lines or Parquet",
        )
