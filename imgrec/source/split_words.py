"""The words that tables have for splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL

_WORDS = {
    "train": TRAIN, "training": TRAIN,
    "val": VAL, "valid": VAL, "validation": VAL, "dev": VAL,
    "test": TEST, "testing": TEST,
    "publictest": VAL, "privatetest": TEST,  # FER2013's
}  # fmt: skip
_SHOWN = 10


class Splits(NamedTuple):
    """The split of each row, "" where the table has none, and what is wrong with rows."""

    splits: list[str]
    faults: dict[int, str]


def split_word(text: str) -> str:
    """Return the split that a word means, or "" for a word that means none.

    >>> split_word("Validation"), split_word("kitchen")
    ('val', '')
    """
    return _WORDS.get(text.strip().casefold(), "")


def read_splits(cells: Sequence[str], column: str, where: str) -> Splits:
    """Read a column of splits; raise SourceError, naming the table by `where`, for other words.

    A row without a split is a fault, unless no row has one.
    """
    counts = Counter(cells)
    meaning = {cell: split_word(cell) for cell in counts}
    strange = [cell for cell in counts if cell.strip() and not meaning[cell]]
    if strange:
        shown = ", ".join(map(repr, strange[:_SHOWN]))
        more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        raise SourceError(
            f"{where}: the column {column} holds words that are no splits: {shown}{more}",
            hint="write train, val or test; or name another column with --split-col",
        )
    splits = [meaning[cell] for cell in cells]
    if not any(splits):
        return Splits(splits, {})
    faults = {row: f"no split in {column}" for row, split in enumerate(splits) if not split}
    return Splits(splits, faults)
