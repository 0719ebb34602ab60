"""Opening a source as a tree of files: a folder, an archive or an object store."""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from imgrec.errors import SourceError
from imgrec.notes import Note
from imgrec.source.archive import expand, is_archive, open_archive
from imgrec.source.archive_members import archive_stem, has_archive_name
from imgrec.source.tables import is_table
from imgrec.source.tree import (
    Closed,
    Context,
    Folder,
    Lister,
    clutter_kind,
    has_image_name,
    joined,
    unreadable,
)
from imgrec.source.words import split_word
from imgrec.stamp import stamp_of_object
from imgrec.storage.read_errors import DENIED, is_temporary, read_error
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of, path_of

if TYPE_CHECKING:
    from imgrec.storage.remote.read import Listed

_SECOND_NS = 10**9


class _Visit(NamedTuple):
    """A folder to walk."""

    path: str
    """Below the root, as text: names are UTF-8."""
    real: str
    """As the operating system takes it."""
    linked_from: tuple[str, ...]
    """Real paths of the folders whose links led here."""


@dataclass(slots=True)
class Walk(Lister):
    """Lists the folders below `root` on a disk.

    Links to files are followed. So are links to folders, unless they lead back to a folder above
    or, without `follow_links`, out of the tree. The stamp is the last change of any folder or link.
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
                    self._record(prefix + folder)
                    for entry in entries:
                        if entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
                        else:
                            others.append(entry)
                files = self.without_clutter(map(name_of, files), visit.path, is_folder=False)
                below = self._follow(others, files, visit, real_root)
            except OSError as error:
                if not visit.path:
                    raise unreadable(self.root, error) from error
                self.closed.append(Closed(visit.path, error))
                continue
            files.sort()  # links to files have been added
            within = f"{prefix}{folder}/" if folder else prefix
            blobs = tuple([within + path_of(name) for name in files])
            yield Folder(visit.path, tuple(files), bool(below), blobs, (0,) * len(files))
            stack.extend(reversed(below))

    def _record(self, folder: str) -> None:
        """Record the inode of a folder, and when it last changed or got its name."""
        found = os.stat(folder)
        self.homes[folder] = found.st_dev, found.st_ino
        # Mounted object stores have no dates for folders, and report the present time.
        if found.st_ctime_ns < self._begun_ns:
            self.stamp = self.stamp.dated(found.st_ctime_ns)
        if os.path.islink(path := folder.rstrip("/")):
            self.stamp = self.stamp.dated(os.lstat(path).st_ctime_ns)

    def _follow(
        self, entries: list[os.DirEntry[str]], files: list[str], visit: _Visit, real_root: str
    ) -> list[_Visit]:
        """Add the targets of links to `files`; return the folders to walk, in order of names."""
        below: list[_Visit] = []
        named = [(name_of(entry.name), entry) for entry in entries]
        for name, entry in sorted(named, key=itemgetter(0)):
            path = joined(visit.path, name)
            if kind := clutter_kind(name, is_folder=entry.is_dir(follow_symlinks=False)):
                self.tally.add(kind, path)
            elif entry.is_symlink():
                self._follow_link(path, visit, real_root, files, below)
            elif entry.is_dir(follow_symlinks=False):
                below.append(_Visit(path, f"{visit.real}/{entry.name}", visit.linked_from))
            else:
                self.tally.add("special file", path)
        return below

    def _follow_link(
        self, path: str, visit: _Visit, real_root: str, files: list[str], below: list[_Visit]
    ) -> None:
        link = os.path.join(self.root, path_of(path))
        real = os.path.realpath(link)
        try:
            mode = os.stat(real).st_mode
            self.stamp = self.stamp.dated(os.lstat(link).st_ctime_ns)
        except OSError as error:
            if error.errno in DENIED or is_temporary(error):  # a whole class may be behind it
                self.closed.append(Closed(path, error))
            else:
                self.bad.append(Note(path, "broken link"))
            return
        if stat.S_ISREG(mode):
            files.append(path.rpartition("/")[2])
        elif not stat.S_ISDIR(mode):
            self.tally.add("special file", path)
        elif any(_is_inside(folder, real) for folder in (visit.real, *visit.linked_from)):
            self.warnings.append(f"{path}: not walked: a link to a folder above it")
        elif not self.follow_links and not _is_inside(real, real_root):
            self.warnings.append(
                f"{path}: not walked: a link out of the source; pass --follow-links to include it"
            )
        else:
            below.append(_Visit(path, real, (*visit.linked_from, visit.real)))


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(slots=True)
class StoreWalk(Lister):
    """Lists the folders below a URL on an object store."""

    context: Context = field(kw_only=True)
    """Where copies of archives at the top go: they need random access."""

    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        from imgrec.storage.remote.read import objects

        listed = objects(self.root)
        if not listed:
            raise SourceError(f"there is nothing below {self.root}", path=self.root)
        stamps = (stamp_of_object(f"{self.root}/{found.path}", *found.stat) for found in listed)
        self.stamp = self.stamp.merged(*stamps)
        # Stores have times in whole seconds.
        self.stamp = self.stamp.dated(self.stamp.newest_ns + _SECOND_NS)
        files, folders = self._by_folder(listed)
        stack = [""]
        while stack:
            path = stack.pop()
            prefix = f"{path}/" if path else ""
            names = self.without_clutter(files[path], path, is_folder=False)
            below = self.without_clutter(folders[path], path, is_folder=True)
            sizes = tuple(files[path][name].stat.size for name in names)
            yield Folder(path, tuple(names), bool(below), self._blobs(prefix, names), sizes)
            stack.extend(prefix + name for name in reversed(below))

    def _by_folder(
        self, listed: list[Listed]
    ) -> tuple[dict[str, dict[str, Listed]], dict[str, dict[str, None]]]:
        """Return the files and the names of the folders in each folder."""
        files: dict[str, dict[str, Listed]] = defaultdict(dict)
        folders: dict[str, dict[str, None]] = defaultdict(dict)
        for found in listed:
            folder, _, name = found.path.rpartition("/")
            if not name:
                continue  # it marks an empty folder
            if "/" in found.path and {"", ".", ".."} & {*folder.split("/")}:
                self.bad.append(Note(found.path, "a name that no file can have"))
                continue
            is_new = folder not in files
            files[folder][name] = found
            while folder and is_new:
                folder, _, name = folder.rpartition("/")
                is_new = name not in folders[folder]
                folders[folder][name] = None
        return files, folders

    def _blobs(self, prefix: str, files: list[str]) -> tuple[str, ...]:
        from imgrec.storage.remote.transfer import download_all

        urls = {name: f"{self.root.rstrip('/')}/{prefix}{name}" for name in files}
        archives = [] if prefix else [name for name in files if has_archive_name(name)]
        folder = self.context.seen_spool() if archives else ""
        copies = download_all({name: urls[name] for name in archives}, folder)
        return tuple(copies.get(name, url) for name, url in urls.items())


def open_tree(path: str, context: Context) -> Lister:
    """List the files of a folder or an archive, and of the archives in it.

    If `--test-images` names another folder or archive, that becomes a folder of the tree. Raises
    SourceError if a path is neither.
    """
    lister = _open_one(path, context)
    other = place_of_test_images(lister.root, context.options.test_images).outside
    if other and not is_table(other):
        _add_tree(lister, _open_one(other, context), _mount_name(other))
    return lister


class TestImagesPlace(NamedTuple):
    """Where `--test-images` points: into the source, or to a file or folder outside of it."""

    inside: str = ""
    outside: str = ""


def place_of_test_images(root: str, given: str) -> TestImagesPlace:
    """Find the folder, archive or table that `--test-images` names."""
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
    inside = "" if is_table_file else _mount_name(given)
    return TestImagesPlace(inside, given_path(given))


def _mount_name(path: str) -> str:
    """Return what a folder or archive of test images is called in the source."""
    stem = path if os.path.isdir(path) else archive_stem(path)
    return name_of(os.path.basename(os.path.abspath(stem)))


def _add_tree(lister: Lister, other: Lister, mount: str) -> None:
    """Add another tree to a tree, as a folder called `mount`."""
    own = list(lister.folders())
    if any(_is_inside(folder.path, mount) for folder in own):
        raise SourceError(
            f"{other.root} would become {mount}, which {lister.root} has already",
            hint="rename one of them",
            path=other.root,
        )
    below = [folder._replace(path=joined(mount, folder.path)) for folder in other.folders()]
    lister.bad += [file._replace(filename=f"{mount}/{file.filename}") for file in other.bad]
    lister.closed += [one._replace(path=f"{mount}/{one.path}") for one in other.closed]
    lister.warnings += other.warnings
    lister.homes.update(other.homes)
    lister.relist([*own, *below], other.stamp)


def _open_one(path: str, context: Context) -> Lister:
    lister: Lister
    if is_url(path):
        lister = StoreWalk(path, context=context)
    elif os.path.isdir(path := given_path(path)):
        path = _unwrapped(path)
        lister = Walk(path, follow_links=context.options.follow_links)
        if not _holds_archives(path):
            return lister
    elif is_archive(path):
        lister = open_archive(path, context)
    else:
        what = "is neither a folder nor an archive" if os.path.lexists(path) else "does not exist"
        raise SourceError(f"{path} {what}", hint="give the folder or archive of images", path=path)
    expand(lister, context)
    return lister


def _unwrapped(folder: str) -> str:
    """Return the folder where the source starts: an only folder in a folder is a wrapper.

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
    """Return the names of the files and of the folders in a folder, except clutter."""
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
    """Return whether archives are directly in a folder, where downloads put them."""
    try:
        return any(map(has_archive_name, os.listdir(folder)))
    except OSError as error:
        if is_temporary(error):  # a second try could succeed, without the archives
            raise read_error(error, folder) from error
        return False  # the walk reports why
