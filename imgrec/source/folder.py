"""Class folders: `root/<class>/**/image` or `root/<split>/<class>/**/image`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.notes import Note, warnings_of
from imgrec.options import LEAF, SourceKind
from imgrec.source.split_lists import refuse_split_lists
from imgrec.source.tree import (
    Context,
    Folder,
    Lister,
    Tree,
    has_image_name,
    look_at,
    notes_of,
    refuse_closed,
)
from imgrec.text import globs_pattern, picked

OUTSIDE = "outside a class folder"
BESIDE = "beside the split folders"


class Place(NamedTuple):
    """What the path of an image says of it."""

    split: str
    class_name: str
    """"" for an image without a class."""
    class_folder: str
    """Where the class is found, for messages."""


@dataclass(frozen=True, slots=True)
class Places:
    """The meaning of paths in one source."""

    roots: Mapping[str, str]
    """The folders that classes are in, each with its split; "" is the source, or no split."""
    unlabelled: frozenset[str] = frozenset()
    """Those of the roots whose images have no class."""
    class_depth: int = 1
    label_regex: re.Pattern[str] | None = None
    _seen: dict[str, Place | str] = field(default_factory=dict)

    def of_folder(self, path: str) -> Place | str:
        """Return what a folder says of the images in it, or why they are passed over."""
        if path not in self._seen:
            self._seen[path] = self._read(path)
        return self._seen[path]

    def of_file(self, folder: str, name: str) -> Place | str:
        """Return what the name of a file says of it; "" if it says nothing."""
        place = self.of_folder(folder)
        if self.label_regex is None or not isinstance(place, Place) or self._is_bare(place):
            return place
        match = self.label_regex.search(name)
        label = picked(match, "label") if match else ""
        return Place(place.split, label, folder) if label else ""

    @property
    def splits(self) -> Mapping[str, str]:
        """The roots that are splits."""
        return {path: split for path, split in self.roots.items() if split}

    def root_of(self, folder: str) -> str | None:
        """Return the root that a folder is in, or None."""
        while folder not in self.roots:
            if not folder:
                return None
            folder = folder.rpartition("/")[0]
        return folder

    def _is_bare(self, place: Place) -> bool:
        return place.class_folder in self.unlabelled

    def _read(self, path: str) -> Place | str:
        root = self.root_of(path)
        if root is None:
            return BESIDE if path and not self._is_above(path) else OUTSIDE
        split = self.roots[root]
        if root in self.unlabelled:
            return Place(split, "", root)
        if self.label_regex is not None:
            return Place(split, "", path)
        below = path[len(root) :].strip("/").split("/") if path != root else []
        depth = self.class_depth if self.class_depth != LEAF else max(len(below), 1)
        if len(below) < depth:
            return OUTSIDE
        class_name = "/".join(below[:depth])
        return Place(split, class_name, f"{root}/{class_name}" if root else class_name)

    def _is_above(self, path: str) -> bool:
        return any(root.startswith(f"{path}/") for root in self.roots)


_OTHER = "not an image"
_NO_LABEL = "its name does not match --label-regex"


@dataclass(slots=True)
class _ClassFiles:
    """The files meant as images of classes: those that may be, and those that are not."""

    good: list[int] = field(default_factory=list)
    """Their numbers in the tree."""
    class_names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    bad: list[Note] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)
    """Of them all."""

    def add(self, numbers: Sequence[int], place: Place) -> None:
        """Add files of one place."""
        self.good += numbers
        self.class_names += [place.class_name] * len(numbers)
        self.splits += [place.split] * len(numbers)
        self.places.add(place)


def has_images(folder: Folder) -> bool:
    """Tell whether images, by their names, are right in a folder."""
    return any(map(has_image_name, folder.files))


def catalog_of(lister: Lister, context: Context, places: Places) -> Catalog:
    """List the classes of a tree of class folders, wherever it is."""
    root = lister.root
    tree = look_at(lister, context)
    refuse_closed(lister, context.options)
    if not places.splits and context.options.kind is SourceKind.AUTO:
        refuse_split_lists(root, tree)
    files = _files_of_classes(tree, places, lister)
    samples = tree.samples(files.good, files.class_names, files.splits, context.run)
    if not (samples or lister.bad or files.bad):
        raise _nothing_to_pack(root, tree.folders, places)
    class_folders = _class_folders(files)
    return Catalog(
        name="",
        layout=_layout(places),
        samples=samples,
        class_folders=class_folders,
        notes=(
            *notes_of(lister),
            *sorted(files.bad),
            *warnings_of(_empty_classes(tree.folders, places, class_folders)),
            *warnings_of(_misplaced(tree.folders, places, globs_pattern(context.options.exclude))),
        ),
        stamp=tree.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _layout(places: Places) -> str:
    if places.label_regex is not None:
        inner = f"image named by {places.label_regex.pattern}"
    elif places.class_depth == LEAF:
        inner = "<class>/image, classes at any depth"
    else:
        inner = "/".join(["<class>"] * places.class_depth) + "/**/image"
    bare = "".join(f", {path}/ without labels" for path in sorted(places.unlabelled))
    if places.splits:
        above = {path.rpartition("/")[0] for path in places.roots}
        if above == {""}:
            return f"<split>/{inner}{bare}"
        roots = f"{above.pop()}/<split>" if len(above) == 1 else ", ".join(sorted(places.roots))
        return f"{roots}/{inner}{bare}"
    return ", ".join(f"{top}/{inner}" if top else inner for top in sorted(places.roots))


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
                files.bad.append(Note(tree.names[number], _NO_LABEL))
            elif number in tree.faults:
                files.bad.append(Note(tree.names[number], tree.faults[number]))
                files.places.add(place)
            else:
                files.add((number,), place)
    return files


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


def _misplaced(
    folders: Sequence[Folder], places: Places, left_out: re.Pattern[str]
) -> Iterator[str]:
    """Warn of images that are not packed because of where they are."""
    with_images = [
        folder
        for folder in folders
        if has_images(folder)
        and not all(left_out.match(f"{folder.path}/{name}") for name in folder.files)
    ]
    where = {folder.path: places.of_folder(folder.path) for folder in with_images}
    beside = sorted({path.split("/")[0] for path, place in where.items() if place == BESIDE})
    if beside:
        yield (
            f"{', '.join(beside)}: not packed, as they stand beside "
            f"{', '.join(sorted(places.roots))}; if all are classes, pass --layout classes"
        )
    if outside := [path or "the source" for path, place in where.items() if place == OUTSIDE]:
        yield f"images right in {', '.join(outside)} are not packed: they are in no class folder"


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
