"""Lists of images by split, such as train.txt and test.txt, beside class folders."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch

from imgrec.errors import SourceError
from imgrec.model import TRAIN
from imgrec.source.probe import FileTable
from imgrec.source.split_words import split_of_name
from imgrec.source.text_lines import head_of
from imgrec.storage.read_ahead import reader
from imgrec.storage.urls import is_url
from imgrec.text import listed

_SUFFIXES = (".txt", ".lst", ".csv", ".tsv")
_HEAD_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 24
"""Lists in archives are read whole; larger ones are ignored."""
_LINES = 100
"""How many lines decide whether a file lists images."""
_TRAIN_TEST_SPLIT = re.compile(r"(^|/)train_?(val_?)?test_?splits?\.(txt|csv|tsv)$", re.I)
"""As in Caltech-UCSD Birds, where it goes by numbers that images.txt gives the images."""


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
