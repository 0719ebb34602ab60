"""Opening a source as a tree of files: a folder, an archive or an object store."""

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
from imgrec.source.archive_names import has_archive_name
from imgrec.source.tree import CLUTTER, Closed, Folder, Lister, clutter_kind, unreadable
from imgrec.stamp import stamp_of_object
from imgrec.storage.read_errors import DENIED, is_passing
from imgrec.text import name_of, path_of

if TYPE_CHECKING:
    from imgrec.storage.remote.read import Listed


from imgrec.source.archive_names import archive_stem
from imgrec.source.manifests.tables import is_table
from imgrec.source.split_words import split_word
from imgrec.source.tree import Context, has_image_name
from imgrec.storage.read_errors import disk_fault
from imgrec.storage.urls import is_url
from imgrec.text import given_path

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
        from imgrec.storage.remote.transfer import download_all

        copies = download_all({name: urls[name] for name in archives}, self.spool)
        return tuple(copies.get(name, url) for name, url in urls.items())


def open_tree(path: str, context: Context) -> Lister:
    """List the files of a folder or an archive, and of the archives in it.

    If `--test-images` names another one, it becomes a folder in it. Raises SourceError if a path is
    neither.
    """
    lister = _open_one(path, context)
    other = place_of_test_images(lister.root, context.options.test_images).outside
    if not other or is_table(other):
        return lister
    from imgrec.source.archive import join

    join(lister, _open_one(other, context), _mount(other))
    return lister


class TestImagesPlace(NamedTuple):
    """Where `--test-images` points: into the source, or to a file or folder outside of it."""

    inside: str = ""
    outside: str = ""


def place_of_test_images(root: str, given: str) -> TestImagesPlace:
    """Tell what `--test-images` means for a source."""
    if not given or is_url(given) or is_url(root):
        return TestImagesPlace(inside=given.strip("/"))
    is_relative = not os.path.isabs(given)
    if is_relative and os.path.isdir(root) and os.path.lexists(os.path.join(root, given)):
        return TestImagesPlace(inside=os.path.normpath(given))
    if not os.path.lexists(given_path(given)):
        return TestImagesPlace(inside=given.strip("/"))
    real, above = os.path.realpath(given_path(given)), os.path.realpath(root)
    if os.path.isdir(root) and real.startswith(os.path.join(above, "")):
        return TestImagesPlace(inside=name_of(os.path.relpath(real, above)))
    is_table_file = os.path.isfile(real) and is_table(real)
    return TestImagesPlace(inside="" if is_table_file else _mount(given), outside=given_path(given))


def _mount(path: str) -> str:
    """Return what a folder or archive of test images is called in the source."""
    stem = path if os.path.isdir(path) else archive_stem(path)
    return name_of(os.path.basename(os.path.abspath(stem)))


def _open_one(path: str, context: Context) -> Lister:
    if is_url(path):
        return _expanded(StoreWalk(path, spool=context.spool), context)
    path = given_path(path)
    if os.path.isdir(path):
        path = _unwrapped(path)
        walk = Walk(path, follow_links=context.options.follow_links)
        return _expanded(walk, context) if _holds_archives(path) else walk
    from imgrec.source.archive import is_archive, open_archive

    if is_archive(path):
        return _expanded(open_archive(path, context), context)
    what = "is neither a folder nor an archive" if os.path.lexists(path) else "does not exist"
    raise SourceError(f"{path} {what}", hint="give the folder or archive of images", path=path)


def _expanded(lister: Lister, context: Context) -> Lister:
    from imgrec.source.archive import expand

    expand(lister, context)
    return lister


def _unwrapped(folder: str) -> str:
    """Return the folder where the source starts: an only folder in a folder is a mere wrapper.

    The rule is that of archives (`MemberTree.strip_top`), so that both give the same names.
    """
    while True:
        files, folders = _entries(folder)
        if files or len(folders) != 1:
            return folder
        inner = os.path.join(folder, folders[0])
        files, below = _entries(inner)
        is_own = folders[0] == os.path.basename(os.path.abspath(folder))
        holds = below or any(map(has_archive_name, files))
        if any(map(has_image_name, files)) or not holds or (split_word(folders[0]) and not is_own):
            return folder
        folder = inner


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, but for clutter."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not clutter_kind(entry.name, is_folder=is_folder):
                    (folders if is_folder else files).append(entry.name)
    except OSError:  # the walk reports why
        return [], []
    return files, folders


def _holds_archives(folder: str) -> bool:
    """Tell whether there are archives in a folder, where downloads put them: right in it."""
    try:
        return any(map(has_archive_name, os.listdir(folder)))
    except OSError as error:
        if is_passing(error):  # a second try could succeed, without the archives
            raise disk_fault(error, folder) from error
        return False  # the walk reports why
