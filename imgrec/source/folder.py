"""Class folders: `root/<class>/**/image` or `root/<split>/<class>/**/image`."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, Catalog, SourceLayout
from imgrec.notes import Note, warnings_of
from imgrec.options import LEAF, SourceKind
from imgrec.source.probe import FileTable, probe_tree
from imgrec.source.text_lines import head_of
from imgrec.source.tree import Context, Folder, Lister, Tally, has_image_name, joined
from imgrec.source.words import is_unlabelled, split_of_name
from imgrec.storage.read_ahead import reader
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, listed, picked

OUTSIDE = "outside a class folder"
BESIDE = "beside the split folders"
_OTHER = "not an image"
_SUFFIXES = (".txt", ".lst", ".csv", ".tsv")
_HEAD_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 24
"""Lists in archives are read whole; larger ones are ignored."""
_LINES = 100
"""How many lines decide whether a file lists images."""
_TRAIN_TEST_SPLIT = re.compile(r"(^|/)train_?(val_?)?test_?splits?\.(txt|csv|tsv)$", re.I)
"""As in Caltech-UCSD Birds, where it goes by numbers that images.txt gives the images."""
_NO_LABEL = "its name does not match --label-regex"


class Place(NamedTuple):
    """The split and the class of an image, by its path."""

    split: str
    class_name: str
    """"" for an image without a class."""
    class_folder: str
    """The folder of the class, for messages."""


@dataclass(frozen=True, slots=True)
class Places:
    """What the paths of one source mean."""

    roots: Mapping[str, str]
    """The folders that hold classes, each with its split; "" is the source, or no split."""
    unlabelled: frozenset[str] = frozenset()
    """The roots whose images have no class."""
    class_depth: int = 1
    label_regex: re.Pattern[str] | None = None
    _cache: dict[str, Place | str] = field(default_factory=dict)

    def of_folder(self, path: str) -> Place | str:
        """Return the place of the images in a folder, or why they are ignored."""
        if path not in self._cache:
            self._cache[path] = self._place(path)
        return self._cache[path]

    def of_file(self, folder: str, name: str) -> Place | str:
        """Return the place of a file; "" if `--label-regex` does not match its name."""
        place = self.of_folder(folder)
        is_unlabelled = isinstance(place, Place) and place.class_folder in self.unlabelled
        if self.label_regex is None or isinstance(place, str) or is_unlabelled:
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

    def _place(self, path: str) -> Place | str:
        root = self.root_of(path)
        if root is None:
            is_above = not path or any(root.startswith(f"{path}/") for root in self.roots)
            return OUTSIDE if is_above else BESIDE
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
        return Place(split, class_name, joined(root, class_name))


def catalog_of(lister: Lister, context: Context, places: Places) -> Catalog:
    """List the images of a tree of class folders."""
    table = probe_tree(lister, context)
    lister.refuse_closed(context.options)
    if not places.splits and context.options.kind is SourceKind.AUTO:
        _refuse_split_lists(lister.root, table)
    files = _labelled_files(table, places, lister.tally)
    samples = table.samples(
        files.numbers,
        [place.class_name for place in files.places],
        [place.split for place in files.places],
        context.run,
    )
    if not (samples or lister.bad or files.bad):
        if lister.too_deep:
            raise _too_deep(lister)
        raise _nothing_to_pack(lister.root, table.folders, places)
    class_folders = _class_folders(files.used)
    excluded = globs_pattern(context.options.exclude)
    return Catalog(
        name="",
        layout=_layout(places),
        samples=samples,
        class_folders=class_folders,
        notes=(
            *lister.notes(),
            *sorted(files.bad),
            *warnings_of(_empty_classes(table.folders, places, class_folders)),
            *warnings_of(_misplaced(table.folders, places, excluded)),
        ),
        stamp=table.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _layout(places: Places) -> SourceLayout:
    depth = 0 if places.label_regex is not None else places.class_depth
    if places.label_regex is not None:
        inner = f"image named by {places.label_regex.pattern}"
    elif depth == LEAF:
        inner = "<class>/image, classes at any depth"
    else:
        inner = "/".join(["<class>"] * depth) + "/**/image"
    above = {path.rpartition("/")[0] for path in places.roots}
    if places.splits:
        bare = "".join(f", {path}/ without labels" for path in sorted(places.unlabelled))
        roots = ", ".join(sorted(places.roots))
        if len(above) == 1:
            roots = joined(next(iter(above)), "<split>")
        sentence = f"{roots}/{inner}{bare}"
    else:
        sentence = ", ".join(joined(top, inner) for top in sorted(places.roots))
    is_at_top = above == {""} if places.splits else "" in places.roots
    return SourceLayout(
        kind=SourceKind.FOLDER,
        sentence=sentence,
        split_depth=1 if places.splits and is_at_top else 0,
        class_depth=depth if is_at_top else 0,
    )


class _LabelledFiles(NamedTuple):
    """The files of a table that are meant as images of a class."""

    numbers: list[int]
    """Numbers of the images in the table."""
    places: list[Place]
    """The place of each."""
    bad: list[Note]
    used: set[Place]
    """The places of images and of bad files."""


def _labelled_files(table: FileTable, places: Places, tally: Tally) -> _LabelledFiles:
    """Find the images of classes, and count all other files."""
    files = _LabelledFiles([], [], [], set())
    by_name = places.label_regex is not None
    odd = table.others | table.faults.keys()
    end = 0
    for folder in table.folders:
        start, end = end, end + len(folder.files)
        place = places.of_folder(folder.path)
        if isinstance(place, str):
            for name in table.names[start:end]:
                tally.add(place, name)
            continue
        if not by_name and odd.isdisjoint(range(start, end)):  # true of most folders
            files.numbers.extend(range(start, end))
            files.places.extend([place] * (end - start))
            if start < end:
                files.used.add(place)
            continue
        for number in range(start, end):
            name = table.names[number]
            if number in table.others:
                tally.add(_OTHER, name)
                continue
            if by_name:
                place = places.of_file(folder.path, folder.files[number - start])
            if isinstance(place, str):
                files.bad.append(Note(name, _NO_LABEL))
                continue
            files.used.add(place)
            if number in table.faults:
                files.bad.append(Note(name, table.faults[number]))
            else:
                files.numbers.append(number)
                files.places.append(place)
    return files


def _class_folders(places: Iterable[Place]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for place in places:
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
    folders: Sequence[Folder], places: Places, excluded: re.Pattern[str]
) -> Iterator[str]:
    """Warn about images that are not packed because of their folder."""
    place_of = {
        folder.path: places.of_folder(folder.path)
        for folder in folders
        if any(map(has_image_name, folder.files))
        and not all(excluded.match(f"{folder.path}/{name}") for name in folder.files)
    }
    if beside := {path.split("/")[0] for path, place in place_of.items() if place == BESIDE}:
        bare = sorted(filter(is_unlabelled, beside))
        yield (
            f"{', '.join(sorted(beside))}: not packed because of the split folders "
            f"{', '.join(sorted(places.roots))}; {_as_test(bare[0], places) if bare else ''}"
            "if all are classes, pass --layout classes"
        )
    if outside := [path or "the source" for path, place in place_of.items() if place == OUTSIDE]:
        yield f"images directly in {', '.join(outside)} are not packed: no class folder holds them"


def _as_test(folder: str, places: Places) -> str:
    """Say how a folder of images without labels becomes the split test."""
    labelled = [
        p for p, split in places.roots.items() if split == TEST and p not in places.unlabelled
    ]
    instead = "".join(f" --exclude '{path}/*'" for path in sorted(labelled))
    where = f"in place of {listed(labelled)}" if labelled else "without labels"
    return f"to pack {folder} as test, {where}, pass --test-images {folder}{instead}; "


def _too_deep(lister: Lister) -> SourceError:
    """Return the error for a source whose images may all be in archives that are not opened."""
    names = listed(lister.too_deep)
    return SourceError(
        f"{lister.root} has no images, except perhaps in {names}: imgrec opens an archive in an "
        "archive, but none in that",
        hint=f"unpack {lister.root}, or give imgrec {names} alone",
        path=lister.root,
    )


def _nothing_to_pack(root: str, folders: Sequence[Folder], places: Places) -> SourceError:
    splits, depth = places.splits, places.class_depth
    where = f"in the class folders of {', '.join(splits)}" if splits else "in class folders"
    what = f"{root} has no images {where}"
    hint = "put the images of each class into a folder of their own, as in roses/1.jpg"
    found = [folder.path for folder in folders if any(map(has_image_name, folder.files))]
    deepest = max((path.count("/") + 1 for path in found if path), default=0)
    if found == [""]:
        what = f"{root} has images directly in it, without a class folder"
        hint += ", or name the classes with --label-regex or a table"
    elif not splits and 0 < deepest < depth:
        what = f"{root} has no images {depth} folders deep, as --class-depth {depth} requires"
        hint = f"pass --class-depth {deepest}"
    return SourceError(what, hint=hint, path=root)


# Lists beside class folders


def _refuse_split_lists(root: str, table: FileTable) -> None:
    """Raise SourceError if files list images for val or test: class folders put all into train."""
    kind = "folder" if is_url(root) or os.path.isdir(root) else "archive"
    others = [table.names[number] for number in sorted(table.others)]
    for name in filter(_TRAIN_TEST_SPLIT.search, others):
        raise SourceError(
            f"{root}: {name} names the test images, but imgrec cannot read it",
            hint="write a table with the columns path, label and split, and pack that; or pass "
            f"--kind {kind} to ignore it",
            path=root,
        )
    names, base = _find_lists(table)
    if all(split_of_name(name) == TRAIN for name in names):
        return
    images = posixpath.join(root, base) if base else root
    pattern = posixpath.join(root, _pattern(names, table.names))
    command = f"pack the lists: imgrec pack {shlex.quote(pattern)} --images {shlex.quote(images)}"
    if kind == "archive":
        command = f"extract the lists, and pack them with --images {shlex.quote(root)}"
    raise SourceError(
        f"{root}: {listed(names)} list images by split, but class folders have no splits",
        hint=f"{command}; or pass --kind {kind} to ignore them",
        path=root,
    )


def _find_lists(table: FileTable) -> tuple[list[str], str]:
    """Return the files that are named after splits and list images, and where paths begin."""
    lines = {}
    for number in sorted(table.others):
        name = table.names[number]
        if name.lower().endswith(_SUFFIXES) and split_of_name(name):
            lines[name] = list(_lines(_head(table, number)))
    wanted = {text for found in lines.values() for texts in found for text in texts}
    bases = _bases(wanted, table) if wanted else {}
    # Most lines must name images.
    names = [
        name
        for name, found in lines.items()
        if sum(any(text in bases for text in texts) for texts in found) * 2 > len(found)
    ]
    used = Counter(
        bases[text] for name in names for texts in lines[name] for text in texts if text in bases
    )
    return names, used.most_common(1)[0][0] if used else ""


def _head(table: FileTable, number: int) -> bytes:
    blob, size = table.blobs[number], table.sizes[number]
    if isinstance(blob, str) and not is_url(blob):
        return head_of(blob, _HEAD_BYTES)
    return reader((blob,), (size,))(blob, size) if size <= _LARGEST_BYTES else b""


def _lines(head: bytes) -> Iterator[frozenset[str]]:
    """Yield the paths that each of the first lines may name: all of it, or one of its cells."""
    for line in head.decode("utf-8", "replace").splitlines()[:_LINES]:
        if text := line.strip():
            cells = {text, *(cell for mark in ("\t", ",", ";", " ") for cell in text.split(mark))}
            yield frozenset(posixpath.normpath(cell.strip()).lstrip("/") for cell in cells)


def _bases(wanted: set[str], table: FileTable) -> dict[str, str]:
    """Return the texts that name images, and the folder that each begins at."""
    found: dict[str, str] = {}
    for number, name in enumerate(table.names):
        if number in table.others:
            continue
        top, _, below = name.partition("/")
        for path, base in ((name, ""), (posixpath.basename(name), ""), (below, top)):
            for text in (path, path.rpartition(".")[0]):
                if text in wanted:
                    found.setdefault(text, base)
    return found


def _pattern(names: Sequence[str], all_names: Iterable[str]) -> str:
    """Return a pattern that only the lists match, or else their folder."""
    folder = posixpath.commonpath([posixpath.dirname(name) for name in names])
    others = set(all_names).difference(names)
    inner = [name[len(folder) :].lstrip("/") for name in names]
    prefix = os.path.commonprefix(inner)  # noqa: RUF071  # of characters, not of folders
    suffix = posixpath.splitext(names[0])[1]
    for middle in ("", prefix):
        pattern = posixpath.join(folder, f"{middle}*{suffix}")
        if all(fnmatch(name, pattern) for name in names) and not any(
            fnmatch(name, pattern) for name in others
        ):
            return pattern
    return folder
