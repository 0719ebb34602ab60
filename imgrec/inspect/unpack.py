"""Unpack a dataset into the files it was packed from, with the command to pack them again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from imgrec import layout
from imgrec.codec.json_files import encode_table
from imgrec.errors import SourceError, UsageError
from imgrec.inspect.image_files import (
    Image,
    file_paths,
    list_images,
    refuse_bad_paths,
    write_images,
)
from imgrec.inspect.subject import Job
from imgrec.model import FOLD, TEST, TRAIN, UNLABELLED, VAL
from imgrec.notes import NoteKind
from imgrec.options import (
    LEAF,
    ClassOrder,
    ColumnKind,
    FolderLayout,
    PackOptions,
    SourceOptions,
)
from imgrec.options.declaration import declared_options
from imgrec.outcome import DatasetInfo, Report
from imgrec.planning.classes import usual_order
from imgrec.read.documents import read_documents
from imgrec.read.files import present_files, read_document
from imgrec.read.samples import read_groups
from imgrec.source.folder_layout import read_folders
from imgrec.source.words import split_word
from imgrec.spelling import alike
from imgrec.storage.paths import to_path
from imgrec.storage.trees import open_tree, tree_writer
from imgrec.text import number, printable

_MANIFEST, _CLASSES = "manifest.csv", "classes.txt"
_PATH, _LABEL, _LABELS, _SPLIT, _GROUP = "filename", "label", "labels", "split", "group"
"""Columns of the table. Records cannot have columns with the first three names."""
_KINDS = {int: ColumnKind.INT, float: ColumnKind.FLOAT, str: ColumnKind.TEXT}
_SPLITTING = ("val_split", "test_split", "folds", "group_by", "near_dups", "embeddings")
_REPEATED = (
    "val_split", "test_split", "folds", "seed", "shards", "shard_bytes", "check", "on_leak",
    "group_by", "near_dups", "embeddings", "alike", "compression", "also",
)  # fmt: skip
"""Options that packing again needs, as the report calls them."""
_FLAGS = {"shard_bytes": "shard_size"}
_SEPARATORS = "|;+&~^"
_PRIVATE = range(0xE000, 0xF900)
"""Characters that have no meaning, if class names have all separators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """The outcome of unpacking."""

    name: str
    version: str
    path: str
    images: int
    unnamed: int
    """How many images have no name in their records, and got one."""
    bytes: int
    transcoded: int
    """How many were re-encoded when they were packed, and so differ from their files."""
    resized: int
    """How many were shrunk when they were packed."""
    skipped: int
    """How many files of the source were not packed."""
    manifest: str
    """The path of the table of labels, splits and columns; "" if folders show all of them."""
    pack_again: tuple[str, ...]
    """The command that packs it again; empty if there is none."""
    notes: tuple[str, ...]
    """What else differs from the source."""

    def __repr__(self) -> str:
        images = number(self.images, "image")
        return f"<Unpacked {self.name} {self.version}: {images}, {self.path}>"


def unpack_folder(
    folder: Path, target: str, job: Job, *, split: str = "", split_folders: bool = False
) -> Unpacked:
    """Write every image of a dataset under its name below `target`, all of them or none.

    `split` selects records in the words of TFDS, by default all. With `split_folders`, each split
    gets a folder.

    Raises DatasetError if the dataset is damaged or has names that cannot be files below `target`,
    UsageError if `target` is not an empty folder, and ExecutionError if it cannot be written.
    """
    documents = read_documents(folder, present_files(folder), report=True)
    info, report = documents.info(), documents.report
    if to_path(target).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} is inside the dataset itself", hint="give another folder")
    with open_tree(target) as tree:
        images = list_images(folder, info, split, job)
        paths = file_paths(images, info.classes, split_folders=split_folders)
        refuse_bad_paths(paths, tree.probe(), str(folder))
        written = write_images(info, dict(zip(paths, images, strict=True)), str(tree.path), job)
        unnamed = len(images) if not images[0].filename else 0
        is_moved = not unnamed and paths[0] != images[0].filename
        files = _Files(
            info=info,
            target=target,
            paths=paths,
            images=images,
            groups=_groups(folder, images),
            classes=info.classes or _class_numbers(images),
            is_multilabel=(folder / layout.SEQUENCE_LABELS).exists(),
            report=report,
            has_split_folders=is_moved or bool(unnamed),
        )
        again = _pack_again(files)
        submission = _read(folder / layout.SUBMISSION)
        beside = again.files if again else {}
        if submission:
            beside = {**beside, files.free_name(layout.SUBMISSION): submission}
        with tree_writer(str(tree.path)) as write:
            for name, data in beside.items():
                write(name, data)
        tree.publish(len(images) + len(beside))
    is_whole = len(images) == sum(split.examples for split in info.splits)
    manifest = again.manifest if again else ""
    return Unpacked(
        name=info.name,
        version=info.version,
        path=str(tree.target),
        images=len(images),
        unnamed=unnamed,
        bytes=written,
        transcoded=len(report.transcoded) + report.unlisted(NoteKind.TRANSCODED) if report else 0,
        resized=report.resized.total if report and report.resized else 0,
        skipped=len(report.skipped) if report else 0,
        manifest=str(tree.target / manifest) if manifest else "",
        pack_again=again.command if again and is_whole else (),
        notes=tuple(
            _notes(files, is_moved=is_moved, manifest=manifest, has_submission=bool(submission))
        ),
    )


def _groups(folder: Path, images: Sequence[Image]) -> list[str]:
    """Return the group of each image; [] if they are not all known."""
    known = read_groups(folder)
    pairs = [(known.get(image.shard, ()), image.number) for image in images]
    groups = [found[at] for found, at in pairs if at < len(found)]
    return groups if len(groups) == len(images) else []


def _read(path: Path) -> bytes:
    try:
        return read_document(path)
    except OSError:
        return b""


def _class_numbers(images: Sequence[Image]) -> tuple[str, ...]:
    """Return names for classes that have none."""
    highest = max((label for image in images for label in image.labels), default=-1)
    return tuple(map(str, range(highest + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Unpacked files, and what they were in the dataset."""

    info: DatasetInfo
    target: str
    paths: Sequence[str]
    images: Sequence[Image]
    groups: Sequence[str]
    """The group of each; empty if there are none, or they are not known."""
    classes: tuple[str, ...]
    is_multilabel: bool
    report: Report | None
    has_split_folders: bool
    """Whether each split has become a folder."""

    @property
    def options(self) -> Mapping[str, object]:
        """The options of the pack, as far as they are known."""
        return self.report.options if self.report else {}

    @property
    def splits_again(self) -> bool:
        """Whether packing again can make the same splits: pins are not in the dataset."""
        pinned_by = ("group_col", "split_from", "split_file")
        return not self.has_split_folders and not any(map(self.options.get, pinned_by))

    def free_name(self, name: str) -> str:
        """Change the name of a file in the top folder until no image has it."""
        tops = {path.partition("/")[0].casefold() for path in self.paths}
        while name.casefold() in tops:
            name = f"_{name}"
        return name


def _notes(files: _Files, *, is_moved: bool, manifest: str, has_submission: bool) -> Iterator[str]:
    report, options = files.report, files.options
    is_divided = any(map(options.get, ("val_split", "test_split", "folds"))) and not is_moved
    has_pixels = bool(report and not report.layout.has_image_files)
    if is_moved:
        yield "names now begin with their split, so packing them again gives other bytes"
    if has_pixels:
        yield "images that were raw pixels are PNGs now"
    if report and is_divided and (report.transcoded or report.resized or has_pixels):
        yield (
            "images that differ from the source may get into other splits when they are packed "
            "again; unpack with --splits to keep the splits"
        )
    elif report and report.skipped and not is_moved:
        yield (
            "without the files that were skipped, images may get into other splits or shards when "
            "they are packed again"
        )
    if options.get("group_col") and not files.groups:
        yield "the dataset does not record the groups of --group-col; the table has splits instead"
    not_utf8 = [path for path in files.paths if printable(path) != path]
    if manifest and not_utf8:
        name = printable(not_utf8[0])
        yield f"the table cannot name files whose names are not UTF-8, such as {name}"
    if has_submission:
        name = files.free_name(layout.SUBMISSION)
        yield f"packing again does not take {name} along: keep it for imgrec submit"


class _PackAgain(NamedTuple):
    """How to pack unpacked files again."""

    command: tuple[str, ...]
    files: Mapping[str, bytes]
    """The files that the command needs, by name."""
    manifest: str
    """The name of the table to pack; "" if folders show labels and splits."""


def _pack_again(files: _Files) -> _PackAgain | None:
    """Return how to pack files again; None if no source can express what the dataset knows."""
    made = _made_splits(files) if files.splits_again else set()
    splits = [TRAIN if image.split in made else image.split for image in files.images]
    if any(split_word(split) != split for split in set(splits)):
        return None
    pairs = zip(files.images, splits, strict=True)
    if not files.is_multilabel and any(not i.labels and split != TEST for i, split in pairs):
        return None
    # Names show the groups of --group-by again.
    has_groups = files.groups and not (files.splits_again and files.options.get("group_by"))
    groups = files.groups if has_groups else ()
    target = os.path.join(".", files.target) if files.target.startswith("-") else files.target
    source, manifest = target, ""
    arguments: list[str] = []
    beside: dict[str, bytes] = {}
    folder_options = None if groups else _folder_options(files, splits)
    if folder_options is None:
        manifest = files.free_name(_MANIFEST)
        source = os.path.join(target, manifest)
        beside[manifest], arguments = _table(files, splits, groups)
    else:
        if folder_options.layout is not FolderLayout.AUTO:
            arguments += ["--layout", str(folder_options.layout)]
        if folder_options.class_depth is not None:
            arguments += ["--class-depth", str(folder_options.class_depth or "leaf")]
    found = {files.classes[label] for image in files.images for label in image.labels}
    if usual_order(found, ClassOrder.NATURAL) != files.classes:
        name = files.free_name(_CLASSES)
        beside[name] = "".join(f"{name}\n" for name in files.classes).encode()
        arguments += ["--classes", os.path.join(target, name)]
    arguments += _pack_options(files)
    command = ["imgrec", "pack", source, "--name", files.info.name]
    if files.info.version != "1.0.0":
        command += ["--version", files.info.version]
    command += ["--yes"] if folder_options and folder_options.yes else []
    command += ["--keep-case"] if alike(files.classes) else []
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        # Else argparse would take a value that begins with a dash for an option.
        command += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return _PackAgain(tuple(command), beside, manifest)


def _made_splits(files: _Files) -> set[str]:
    """Return the splits that the pack made out of train."""
    made = {split for split in (VAL, TEST) if files.options.get(f"{split}_split")}
    if files.options.get("folds"):
        made |= {image.split for image in files.images if image.split.startswith(FOLD)}
    return made


def _pack_options(files: _Files) -> Iterator[str]:
    declared = {**declared_options(SourceOptions), **declared_options(PackOptions)}
    for key in _REPEATED:
        name = _FLAGS.get(key, key)
        value = files.options.get(key, declared[name].default)
        if value == declared[name].default or (key in _SPLITTING and not files.splits_again):
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from (f"--{name.replace('_', '-')}", str(one))


def _folder_options(files: _Files, splits: Sequence[str]) -> SourceOptions | None:
    """Return the simplest options that read labels and splits from folders; None if none do."""
    has_more = files.is_multilabel or any(image.columns for image in files.images)
    if has_more or _is_wrapped(files.paths):
        return None
    folders: dict[str, list[str]] = {}
    wanted: dict[str, tuple[str, str]] = {}
    for path, image, split in zip(files.paths, files.images, splits, strict=True):
        folder, _, name = path.rpartition("/")
        label = image.labels[0] if image.labels else UNLABELLED
        class_name = files.classes[label] if 0 <= label < len(files.classes) else ""
        if wanted.setdefault(folder, (split, class_name)) != (split, class_name):
            return None
        folders.setdefault(folder, []).append(name)
    depths = {name.count("/") + 1 for _, name in wanted.values() if name}
    for folder_layout in FolderLayout:
        for depth in (None, *sorted(depths), LEAF):
            for yes in (False, True):
                options = SourceOptions(layout=folder_layout, class_depth=depth, yes=yes)
                if _gives(options, folders, wanted):
                    return options
    return None


def _is_wrapped(paths: Iterable[str]) -> bool:
    """Return whether all files are below one folder, which packing would look into."""
    parts = [path.split("/") for path in paths]
    return len({found[0] for found in parts}) == 1 and all(len(found) > 2 for found in parts)


def _gives(
    options: SourceOptions,
    folders: Mapping[str, Sequence[str]],
    wanted: Mapping[str, tuple[str, str]],
) -> bool:
    """Return whether options give each folder its split and class."""
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


def _table(files: _Files, splits: Sequence[str], groups: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return a table of what the records hold, and the options that read it."""
    kinds = {name: type(value) for name, value in files.images[0].columns.items()}
    # Records sort their columns; the layout lists them in the order in which they were asked for.
    # A column may have other uses before, such as that of groups.
    used = files.report.layout.columns if files.report else ()
    names = [name for name, use in used if use.endswith(" feature")]
    columns = sorted(kinds, key=lambda name: names.index(name) if name in names else -1)
    label_column = _LABELS if files.is_multilabel else _LABEL
    separator = _separator(files.classes) if files.is_multilabel else ""
    header = [_PATH, label_column]
    cells: list[Sequence[object]] = [
        files.paths,
        [separator.join(files.classes[label] for label in image.labels) for image in files.images],
    ]
    options = ["--path-col", _PATH, "--label-col", label_column]
    for usual, values in ((_SPLIT, splits if {*splits} != {TRAIN} else ()), (_GROUP, groups)):
        name = usual
        while name in columns:
            name += "_"
        if values:
            header.append(name)
            cells.append(values)
            options += [f"--{usual}-col", name]
    options += ["--label-sep", separator] if separator else []
    for name in columns:
        header.append(name)
        cells.append([image.columns.get(name, "") for image in files.images])
        options += ["--column", f"{name}:{_KINDS.get(kinds[name], ColumnKind.TEXT)}"]
    rows = (list(map(str, row)) for row in zip(*cells, strict=True))
    return encode_table(header, rows), options


def _separator(classes: Sequence[str]) -> str:
    """Return a character that no class name has."""
    used = set().union(*classes)
    return next(char for char in chain(_SEPARATORS, map(chr, _PRIVATE)) if char not in used)
