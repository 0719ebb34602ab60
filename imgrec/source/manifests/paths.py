"""Which file of a tree the text in a row names."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from unicodedata import normalize

NO_NAME = "no image is named"
NO_FILE = "no such image"
OUTSIDE = "outside the folder of the images"
_SHOWN = 5


class _Index(NamedTuple):
    """Numbers of files by some key of theirs."""

    first: dict[str, int]
    others: dict[str, list[int]]
    """The further files that share a key."""


def _index(keys: Sequence[str], numbers: Sequence[int]) -> _Index:
    first = dict(zip(reversed(keys), reversed(numbers), strict=True))
    others: dict[str, list[int]] = {}
    if len(first) < len(keys):
        for key, number in zip(keys, numbers, strict=True):
            if first[key] != number:
                others.setdefault(key, []).append(number)
    return _Index(first, others)


@dataclass(frozen=True)
class _Indexes:
    """The files of a tree by path; its images by name too, and by both without extension."""

    paths: Sequence[str]
    images: Sequence[int]

    def find(self, text: str) -> tuple[int, ...]:
        """Return the files that a text names by the most exact key that it fits."""
        for index in self._for_paths if "/" in text else self._for_names:
            if text in index.first:
                return (index.first[text], *index.others.get(text, ()))
        return ()

    @cached_property
    def by_path(self) -> _Index:
        return _index(self.paths, range(len(self.paths)))

    @cached_property
    def _for_paths(self) -> tuple[_Index, ...]:
        named = zip((self.paths[number] for number in self.images), self._names, strict=True)
        stems = [path[: len(path) - len(name)] + _stem(name) for path, name in named]
        return self.by_path, _index(stems, self.images)

    @cached_property
    def _for_names(self) -> tuple[_Index, ...]:
        stems = list(map(_stem, self._names))
        at_root = [at for at, number in enumerate(self.images) if "/" not in self.paths[number]]
        return (
            self.by_path,
            _index(self._names, self.images),
            _index([stems[at] for at in at_root], [self.images[at] for at in at_root]),
            _index(stems, self.images),
        )

    @cached_property
    def _names(self) -> list[str]:
        return [self.paths[number].rpartition("/")[2] for number in self.images]


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


@dataclass(frozen=True)
class Finder:
    """Finds the files of a tree that rows name."""

    paths: Sequence[str]
    """Posix paths of all files below the root."""
    images: Sequence[int]
    """Numbers of the files that are, or were meant as, images."""
    root: str
    """The folder or archive on disk, for what rows put in front of paths."""

    def find_all(self, texts: Iterable[str]) -> list[int | str]:
        """Return the number of the file that each text names, or why it names none."""
        exact = self._indexes.by_path.first  # paths are unique, and most rows hold one
        return [exact[text] if text in exact else self.find(text) for text in texts]

    def find(self, text: str) -> int | str:
        """Return the number of the file that a text names, or why it names none."""
        found = self._indexes.find(text)
        if len(found) == 1:
            return found[0]
        return self._judge(found) if found else self._search(text)

    @cached_property
    def _indexes(self) -> _Indexes:
        return _Indexes(self.paths, self.images)

    @cached_property
    def _composed(self) -> _Indexes:
        """The same with composed characters (NFC): systems differ in how they write accents."""
        if all(map(str.isascii, self.paths)):
            return self._indexes
        return _Indexes([normalize("NFC", path) for path in self.paths], self.images)

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        places = os.path.abspath(self.root), os.path.realpath(self.root)
        return tuple(place.rstrip("/") + "/" for place in places)

    @cached_property
    def _own_names(self) -> tuple[str, ...]:
        name = posixpath.basename(self._roots[0][:-1])
        return tuple(f"{own}/" for own in (name, name.partition(".")[0]) if own)

    def _judge(self, found: Sequence[int]) -> int | str:
        if len(found) == 1:
            return found[0]
        shown = ", ".join(sorted(self.paths[number] for number in found)[:_SHOWN])
        return f"{len(found)} images could be meant: {shown}"

    def _search(self, text: str) -> int | str:
        if not text.strip():
            return NO_NAME
        spellings = list(dict.fromkeys(self._spellings(text)))
        for spelling in spellings:
            if found := self._indexes.find(spelling):
                return self._judge(found)
        for spelling in spellings:
            if found := self._composed.find(normalize("NFC", spelling)):
                return self._judge(found)
        if "\\" in text:
            return self._search(text.replace("\\", "/"))
        # Lists such as those of Places365 begin every path below the root with "/".
        if (below := spellings[0].lstrip("/")) in self._indexes.by_path.first:
            return self._indexes.by_path.first[below]
        return OUTSIDE if f"{spellings[0]}/".startswith(("/", "../")) else NO_FILE

    def _spellings(self, text: str) -> Iterator[str]:
        """Yield the paths below the root that a text may mean."""
        path = posixpath.normpath(text.strip())
        for root in self._roots:
            if path.startswith(root):
                path = path[len(root) :]
        yield path
        for name in self._own_names:
            if path.startswith(name):
                yield path[len(name) :]
