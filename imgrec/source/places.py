"""What the path of an image says of it: its split and its class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.options import LEAF
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
