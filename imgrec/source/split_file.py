"""`--split-file`: a table of files and their splits."""

from __future__ import annotations

import os
import re
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
    """Pin each image that a table names to its split there.

    Raises SourceError if the table cannot be read, contradicts itself, or names other files.
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
    """Return the split of each file."""
    if not os.path.isfile(path):
        raise SourceError(f"--split-file {path} is not a file", path=path)
    table, path_at, split_at = _with_columns(read_table(path, os.path.basename(path)), path)
    faults = [(fault.line, fault.reason) for fault in table.faults]
    splits: dict[str, str] = {}
    rows = zip(table.lines, table.texts(path_at), table.texts(split_at), strict=True)
    for line, cell, word in rows:
        name = normpath(cell.strip()) if cell.strip() else ""
        split = split_word(word) or (word.strip() if _SPLIT_NAME.fullmatch(word.strip()) else "")
        if not name:
            faults.append((line, "no file"))
        elif not split:
            faults.append((line, f"{word.strip()!r} is not a split"))
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


def _with_columns(table: Table, path: str) -> tuple[Table, int, int]:
    """Return the table without its header, and the columns of paths and of splits."""
    header = table.names or (table.first_row() if table.lines else ())
    paths = [at for at, name in enumerate(header) if is_path_column(name)]
    splits = [at for at, name in enumerate(header) if is_split_column(name)]
    if len(paths) == 1 and len(splits) == 1:
        return table if table.names else table.with_header(), paths[0], splits[0]
    if len(header) == 2 and not table.names:
        return table, 0, 1
    raise SourceError(
        f"--split-file {path} has no clear columns of files and splits",
        hint="call them filename and split",
        path=path,
    )
