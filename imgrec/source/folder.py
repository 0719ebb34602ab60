"""Class folders: `root/<class>/**/image` or `root/<split>/<class>/**/image`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from imgrec.errors import SourceError
from imgrec.model import Catalog, Samples, Skipped, picked
from imgrec.options import LEAF, SourceKind, SourceOptions
from imgrec.source.context import Context
from imgrec.source.places import BESIDE, OUTSIDE, Place, Places, make_places
from imgrec.source.probe import contents
from imgrec.source.split_lists import refuse_split_lists
from imgrec.source.splits import has_images, split_folders
from imgrec.source.tree import Folder, Lister, Tree, look_at, refuse_closed
from imgrec.source.walk import Walk
from imgrec.text import name_of

_OTHER = "not an image"
_NO_LABEL = "its name does not match --label-regex"


@dataclass(slots=True)
class _ClassFiles:
    """The files meant as images of classes: those that may be, and those that are not."""

    good: list[int] = field(default_factory=list)
    """Their numbers in the tree."""
    class_names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    bad: list[Skipped] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)
    """Of them all."""

    def add(self, numbers: Sequence[int], place: Place) -> None:
        """Add files of one place."""
        self.good += numbers
        self.class_names += [place.class_name] * len(numbers)
        self.splits += [place.split] * len(numbers)
        self.places.add(place)


def scan(root: str, context: Context) -> Catalog:
    """List a folder and look at the beginning of each of its files.

    Raises SourceError if there is nothing to pack.
    """
    name = name_of(os.path.basename(os.path.abspath(root))) or "root"
    return catalog_of(name, Walk(root, context.options.follow_links), context)


def catalog_of(name: str, lister: Lister, context: Context) -> Catalog:
    """Find the classes in a tree of class folders, wherever it is."""
    options, root = context.options, lister.root
    tree = look_at(lister, context)
    refuse_closed(lister, options)
    splits = split_folders(root, tree.folders, options)
    if not splits and options.kind is SourceKind.AUTO:
        refuse_split_lists(root, tree)
    tops = {folder.path: folder for folder in tree.folders}
    places = make_places(splits, tops, options)
    files = _files_of_classes(tree, places, lister)
    bad = [*lister.bad, *files.bad]
    samples = _samples(tree, files, context)
    if not samples and not bad:
        raise _nothing_to_pack(root, tree.folders, places)
    class_folders = _class_folders(files)
    return Catalog(
        name=name,
        layout=_layout(options, places),
        samples=samples,
        class_folders=class_folders,
        bad=tuple(sorted(bad)),
        ignored=lister.tally.ignored(),
        warnings=(
            *lister.warnings,
            *_empty_classes(tree.folders, places, class_folders),
            *_doubts(tree.folders, places, class_folders),
        ),
        stamp=tree.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _layout(options: SourceOptions, places: Places) -> str:
    if options.label_regex:
        inner = f"image named by {options.label_regex}"
    elif options.class_depth == LEAF:
        inner = "<class>/image, classes at any depth"
    else:
        inner = "/".join(["<class>"] * options.class_depth) + "/**/image"
    bare = f", {places.unlabelled}/ without labels" if places.unlabelled else ""
    return f"<split>/{inner}{bare}" if places.splits else inner


def _files_of_classes(tree: Tree, places: Places, lister: Lister) -> _ClassFiles:
    """Pick the files of classes that are meant as images; count the others."""
    files = _ClassFiles()
    by_name = places.label_regex is not None
    odd = tree.others | tree.faults.keys()
    end = 0
    for folder in tree.folders:
        start, end = end, end + len(folder.files)
        place = places.of_folder(folder.path)
        if isinstance(place, str):
            for number in range(start, end):
                lister.tally.add(place, tree.names[number])
            continue
        if not by_name and odd.isdisjoint(range(start, end)):
            if start < end:
                files.add(range(start, end), place)
            continue
        for number in range(start, end):
            if number in tree.others:
                lister.tally.add(_OTHER, tree.names[number])
                continue
            if by_name:
                place = places.of_file(folder.path, folder.files[number - start])
            if isinstance(place, str):
                files.bad.append(Skipped(tree.names[number], _NO_LABEL))
            elif number in tree.faults:
                files.bad.append(Skipped(tree.names[number], tree.faults[number]))
                files.places.add(place)
            else:
                files.add((number,), place)
    return files


def _samples(tree: Tree, files: _ClassFiles, context: Context) -> Samples:
    sizes = picked(tree.sizes, files.good)
    keys = picked(tree.keys, files.good)
    blobs = picked(tree.blobs, files.good)
    names = picked(tree.names, files.good)
    return Samples(
        filenames=names,
        class_names=tuple(files.class_names),
        splits=tuple(files.splits),
        sizes=sizes,
        contents=tuple(contents(names, blobs, sizes, keys, context.run)),
        blobs=blobs,
    )


def _class_folders(files: _ClassFiles) -> dict[str, tuple[str, ...]]:
    """Return the folders of each class that holds at least one file meant as an image."""
    found: dict[str, set[str]] = defaultdict(set)
    for place in files.places:
        if place.class_name:
            found[place.class_name].add(place.class_folder)
    return {name: tuple(sorted(folders)) for name, folders in sorted(found.items())}


def _empty_classes(
    folders: Sequence[Folder], places: Places, class_folders: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    filled = {path for paths in class_folders.values() for path in paths}
    for folder in folders:
        place = places.of_folder(folder.path)
        if isinstance(place, str) or folder.path != place.class_folder or not place.class_name:
            continue
        holds_classes = places.class_depth == LEAF and folder.has_folders
        if folder.path not in filled and not holds_classes:
            yield f"{folder.path}: no images in this class folder, so it gets no label"


def _doubts(
    folders: Sequence[Folder], places: Places, class_folders: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    splits = places.splits
    with_images = [folder for folder in folders if has_images(folder)]
    where = {folder.path: places.of_folder(folder.path) for folder in with_images}
    beside = sorted({path.split("/")[0] for path, place in where.items() if place == BESIDE})
    if beside:
        yield (
            f"{', '.join(beside)}: not packed, as they stand beside the split folders "
            f"{', '.join(sorted(splits))}; if all are classes, pass --layout classes"
        )
    if outside := [path or "the source" for path, place in where.items() if place == OUTSIDE]:
        yield f"images right in {', '.join(outside)} are not packed: they are in no class folder"
    if len(class_folders) == 1 and not splits and places.class_depth == 1:
        (name,) = class_folders
        inner = [folder.path for folder in folders if folder.path.count("/") == 1]
        if len(inner) > 1 and not places.label_regex:
            yield (
                f"{name} is the only class; if its {len(inner)} folders are the classes, "
                f"pack the folder {name} itself, or pass --class-depth 2"
            )


def _nothing_to_pack(root: str, folders: Sequence[Folder], places: Places) -> SourceError:
    splits, depth = places.splits, places.class_depth
    where = f"in the class folders of {', '.join(splits)}" if splits else "in class folders"
    what = f"{root} has no images {where}"
    hint = "put the images of each class into a folder of their own, as in roses/1.jpg"
    found = [folder.path for folder in folders if has_images(folder)]
    deepest = max((path.count("/") + 1 for path in found if path), default=0)
    if found == [""]:
        what = f"{root} has images right in it, which no folder gives a class"
        hint += ", or let --label-regex or a table name the classes"
    elif not splits and 0 < deepest < depth:
        what = f"{root} has no images as deep as --class-depth {depth} says"
        hint = f"pass --class-depth {deepest}"
    return SourceError(what, hint=hint, path=root)
