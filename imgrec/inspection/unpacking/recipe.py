"""How unpacked files are packed again: the command, and the table that it may need."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple
from unicodedata import normalize

from imgrec.inspection.unpacking.records import Row
from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import LEAF, ClassOrder, ColumnKind
from imgrec.plan.labels import usual_order
from imgrec.source.split_words import split_word
from imgrec.spelling import alike
from imgrec.text import printable

CLASSES_FILE = "{classes}"
_PATH, _LABEL, _LABELS, _SPLIT, _GROUP = "filename", "label", "labels", "split", "group"
"""Columns of the table: but for the last two, no other can be called so."""
_KINDS = {int: ColumnKind.INT, float: ColumnKind.FLOAT, str: ColumnKind.TEXT}
_DEFAULTS: Mapping[str, object] = {
    "val_split": 0.0, "test_split": 0.0, "folds": 0, "seed": 0, "shards": None,
    "shard_bytes": 128 << 20, "check": "decode", "on_leak": "report", "group_by": "",
    "near_dups": None, "compression": "", "also": [],
}  # fmt: skip
_SPLITTING = ("val_split", "test_split", "folds", "group_by", "near_dups")
_SEPARATORS = "|;+&~^"
_PRIVATE = range(0xE000, 0xF900)
"""Characters that no one has a meaning for."""
_CALLED = {"shard_bytes": "shard-size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Unpacked files, and what they were in the dataset."""

    paths: Sequence[str]
    rows: Sequence[Row]
    splits: Sequence[str]
    """The split of each."""
    classes: tuple[str, ...]
    is_multilabel: bool
    groups: Sequence[str] = ()
    """The group of each; empty if there are none, or they are not known."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Those of the pack, as far as they are known."""
    layout: str = ""
    """What the report of the pack says of the source."""
    has_split_folders: bool = False
    """Whether the splits, whoever made them, have become folders."""


class Recipe(NamedTuple):
    """What packs a tree again."""

    options: tuple[str, ...]
    """What to say beside the source, each option and its value; `CLASSES_FILE` stands for the path
    of that file."""
    manifest: bytes
    """The table that is to be packed, beside the images; b"" if their folders tell all."""
    classes: bytes
    """The class names in the order of their labels; b"" if it is the usual one."""
    flags: tuple[str, ...]
    """Options that have no value."""


def make_recipe(tree: Tree) -> Recipe | None:
    """Return how to pack a tree again; None if no source can tell what the dataset knows."""
    # Pins are in no dataset, and groups in few: without them no split can be made again.
    pinned_by = ("group_col", "split_from", "split_file")
    splits_again = not tree.has_split_folders and not any(map(tree.options.get, pinned_by))
    made = _made(tree) if splits_again else set()
    source_splits = [TRAIN if split in made else split for split in tree.splits]
    if any(split_word(split) != split for split in set(source_splits)):
        return None
    if not tree.is_multilabel and any(
        not row.labels and split != TEST
        for row, split in zip(tree.rows, source_splits, strict=True)
    ):
        return None
    if len(tree.groups) != len(tree.rows) or (splits_again and tree.options.get("group_by")):
        tree = replace(tree, groups=())  # names tell them again
    folders = _folder_options(tree, source_splits)
    manifest, reading = (b"", folders) if folders is not None else _manifest(tree, source_splits)
    classes = _class_lines(tree)
    options = (
        *reading,
        *(("--classes", CLASSES_FILE) if classes else ()),
        *_pack_options(tree.options, splits_again=splits_again),
    )
    return Recipe(options, manifest, classes, ("--keep-case",) if alike(tree.classes) else ())


def _made(tree: Tree) -> set[str]:
    """Return the splits that the pack made out of train."""
    options = tree.options
    made = {split for split in (VAL, TEST) if options.get(f"{split}_split")}
    if options.get("folds"):
        made |= {split for split in set(tree.splits) if split.startswith(FOLD)}
    return made


def _folder_options(tree: Tree, splits: Sequence[str]) -> tuple[str, ...] | None:
    """Return the options with which folders tell labels and splits; None if they do not."""
    if tree.is_multilabel or tree.groups or any(row.columns for row in tree.rows):
        return None
    for has_splits in (False, True):
        depth = _class_depth(tree, splits, has_splits=has_splits)
        if depth is None:
            continue
        tops = {path.partition("/")[0] for path in tree.paths}
        is_unclear = not has_splits and any(map(split_word, tops))
        return (
            *(("--layout", "classes") if is_unclear else ()),
            *(("--class-depth", str(depth or "leaf")) if depth != 1 else ()),
        )
    return None


def _class_depth(tree: Tree, splits: Sequence[str], *, has_splits: bool) -> int | None:
    """Return how many folders name the class of every image; None if they do not."""
    if not has_splits and set(splits) != {TRAIN}:
        return None
    depths, bare, homes = set(), set(), dict[str, str]()
    is_leaf = True
    for path, row, split in zip(tree.paths, tree.rows, splits, strict=True):
        folders = path.split("/")[:-1]
        if has_splits:
            top = folders.pop(0) if folders else ""
            if split_word(top) != split or homes.setdefault(split, top) != top:
                return None
        if not row.labels:  # a folder of test images, without classes
            if not has_splits or split != TEST or folders:
                return None
            bare.add(split)
            continue
        name = tree.classes[row.labels[0]] if row.labels[0] < len(tree.classes) else ""
        depth = name.count("/") + 1
        if not name or normalize("NFC", "/".join(folders[:depth])) != name:
            return None
        is_leaf = is_leaf and len(folders) == depth
        depths.add((split, depth))
    if any(split in bare for split, _ in depths):
        return None
    found = {depth for _, depth in depths}
    if len(found) == 1:
        return found.pop()
    return LEAF if is_leaf and found else None


def _manifest(tree: Tree, splits: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
    """Return a table of what the records say, and the options that read it."""
    columns = {name: type(value) for name, value in tree.rows[0].columns.items()}
    # Records sort their columns; the report tells them in the order that they were asked for in.
    columns = {name: columns[name] for name in sorted(columns, key=lambda n: _told(tree, n))}
    split_column, group_column = _SPLIT, _GROUP
    while split_column in columns:
        split_column += "_"
    while group_column in columns:
        group_column += "_"
    has_splits = set(splits) != {TRAIN}
    separator = _separator(tree.classes) if tree.is_multilabel else ""
    label_column = _LABELS if tree.is_multilabel else _LABEL
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    own = [split_column] * has_splits + [group_column] * bool(tree.groups)
    table.writerow([_PATH, label_column, *own, *columns])
    groups = [[group] for group in tree.groups] or [[]] * len(tree.rows)
    for path, row, split, group in zip(tree.paths, tree.rows, splits, groups, strict=True):
        names = separator.join(tree.classes[label] for label in row.labels)
        extras = [row.columns.get(name, "") for name in columns]
        cells = [path, names, *((split,) if has_splits else ()), *group, *extras]
        # Without quotes a carriage return would be taken for the end of its line.
        (quoted if any("\r" in str(cell) for cell in cells) else table).writerow(cells)
    options = ["--path-col", _PATH, "--label-col", label_column]
    options += ["--split-col", split_column] if has_splits else []
    options += ["--group-col", group_column] if tree.groups else []
    options += ["--label-sep", separator] if separator else []
    for name, kind in columns.items():
        options += ["--column", f"{name}:{_KINDS.get(kind, ColumnKind.TEXT)}"]
    return printable(out.getvalue()).encode(), tuple(options)


def _told(tree: Tree, column: str) -> int:
    return tree.layout.find(f", {column} -> ")


def _separator(classes: Sequence[str]) -> str:
    """Return what no class name holds."""
    used = set().union(*classes)
    return next(char for char in chain(_SEPARATORS, map(chr, _PRIVATE)) if char not in used)


def _class_lines(tree: Tree) -> bytes:
    """Return the class names, if packing again would not find them in the same order."""
    found = {tree.classes[label] for row in tree.rows for label in row.labels}
    usual = usual_order(found, ClassOrder.NATURAL)
    return "".join(f"{name}\n" for name in tree.classes).encode() if usual != tree.classes else b""


def _pack_options(options: Mapping[str, object], *, splits_again: bool) -> Iterator[str]:
    for name, default in _DEFAULTS.items():
        value = options.get(name, default)
        if value == default or (name in _SPLITTING and not splits_again):
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from (f"--{_CALLED.get(name, name.replace('_', '-'))}", str(one))
