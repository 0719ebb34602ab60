"""Class folders: `root/<class>/**/image` or `root/<split>/<class>/**/image`."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import SourceError
from imgrec.model import (
    TEST,
    TRAIN,
    VAL,
    Catalog,
    FileBlob,
    FolderLayout,
    PackOptions,
    Sample,
    Skipped,
)
from imgrec.source.probe import KEY_BYTES, Run, batches, contents, probe
from imgrec.source.walk import Folder, Walk

_SPLIT_NAMES = {
    "train": TRAIN, "training": TRAIN,
    "val": VAL, "valid": VAL, "validation": VAL,
    "test": TEST, "testing": TEST,
}  # fmt: skip
_OUTSIDE = "outside a class folder"
_BESIDE = "beside the split folders"
_OTHER = "not an image"


class _Place(NamedTuple):
    """What the path of a folder says of the files in it."""

    split: str
    class_name: str
    class_folder: str


@dataclass(slots=True)
class _Files:
    """The files in class folders, by column, and what a first look at each showed."""

    names: list[str] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    keys: list[bytes] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    newest_change_ns: int = 0


def scan(
    root: str, options: PackOptions, run: Run, on_progress: Callable[[int], object]
) -> Catalog:
    """List a folder and look at the beginning of each of its files.

    `run` decides where the looking is done; `on_progress` is told how many more files were seen.
    Raises SourceError if there is nothing to pack.
    """
    _refuse_non_folder(root)
    walk = Walk(root, options.follow_links)
    folders = list(walk.folders())
    splits = _split_folders(root, folders, options.layout)
    files = _list_files(folders, splits, walk)
    _look_at(root, files, run, on_progress)
    bad = [*walk.unreadable, *(Skipped(files.names[at], why) for at, why in files.faults.items())]
    for at in sorted(files.others):
        walk.tally.add(_OTHER, files.names[at])
    samples = _samples(root, files, run)
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
            *_empty_classes(folders, splits, class_folders),
            *_doubts(root, folders, splits, class_folders),
        ),
        newest_change_ns=files.newest_change_ns,
    )


def _refuse_non_folder(root: str) -> None:
    if os.path.isdir(root):
        return
    if not os.path.lexists(root):
        raise SourceError(
            f"{root} does not exist", hint="give a folder of class folders", path=root
        )
    raise SourceError(f"{root} is not a folder", hint="give a folder of class folders", path=root)


def _split_folders(root: str, folders: Sequence[Folder], layout: FolderLayout) -> Mapping[str, str]:
    """Return the split that each split folder stands for; nothing if the top folders are classes."""
    named = {folder.path: folder for folder in folders if folder.path.lower() in _SPLIT_NAMES}
    if layout is FolderLayout.CLASSES or not named:
        if layout is FolderLayout.SPLITS:
            raise SourceError(
                f"{root} has no split folders",
                hint="call them train, val and test, or leave out --layout",
                path=root,
            )
        return {}
    if layout is FolderLayout.AUTO and not _hold_classes(named.values()):
        return {}
    splits = {path: _SPLIT_NAMES[path.lower()] for path in named}
    for split in set(splits.values()):
        same = [path for path, meaning in splits.items() if meaning == split]
        if len(same) > 1:
            raise SourceError(
                f"{root}: the folders {' and '.join(same)} both mean the split {split}",
                hint="merge or rename them",
                path=root,
            )
    return splits


def _hold_classes(named: Iterable[Folder]) -> bool:
    """Tell split folders, which hold class folders, from classes called `train` or `test`.

    A flat `test` beside a `train` of class folders is common, and still a split.
    """
    hold_folders = False
    for folder in named:
        has_images = any(extension(name) in IMAGE_EXTENSIONS for name in folder.files)
        if has_images and _SPLIT_NAMES[folder.path.lower()] != TEST:
            return False
        hold_folders |= folder.has_folders
    return hold_folders


def _list_files(folders: Sequence[Folder], splits: Mapping[str, str], walk: Walk) -> _Files:
    files = _Files()
    for folder in folders:
        place = _place(folder.path, splits)
        if isinstance(place, str):
            for name in folder.files:
                walk.tally.add(place, f"{folder.path}/{name}".lstrip("/"))
        else:
            files.names += [f"{folder.path}/{name}" for name in folder.files]
            files.places += [place] * len(folder.files)
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


def _look_at(root: str, files: _Files, run: Run, on_progress: Callable[[int], object]) -> None:
    """Fill in what the beginning of each file shows."""
    count = len(files.names)
    files.sizes = array("Q", bytes(8 * count))
    files.keys = [b""] * count
    for probes in run(probe, batches(root, files.names)):
        end = probes.start + len(probes.sizes)
        files.sizes[probes.start : end] = probes.sizes
        files.keys[probes.start : end] = [
            probes.keys[at : at + KEY_BYTES] for at in range(0, len(probes.keys), KEY_BYTES)
        ]
        files.faults.update({probes.start + at: why for at, why in probes.faults.items()})
        files.others.update(probes.start + at for at in probes.others)
        files.newest_change_ns = max(files.newest_change_ns, probes.newest_change_ns)
        on_progress(len(probes.sizes))


def _samples(root: str, files: _Files, run: Run) -> tuple[Sample, ...]:
    good = [
        at for at in range(len(files.names)) if at not in files.faults and at not in files.others
    ]
    names = [files.names[at] for at in good]
    sizes = [files.sizes[at] for at in good]
    values = contents(root, names, sizes, [files.keys[at] for at in good], run)
    prefix = os.path.join(os.path.abspath(root), "")
    return tuple(
        Sample(
            name,
            files.places[at].class_name,
            files.places[at].split,
            size,
            value,
            FileBlob(prefix + name),
        )
        for at, name, size, value in zip(good, names, sizes, values, strict=True)
    )


def _class_folders(files: _Files) -> dict[str, tuple[str, ...]]:
    """Return the folders of each class that holds at least one file meant as an image."""
    found: dict[str, set[str]] = defaultdict(set)
    for at, place in enumerate(files.places):
        if at not in files.others:
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
    root: str,
    folders: Sequence[Folder],
    splits: Mapping[str, str],
    class_folders: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    beside = sorted({
        folder.path.split("/")[0]
        for folder in folders
        if _place(folder.path, splits) == _BESIDE
        and any(extension(name) in IMAGE_EXTENSIONS for name in folder.files)
    })  # fmt: skip
    if beside:
        yield (
            f"{', '.join(beside)}: not packed, as they stand beside the split folders "
            f"{', '.join(sorted(splits))}; if all are classes, pass --layout classes"
        )
    if len(class_folders) == 1 and not splits:
        (name,) = class_folders
        inner = [folder.path for folder in folders if folder.path.count("/") == 1]
        if len(inner) > 1:
            yield (
                f"{name} is the only class; if its {len(inner)} folders are the classes, "
                f"pack {os.path.join(root, name)} instead"
            )


def _nothing_to_pack(root: str, splits: Mapping[str, str]) -> SourceError:
    where = f"in the class folders of {', '.join(splits)}" if splits else "in class folders"
    return SourceError(
        f"{root} has no images {where}",
        hint="put the images of each class into a folder of their own, as in roses/1.jpg",
        path=root,
    )
