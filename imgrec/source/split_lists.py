"""Lists of images by split, such as train.txt and test.txt, that lie beside class folders."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TRAIN
from imgrec.source.probe import FileTable
from imgrec.source.split_words import split_of_name
from imgrec.source.text_lines import head_of
from imgrec.storage.read_ahead import reader
from imgrec.storage.urls import is_url

_SUFFIXES = (".txt", ".lst", ".csv", ".tsv")
_HEAD_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 24
"""Lists in archives are read whole; none that is larger is looked at."""
_LINES = 100
"""How many lines tell whether a file lists images."""
_SHOWN = 5
_TRAIN_TEST_SPLIT = re.compile(r"(^|/)train_?(val_?)?test_?splits?\.(txt|csv|tsv)$", re.I)
"""As in Caltech-UCSD Birds, where it goes by numbers that images.txt gives the images."""


class IgnoredSplits(SourceError):
    """Class folders would be packed without regard to the splits that lists give them."""


class SplitLists(NamedTuple):
    """Files of a tree that list its images by split."""

    names: tuple[str, ...]
    base: str
    """The folder that the listed paths begin at; "" for the root."""


def refuse_split_lists(root: str, tree: FileTable) -> None:
    """Raise IgnoredSplits if files in a tree say which images are for val or test.

    Class folders alone would put all of them into train.
    """
    kind = "folder" if is_url(root) or os.path.isdir(root) else "archive"
    others = [tree.names[number] for number in sorted(tree.others)]
    if tables := list(filter(_TRAIN_TEST_SPLIT.search, others)):
        raise IgnoredSplits(
            f"{root}: {tables[0]} says which images are for test, but imgrec cannot read it",
            hint="write a table with the columns path, label and split, and pack that; or pass "
            f"--kind {kind} to ignore it",
            path=root,
        )
    lists = find_split_lists(tree)
    if not any(split_of_name(name) != TRAIN for name in lists.names):
        return
    more = f" and {len(lists.names) - _SHOWN} more" if len(lists.names) > _SHOWN else ""
    images = posixpath.join(root, lists.base) if lists.base else root
    pattern = posixpath.join(root, _pattern(lists.names, tree.names))
    command = f"pack the lists: imgrec pack {shlex.quote(pattern)} --images {shlex.quote(images)}"
    if kind == "archive":
        command = f"extract the lists, and pack them with --images {shlex.quote(root)}"
    raise IgnoredSplits(
        f"{root}: {', '.join(lists.names[:_SHOWN])}{more} list images by split, which class "
        "folders do not tell",
        hint=f"{command}; or pass --kind {kind} to ignore them",
        path=root,
    )


def find_split_lists(tree: FileTable) -> SplitLists:
    """Find the files that are named after splits and list images of the tree."""
    lines = {}
    for number in sorted(tree.others):
        name = tree.names[number]
        if name.lower().endswith(_SUFFIXES) and split_of_name(name):
            lines[name] = list(_lines(_head(tree, number)))
    wanted = {text for found in lines.values() for texts in found for text in texts}
    bases = _bases(wanted, tree) if wanted else {}
    names = tuple(name for name, found in lines.items() if _name_images(found, bases))
    used = Counter(
        bases[text] for name in names for texts in lines[name] for text in texts if text in bases
    )
    return SplitLists(names, used.most_common(1)[0][0] if used else "")


def _head(tree: FileTable, number: int) -> bytes:
    blob, size = tree.blobs[number], tree.sizes[number]
    if isinstance(blob, str) and not is_url(blob):
        return head_of(blob, _HEAD_BYTES)
    return reader((blob,), (size,))(blob, size) if size <= _LARGEST_BYTES else b""


def _lines(head: bytes) -> Iterator[frozenset[str]]:
    """Yield the paths that each of the first lines may name: all of it, or its first cell."""
    for line in head.decode("utf-8", "replace").splitlines()[:_LINES]:
        if text := line.strip():
            cells = {text, *(text.split(mark)[0] for mark in ("\t", ",", ";", " "))}
            yield frozenset(posixpath.normpath(cell.strip()).lstrip("/") for cell in cells)


def _bases(wanted: set[str], tree: FileTable) -> dict[str, str]:
    """Return the texts that name images, and the folder that each begins at."""
    found: dict[str, str] = {}
    for number, name in enumerate(tree.names):
        if number in tree.others:
            continue
        top, _, below = name.partition("/")
        for path, base in ((name, ""), (posixpath.basename(name), ""), (below, top)):
            for text in (path, path.rpartition(".")[0]):
                if text in wanted:
                    found.setdefault(text, base)
    return found


def _name_images(lines: Sequence[Iterable[str]], bases: dict[str, str]) -> bool:
    named = sum(any(text in bases for text in texts) for texts in lines)
    return named * 2 > len(lines)


def _pattern(names: Sequence[str], all_names: Iterable[str]) -> str:
    """Return a pattern that only the lists fit, or else their folder."""
    folder = posixpath.commonpath([posixpath.dirname(name) for name in names])
    others = set(all_names).difference(names)
    prefix = _common_start([name[len(folder) :].lstrip("/") for name in names])
    suffix = posixpath.splitext(names[0])[1]
    for middle in ("", prefix):
        pattern = posixpath.join(folder, f"{middle}*{suffix}")
        if all(fnmatch(name, pattern) for name in names) and not any(
            fnmatch(name, pattern) for name in others
        ):
            return pattern
    return folder


def _common_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    same = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, len(first))]
