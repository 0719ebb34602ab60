"""A tree of files, on disk or in an archive, and what a first look at each showed."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from imgrec.blob import Blob
from imgrec.errors import SourceError
from imgrec.model import Skipped
from imgrec.options import SourceOptions
from imgrec.source.context import Context
from imgrec.source.probe import BATCH, Batch, Probes, probe
from imgrec.source.tally import Tally
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.unreadable import disk_fault, glob_of, is_passing
from imgrec.text import globs_pattern

_SHOWN = 3


class Folder(NamedTuple):
    """One folder of a tree: its posix path below the root ("" for the root) and its files."""

    path: str
    files: tuple[str, ...]
    has_folders: bool
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...] = ()
    """Of each file; empty on disk, where the first look tells."""


class Closed(NamedTuple):
    """A folder that cannot be listed, or a link that cannot be followed, and why."""

    path: str
    error: OSError

    def __str__(self) -> str:
        return f"{self.path} ({self.error.strerror})"


class Lister(Protocol):
    """Lists the files of a tree, and remembers what it passed over."""

    root: str
    """What the tree is called in messages."""
    tally: Tally
    bad: list[Skipped]
    """Files that are known not to be readable."""
    closed: list[Closed]
    """Folders that cannot be listed."""
    warnings: list[str]
    homes: dict[str, tuple[int, int]]
    """As in `Catalog`."""

    @property
    def stamp(self) -> Stamp:
        """Return the stamp of what is not looked at file by file, as far as it is listed."""
        ...

    def folders(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        ...


def refuse_closed(lister: Lister, options: SourceOptions) -> None:
    """Raise SourceError if folders of a tree could not be listed; ExecutionError if that may pass.

    Those that `--exclude` leaves out are bad files instead, and so left out with the others.
    """
    closed = still_closed(lister, options)
    lister.bad += [
        Skipped(f"{one.path}/", f"unreadable: {one.error.strerror}")
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
    told_sizes: list[int] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    keys: list[bytes] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    """What is wrong with files, by number, that were meant as images."""
    others: set[int] = field(default_factory=set)
    """Numbers of the files that are no images and were not meant as such."""
    stamp: Stamp = NO_STAMP

    def add(self, folder: Folder) -> None:
        """Add a folder and its files."""
        prefix = f"{folder.path}/" if folder.path else ""
        self.folders.append(folder)
        self.names += [prefix + name for name in folder.files]
        self.blobs += folder.blobs
        self.told_sizes += folder.sizes

    def pick(self, numbers: Sequence[int]) -> Tree:
        """Return a tree of some of the files, before any is looked at, without its folders."""
        return Tree(
            names=[self.names[number] for number in numbers],
            blobs=[self.blobs[number] for number in numbers],
            told_sizes=[self.told_sizes[number] for number in numbers] if self.told_sizes else [],
        )

    def batch(self, start: int, end: int, spool: str, options: SourceOptions) -> Batch:
        """Return some of the files, to be looked at unless globs leave them out."""
        on_disk = not self.told_sizes
        blobs, names = self.blobs[start:end], self.names[start:end]
        left_out = frozenset(_left_out(names, options))
        sizes = [
            0 if at in left_out else size for at, size in enumerate(self.told_sizes[start:end])
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
        """Put what a look at one batch showed into its place; batches come in any order."""
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


def look_at(lister: Lister, context: Context) -> Tree:
    """List a tree and look at the beginning of each of its files but those that globs leave out."""
    tree = Tree()
    for probes in context.run(probe, _batches(lister, tree, context)):
        tree.note(probes)
        context.on_progress(len(probes.sizes))
    return tree


def list_files(lister: Lister) -> Tree:
    """List a tree, and look at none of its files."""
    tree = Tree()
    for folder in lister.folders():
        tree.add(folder)
    return tree


def look_at_listed(tree: Tree, context: Context) -> None:
    """Look at files of a tree that is listed already, but those that globs leave out."""
    spool = context.spool if context.keeps_small else ""
    count = len(tree.names)
    batches = (
        tree.batch(start, min(start + BATCH, count), spool, context.options)
        for start in range(0, count, BATCH)
    )
    for probes in context.run(probe, batches):
        tree.note(probes)
        context.on_progress(len(probes.sizes))


def _batches(lister: Lister, tree: Tree, context: Context) -> Iterator[Batch]:
    """List a tree, yielding its files to be looked at while the listing goes on."""
    spool = context.spool if context.keeps_small else ""
    start = 0
    for folder in lister.folders():
        tree.add(folder)
        while len(tree.names) - start >= BATCH:
            yield tree.batch(start, start + BATCH, spool, context.options)
            start += BATCH
    if start < len(tree.names):
        yield tree.batch(start, len(tree.names), spool, context.options)
