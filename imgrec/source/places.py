"""What the path of an image says of it: its split and its class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.model import TEST
from imgrec.options import LEAF, SourceOptions
from imgrec.source.tree import Folder
from imgrec.text import picked

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

    splits: Mapping[str, str]
    """Which split each split folder is; empty if the top folders are classes."""
    unlabelled: str = ""
    """The split folder whose images have no class, if there is one."""
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

    def _is_bare(self, place: Place) -> bool:
        return bool(self.unlabelled) and place.class_folder == self.unlabelled

    def _read(self, path: str) -> Place | str:
        parts = path.split("/") if path else []
        split = ""
        if self.splits:
            if parts and parts[0] not in self.splits:
                return BESIDE
            if not parts:
                return OUTSIDE
            split = self.splits[parts[0]]
        if self.unlabelled and parts[0] == self.unlabelled:
            return Place(split, "", self.unlabelled)
        if self.label_regex is not None:
            return Place(split, "", path)
        below = parts[1:] if self.splits else parts
        depth = self.class_depth if self.class_depth != LEAF else max(len(below), 1)
        if len(below) < depth:
            return OUTSIDE
        folder = "/".join(parts[: len(parts) - len(below) + depth])
        return Place(split, "/".join(below[:depth]), folder)


def make_places(
    splits: Mapping[str, str], folders: Mapping[str, Folder], options: SourceOptions
) -> Places:
    """Decide what paths mean."""
    regex = re.compile(options.label_regex) if options.label_regex else None
    bare = (path for path, split in splits.items() if split == TEST)
    unlabelled = next((path for path in bare if _has_no_classes(folders[path], regex)), "")
    return Places(splits, unlabelled, options.class_depth, regex)


def _has_no_classes(folder: Folder, regex: re.Pattern[str] | None) -> bool:
    """Tell whether a folder of test images says nothing of their classes."""
    if not folder.files or folder.has_folders:
        return False
    return regex is None or not any(map(regex.search, folder.files))
