"""Which image the id in a table means."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from unicodedata import normalize

from imgrec.model import TEST, TRAIN
from imgrec.source.split_words import split_in, splits_of

_OTHER = {TRAIN: TEST, TEST: TRAIN}
_SEPARATOR = re.compile(r"[-_. ]")


@dataclass(frozen=True)
class ImageIndex:
    """The images of a download by path, name and stem."""

    paths: Sequence[str]
    file_of: Mapping[str, str] = field(default_factory=dict)
    """The file that an id stands for, where something other than its name tells."""

    def find(self, text: str, split: str = "") -> tuple[str, ...]:
        """Return the images that an id may mean.

        Ids of train images are not looked for in test folders, and the other way round: both may
        have a `1.png`. Folders that are named after the split come first.
        """
        found = self._named(text)
        allowed = [path for path in found if self.split_of(path) != _OTHER.get(split)]
        named = [path for path in allowed if split and self.split_of(path) == split]
        return tuple(named or allowed)

    def knows(self, text: str) -> bool:
        """Tell whether an id names any image."""
        return bool(self._named(text))

    def _named(self, text: str) -> Sequence[str]:
        """Return the images of a path, of a name, or of a name without its extension.

        A text with folders names the images whose path ends with it.
        """
        text = self.file_of.get(text.strip(), text)
        path = normalize("NFC", text.strip().replace("\\", "/").lstrip("/"))
        if path in self._paths:
            return (self._paths[path],)
        if "/" in path and (shorter := self._without_top(path)):
            return (shorter,)
        folder, _, name = path.rpartition("/")
        found = self._names.get(name) or self._stems.get(name, ())
        if not folder:
            return found
        return [one for one in found if f"/{one}".rpartition("/")[0].endswith(f"/{folder}")]

    def _without_top(self, path: str) -> str:
        """Return the image of a path that begins above the source; "" if there is none."""
        while "/" in path:
            path = path.partition("/")[2]
            if "/" in path and path in self._paths:
                return self._paths[path]
        return ""

    @cached_property
    def _paths(self) -> Mapping[str, str]:
        return {normalize("NFC", path): path for path in self.paths}

    @cached_property
    def _names(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            found[normalize("NFC", path.rpartition("/")[2])].append(path)
        return found

    @cached_property
    def _stems(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, paths in self._names.items():
            found[name.rpartition(".")[0] or name] += paths
        return found

    def split_of(self, path: str) -> str:
        """Return the split that the folders of a path name; "" for none."""
        folder = path.rpartition("/")[0]
        if folder not in self._splits:
            above, _, name = folder.rpartition("/")
            own = self._siblings.get(above, {}).get(name) or split_in(name)
            self._splits[folder] = (self.split_of(folder) if above else "") or own
        return self._splits[folder]

    @cached_property
    def _splits(self) -> dict[str, str]:
        return {"": ""}

    @cached_property
    def _siblings(self) -> Mapping[str, Mapping[str, str]]:
        """The split that each folder means among those beside it, by the folder above."""
        below: dict[str, set[str]] = defaultdict(set)
        for folder in {path.rpartition("/")[0] for path in self.paths}:
            while folder:
                folder, _, name = folder.rpartition("/")
                below[folder].add(name)
        return {above: splits_of(sorted(names)) for above, names in below.items()}

    @cached_property
    def _suffixes(self) -> Mapping[str, Sequence[str]]:
        """What follows each beginning of a file's name, up to a separator."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            name = path.rpartition("/")[2]
            for match in _SEPARATOR.finditer(name):
                found[name[: match.start()]].append(name[match.start() :])
        return found

    def templates(self, ids: Sequence[str]) -> list[str]:
        """Return the templates by which most ids name an image, such as `{id}_green.png`."""
        counts = Counter(suffix for text in ids for suffix in set(self._suffixes.get(text, ())))
        return sorted(f"{{id}}{suffix}" for suffix, n in counts.items() if n * 2 > len(ids))
