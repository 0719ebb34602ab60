"""Words that mean splits: in cells, and in the names of files and folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL
from imgrec.text import listed

_WORDS = {
    "train": TRAIN, "training": TRAIN,
    "val": VAL, "valid": VAL, "validation": VAL, "dev": VAL,
    "test": TEST, "testing": TEST,
    "publictest": VAL, "privatetest": TEST,  # FER2013's
}  # fmt: skip
_BOUNDARY = re.compile(r"[-_.()\s]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_LETTERS = re.compile("[A-Za-z]+")
_CAMEL = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Splits(NamedTuple):
    """The split of each row ("" for none), and the faults of rows."""

    splits: list[str]
    faults: dict[int, str]


def words(name: str) -> list[str]:
    """Return the words and numbers of a name, in lower case.

    >>> words("Train_images"), words("test1"), words("trainLabels"), words("224x224")
    (['train', 'images'], ['test', '1'], ['train', 'labels'], ['224', 'x', '224'])
    """
    return [word.casefold() for word in _BOUNDARY.split(name) if word]


def split_word(text: str) -> str:
    """Return the split that a word means; "" for none.

    >>> split_word("Validation"), split_word("kitchen")
    ('val', '')
    """
    return _WORDS.get(text.strip().casefold(), "")


def split_of_name(path: str, *, takes_trainval: bool = False) -> str:
    """Return the split that a word of a file's name means; "" for none or several.

    With `takes_trainval`, train and val together mean train.

    >>> split_of_name("places365_val.txt"), split_of_name("trainLabels.csv")
    ('val', 'train')
    >>> split_of_name("train_val.txt"), split_of_name("train_val.txt", takes_trainval=True)
    ('', 'train')
    >>> split_of_name("trainers.csv"), split_of_name("train_test_split.txt")
    ('', '')
    """
    meaning = split_of_word if takes_trainval else split_word
    found: set[str] = set()
    for word in _LETTERS.findall(path.rpartition("/")[2]):
        whole = meaning(word)
        found.update([whole] if whole else map(meaning, _CAMEL.findall(word)))
    found.discard("")
    if takes_trainval and found == {TRAIN, VAL}:
        return TRAIN
    return found.pop() if len(found) == 1 else ""


def split_of_path(path: str) -> str:
    """Return the split of a file by its name, or else by the nearest folder above it.

    >>> split_of_path("val/part-0.csv"), split_of_path("split=test/0.parquet")
    ('val', 'test')
    """
    return next(filter(None, map(split_of_name, reversed(path.split("/")))), "")


def split_of_word(word: str) -> str:
    """Return the split that a word in a name means; `trainval` means train."""
    return TRAIN if word.casefold() == "trainval" else split_word(word)


def split_in(name: str) -> str:
    """Return the split that the first word of a folder's name means; "" for none.

    >>> split_in("test_stg1"), split_in("Training Set"), split_in("valley"), split_in("trainers")
    ('test', 'train', '', '')
    >>> split_in("a. Training Set"), split_in("2")
    ('train', '')
    """
    found = _unnumbered(words(name))
    return split_of_word(found[0]) if found else ""


def splits_of(names: Iterable[str]) -> dict[str, str]:
    """Return the split that each of some sibling folders means; "" for none.

    First words that all of them share are ignored: `hoh_train` and `hoh_test` are splits.
    """
    found = {name: _unnumbered(words(name)) for name in names}
    shared = 0
    if len(found) > 1:
        lists = list(found.values())
        shortest = min(map(len, lists))
        while shared < shortest - 1 and len({parts[shared] for parts in lists}) == 1:
            shared += 1
    meaning = {}
    for name, parts in found.items():
        direct = split_of_word(parts[0]) if parts else ""
        meaning[name] = direct or (split_of_word(parts[shared]) if shared else "")
    return meaning


def _unnumbered(found: list[str]) -> list[str]:
    """Remove leading numbers and single letters: `a. Training Set`, `2_test`."""
    while len(found) > 1 and (len(found[0]) == 1 or found[0].isdecimal()):
        found = found[1:]
    return found


def read_splits(cells: Sequence[str], column: str, where: str) -> Splits:
    """Read a column of splits of the table `where`; raise SourceError for other words.

    A row without a split is a fault, unless no row has one.
    """
    counts = Counter(cells)
    meaning = {cell: split_word(cell) for cell in counts}
    unknown = [repr(cell) for cell in counts if cell.strip() and not meaning[cell]]
    if unknown:
        raise SourceError(
            f"{where}: the column {column} holds words that are not splits: {listed(unknown, 10)}",
            hint="write train, val or test; or name another column with --split-col",
        )
    splits = [meaning[cell] for cell in cells]
    if not any(splits):
        return Splits(splits, {})
    faults = {row: f"no split in {column}" for row, split in enumerate(splits) if not split}
    return Splits(splits, faults)


def splits_of_files(names: Sequence[str], where: str) -> dict[str, str]:
    """Return the splits that the names of a table's files mean; nothing if none does.

    A single file for train holds the rows of all splits. Raises SourceError if only some names mean
    splits.
    """
    splits = {name: split for name in names if (split := split_of_path(name))}
    if len(names) == 1:
        return {name: split for name, split in splits.items() if split != TRAIN}
    if others := [name for name in names if name not in splits] if splits else []:
        named = next(iter(splits))
        raise SourceError(
            f"{where}: {named} is for {splits[named]}, but the split of {listed(others)} is "
            "not known",
            hint="give only the files that are meant, with train, val or test in the name of "
            "each, or one table with a column split",
        )
    return splits
