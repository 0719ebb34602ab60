"""Walks over folders, on a disk or an object store: the files in them, and what is ignored."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from imgrec.errors import SourceError
from imgrec.notes import Note
from imgrec.source.archives.names import has_archive_name
from imgrec.source.tally import CLUTTER, clutter_kind
from imgrec.source.tree import Closed, Folder, Lister, unreadable
from imgrec.stamp import stamp_of_object
from imgrec.storage.read_errors import DENIED, is_passing
from imgrec.text import name_of, path_of

if TYPE_CHECKING:
    from imgrec.storage.remote.read import Listed

_SECOND_NS = 10**9


class _Visit(NamedTuple):
    path: str
    """Below the root, as text: names are UTF-8."""
    real: str
    """As the operating system takes it."""
    came_from: tuple[str, ...]
    """Real paths of the folders whose links led here."""


@dataclass(slots=True)
class Walk(Lister):
    """A walk over the folders below `root`, on a disk.

    Links to files are followed. So are links to folders, unless they lead back to where they came
    from or, without `follow_links`, out of the tree. The stamp is when a folder, or a link that led
    to something, last changed, or came from elsewhere.
    """

    follow_links: bool = False
    _begun_ns: int = 0

    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        prefix = os.path.join(os.path.abspath(self.root), "")
        real_root = os.path.realpath(self.root)
        self._begun_ns = time.time_ns()
        stack = [_Visit("", real_root, ())]
        while stack:
            visit = stack.pop()
            files: list[str] = []
            others: list[os.DirEntry[str]] = []
            folder = path_of(visit.path)
            try:
                with os.scandir(os.path.join(self.root, folder)) as entries:
                    self._remember(prefix + folder)
                    for entry in entries:
                        if entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
                        else:
                            others.append(entry)
                files = self._without_clutter(list(map(name_of, files)), visit.path)
                below = self._sort_out(others, files, visit, real_root)
            except OSError as error:
                if not visit.path:
                    raise unreadable(self.root, error) from error
                self.closed.append(Closed(visit.path, error))
                continue
            files.sort()
            within = f"{prefix}{folder}/" if folder else prefix
            blobs = tuple([within + path_of(name) for name in files])
            yield Folder(visit.path, tuple(files), bool(below), blobs)
            stack.extend(reversed(below))

    def _remember(self, folder: str) -> None:
        """Note the inode of a folder, and when it last changed or got its name."""
        found = os.stat(folder)
        self.homes[folder] = found.st_dev, found.st_ino
        # Where folders have no dates, as in object stores that are mounted, they have the present.
        if found.st_ctime_ns < self._begun_ns:
            self._date(found)
        if os.path.islink(path := folder.rstrip("/")):
            self._date(os.lstat(path))

    def _date(self, found: os.stat_result) -> None:
        self.stamp = self.stamp.dated(found.st_ctime_ns)

    def _without_clutter(self, names: list[str], folder: str) -> list[str]:
        kept = [name for name in names if name[0] != "." and name not in CLUTTER]
        if len(kept) < len(names):
            for name in sorted(set(names).difference(kept)):
                path = f"{folder}/{name}" if folder else name
                self.tally.add(clutter_kind(name, is_folder=False), path)
        return kept

    def _sort_out(
        self, entries: list[os.DirEntry[str]], files: list[str], visit: _Visit, real_root: str
    ) -> list[_Visit]:
        """Add the files that links lead to, and return the folders to walk, by name."""
        below: list[_Visit] = []
        named = [(name_of(entry.name), entry) for entry in entries]
        for name, entry in sorted(named, key=itemgetter(0)):
            path = f"{visit.path}/{name}" if visit.path else name
            if kind := clutter_kind(name, is_folder=entry.is_dir(follow_symlinks=False)):
                self.tally.add(kind, path)
            elif entry.is_symlink():
                self._follow(path, visit, real_root, files, below)
            elif entry.is_dir(follow_symlinks=False):
                below.append(_Visit(path, f"{visit.real}/{entry.name}", visit.came_from))
            else:
                self.tally.add("special file", path)
        return below

    def _follow(
        self, path: str, visit: _Visit, real_root: str, files: list[str], below: list[_Visit]
    ) -> None:
        link = os.path.join(self.root, path_of(path))
        real = os.path.realpath(link)
        try:
            mode = os.stat(real).st_mode
            self._date(os.lstat(link))
        except OSError as error:
            if error.errno in DENIED or is_passing(error):  # it may lead to a whole class
                self.closed.append(Closed(path, error))
            else:
                self.bad.append(Note(path, "broken link"))
            return
        if stat.S_ISREG(mode):
            files.append(path.rpartition("/")[2])
        elif not stat.S_ISDIR(mode):
            self.tally.add("special file", path)
        elif any(_is_inside(folder, real) for folder in (visit.real, *visit.came_from)):
            self.warnings.append(f"{path}: a link back to where it came from, not walked")
        elif not self.follow_links and not _is_inside(real, real_root):
            self.warnings.append(
                f"{path}: a link out of the source, not walked without --follow-links"
            )
        else:
            below.append(_Visit(path, real, (*visit.came_from, visit.real)))


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(slots=True)
class _Inside:
    """What is in a folder."""

    files: dict[str, Listed] = field(default_factory=dict)
    folders: dict[str, _Inside] = field(default_factory=dict)


@dataclass(slots=True)
class StoreWalk(Lister):
    """The folders below a URL, on an object store."""

    spool: str = field(kw_only=True)
    """The local folder for archives that are right in it: they are read at random."""

    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        from imgrec.storage.remote.read import objects

        listed = objects(self.root)
        if not listed:
            raise SourceError(f"there is nothing below {self.root}", path=self.root)
        self.stamp = self.stamp.merged(
            *(stamp_of_object(f"{self.root}/{found.path}", *found.stat) for found in listed)
        )
        # Stores have times in whole seconds.
        self.stamp = self.stamp.dated(self.stamp.newest_ns + _SECOND_NS)
        top = _Inside()
        for found in listed:
            self._put(found, top)
        yield from self._folders("", top)

    def _put(self, found: Listed, folder: _Inside) -> None:
        *above, name = found.path.split("/")
        if not name:
            return  # it marks an empty folder
        if {"", ".", ".."} & {*above}:
            self.bad.append(Note(found.path, "a name that no file can have"))
            return
        for part in above:
            folder = folder.folders.setdefault(part, _Inside())
        folder.files[name] = found

    def _without_clutter(self, names: Iterable[str], prefix: str, *, is_folder: bool) -> list[str]:
        """Return names in their order; count and leave out clutter."""
        kept = []
        for name in sorted(names):
            if kind := clutter_kind(name, is_folder=is_folder):
                self.tally.add(kind, prefix + name)
            else:
                kept.append(name)
        return kept

    def _folders(self, path: str, folder: _Inside) -> Iterator[Folder]:
        prefix = f"{path}/" if path else ""
        files = self._without_clutter(folder.files, prefix, is_folder=False)
        below = self._without_clutter(folder.folders, prefix, is_folder=True)
        sizes = tuple(folder.files[name].stat.size for name in files)
        yield Folder(path, tuple(files), bool(below), self._blobs(prefix, files), sizes)
        for name in below:
            yield from self._folders(prefix + name, folder.folders[name])

    def _blobs(self, prefix: str, files: list[str]) -> tuple[str, ...]:
        urls = {name: f"{self.root.rstrip('/')}/{prefix}{name}" for name in files}
        archives = [] if prefix else [name for name in files if has_archive_name(name)]
        from imgrec.storage.remote.download import copy_objects

        copies = copy_objects({name: urls[name] for name in archives}, self.spool)
        return tuple(copies.get(name, url) for name, url in urls.items())
