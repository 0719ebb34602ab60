"""What makes it doubtful that folders are classes."""

from __future__ import annotations

import re

from imgrec.errors import SourceError
from imgrec.options import SourceOptions
from imgrec.source.download.folder_tree import Node, folders_below, within
from imgrec.source.download.words import derived_from, is_container, is_derived, split_in

_PERSON = re.compile(
    r"(patient|pat|subject|subj|sub|participant|person|people|user|case|study|session)[-_ ]*\d",
    re.I,
)


def refuse_doubtful(root: str, node: Node, options: SourceOptions) -> None:
    """Raise SourceError if the folders in a folder may not be classes as they are.

    `--class-depth` and `--label-regex` say where classes are, and `--yes` that all is well.
    """
    if options.class_depth is None and not options.label_regex and not options.yes:
        _refuse_hashed(root, node)
        _refuse_people(root, node)
        _refuse_inner_splits(root, node)
        _refuse_unclear_depth(root, node)
    if not options.yes:
        for inner in node.below.values():
            _refuse_derived(root, inner)


def refuse_only_class(root: str, node: Node, options: SourceOptions) -> None:
    """Raise SourceError for a folder whose images would all be of one class."""
    if options.class_depth is not None or options.label_regex or options.yes:
        return
    (name, inner), *_ = node.below.items()
    hint = "put each class into a folder of its own, or pass --yes to pack all as one class"
    if inner.below:
        folders = f"{len(inner.below)} folders" if len(inner.below) > 1 else "only folder"
        hint = (
            f"pass --class-depth 2 if its {folders} are the classes, or --yes to pack all as "
            "one class"
        )
    raise SourceError(f"{within(root, node)}: {name} would be the only class", hint=hint, path=root)


def _refuse_people(root: str, node: Node) -> None:
    """Raise SourceError for folders of patients and the like, which are no classes."""
    if node.below and all(map(_PERSON.match, node.below)):
        raise SourceError(
            f"{within(root, node)}: folders such as {min(node.below)} seem to be groups of images "
            "that belong together, and no classes",
            hint="name the table of labels with --manifest, take the class from file names with "
            "--label-regex, or pass --yes if they are the classes",
            path=root,
        )


def _refuse_inner_splits(root: str, node: Node) -> None:
    """Raise SourceError for folders that hold splits, which classes do not."""
    for inner in node.below.values():
        for folder in folders_below(inner):
            splits = [name for name in folder.below if split_in(name)]
            if splits and not folder.images:
                raise SourceError(
                    f"{within(root, node)}: {inner.path} would be a class, but {folder.path} holds "
                    f"the folder {splits[0]}, which may be a split",
                    hint=f"pack {within(root, folder)} instead, or pass --yes if the folders in "
                    f"{within(root, node)} are the classes",
                    path=root,
                )


def _refuse_unclear_depth(root: str, node: Node) -> None:
    """Raise SourceError if classes may be one level down or deeper."""
    for name, inner in node.below.items():
        folders = [below for below in inner.below if not is_container(below)]
        if inner.images or len(folders) < 2:
            continue
        example = f"{name}/{folders[0]}"
        raise SourceError(
            f"{within(root, node)}: the class may be {name} or {example}, as {name} holds "
            f"{len(folders)} folders of images and no image",
            hint=f"pass --class-depth 1 for {name}, --class-depth 2 for {example}, or "
            "--class-depth leaf for the folder of each image",
            path=root,
        )


def _refuse_derived(root: str, node: Node) -> None:
    """Raise SourceError for masks and the like among the images of a class."""
    for folder in folders_below(node):
        name = folder.path.rpartition("/")[2]
        if folder is not node and is_derived(name):
            raise SourceError(
                f"{root}: {folder.path}/ seems to hold no images of a class",
                hint=f"leave it out with --exclude '*/{name}/*', or pass --yes to pack it",
                path=root,
            )
        stems = {image.rpartition(".")[0] for image in folder.images}
        derived = {stem: derived_from(stem) for stem in stems}
        made = sorted(stem for stem, (origin, _) in derived.items() if origin in stems)
        if made:
            word = derived[made[0]][1]
            raise SourceError(
                f"{root}: {folder.path}/ holds {made[0]!r} beside {derived[made[0]][0]!r}, so it "
                "seems to be no image of a class",
                hint=f"leave such files out with --exclude '*{word}*', or pass --yes to pack them",
                path=root,
            )


def _refuse_hashed(root: str, node: Node) -> None:
    """Raise SourceError for folders that only spread files: a/b/c/abc1.jpg."""
    if any(len(name) > 2 for name in node.below):
        return
    inner = [below for child in node.below.values() for below in child.below]
    if inner and all(len(name) <= 2 for name in inner):
        raise SourceError(
            f"{within(root, node)}: folders such as {_example(node)} spread files, and name no "
            "class",
            hint="name the table of labels with --manifest, or pass --class-depth",
            path=root,
        )


def _example(node: Node) -> str:
    parts = []
    while node.below:
        name = min(node.below)
        parts.append(name)
        node = node.below[name]
    return "/".join(parts)
