"""Splits that the files of a manifest have in their names, as in train.csv and val.csv."""

from __future__ import annotations

from collections.abc import Sequence

from imgrec.errors import SourceError
from imgrec.model import TRAIN
from imgrec.source.manifests.rows import Rows
from imgrec.source.split_words import Splits, split_of_name

_SHOWN = 5


def split_of_file(name: str) -> str:
    """Return the split that a file is for, by its name or by the nearest folder that tells it.

    >>> split_of_file("val/part-0.csv"), split_of_file("split=test/0.parquet")
    ('val', 'test')
    """
    parts = reversed(name.split("/"))
    return next((split for split in map(split_of_name, parts) if split), "")


def file_splits(names: Sequence[str], where: str) -> dict[str, str]:
    """Return the split of each file that names one; nothing if none does.

    A single file for train is for whatever its rows say, as no other file is for val or test.
    Raises SourceError if some files name splits and others do not.
    """
    splits = {name: split for name in names if (split := split_of_file(name))}
    if len(names) == 1:
        return {name: split for name, split in splits.items() if split != TRAIN}
    if others := [name for name in names if name not in splits] if splits else []:
        named = next(iter(splits))
        raise SourceError(
            f"{where}: {named} is for {splits[named]}, but the split of {_listed(others)} is "
            "not known",
            hint="give only the files that are meant, with train, val or test in the name of "
            "each, or one table with a column split",
        )
    return splits


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def merge_splits(in_cells: Splits, by_file: dict[str, str], rows: Rows) -> Splits:
    """Return the split of each row, from its cell or from its file's name.

    Raises SourceError if they contradict each other.
    """
    if not by_file:
        return in_cells
    named = [by_file.get(name, "") for name in rows.files()]
    for row, (cell, split) in enumerate(zip(in_cells.splits, named, strict=True)):
        if cell and split and cell != split:
            raise SourceError(
                f"{rows.where(row)} is for {cell}, but the name of its file says {split}",
                hint="rename the file, or name another column with --split-col",
            )
    merged = [cell or split for cell, split in zip(in_cells.splits, named, strict=True)]
    faults = {row: fault for row, fault in in_cells.faults.items() if not merged[row]}
    return Splits(merged, faults)
