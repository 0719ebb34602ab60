"""Restoring the files that a dataset was packed from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.errors import UsageError
from imgrec.inspect.source_layout import array_kind
from imgrec.inspect.subject import Job
from imgrec.inspect.unpack.images import Image, file_paths, list_images, write_images
from imgrec.inspect.unpack.names import refuse_unfit
from imgrec.inspect.unpack.recipe import CLASSES_FILE, Recipe, Tree, make_recipe
from imgrec.outcome import DatasetInfo, Report
from imgrec.read.documents import read_documents
from imgrec.read.files import present_files, read_document
from imgrec.read.samples import read_groups
from imgrec.storage.tree import NewTree, write_new
from imgrec.storage.urls import is_url
from imgrec.text import printable

_MOVED = "names begin with their split now, so that packed again they give other bytes"
_OTHER_SPLITS = (
    "images that are not as they were in the source may get into other splits when they are packed "
    "again; unpacked with --splits, they stay where they are"
)
_FEWER = (
    "without the files that were skipped, images may get into other splits or shards when they are "
    "packed again"
)
_SAMPLE = "{} is not taken along when the images are packed again: keep it for imgrec submit"
_DIVIDING = ("val_split", "test_split", "folds")
_MANIFEST, _CLASSES = "manifest.csv", "classes.txt"


class Wanted(NamedTuple):
    """What is to be unpacked, and how."""

    split: str = ""
    """The records, as TFDS writes them; all if it is empty."""
    split_folders: bool = False
    """Whether each split gets a folder."""


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
    """How many were re-encoded when they were packed, and so are not the bytes of their files."""
    resized: int
    """How many were shrunk when they were packed."""
    skipped: int
    """How many files of the source were not packed."""
    manifest: str
    """The path of the table with all that folders do not tell; "" if they tell all."""
    pack_again: tuple[str, ...]
    """The command that packs it again; empty where none could."""
    notes: tuple[str, ...]
    """What else is not as it was before it was packed."""


def unpack_folder(folder: Path, target: str, wanted: Wanted, job: Job) -> Unpacked:
    """Write every image of a dataset under its name below `target`, all of them or none.

    Raises DatasetError if the dataset is damaged or names cannot be files of their own below
    `target`, UsageError if something is there already or it is on no disk, and ExecutionError if
    the disk is full.
    """
    if is_url(target):
        raise UsageError(
            f"{target} is on an object store, and images are unpacked to a disk",
            hint="give a folder on this machine",
        )
    documents = read_documents(folder, present_files(folder), report=True)
    info, report = documents.info(), documents.report
    if Path(target).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} is inside the dataset itself", hint="give another folder")
    with NewTree(target) as tree:
        images = list_images(folder, info, wanted.split, job)
        paths = file_paths(images, info.classes, split_folders=wanted.split_folders)
        refuse_unfit(paths, tree.probe(), str(folder))
        root = str(tree.path)
        written = write_images(info, dict(zip(paths, images, strict=True)), root, job)
        unnamed = len(images) if not images[0].filename else 0
        is_moved = not unnamed and paths[0] != images[0].filename
        groups = _groups(folder, images)
        recipe = make_recipe(
            Tree(
                paths=paths,
                images=images,
                groups=groups,
                classes=info.classes or _numbers(images),
                is_multilabel=(folder / layout.SEQUENCE_LABELS).exists(),
                options=report.options if report else {},
                layout=report.layout if report else "",
                has_split_folders=is_moved or bool(unnamed),
            )
        )
        sample = _read(folder / layout.SUBMISSION)
        beside = _write_beside(recipe, sample, paths, root)
        tree.publish()
    is_whole = len(images) == sum(split.examples for split in info.splits)
    return Unpacked(
        name=info.name,
        version=info.version,
        path=str(tree.target),
        images=len(images),
        unnamed=unnamed,
        bytes=written,
        transcoded=len(report.transcoded) + report.unlisted_transcoded if report else 0,
        resized=report.resized.total if report and report.resized else 0,
        skipped=len(report.skipped) if report else 0,
        manifest=str(tree.target / beside[_MANIFEST]) if _MANIFEST in beside else "",
        pack_again=tuple(_command(info, recipe, target, beside)) if recipe and is_whole else (),
        notes=(
            *_notes(report, paths, recipe, is_moved=is_moved, has_groups=bool(groups)),
            *((_SAMPLE.format(beside[layout.SUBMISSION]),) if sample else ()),
        ),
    )


def _groups(folder: Path, images: Sequence[Image]) -> list[str]:
    """Return the group of each image; nothing if they are not all known."""
    known = read_groups(folder)
    places = [(known.get(image.shard, ()), image.place) for image in images]
    return [found[at] for found, at in places if at < len(found)] if known else []


def _read(path: Path) -> bytes:
    """Return a document of a dataset; b"" if there is none that can be read."""
    try:
        return read_document(path)
    except OSError:
        return b""


def _numbers(images: Sequence[Image]) -> tuple[str, ...]:
    """Return names for classes that have none."""
    highest = max((label for image in images for label in image.labels), default=-1)
    return tuple(map(str, range(highest + 1)))


def _write_beside(
    recipe: Recipe | None, sample: bytes, paths: Sequence[str], root: str
) -> dict[str, str]:
    """Write what packing again needs, and the sample, under names that no image has."""
    contents = {_MANIFEST: recipe.manifest, _CLASSES: recipe.classes} if recipe else {}
    contents |= {layout.SUBMISSION: sample}
    tops = {path.partition("/")[0].casefold() for path in paths}
    beside = {}
    for usual, data in contents.items():
        name = usual
        while name.casefold() in tops:
            name = f"_{name}"
        if data:
            write_new(root, name, data, set())
            beside[usual] = name
    return beside


def _command(
    info: DatasetInfo, recipe: Recipe, target: str, beside: Mapping[str, str]
) -> Iterator[str]:
    """Yield the words of the command that packs a tree again."""
    target = os.path.join(".", target) if target.startswith("-") else target
    source = os.path.join(target, beside[_MANIFEST]) if _MANIFEST in beside else target
    yield from ("imgrec", "pack", source, "--name", info.name)
    if info.version != "1.0.0":
        yield from ("--version", info.version)
    yield from recipe.flags
    for option, said in zip(recipe.options[::2], recipe.options[1::2], strict=True):
        value = os.path.join(target, beside[_CLASSES]) if said == CLASSES_FILE else said
        yield from (f"{option}={value}",) if value.startswith("-") else (option, value)


def _notes(
    report: Report | None,
    paths: Sequence[str],
    recipe: Recipe | None,
    *,
    is_moved: bool,
    has_groups: bool,
) -> Iterator[str]:
    if is_moved:
        yield _MOVED
    if array_kind(report):
        yield "images that were bare pixels are PNGs now"
    is_divided = report and any(report.options.get(key) for key in _DIVIDING) and not is_moved
    if report and is_divided and (report.transcoded or report.resized or array_kind(report)):
        yield _OTHER_SPLITS
    elif report and report.skipped and not is_moved:
        yield _FEWER
    if report and report.options.get("group_col") and not has_groups:
        yield "the dataset does not tell the groups of --group-col; the table has splits instead"
    odd = [path for path in paths if printable(path) != path]
    if recipe and recipe.manifest and odd:
        yield f"the table cannot name files whose names are not UTF-8, such as {printable(odd[0])}"
