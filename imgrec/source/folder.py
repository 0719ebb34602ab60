"""Class folders: `root/<class>/**/image` or `root/<split>/<class>/**/image`."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import Catalog, Samples, Skipped
from imgrec.options import PackOptions
from imgrec.source.probe import BATCH, Batch, Probes, Run, contents, probe
from imgrec.source.splits import has_images, split_folders
from imgrec.source.walk import Folder, Walk

_OUTSIDE = "outside a class folder"
_BESIDE = "beside the split folders"
_OTHER = "not an image"


class _Place(NamedTuple):
    """What the path of a folder says of the files in it."""

    split: str
    class_name: str
    class_folder: str


@dataclass(slots=True)
class _Tree:
    """All files of a tree in the order of the walk, by column, and what a first look showed."""

    folders: list[Folder] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    keys: list[bytes] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    newest_change_ns: int = 0

    def batches(self, walk: Walk) -> Iterator[Batch]:
        """Walk the tree, yielding its files to be looked at while the walk goes on."""
        start = 0
        for folder in walk.folders():
            self.folders.append(folder)
            prefix = f"{folder.path}/" if folder.path else ""
            self.names += [prefix + name for name in folder.files]
            while len(self.names) - start >= BATCH:
                yield Batch(
                    root=walk.root, start=start, filenames=tuple(self.names[start : start + BATCH])
                )
                start += BATCH
        if start < len(self.names):
            yield Batch(root=walk.root, start=start, filenames=tuple(self.names[start:]))

    def note(self, probes: Probes) -> None:
        """Put what a look at one batch showed into its place; batches come in any order."""
        end = probes.start + len(probes.sizes)
        if (missing := end - len(self.sizes)) > 0:
            self.sizes.frombytes(bytes(8 * missing))
            self.keys += [b""] * missing
        self.sizes[probes.start : end] = probes.sizes
        self.keys[probes.start : end] = probes.keys
        self.faults.update({probes.start + at: why for at, why in probes.faults.items()})
        self.others.update(probes.start + at for at in probes.others)
        self.newest_change_ns = max(self.newest_change_ns, probes.newest_change_ns)


@dataclass(slots=True)
class _ClassFiles:
    """The files meant as images in class folders: those that may be, and those that are not."""

    good: list[int] = field(default_factory=list)
    """Their numbers in the tree."""
    places: list[_Place] = field(default_factory=list)
    bad: list[Skipped] = field(default_factory=list)
    bad_places: list[_Place] = field(default_factory=list)


def scan(
    root: str, options: PackOptions, run: Run, on_progress: Callable[[int], object]
) -> Catalog:
    """List a folder and look at the beginning of each of its files.

    `run` decides where the looking is done; `on_progress` is told how many more files were seen.
    Raises SourceError if there is nothing to pack.
    """
    _refuse_non_folder(root)
    walk = Walk(root, options.follow_links)
    tree = _Tree()
    for probes in run(probe, tree.batches(walk)):
        tree.note(probes)
        on_progress(len(probes.sizes))
    _refuse_closed(root, walk.closed)
    splits = split_folders(root, tree.folders, options.layout)
    files = _files_of_classes(tree, splits, walk)
    bad = [*walk.unreadable, *files.bad]
    samples = _samples(root, tree, files, run)
    if not samples and not bad:
        raise _nothing_to_pack(root, splits)
    class_folders = _class_folders(files)
    return Catalog(
        name=os.path.basename(os.path.abspath(root)) or "root",
        layout="<split>/<class>/**/image" if splits else "<class>/**/image",
        samples=samples,
        class_folders=class_folders,
        bad=tuple(sorted(bad)),
        ignored=walk.tally.ignored(),
        warnings=(
            *walk.links,
            *_empty_classes(tree.folders, splits, class_folders),
            *_doubts(tree.folders, splits, class_folders),
        ),
        newest_change_ns=tree.newest_change_ns,
    )


def _refuse_non_folder(root: str) -> None:
    if os.path.isdir(root):
        return
    if not os.path.lexists(root):
        raise SourceError(
            f"{root} does not exist", hint="give a folder of class folders", path=root
        )
    raise SourceError(f"{root} is not a folder", hint="give a folder of class folders", path=root)


def _refuse_closed(root: str, closed: Sequence[str]) -> None:
    if closed:
        raise SourceError(
            f"{root} has folders that cannot be read: {', '.join(closed)}",
            hint="make them readable or take them out: a class may be in there",
            path=root,
        )


def _files_of_classes(tree: _Tree, splits: Mapping[str, str], walk: Walk) -> _ClassFiles:
    """Pick the files in class folders that are meant as images; count the others."""
    files = _ClassFiles()
    end = 0
    for folder in tree.folders:
        start, end = end, end + len(folder.files)
        place = _place(folder.path, splits)
        if isinstance(place, str):
            for number in range(start, end):
                walk.tally.add(place, tree.names[number])
            continue
        for number in range(start, end):
            if number in tree.others:
                walk.tally.add(_OTHER, tree.names[number])
            elif number in tree.faults:
                files.bad.append(Skipped(tree.names[number], tree.faults[number]))
                files.bad_places.append(place)
            else:
                files.good.append(number)
                files.places.append(place)
    return files


def _place(path: str, splits: Mapping[str, str]) -> _Place | str:
    """Return what a folder's path means, or why its files are passed over."""
    parts = path.split("/")
    if splits and path and parts[0] not in splits:
        return _BESIDE
    depth = 2 if splits else 1
    if not path or len(parts) < depth:
        return _OUTSIDE
    return _Place(splits.get(parts[0], ""), parts[depth - 1], "/".join(parts[:depth]))


def _samples(root: str, tree: _Tree, files: _ClassFiles, run: Run) -> Samples:
    names = [tree.names[number] for number in files.good]
    sizes = [tree.sizes[number] for number in files.good]
    keys = [tree.keys[number] for number in files.good]
    prefix = os.path.join(os.path.abspath(root), "")
    return Samples(
        filenames=tuple(names),
        class_names=tuple([place.class_name for place in files.places]),
        splits=tuple([place.split for place in files.places]),
        sizes=tuple(sizes),
        contents=tuple(contents(root, names, sizes, keys, run)),
        blobs=tuple([prefix + name for name in names]),
    )


def _class_folders(files: _ClassFiles) -> dict[str, tuple[str, ...]]:
    """Return the folders of each class that holds at least one file meant as an image."""
    found: dict[str, set[str]] = defaultdict(set)
    for place in {*files.places, *files.bad_places}:
        found[place.class_name].add(place.class_folder)
    return {name: tuple(sorted(folders)) for name, folders in sorted(found.items())}


def _empty_classes(
    folders: Sequence[Folder],
    splits: Mapping[str, str],
    class_folders: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    filled = {path for paths in class_folders.values() for path in paths}
    for folder in folders:
        place = _place(folder.path, splits)
        if isinstance(place, _Place) and folder.path == place.class_folder not in filled:
            yield f"{folder.path}: no images in this class folder, so it gets no label"


def _doubts(
    folders: Sequence[Folder],
    splits: Mapping[str, str],
    class_folders: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    with_images = [folder for folder in folders if has_images(folder)]
    where = {folder.path: _place(folder.path, splits) for folder in with_images}
    beside = sorted({path.split("/")[0] for path, place in where.items() if place == _BESIDE})
    if beside:
        yield (
            f"{', '.join(beside)}: not packed, as they stand beside the split folders "
            f"{', '.join(sorted(splits))}; if all are classes, pass --layout classes"
        )
    if outside := [path or "the source" for path, place in where.items() if place == _OUTSIDE]:
        yield f"images right in {', '.join(outside)} are not packed: they are in no class folder"
    if len(class_folders) == 1 and not splits:
        (name,) = class_folders
        inner = [folder.path for folder in folders if folder.path.count("/") == 1]
        if len(inner) > 1:
            yield (
                f"{name} is the only class; if its {len(inner)} folders are the classes, "
                f"pack the folder {name} itself"
            )


def _nothing_to_pack(root: str, splits: Mapping[str, str]) -> SourceError:
    where = f"in the class folders of {', '.join(splits)}" if splits else "in class folders"
    return SourceError(
        f"{root} has no images {where}",
        hint="put the images of each class into a folder of their own, as in roses/1.jpg",
        path=root,
    )
