"""The words that tables have for splits."""

from __future__ import annotations

import os
import re
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
_LETTERS = re.compile("[A-Za-z]+")
_CAMEL = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


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


def split_of_name(path: str) -> str:
    """Return the split that a file's name holds as a whole word, or "" for none or several.

    >>> split_of_name("places365_val.txt"), split_of_name("trainLabels.csv")
    ('val', 'train')
    >>> split_of_name("trainers.csv"), split_of_name("train_test_split.txt")
    ('', '')
    """
    found: set[str] = set()
    for word in _LETTERS.findall(os.path.basename(path)):
        whole = split_word(word)
        found.update([whole] if whole else map(split_word, _CAMEL.findall(word)))
    found.discard("")
    return found.pop() if len(found) == 1 else ""


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
