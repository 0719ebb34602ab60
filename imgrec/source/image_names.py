"""Which image a table means by a path, a name or an id."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from unicodedata import normalize
from urllib.parse import unquote

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.model import TEST, TRAIN
from imgrec.notes import Note
from imgrec.options import SourceOptions
from imgrec.source.probe import FileTable, list_tree
from imgrec.source.tree import Context, Lister, has_image_name
from imgrec.source.words import split_in, splits_of
from imgrec.storage.read_errors import is_temporary
from imgrec.text import name_of

_NO_NAME = "no image is named"
_NO_FILE = "no such image"
_OUTSIDE = "outside the folder of the images"
_OTHER = "not an image"
_SHOWN = 5
_EXAMPLES = 3
_NOT_IMAGES = frozenset(
    {
        "txt", "csv", "tsv", "tab", "json", "jsonl", "ndjson", "xml", "yaml", "yml", "md", "rst",
        "html", "htm", "pdf", "log", "ini", "cfg", "py", "ipynb", "parquet", "npy", "npz", "mat",
        "pkl", "h5", "db", "gz", "zip", "tar", "svg",
    }
)  # fmt: skip
"""Extensions of files that lie beside images under the same names. Ids never mean such a file."""
_OTHER_SPLIT = {TRAIN: TEST, TEST: TRAIN}
_ELSEWHERE = re.compile(r"\w+:|/")
"""How URLs and paths on other machines begin: their folders may not be those of a download."""
_SEPARATOR = re.compile(r"[-_. ]")


def _path(path: str) -> str:
    return path


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def stem_of(path: str) -> str:
    """Return a path without the extension of its name.

    >>> stem_of("a.b/c.jpg"), stem_of("a.b/c"), stem_of(".hidden")
    ('a.b/c', 'a.b/c', '.hidden')
    """
    stem, dot, rest = path.rpartition(".")
    return stem if dot and "/" not in rest and stem and stem[-1] != "/" else path


def _stem_of_name(path: str) -> str:
    return stem_of(_name(path))


# Rows of a manifest name images exactly


class _Lookup:
    """Files by path, and images by name and by both without extension.

    It holds only wanted keys, and so grows with the rows of a table, not with the files. Each way
    to look up goes over all paths, but only when it is first needed: most tables hold paths.
    """

    def __init__(self, paths: Sequence[str], wanted: Container[str]) -> None:
        self._paths, self._wanted = paths, wanted
        self._found: dict[Callable[[str], str], dict[str, list[int]]] = {}

    def by(self, key: Callable[[str], str], text: str) -> Sequence[int]:
        """Return the numbers of the files with a key."""
        if key not in self._found:
            numbers: dict[str, list[int]] = {}
            for number, path in enumerate(self._paths):
                own = key(path)
                if own in self._wanted and (key is _path or extension(path) not in _NOT_IMAGES):
                    numbers.setdefault(own, []).append(number)
            self._found[key] = numbers
        return self._found[key].get(text, ())

    def find(self, text: str) -> Sequence[int]:
        """Return the files that a text names, by the most exact key that fits."""
        if found := self.by(_path, text):
            return found
        if "/" in text:
            return self.by(stem_of, text)
        if found := self.by(_name, text):
            return found
        found = self.by(_stem_of_name, text)
        at_root = [number for number in found if "/" not in self._paths[number]]
        return at_root or found


@dataclass(frozen=True)
class Finder:
    """Finds the files that rows of a manifest name."""

    paths: Sequence[str]
    """Posix paths of all files below the root."""
    root: str
    """The folder or archive on disk, which rows may put before their paths."""

    def find_all(self, texts: Sequence[str]) -> list[int | str]:
        """Return the number of the file that each text names, or why there is none."""
        wanted = set(texts)
        lookup = _Lookup(self.paths, wanted)
        found = {text: self._only(hits) for text in wanted if (hits := lookup.find(text))}
        if lost := wanted.difference(found):
            found.update(self._find_respelled(lost))
        return [found[text] for text in texts]

    def _only(self, found: Sequence[int]) -> int | str:
        """Return the one file that is meant, or say that several could be."""
        if len(found) > 1:
            found = [at for at in found if has_image_name(self.paths[at])] or found
        if len(found) == 1:
            return found[0]
        shown = ", ".join(sorted(self.paths[number] for number in found)[:_SHOWN])
        return f"{len(found)} images could be meant: {shown}"

    def _find_respelled(self, texts: set[str]) -> Iterator[tuple[str, int | str]]:
        """Find texts that are not exactly a path or a name."""
        spellings = {text: tuple(self._spellings(text)) for text in texts}
        wanted = {spelling for several in spellings.values() for spelling in several}
        # Lists such as those of Places365 begin every path below the root with "/".
        wanted.update([text.lstrip("/") for text in wanted if text.startswith("/")])
        lookup = _Lookup(self.paths, wanted)
        composed: _Lookup | None = None
        for text, several in spellings.items():
            if not text.strip():
                yield text, _NO_NAME
                continue
            found = next(filter(None, map(lookup.find, several)), ())
            if not found:
                # Systems differ in how they encode accents.
                composed = composed or _Lookup(
                    [normalize("NFC", path) for path in self.paths],
                    {normalize("NFC", text) for text in wanted},
                )
                forms = (normalize("NFC", spelling) for spelling in several)
                found = next(filter(None, map(composed.find, forms)), ())
            last = several[-1]
            if found or (found := lookup.by(_path, last.lstrip("/"))):
                yield text, self._only(found)
            else:
                yield text, _OUTSIDE if f"{last}/".startswith(("/", "../")) else _NO_FILE

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        places = map(name_of, (os.path.abspath(self.root), os.path.realpath(self.root)))
        return tuple(place.rstrip("/") + "/" for place in places)

    def _spellings(self, text: str) -> Iterator[str]:
        """Yield the paths below the root that a text may mean, the likeliest first."""
        own = posixpath.basename(self._roots[0][:-1])
        for spelling in (text, text.replace("\\", "/")) if "\\" in text else (text,):
            path = posixpath.normpath(spelling.strip())
            for root in self._roots:
                path = path.removeprefix(root)
            yield path
            for name in filter(None, (own, own.partition(".")[0])):
                if path.startswith(f"{name}/"):
                    yield path[len(name) + 1 :]


@dataclass(frozen=True, kw_only=True)
class ManifestImages:
    """All files that rows may name: they are listed, but not opened."""

    lister: Lister
    listed: FileTable
    unreadable: Sequence[Note]
    """Files that cannot be read, numbered after those that are listed."""

    @classmethod
    def of(cls, lister: Lister) -> ManifestImages:
        """List the files of a folder or an archive."""
        listed = list_tree(lister)
        known = set(listed.names) if lister.bad else set()
        unreadable = [file for file in lister.bad if file.filename not in known]
        return cls(lister=lister, listed=listed, unreadable=unreadable)

    @cached_property
    def finder(self) -> Finder:
        """Finds the files by what rows call them."""
        paths = [*self.listed.names, *(file.filename for file in self.unreadable)]
        return Finder(paths, self.lister.root)

    def open(
        self, found: Sequence[int | str], context: Context
    ) -> tuple[FileTable, Sequence[int | str]]:
        """Probe the files that rows name, and no others.

        Returns a tree of them, and for each row its file's number in the tree or why it has none.
        """
        count = len(self.listed.names)
        numbers = sorted({at for at in found if isinstance(at, int) and at < count})
        tree = self.listed.pick(numbers)
        tree.probe(context)
        faults = {**tree.faults, **dict.fromkeys(tree.others, _OTHER)}
        places: dict[int | str, int | str] = {
            number: faults.get(place, place) for place, number in enumerate(numbers)
        }
        places |= {at: file.reason for at, file in enumerate(self.unreadable, count)}
        return tree, [places.get(at, at) for at in found]

    def tally_others(
        self,
        found: Sequence[int | str],
        manifest: Sequence[str],
        where: str,
        tables: Container[str] = (),
    ) -> Iterator[str]:
        """Count the files that no row names, except the manifest's own; warn about images.

        `manifest` has paths on disk, `tables` has names in the listing. Only the names of other
        files are looked at: there may be millions of them.
        """
        tally, named = self.lister.tally, set(found)
        own_names = {os.path.basename(path) for path in manifest}
        own_paths = {os.path.realpath(path) for path in manifest}
        count, examples = 0, list[str]()
        for number, name in enumerate(self.listed.names):
            if number in named:
                continue
            blob = self.listed.blobs[number]
            if extension(name) in IMAGE_EXTENSIONS:
                count += 1
                tally.add("without a row", name)
                if len(examples) < _EXAMPLES:
                    examples.append(name)
            elif name not in tables and not (
                _name(name) in own_names
                and isinstance(blob, str)
                and os.path.realpath(blob) in own_paths
            ):
                tally.add(_OTHER if extension(name) else "not named by a row", name)
        for at, file in enumerate(self.unreadable, len(self.listed.names)):
            if at not in named:
                tally.add("unreadable file", file.filename)
        if count:
            what = "1 other image has" if count == 1 else f"{count:,} other images have"
            yield f"{what} no row in {where}, such as {', '.join(examples)}"

    def refuse_hidden(self, found: Sequence[int | str], options: SourceOptions) -> None:
        """Raise an error if a missing file may be in a folder that could not be listed."""
        closed = self.lister.closed_except(options.exclude)
        if _NO_FILE in found or any(is_temporary(one.error) for one in closed):
            self.lister.refuse_closed(options)


# Tables of a download name images by ids


@dataclass(frozen=True)
class ImageIndex:
    """The images of a download by path, name and stem."""

    paths: Sequence[str]
    file_of: Mapping[str, str] = field(default_factory=dict)
    """The file of an id, where COCO-style JSON has it."""

    def find(self, text: str, split: str = "") -> Sequence[str]:
        """Return the images that an id may mean.

        Ids of train images are not searched in test folders, nor the other way round: both may have
        a `1.png`. Folders named after the split come first.
        """
        allowed = [
            path for path in self._named(text) if self.split_of(path) != _OTHER_SPLIT.get(split)
        ]
        return [path for path in allowed if split and self.split_of(path) == split] or allowed

    def knows(self, text: str) -> bool:
        """Return whether an id names any image."""
        return bool(self._named(text))

    def _named(self, text: str) -> Sequence[str]:
        """Return the images of a path, of the end of a path, or of a name without extension."""
        text = self.file_of.get(text.strip(), text)
        return self._spelled(text) or (self._spelled(unquote(text)) if "%" in text else ())

    def _spelled(self, text: str) -> Sequence[str]:
        path = normalize("NFC", text.strip().replace("\\", "/").lstrip("/"))
        below = path
        while below:  # a path may begin above the source
            if below in self._paths and (below == path or "/" in below):
                return (self._paths[below],)
            below = below.partition("/")[2]
        folder, _, name = path.rpartition("/")
        found = self._names.get(name) or self._stems.get(name, ())
        if not folder:
            return found
        ends = [one for one in found if f"/{one}".rpartition("/")[0].endswith(f"/{folder}")]
        return ends or (found if len(found) == 1 and _ELSEWHERE.match(text.strip()) else ())

    @cached_property
    def _paths(self) -> Mapping[str, str]:
        return {normalize("NFC", path): path for path in self.paths}

    @cached_property
    def _names(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            found[normalize("NFC", _name(path))].append(path)
        return found

    @cached_property
    def _stems(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, paths in self._names.items():
            found[stem_of(name)] += paths
        return found

    def split_of(self, path: str) -> str:
        """Return the split that the folders of a path mean; "" for none."""
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
        """The split that each folder means among its siblings, by the folder above."""
        below: dict[str, set[str]] = defaultdict(set)
        for folder in {path.rpartition("/")[0] for path in self.paths}:
            while folder:
                folder, _, name = folder.rpartition("/")
                below[folder].add(name)
        return {above: splits_of(sorted(names)) for above, names in below.items()}

    def templates(self, ids: Sequence[str]) -> list[str]:
        """Return the templates by which most ids name an image, such as `{id}_green.png`."""
        endings: dict[str, set[str]] = defaultdict(set)
        for name in map(_name, self.paths):
            for match in _SEPARATOR.finditer(name):
                endings[name[: match.start()]].add(name[match.start() :])
        counts = Counter(ending for text in ids for ending in endings.get(text, ()))
        return sorted(f"{{id}}{ending}" for ending, n in counts.items() if n * 2 > len(ids))
