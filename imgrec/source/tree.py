"""Listing a tree of files: its folders, what was passed over, and what could not be read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from xxhash import xxh3_128_hexdigest

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import BadImage, ImgrecError, SourceError, UsageError
from imgrec.model import Blob, picked
from imgrec.notes import Note, Notes, ignored_files, warnings_of
from imgrec.options import SourceOptions
from imgrec.source.unchanged import Unopened
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.blobs import read_pieces
from imgrec.storage.files import write_blocks
from imgrec.storage.read_errors import glob_of, is_temporary, read_error
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, path_of

T = TypeVar("T")
R = TypeVar("R")

_EXAMPLES = 5
_SHOWN = 3
CLUTTER = {
    "__MACOSX": "__MACOSX", "Thumbs.db": "Thumbs.db", "ehthumbs.db": "Thumbs.db",
    "desktop.ini": "desktop.ini", "Desktop.ini": "desktop.ini",
    ".ipynb_checkpoints": ".ipynb_checkpoints", ".DS_Store": ".DS_Store",
}  # fmt: skip
"""Files and folders that operating systems and tools leave behind, and the kind they count as."""


class Run(Protocol):
    """Calls a function on each task, somewhere; results come in any order."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How to read a source."""

    options: SourceOptions
    run: Run
    """Runs the tasks that open files."""
    on_progress: Callable[[int], object]
    """Called with the number of files read since the last call."""
    spool: str
    """A folder, which may not exist yet, for files that must be unpacked to be read."""
    keeps_small: bool = False
    """Whether small files are copied to the spool while they are probed, and not opened again."""
    unopened: Unopened | None = None
    """The files that an earlier version knew; None to open all."""
    is_private: bool = False
    """Whether only this machine sees the spool, while tasks run on others."""

    def spool_path(self, shown: str, suffix: str) -> str:
        """Return the path in the spool for a copy of the file called `shown`."""
        name = xxh3_128_hexdigest(shown.encode("utf-8", "surrogateescape"))
        return os.path.join(self.seen_spool(), name + suffix)

    def seen_spool(self) -> str:
        """Return the spool for files that tasks read; raise UsageError if they do not see it."""
        if self.is_private:
            raise unseen("a part of the source")
        return self.spool


def unseen(what: str) -> UsageError:
    """Return the error for a source that executors cannot read in place."""
    return UsageError(
        f"{what} must be copied or unpacked to be read, and executors would not see the copy",
        hint="put the images in class folders, or leave out --engine",
    )


@dataclass(slots=True)
class Tally:
    """Counts ignored files by kind, with the first few names of each."""

    _counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, filename: str) -> None:
        """Count one file."""
        self._counts[kind] += 1
        if len(self._examples[kind]) < _EXAMPLES:
            self._examples[kind].append(filename)

    def ignored(self) -> Notes:
        """Return notes about the files counted, by kind."""
        counts = sorted(self._counts.items())
        notes = (ignored_files(kind, self._examples[kind], count) for kind, count in counts)
        return tuple(chain.from_iterable(notes))


def clutter_kind(name: str, *, is_folder: bool) -> str:
    """Return the kind of clutter a file or folder is by its name; "" for none."""
    if name in CLUTTER:
        return CLUTTER[name]
    if name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    return ""


def has_image_name(filename: str) -> bool:
    """Return whether a file has the extension of an image."""
    return extension(filename) in IMAGE_EXTENSIONS


def joined(folder: str, name: str) -> str:
    """Join two parts of a posix path; either may be empty."""
    return f"{folder}/{name}" if folder and name else folder or name


class TreeFile(NamedTuple):
    """One file of a tree."""

    path: str
    """Posix path inside the source."""
    blob: Blob
    size: int
    """0 for a file on disk, which is not opened while listing."""


class Folder(NamedTuple):
    """One folder of a tree, with its files in the order of their names."""

    path: str
    """Posix path below the root; "" for the root."""
    files: tuple[str, ...]
    has_folders: bool
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...]
    """0 for files on disk, which are not opened while listing."""

    def pick(self, places: Sequence[int]) -> Folder:
        """Return a folder with only the files at `places`."""
        return self._replace(
            files=picked(self.files, places),
            blobs=picked(self.blobs, places),
            sizes=picked(self.sizes, places),
        )

    def tree_files(self) -> list[TreeFile]:
        """Return the files with their paths in the source."""
        prefix = f"{self.path}/" if self.path else ""
        named = zip(self.files, self.blobs, self.sizes, strict=True)
        return [TreeFile(prefix + name, blob, size) for name, blob, size in named]


class Match(NamedTuple):
    """The files of a kind of source."""

    files: tuple[TreeFile, ...]
    names: tuple[str, ...] = ()
    """Class names in the order of their labels, if a file lists them."""
    others: tuple[TreeFile, ...] = ()
    """The files of the listing that are not of this kind."""


class Closed(NamedTuple):
    """A folder that cannot be listed, or a link that cannot be followed, and why."""

    path: str
    error: OSError

    def __str__(self) -> str:
        return f"{self.path} ({self.error.strerror})"


@dataclass(slots=True)
class Lister(ABC):
    """Lists the folders of a tree, once, and records what it passed over.

    Each kind of tree (disk, object store, archive) has its own `walk`.
    """

    root: str
    """Its name in messages."""
    tally: Tally = field(default_factory=Tally)
    bad: list[Note] = field(default_factory=list)
    """Unreadable files."""
    closed: list[Closed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    too_deep: list[str] = field(default_factory=list)
    """Archives that are not opened, as they are in an inner archive."""
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As in `Catalog`."""
    stamp: Stamp = NO_STAMP
    """Of folders, archives and objects listed so far. Files on disk get theirs when probed."""
    _listed: list[Folder] = field(default_factory=list, init=False)
    _rest: Iterator[Folder] | None = field(default=None, init=False)

    @abstractmethod
    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""

    def folders(self) -> Iterator[Folder]:
        """Yield the folders of `walk`, which is called only once."""
        yield from self._listed
        if self._rest is None:
            self._rest = self.walk()
        for folder in self._rest:
            self._listed.append(folder)
            yield folder

    def files(self) -> list[TreeFile]:
        """Return all files."""
        return [file for folder in self.folders() for file in folder.tree_files()]

    def without_clutter(self, names: Iterable[str], folder: str, *, is_folder: bool) -> list[str]:
        """Sort the names of files, or of folders, in a folder; count clutter and leave it out."""
        names = sorted(names)
        kept = [name for name in names if name[0] != "." and name not in CLUTTER]
        if len(kept) < len(names):
            for name in names:
                if kind := clutter_kind(name, is_folder=is_folder):
                    self.tally.add(kind, joined(folder, name))
        return kept

    def relist(self, folders: Iterable[Folder], stamp: Stamp) -> None:
        """Replace the folders, sort them, and add the stamp of their files."""
        self._listed = sorted(folders, key=lambda folder: folder.path.split("/"))
        self._rest = iter(())
        self.stamp = self.stamp.merged(stamp)

    def notes(self) -> Notes:
        """Return notes about bad files, ignored files and warnings."""
        return (*sorted(self.bad), *self.tally.ignored(), *warnings_of(self.warnings))

    def closed_except(self, exclude: Iterable[str]) -> list[Closed]:
        """Return the folders that could not be listed, except those matched by `--exclude`."""
        excluded = globs_pattern(exclude)
        return [one for one in self.closed if not excluded.match(f"{one.path}/")]

    def refuse_closed(self, options: SourceOptions) -> None:
        """Raise SourceError if folders could not be listed; ExecutionError if that may pass.

        Folders matched by `--exclude` become bad files instead.
        """
        closed = self.closed_except(options.exclude)
        self.bad += [
            Note(f"{one.path}/", f"unreadable: {one.error.strerror}")
            for one in self.closed
            if one not in closed
        ]
        for path, error in closed:
            if is_temporary(error):
                raise read_error(error, os.path.join(self.root, path), f"{path}/")
        if closed:
            raise SourceError(
                f"{self.root} has folders that cannot be read: {', '.join(map(str, closed))}",
                hint="make them readable: a class may be in there. To pack without them, pass "
                + " ".join(f"--exclude {glob_of(f'{one.path}/')}" for one in closed[:_SHOWN]),
                path=self.root,
            )


def local_copy(file: TreeFile, context: Context) -> str:
    """Return a path where a file can be opened: its own, or that of a copy in the spool.

    The copy keeps the file's name, because the format and the split of a table depend on it.
    """
    path, blob, size = file
    if isinstance(blob, str):
        if not is_url(blob):
            return blob
        from imgrec.storage.remote.transfer import download_all

        return download_all({path: blob}, os.path.join(context.spool, "tables"))[path]
    copy = os.path.join(context.spool_path(path, ""), path_of(path.rpartition("/")[2]))
    try:
        write_blocks(copy, read_pieces(blob, size))
    except BadImage as error:
        raise SourceError(f"cannot read {path}: {error}", path=path) from error
    return copy


def unreadable(shown: str, error: OSError) -> ImgrecError:
    """Return the error for a tree that cannot be read: SourceError, or ExecutionError."""
    if is_temporary(error):
        return read_error(error, shown)
    return SourceError(f"cannot read {shown}: {error.strerror or error}", path=shown)
