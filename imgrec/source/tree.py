"""A tree of files, on disk or in an archive, and what a first look at each showed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from xxhash import xxh3_128_hexdigest

from imgrec.blob import Blob
from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import BadImage, ImgrecError, SourceError
from imgrec.model import Samples, picked
from imgrec.notes import Note, Notes, ignored_files, warnings_of
from imgrec.options import SourceOptions
from imgrec.source.probe import BATCH, Batch, Probes, Run, contents, probe
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.blobs import read_pieces
from imgrec.storage.files import write_blocks
from imgrec.storage.read_errors import disk_fault, glob_of, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How to read a source, and with whose help."""

    options: SourceOptions
    run: Run
    """Decides where files are looked at."""
    on_progress: Callable[[int], object]
    """Is told how many more files were seen."""
    spool: str
    """A folder, which may not exist yet, for what must be unpacked before it can be read."""
    keeps_small: bool = False
    """Whether small files are copied to the spool at the first look, and not opened again."""


_EXAMPLES = 5
CLUTTER = {
    "__MACOSX": "__MACOSX", "Thumbs.db": "Thumbs.db", "ehthumbs.db": "Thumbs.db",
    "desktop.ini": "desktop.ini", "Desktop.ini": "desktop.ini",
    ".ipynb_checkpoints": ".ipynb_checkpoints", ".DS_Store": ".DS_Store",
}  # fmt: skip
"""Names of files and folders that systems leave behind, and what kind they are counted as."""


@dataclass(slots=True)
class Tally:
    """Counts what is passed over, by kind, with the first few names of each."""

    _counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, filename: str) -> None:
        """Count one file of a kind."""
        self._counts[kind] += 1
        if len(self._examples[kind]) < _EXAMPLES:
            self._examples[kind].append(filename)

    def ignored(self) -> Notes:
        """Return notes about what was counted, by kind."""
        counts = sorted(self._counts.items())
        notes = (ignored_files(kind, self._examples[kind], count) for kind, count in counts)
        return tuple(chain.from_iterable(notes))


def clutter_kind(name: str, *, is_folder: bool) -> str:
    """Return the kind of clutter that a file or folder of this name is, or "" for none."""
    if name in CLUTTER:
        return CLUTTER[name]
    if name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    return ""


_SHOWN = 3


class Folder(NamedTuple):
    """One folder of a tree: its posix path below the root ("" for the root) and its files."""

    path: str
    files: tuple[str, ...]
    has_folders: bool
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...] = ()
    """Of each file; empty on disk, where sizes are not known before the first look."""

    def with_sizes(self) -> Folder:
        """Return a folder that has sizes; for files on disk, any size will do."""
        return self if self.sizes else self._replace(sizes=(0,) * len(self.files))

    def pick(self, places: Sequence[int]) -> Folder:
        """Return a folder with only the files at `places`, in that order."""
        return self._replace(
            files=picked(self.files, places),
            blobs=picked(self.blobs, places),
            sizes=picked(self.sizes, places),
        )


class TreeFile(NamedTuple):
    """One file of a tree."""

    path: str
    """Posix path inside the source."""
    blob: Blob
    size: int
    """0 for a file on disk, whose size is not known before the first look."""


def files_of(folder: Folder) -> list[TreeFile]:
    """Return the files right in a folder, in the order of their names."""
    prefix = f"{folder.path}/" if folder.path else ""
    named = zip(folder.files, folder.blobs, folder.with_sizes().sizes, strict=True)
    return [TreeFile(prefix + name, blob, size) for name, blob, size in named]


def has_image_name(filename: str) -> bool:
    """Tell whether a file is meant as an image, by its extension."""
    return extension(filename) in IMAGE_EXTENSIONS


def spool_path(shown: str, suffix: str, context: Context) -> str:
    """Return the path in the spool for a copy of something that is called `shown`."""
    name = xxh3_128_hexdigest(shown.encode("utf-8", "surrogateescape"))
    return os.path.join(context.spool, name + suffix)


def local_copy(file: TreeFile, context: Context) -> str:
    """Return where a file can be opened: where it is, or a copy in the spool.

    The copy keeps the name, which tells the format and the split of a table.
    """
    path, blob, size = file
    if isinstance(blob, str):
        if not is_url(blob):
            return blob
        from imgrec.storage.remote.transfer import download_all

        return download_all({path: blob}, os.path.join(context.spool, "tables"))[path]
    copy = os.path.join(spool_path(path, "", context), path_of(path.rpartition("/")[2]))
    try:
        write_blocks(copy, read_pieces(blob, size))
    except BadImage as error:
        raise SourceError(f"cannot read {path}: {error}", path=path) from error
    return copy


class Closed(NamedTuple):
    """A folder that cannot be listed, or a link that cannot be followed, and why."""

    path: str
    error: OSError

    def __str__(self) -> str:
        return f"{self.path} ({self.error.strerror})"


@dataclass(slots=True)
class Lister(ABC):
    """Lists the folders of a tree, once, and remembers what it passed over.

    Each kind of tree (a disk, an object store, an archive) has its own `walk`.
    """

    root: str
    """What the tree is called in messages."""
    tally: Tally = field(default_factory=Tally)
    bad: list[Note] = field(default_factory=list)
    """Files that are known not to be readable."""
    closed: list[Closed] = field(default_factory=list)
    """Folders that cannot be listed."""
    warnings: list[str] = field(default_factory=list)
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As in `Catalog`."""
    stamp: Stamp = NO_STAMP
    """Of what is not looked at file by file, as far as it is listed."""
    _listed: list[Folder] = field(default_factory=list, init=False)
    _rest: Iterator[Folder] | None = field(default=None, init=False)

    @abstractmethod
    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""

    def folders(self) -> Iterator[Folder]:
        """Yield the folders that `walk` does, which is called only once."""
        yield from self._listed
        if self._rest is None:
            self._rest = self.walk()
        for folder in self._rest:
            self._listed.append(folder)
            yield folder

    def relist(self, folders: Iterable[Folder], stamp: Stamp) -> None:
        """Replace the folders, with some that have other files in them; add their stamp."""
        self._listed, self._rest = list(folders), iter(())
        self.stamp = self.stamp.merged(stamp)


def unreadable(shown: str, error: OSError) -> ImgrecError:
    """Return the error for a tree that cannot be read: the source's fault, or the disk's."""
    if is_passing(error):
        return disk_fault(error, shown)
    return SourceError(f"cannot read {shown}: {error.strerror or error}", path=shown)


def notes_of(lister: Lister) -> Notes:
    """Return all that a lister has noted."""
    return (*sorted(lister.bad), *lister.tally.ignored(), *warnings_of(lister.warnings))


def refuse_closed(lister: Lister, options: SourceOptions) -> None:
    """Raise SourceError if folders of a tree could not be listed; ExecutionError if that may pass.

    Those that `--exclude` leaves out are bad files instead, and so left out with the others.
    """
    closed = still_closed(lister, options)
    lister.bad += [
        Note(f"{one.path}/", f"unreadable: {one.error.strerror}")
        for one in lister.closed
        if one not in closed
    ]
    if not closed:
        return
    for path, error in closed:
        if is_passing(error):
            raise disk_fault(error, os.path.join(lister.root, path), f"{path}/")
    raise SourceError(
        f"{lister.root} has folders that cannot be read: {', '.join(map(str, closed))}",
        hint="make them readable: a class may be in there. To pack without them, pass "
        + " ".join(f"--exclude {glob_of(f'{one.path}/')}" for one in closed[:_SHOWN]),
        path=lister.root,
    )


def still_closed(lister: Lister, options: SourceOptions) -> list[Closed]:
    """Return the folders that could not be listed, but for those that `--exclude` leaves out."""
    left_out = globs_pattern(options.exclude)
    return [one for one in lister.closed if not left_out.match(f"{one.path}/")]


@dataclass(slots=True)
class Tree:
    """All files of a tree in the order of the listing, by column."""

    folders: list[Folder] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    listed_sizes: list[int] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    keys: list[bytes] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    """Faults of files that were meant as images, by number."""
    others: set[int] = field(default_factory=set)
    """Numbers of the other files: neither images nor meant as such."""
    stamp: Stamp = NO_STAMP

    def add(self, folder: Folder) -> None:
        """Add a folder and its files."""
        prefix = f"{folder.path}/" if folder.path else ""
        self.folders.append(folder)
        self.names += [prefix + name for name in folder.files]
        self.blobs += folder.blobs
        self.listed_sizes += folder.sizes

    def pick(self, numbers: Sequence[int]) -> Tree:
        """Return a tree of some of the files, before any is looked at, without its folders."""
        return Tree(
            names=[self.names[number] for number in numbers],
            blobs=[self.blobs[number] for number in numbers],
            listed_sizes=[self.listed_sizes[number] for number in numbers]
            if self.listed_sizes
            else [],
        )

    def samples(
        self, numbers: Sequence[int], class_names: Sequence[str], splits: Sequence[str], run: Run
    ) -> Samples:
        """Return the rows of the catalog for the files at `numbers`, which were probed."""
        names, blobs = picked(self.names, numbers), picked(self.blobs, numbers)
        sizes, keys = picked(self.sizes, numbers), picked(self.keys, numbers)
        return Samples(
            filenames=names,
            class_names=tuple(class_names),
            splits=tuple(splits),
            sizes=sizes,
            contents=tuple(contents(names, blobs, sizes, keys, run)),
            blobs=blobs,
        )

    def batch(self, start: int, end: int, spool: str, options: SourceOptions) -> Batch:
        """Return some of the files, to be looked at unless globs leave them out."""
        on_disk = not self.listed_sizes
        blobs, names = self.blobs[start:end], self.names[start:end]
        left_out = frozenset(_left_out(names, options))
        sizes = [
            0 if at in left_out else size for at, size in enumerate(self.listed_sizes[start:end])
        ]
        return Batch(
            start=start,
            blobs=tuple(blobs),
            sizes=tuple(sizes),
            names=() if on_disk else tuple(names),
            spool=spool if on_disk else "",
            prefix_chars=len(str(blobs[0])) - len(names[0]),
            left_out=left_out,
        )

    def note(self, probes: Probes) -> None:
        """Add the results of one batch; batches come in any order."""
        start, end = probes.start, probes.start + len(probes.sizes)
        if (missing := end - len(self.sizes)) > 0:
            self.sizes.frombytes(bytes(8 * missing))
            self.keys += [b""] * missing
        self.sizes[start:end] = probes.sizes
        self.keys[start:end] = probes.keys
        self.faults.update({start + at: why for at, why in probes.faults.items()})
        self.others.update(start + at for at in probes.others)
        self.stamp = self.stamp.merged(probes.stamp)
        offset = probes.spool_offset
        for at in probes.spooled:
            self.blobs[start + at] = probes.spool, offset
            offset += probes.sizes[at]


def _left_out(names: Sequence[str], options: SourceOptions) -> Iterator[int]:
    """Yield the places of the files that globs leave out."""
    if options.include or options.exclude:
        included, excluded = globs_pattern(options.include), globs_pattern(options.exclude)
        for place, name in enumerate(names):
            if excluded.match(name) or (options.include and not included.match(name)):
                yield place


def list_files(lister: Lister) -> Tree:
    """List a tree, and open none of its files."""
    tree = Tree()
    for folder in lister.folders():
        tree.add(folder)
    return tree


def look_at(lister: Lister, context: Context) -> Tree:
    """List a tree, and probe each of its files except those that globs leave out."""
    tree = Tree()
    _probe(tree, lister.folders(), context)
    return tree


def look_at_listed(tree: Tree, context: Context) -> None:
    """Probe the files of a listed tree, except those that globs leave out."""
    _probe(tree, (), context)


def _probe(tree: Tree, folders: Iterable[Folder], context: Context) -> None:
    for probes in context.run(probe, _batches(tree, folders, context)):
        tree.note(probes)
        context.on_progress(len(probes.sizes))


def _batches(tree: Tree, folders: Iterable[Folder], context: Context) -> Iterator[Batch]:
    """Add folders to a tree, yielding its files to be probed while the listing goes on."""
    spool = context.spool if context.keeps_small else ""
    start = 0
    for folder in folders:
        tree.add(folder)
        while len(tree.names) - start >= BATCH:
            yield tree.batch(start, start + BATCH, spool, context.options)
            start += BATCH
    while start < len(tree.names):
        end = min(start + BATCH, len(tree.names))
        yield tree.batch(start, end, spool, context.options)
        start = end


class Match(NamedTuple):
    """The files of a kind."""

    files: tuple[TreeFile, ...]
    names: tuple[str, ...] = ()
    """The classes in the order of their labels, where a file tells."""
    others: tuple[TreeFile, ...] = ()
    """The files of the listing that are not of this kind."""
