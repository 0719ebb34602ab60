"""How unpacked files are packed again: the command, and the table that it may need."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple
from unicodedata import normalize

from imgrec.errors import SourceError
from imgrec.inspect.source_layout import column_place
from imgrec.inspect.unpack.images import Image
from imgrec.model import FOLD, TEST, TRAIN, UNLABELLED, VAL
from imgrec.options import LEAF, ClassOrder, ColumnKind, FolderLayout, SourceOptions
from imgrec.plan.classes import usual_order
from imgrec.source.download.folders import read_folders
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
    images: Sequence[Image]
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
    source_splits = [TRAIN if image.split in made else image.split for image in tree.images]
    if any(split_word(split) != split for split in set(source_splits)):
        return None
    if not tree.is_multilabel and any(
        not image.labels and split != TEST
        for image, split in zip(tree.images, source_splits, strict=True)
    ):
        return None
    if len(tree.groups) != len(tree.images) or (splits_again and tree.options.get("group_by")):
        tree = replace(tree, groups=())  # names tell them again
    folders = _folder_options(tree, source_splits)
    if folders is not None:
        manifest, reading = b"", tuple(_spelled(folders))
    else:
        manifest, reading = _manifest(tree, source_splits)
    classes = _class_lines(tree)
    flags = {"--yes": folders is not None and folders.yes, "--keep-case": alike(tree.classes)}
    options = (
        *reading,
        *(("--classes", CLASSES_FILE) if classes else ()),
        *_pack_options(tree.options, splits_again=splits_again),
    )
    return Recipe(options, manifest, classes, tuple(name for name, on in flags.items() if on))


def _made(tree: Tree) -> set[str]:
    """Return the splits that the pack made out of train."""
    options = tree.options
    made = {split for split in (VAL, TEST) if options.get(f"{split}_split")}
    if options.get("folds"):
        made |= {image.split for image in tree.images if image.split.startswith(FOLD)}
    return made


def _folder_options(tree: Tree, splits: Sequence[str]) -> SourceOptions | None:
    """Return the options with which folders tell labels and splits; None if they do not."""
    has_more = tree.is_multilabel or tree.groups or any(image.columns for image in tree.images)
    if has_more or _is_wrapped(tree.paths):
        return None
    folders: dict[str, list[str]] = {}
    wanted: dict[str, tuple[str, str]] = {}
    for path, image, split in zip(tree.paths, tree.images, splits, strict=True):
        folder, _, name = path.rpartition("/")
        label = image.labels[0] if image.labels else UNLABELLED
        class_name = tree.classes[label] if 0 <= label < len(tree.classes) else ""
        if wanted.setdefault(folder, (split, class_name)) != (split, class_name):
            return None
        folders.setdefault(folder, []).append(name)
    depths = {name.count("/") + 1 for _, name in wanted.values() if name}
    for options in _readings(depths):
        if _is_read_so(folders, wanted, options):
            return options
    return None


def _is_wrapped(paths: Iterable[str]) -> bool:
    """Tell whether files are all below one folder, which packing would look into."""
    parts = [path.split("/") for path in paths]
    tops = {found[0] for found in parts}
    return len(tops) == 1 and all(len(found) > 2 for found in parts)


def _readings(depths: Iterable[int]) -> Iterator[SourceOptions]:
    """Yield the ways to read folders, the simplest first."""
    for layout in FolderLayout:
        for yes in (False, True):
            yield SourceOptions(layout=layout, yes=yes)
        for depth in (*sorted(depths), LEAF):
            yield SourceOptions(layout=layout, class_depth=depth, yes=False)
            yield SourceOptions(layout=layout, class_depth=depth, yes=True)


def _is_read_so(
    folders: Mapping[str, Sequence[str]],
    wanted: Mapping[str, tuple[str, str]],
    options: SourceOptions,
) -> bool:
    """Tell whether options give the images of each folder the split and class they should have."""
    try:
        reading = read_folders("", folders, options, has_sample=False)
    except SourceError:
        return False
    places = reading.places()
    for folder, (split, class_name) in wanted.items():
        place = places.of_folder(folder)
        if isinstance(place, str) or reading.label_regex or places.root_of(folder) in reading.flat:
            return False
        if (place.split or TRAIN, normalize("NFC", place.class_name)) != (split, class_name):
            return False
    return True


def _spelled(options: SourceOptions) -> Iterator[str]:
    if options.layout is not FolderLayout.AUTO:
        yield from ("--layout", options.layout)
    if options.class_depth is not None:
        yield from ("--class-depth", str(options.class_depth or "leaf"))


def _manifest(tree: Tree, splits: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
    """Return a table of what the records say, and the options that read it."""
    columns = {name: type(value) for name, value in tree.images[0].columns.items()}
    # Records sort their columns; the report tells them in the order that they were asked for in.
    ordered = sorted(columns, key=lambda name: column_place(tree.layout, name))
    columns = {name: columns[name] for name in ordered}
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
    groups = [[group] for group in tree.groups] or [[]] * len(tree.images)
    for path, image, split, group in zip(tree.paths, tree.images, splits, groups, strict=True):
        names = separator.join(tree.classes[label] for label in image.labels)
        extras = [image.columns.get(name, "") for name in columns]
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


def _separator(classes: Sequence[str]) -> str:
    """Return what no class name holds."""
    used = set().union(*classes)
    return next(char for char in chain(_SEPARATORS, map(chr, _PRIVATE)) if char not in used)


def _class_lines(tree: Tree) -> bytes:
    """Return the class names, if packing again would not find them in the same order."""
    found = {tree.classes[label] for image in tree.images for label in image.labels}
    usual = usual_order(found, ClassOrder.NATURAL)
    return "".join(f"{name}\n" for name in tree.classes).encode() if usual != tree.classes else b""


def _pack_options(options: Mapping[str, object], *, splits_again: bool) -> Iterator[str]:
    for name, default in _DEFAULTS.items():
        value = options.get(name, default)
        if value == default or (name in _SPLITTING and not splits_again):
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from (f"--{_CALLED.get(name, name.replace('_', '-'))}", str(one))
