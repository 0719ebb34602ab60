"""A folder on an object store, listed as if it were on a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from imgrec.errors import SourceError
from imgrec.model import Skipped
from imgrec.source.archives.names import has_archive_name
from imgrec.source.context import Context
from imgrec.source.tally import Tally, clutter_kind
from imgrec.source.tree import Closed, Folder, Lister
from imgrec.stamp import NO_STAMP, Stamp, stamp_of_object
from imgrec.storage.remote.copying import copy_objects
from imgrec.storage.remote.listing import Listed, objects

_SECOND_NS = 10**9


@dataclass(slots=True)
class _Inside:
    """What is in a folder."""

    files: dict[str, Listed] = field(default_factory=dict)
    folders: dict[str, _Inside] = field(default_factory=dict)


@dataclass(slots=True)
class StoreWalk:
    """The tree below a URL, in the order of names, as `Walk` lists one on a disk."""

    root: str
    spool: str
    """The local folder for archives that are right in it: they are read at random."""
    tally: Tally = field(default_factory=Tally)
    bad: list[Skipped] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    stamp: Stamp = NO_STAMP

    def folders(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        listed = objects(self.root)
        if not listed:
            raise SourceError(f"there is nothing below {self.root}", path=self.root)
        self.stamp = self.stamp.merged(
            *(stamp_of_object(f"{self.root}/{found.path}", *found.stat) for found in listed)
        )
        # Stores tell whole seconds.
        self.stamp = self.stamp.dated(self.stamp.newest_ns + _SECOND_NS)
        top = _Inside()
        for found in listed:
            self._put(found, top)
        yield from self._walk("", top)

    def _put(self, found: Listed, folder: _Inside) -> None:
        *above, name = found.path.split("/")
        if not name:
            return  # a marker that stands for a folder
        if {"", ".", ".."} & {*above}:
            self.bad.append(Skipped(found.path, "a name that no file can have"))
            return
        for part in above:
            folder = folder.folders.setdefault(part, _Inside())
        folder.files[name] = found

    def _without_clutter(self, names: Iterable[str], prefix: str, *, is_folder: bool) -> list[str]:
        """Return names in their order, but those to ignore, which are counted."""
        kept = []
        for name in sorted(names):
            if kind := clutter_kind(name, is_folder=is_folder):
                self.tally.add(kind, prefix + name)
            else:
                kept.append(name)
        return kept

    def _walk(self, path: str, folder: _Inside) -> Iterator[Folder]:
        prefix = f"{path}/" if path else ""
        files = self._without_clutter(folder.files, prefix, is_folder=False)
        below = self._without_clutter(folder.folders, prefix, is_folder=True)
        sizes = tuple(folder.files[name].stat.size for name in files)
        yield Folder(path, tuple(files), bool(below), self._blobs(prefix, files), sizes)
        for name in below:
            yield from self._walk(prefix + name, folder.folders[name])

    def _blobs(self, prefix: str, files: list[str]) -> tuple[str, ...]:
        urls = {name: f"{self.root.rstrip('/')}/{prefix}{name}" for name in files}
        archives = [] if prefix else [name for name in files if has_archive_name(name)]
        copies = copy_objects({name: urls[name] for name in archives}, self.spool)
        return tuple(copies.get(name, url) for name, url in urls.items())


def open_store(url: str, context: Context) -> Lister:
    """Return the lister of a folder on a store, and of the archives in it."""
    walk = StoreWalk(url, context.spool)
    from imgrec.source.archives.nested import expand

    return expand(walk, context)
