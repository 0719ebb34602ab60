"""A table of files and the splits that they are to stay in."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from posixpath import normpath

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.source.columns import is_path_column, is_split_column
from imgrec.source.split_words import split_word
from imgrec.source.tables import Table, read_table
from imgrec.text import printable

_SPLIT_NAME = re.compile(r"(?!all$)[a-z][a-z0-9_]*")  # TFDS calls all splits together "all"
_SHOWN = 5


def pin_by_name(catalog: Catalog, path: str) -> Catalog:
    """Pin each image that a table names to the split it has there.

    Raises SourceError if the table is none, contradicts itself, or speaks of other files.
    """
    splits = read_split_file(path)
    filenames = catalog.samples.filenames
    old = catalog.samples.pinned or ("",) * len(filenames)
    pinned = tuple(splits.get(name, pin) for name, pin in zip(filenames, old, strict=True))
    if strangers := sorted(set(splits).difference(filenames)):
        shown = ", ".join(strangers[:_SHOWN])
        if len(strangers) == len(splits):
            raise SourceError(
                f"--split-file {path} names no file of the source, but such as {shown}",
                hint=f"give paths such as {', '.join(map(printable, sorted(filenames)[:2]))}",
                path=path,
            )
        name = os.path.basename(path)
        catalog = catalog.warn(
            f"{len(strangers)} files of {name} are not in the source, such as {shown}"
        )
    return replace(catalog, samples=replace(catalog.samples, pinned=pinned))


def read_split_file(path: str) -> dict[str, str]:
    """Read which split each file is in."""
    if not os.path.isfile(path):
        raise SourceError(f"--split-file {path} is not a file", path=path)
    table = read_table(path, os.path.basename(path))
    path_column, split_column, has_header = _columns(table, path)
    if has_header:
        table = table.with_header()
    faults = [(fault.line, fault.reason) for fault in table.faults]
    splits: dict[str, str] = {}
    cells = zip(table.texts(path_column), table.texts(split_column), table.lines, strict=True)
    for path_cell, word, line in cells:
        path_cell, word = path_cell.strip(), word.strip()
        name = normpath(path_cell) if path_cell else ""
        split = split_word(word) or (word if _SPLIT_NAME.fullmatch(word) else "")
        if not name or not split:
            faults.append((line, f"{word!r} is no split" if name else "no file"))
        elif splits.setdefault(name, split) != split:
            faults.append((line, f"{name} is in {splits[name]} already"))
    if faults:
        shown = "; ".join(f"line {line}: {fault}" for line, fault in sorted(faults)[:_SHOWN])
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise SourceError(
            f"--split-file {path} cannot be used: {shown}{more}",
            hint="write one line a file: its path in the source and its split",
            path=path,
        )
    return splits


def _columns(table: Table, path: str) -> tuple[int, int, bool]:
    """Return the columns of paths and of splits, and whether the first row names them."""
    first: Sequence[str] = table.names or table.first_row()
    paths = [place for place, name in enumerate(first) if is_path_column(name)]
    splits = [place for place, name in enumerate(first) if is_split_column(name)]
    if len(paths) == 1 and len(splits) == 1:
        return paths[0], splits[0], not table.names
    if len(first) == 2 and not table.names:
        return 0, 1, False
    raise SourceError(
        f"--split-file {path} has no columns that are surely the file and its split",
        hint="call them filename and split",
        path=path,
    )
