"""One pass over a folder tree: which files there are, and what is passed over."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from imgrec.errors import ImgrecError, SourceError
from imgrec.model import Skipped
from imgrec.source.tally import CLUTTER, Tally, clutter_kind
from imgrec.source.tree import Closed, Folder
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.unreadable import DENIED, disk_fault, is_passing
from imgrec.text import name_of, path_of


class _Visit(NamedTuple):
    path: str
    """Below the root, as text: names are UTF-8."""
    real: str
    """As the operating system takes it."""
    came_from: tuple[str, ...]
    """Real paths of the folders whose links led here."""


@dataclass(slots=True)
class Walk:
    """A walk over the tree below `root`, in the order of names.

    Links to files are followed. So are links to folders, unless they lead back to where they came
    from or, without `follow_links`, out of the tree.
    """

    root: str
    follow_links: bool = False
    tally: Tally = field(default_factory=Tally)
    bad: list[Skipped] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Links that were not walked, each with the reason."""
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    stamp: Stamp = NO_STAMP
    """When a folder, or a link that led to something, last changed, or came from elsewhere."""
    _begun_ns: int = 0

    def folders(self) -> Iterator[Folder]:
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
                    raise _unreadable(self.root, error) from error
                self.closed.append(Closed(visit.path, error))
                continue
            files.sort()
            within = f"{prefix}{folder}/" if folder else prefix
            blobs = tuple([within + path_of(name) for name in files])
            yield Folder(visit.path, tuple(files), bool(below), blobs)
            stack.extend(reversed(below))

    def _remember(self, folder: str) -> None:
        """Note which folder it is, and when it last changed or was given its name."""
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
                self.bad.append(Skipped(path, "broken link"))
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


def _unreadable(root: str, error: OSError) -> ImgrecError:
    if is_passing(error):
        return disk_fault(error, root)
    return SourceError(f"cannot read {root}: {error.strerror}", path=root)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
