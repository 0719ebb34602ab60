"""The images that the rows of a table name, and the images that no row names."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias
from unicodedata import normalize

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.notes import Note
from imgrec.options import SourceOptions
from imgrec.source.probe import FileTable, list_tree
from imgrec.source.tree import Context, Lister
from imgrec.source.walk import open_tree
from imgrec.storage.read_errors import is_passing
from imgrec.text import name_of

_OTHER = "not an image"
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestImages:
    """All files that rows may name: they are listed, but not looked at."""

    lister: Lister
    listed: FileTable
    unreadable: Sequence[Note]
    """Files that are known not to be readable, numbered after those that are listed."""
    finder: Finder

    def look_at(self, found: Sequence[int | str], context: Context) -> Named:
        """Look at the files that rows name, and at no others.

        `found` are the numbers of files as the finder has them, or why there is none.
        """
        count = len(self.listed.names)
        numbers = sorted({at for at in found if isinstance(at, int) and at < count})
        tree = self.listed.pick(numbers)
        tree.probe(context)
        faults = {**tree.faults, **dict.fromkeys(tree.others, _OTHER)}
        places: dict[int | str, int | str] = {
            number: faults.get(place, place) for place, number in enumerate(numbers)
        }
        for at, file in enumerate(self.unreadable, count):
            places[at] = file.reason
        return Named(tree, [places.get(at, at) for at in found])


@dataclass(frozen=True, slots=True)
class Named:
    """The files that rows name, and what a look at each showed."""

    tree: FileTable
    found: Sequence[int | str]
    """For each row, the number of its image in that tree, or why it has none."""


def open_images(place: str, context: Context) -> ManifestImages:
    """List a folder or an archive."""
    lister = open_tree(place, context)
    return images_of(lister, lister.root)


def images_of(lister: Lister, place: str) -> ManifestImages:
    """List the files of a folder or an archive, which messages call `place`."""
    listed = list_tree(lister)
    known = set(listed.names) if lister.bad else set()
    unreadable = [file for file in lister.bad if file.filename not in known]
    paths = [*listed.names, *(file.filename for file in unreadable)] if unreadable else listed.names
    return ManifestImages(
        lister=lister, listed=listed, unreadable=unreadable, finder=Finder(paths, place)
    )


@dataclass(frozen=True, slots=True)
class Rest:
    """The images that no row names."""

    count: int
    examples: tuple[str, ...]


def count_rest(images: ManifestImages, found: Sequence[int | str], own: Sequence[str]) -> Rest:
    """Count the files that no row names, but for the manifest's own.

    They are told apart by their names alone, as there may be millions of them.
    """
    listed, tally = images.listed, images.lister.tally
    named = set(found)
    own_names = {os.path.basename(path) for path in own}
    own_paths = {os.path.realpath(path) for path in own}
    count, examples = 0, list[str]()
    for number, name in enumerate(listed.names):
        if number in named:
            continue
        if extension(name) in IMAGE_EXTENSIONS:
            count += 1
            tally.add("without a row", name)
            if len(examples) < _EXAMPLES:
                examples.append(name)
        elif name.rpartition("/")[2] not in own_names or not _is_one_of(
            listed.blobs[number], own_paths
        ):
            tally.add(_OTHER if extension(name) else "not named by a row", name)
    for at, file in enumerate(images.unreadable, len(listed.names)):
        if at not in named:
            tally.add("unreadable file", file.filename)
    return Rest(count, tuple(examples))


def _is_one_of(blob: object, paths: set[str]) -> bool:
    return isinstance(blob, str) and os.path.realpath(blob) in paths


def refuse_hidden(
    images: ManifestImages, found: Sequence[int | str], options: SourceOptions
) -> None:
    """Raise an error if a row names no file, but might name one in a folder that was not listed."""
    closed = images.lister.closed_except(options.exclude)
    if NO_FILE in found or any(is_passing(one.error) for one in closed):
        images.lister.refuse_closed(options)


def doubts(images: ManifestImages, rest: Rest, where: str) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    if images.lister.closed:
        yield f"folders that cannot be read: {', '.join(map(str, images.lister.closed))}"
    if rest.count:
        what = "1 other image has" if rest.count == 1 else f"{rest.count:,} other images have"
        yield f"{what} no row in {where}, such as {', '.join(rest.examples)}"


NO_NAME = "no image is named"
NO_FILE = "no such image"
OUTSIDE = "outside the folder of the images"
_SHOWN = 5
_NOT_IMAGES = frozenset(
    {
        "txt", "csv", "tsv", "tab", "json", "jsonl", "ndjson", "xml", "yaml", "yml", "md", "rst",
        "html", "htm", "pdf", "log", "ini", "cfg", "py", "ipynb", "parquet", "npy", "npz", "mat",
        "pkl", "h5", "db", "gz", "zip", "tar", "svg",
    }
)  # fmt: skip
"""Extensions of what lies beside images under their names: ids never mean such a file."""


_Numbers: TypeAlias = dict[str, list[int]]


@dataclass(frozen=True)
class _Index:
    """The files of a tree by path; its images by name too, and by both without extension.

    It holds only the keys that are wanted, and so grows with the rows, not with the files.
    """

    paths: Sequence[str]
    wanted: Container[str]
    numbers: Sequence[int] = ()
    """Of the files, where they are not all that there are."""

    def find(self, text: str) -> Sequence[int]:
        """Return the files that a text names by the most exact key that it fits."""
        if found := self.by_path.get(text):
            return found
        if "/" in text:
            return self._stems.get(text, ())
        if found := self._names.get(text):
            return found
        found = self._bare.get(text, [])
        return found if len(found) < 2 else self._root_stems.get(text) or found

    def _numbered(self) -> Iterable[tuple[int, str]]:
        return zip(self.numbers or range(len(self.paths)), self.paths, strict=True)

    @cached_property
    def by_path(self) -> _Numbers:
        wanted = self.wanted
        return _grouped((path, number) for number, path in self._numbered() if path in wanted)

    @cached_property
    def _stems(self) -> _Numbers:
        return self._of_images((_stem(path), number, path) for number, path in self._numbered())

    @cached_property
    def _names(self) -> _Numbers:
        return self._of_images((_name(path), number, path) for number, path in self._numbered())

    @cached_property
    def _bare(self) -> _Numbers:
        numbered = self._numbered()
        return self._of_images((_stem(_name(path)), number, path) for number, path in numbered)

    @cached_property
    def _root_stems(self) -> _Numbers:
        at_root = ((number, path) for number, path in self._numbered() if "/" not in path)
        return self._of_images((_stem(path), number, path) for number, path in at_root)

    def _of_images(self, keyed: Iterable[tuple[str, int, str]]) -> _Numbers:
        wanted = self.wanted
        return _grouped(
            (key, number)
            for key, number, path in keyed
            if key in wanted and extension(path) not in _NOT_IMAGES
        )


def _grouped(pairs: Iterable[tuple[str, int]]) -> _Numbers:
    numbers: _Numbers = {}
    for key, number in pairs:
        numbers.setdefault(key, []).append(number)
    return numbers


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    """Return a path without the extension of its name.

    >>> _stem("a.b/c.jpg"), _stem("a.b/c"), _stem(".hidden")
    ('a.b/c', 'a.b/c', '.hidden')
    """
    stem, dot, rest = path.rpartition(".")
    return stem if dot and "/" not in rest and stem and stem[-1] != "/" else path


@dataclass(frozen=True)
class Finder:
    """Finds the files of a tree that rows name."""

    paths: Sequence[str]
    """Posix paths of all files below the root."""
    root: str
    """The folder or archive on disk, for what rows put in front of paths."""

    def find_all(self, texts: Sequence[str]) -> list[int | str]:
        """Return the number of the file that each text names, or why it names none.

        Texts are found together, not one by one, as all paths are gone through for them.
        """
        wanted = set(texts)
        index = _Index(self.paths, wanted)
        found = {text: self.judge(hits) for text in wanted if (hits := index.find(text))}
        if lost := wanted.difference(found):
            search = _Search(self, {text: tuple(self._spellings(text)) for text in lost})
            found.update({text: search.find(text) for text in lost})
        return [found[text] for text in texts]

    def find(self, text: str) -> int | str:
        """Return the number of the file that a text names, or why it names none."""
        return self.find_all((text,))[0]

    def judge(self, found: Sequence[int]) -> int | str:
        """Return the one of some files that is meant, or say that it is not clear."""
        if len(found) > 1:
            by_name = [at for at in found if extension(self.paths[at]) in IMAGE_EXTENSIONS]
            found = by_name or found
        if len(found) == 1:
            return found[0]
        shown = ", ".join(sorted(self.paths[number] for number in found)[:_SHOWN])
        return f"{len(found)} images could be meant: {shown}"

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        places = map(name_of, (os.path.abspath(self.root), os.path.realpath(self.root)))
        return tuple(place.rstrip("/") + "/" for place in places)

    @cached_property
    def _own_names(self) -> tuple[str, ...]:
        name = posixpath.basename(self._roots[0][:-1])
        return tuple(f"{own}/" for own in (name, name.partition(".")[0]) if own)

    def _spellings(self, text: str) -> Iterator[str]:
        """Yield the paths below the root that a text may mean, the likeliest first."""
        for spelling in (text, text.replace("\\", "/")) if "\\" in text else (text,):
            path = posixpath.normpath(spelling.strip())
            for root in self._roots:
                if path.startswith(root):
                    path = path[len(root) :]
            yield path
            for name in self._own_names:
                if path.startswith(name):
                    yield path[len(name) :]


class _Search:
    """Finds texts that are not just as files are called, given with their spellings."""

    def __init__(self, finder: Finder, spellings: dict[str, tuple[str, ...]]) -> None:
        self._finder, self._spellings = finder, spellings
        wanted = {spelling for several in spellings.values() for spelling in several}
        # Lists such as those of Places365 begin every path below the root with "/".
        wanted.update([text.lstrip("/") for text in wanted if text.startswith("/")])
        self._wanted = wanted
        self._index = _Index(finder.paths, wanted)

    def find(self, text: str) -> int | str:
        """Return the number of the file that a text names, or why it names none."""
        if not text.strip():
            return NO_NAME
        spellings = self._spellings[text]
        for spelling in spellings:
            if found := self._index.find(spelling):
                return self._finder.judge(found)
        for spelling in spellings:
            if found := self._composed.find(normalize("NFC", spelling)):
                return self._finder.judge(found)
        path = spellings[-1]
        if found := self._index.by_path.get(path.lstrip("/"), ()):
            return self._finder.judge(found)
        return OUTSIDE if f"{path}/".startswith(("/", "../")) else NO_FILE

    @cached_property
    def _composed(self) -> _Index:
        """The same with composed characters (NFC): systems differ in how they write accents."""
        paths = self._finder.paths
        accented = [number for number, path in enumerate(paths) if not path.isascii()]
        composed = [normalize("NFC", paths[number]) for number in accented]
        wanted = {normalize("NFC", text) for text in self._wanted}
        return _Index(composed, wanted, accented)
