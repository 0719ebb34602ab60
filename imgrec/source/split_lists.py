"""Files that list images by split: `--split-file`, and train.txt or test.txt beside classes."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch

from imgrec.errors import SourceError
from imgrec.model import TRAIN, Catalog
from imgrec.source.columns import is_path_column, is_split_column
from imgrec.source.probe import FileTable
from imgrec.source.split_words import split_of_name, split_word
from imgrec.source.tables import Table, read_table
from imgrec.source.text_lines import head_of
from imgrec.storage.read_ahead import reader
from imgrec.storage.urls import is_url
from imgrec.text import listed, printable

_SPLIT_NAME = re.compile(r"(?!all$)[a-z][a-z0-9_]*")  # TFDS calls all splits together "all"
_SHOWN = 5
_SUFFIXES = (".txt", ".lst", ".csv", ".tsv")
_HEAD_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 24
"""Lists in archives are read whole; larger ones are ignored."""
_LINES = 100
"""How many lines decide whether a file lists images."""
_TRAIN_TEST_SPLIT = re.compile(r"(^|/)train_?(val_?)?test_?splits?\.(txt|csv|tsv)$", re.I)
"""As in Caltech-UCSD Birds, where it goes by numbers that images.txt gives the images."""


# A table of files and their splits


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
        name = posixpath.normpath(cell.strip()) if cell.strip() else ""
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


# Lists beside class folders


def refuse_split_lists(root: str, table: FileTable) -> None:
    """Raise SourceError if files list images for val or test: class folders put all into train."""
    kind = "folder" if is_url(root) or os.path.isdir(root) else "archive"
    others = [table.names[number] for number in sorted(table.others)]
    for name in filter(_TRAIN_TEST_SPLIT.search, others):
        raise SourceError(
            f"{root}: {name} names the test images, but imgrec cannot read it",
            hint="write a table with the columns path, label and split, and pack that; or pass "
            f"--kind {kind} to ignore it",
            path=root,
        )
    names, base = _find_lists(table)
    if all(split_of_name(name) == TRAIN for name in names):
        return
    images = posixpath.join(root, base) if base else root
    pattern = posixpath.join(root, _pattern(names, table.names))
    command = f"pack the lists: imgrec pack {shlex.quote(pattern)} --images {shlex.quote(images)}"
    if kind == "archive":
        command = f"extract the lists, and pack them with --images {shlex.quote(root)}"
    raise SourceError(
        f"{root}: {listed(names)} list images by split, but class folders have no splits",
        hint=f"{command}; or pass --kind {kind} to ignore them",
        path=root,
    )


def _find_lists(table: FileTable) -> tuple[list[str], str]:
    """Return the files that are named after splits and list images, and where paths begin."""
    lines = {}
    for number in sorted(table.others):
        name = table.names[number]
        if name.lower().endswith(_SUFFIXES) and split_of_name(name):
            lines[name] = list(_lines(_head(table, number)))
    wanted = {text for found in lines.values() for texts in found for text in texts}
    bases = _bases(wanted, table) if wanted else {}
    # Most lines must name images.
    names = [
        name
        for name, found in lines.items()
        if sum(any(text in bases for text in texts) for texts in found) * 2 > len(found)
    ]
    used = Counter(
        bases[text] for name in names for texts in lines[name] for text in texts if text in bases
    )
    return names, used.most_common(1)[0][0] if used else ""


def _head(table: FileTable, number: int) -> bytes:
    blob, size = table.blobs[number], table.sizes[number]
    if isinstance(blob, str) and not is_url(blob):
        return head_of(blob, _HEAD_BYTES)
    return reader((blob,), (size,))(blob, size) if size <= _LARGEST_BYTES else b""


def _lines(head: bytes) -> Iterator[frozenset[str]]:
    """Yield the paths that each of the first lines may name: all of it, or its first cell."""
    for line in head.decode("utf-8", "replace").splitlines()[:_LINES]:
        if text := line.strip():
            cells = {text, *(text.split(mark)[0] for mark in ("\t", ",", ";", " "))}
            yield frozenset(posixpath.normpath(cell.strip()).lstrip("/") for cell in cells)


def _bases(wanted: set[str], table: FileTable) -> dict[str, str]:
    """Return the texts that name images, and the folder that each begins at."""
    found: dict[str, str] = {}
    for number, name in enumerate(table.names):
        if number in table.others:
            continue
        top, _, below = name.partition("/")
        for path, base in ((name, ""), (posixpath.basename(name), ""), (below, top)):
            for text in (path, path.rpartition(".")[0]):
                if text in wanted:
                    found.setdefault(text, base)
    return found


def _pattern(names: Sequence[str], all_names: Iterable[str]) -> str:
    """Return a pattern that only the lists match, or else their folder."""
    folder = posixpath.commonpath([posixpath.dirname(name) for name in names])
    others = set(all_names).difference(names)
    inner = [name[len(folder) :].lstrip("/") for name in names]
    prefix = os.path.commonprefix(inner)  # noqa: RUF071  # of characters, not of folders
    suffix = posixpath.splitext(names[0])[1]
    for middle in ("", prefix):
        pattern = posixpath.join(folder, f"{middle}*{suffix}")
        if all(fnmatch(name, pattern) for name in names) and not any(
            fnmatch(name, pattern) for name in others
        ):
            return pattern
    return folder
