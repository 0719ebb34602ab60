"""The members of an archive as a tree of folders, whatever they are called."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.blob import Slice, ZipMember
from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.model import Skipped
from imgrec.source.archives.limits import too_many_members
from imgrec.source.archives.names import has_archive_name
from imgrec.source.split_words import split_word
from imgrec.source.tally import Tally, clutter_kind
from imgrec.source.tree import Closed, Folder
from imgrec.stamp import NO_STAMP, Stamp

_MAX_NAME = 4096
_MAX_DEPTH = 100
_ODD_NAME = re.compile(r"[\\\0\r\n]|(?:^|/)\.{0,2}(?:/|$)|^[A-Za-z]:")
"""What a name that needs no second look does not have; most do not."""
_UNSAFE = (
    (re.compile(r"\0"), "a NUL in its name"),
    (re.compile(r"[\r\n]"), "a line break in its name"),
    (re.compile(r"\\"), "a backslash in its name"),
    (re.compile(r"^/"), "an absolute path, which leads out of the archive"),
    (re.compile(r"^[A-Za-z]:"), "a drive letter in its name"),
    (re.compile(r"(?:^|/)\.\.(?:/|$)"), "a path with .., which leads out of the archive"),
)
_CONTROL = re.compile(r"[\0-\x1f\x7f]")


class Member(NamedTuple):
    """A file or folder as an archive lists it."""

    name: str
    is_folder: bool = False
    blob: Slice | ZipMember | None = None
    """None if it cannot be read."""
    size: int = 0
    fault: str = ""
    """Why it cannot be read."""
    is_raw: bool = False
    """Whether nobody told the encoding of the name: then it is bytes, as UTF-8 with escapes."""


class Listing(NamedTuple):
    """All that an archive lists, in its order, and what is odd about it."""

    members: list[Member]
    warnings: list[str]
    usual_encoding: str = "utf-8"
    """That of raw names if nothing tells it."""
    names_are_bytes: bool = False
    """Whether the encoding of raw names is not to be guessed."""


@dataclass(slots=True)
class _Contents:
    """What is right in one folder."""

    files: dict[str, Member] = field(default_factory=dict)
    below: set[str] = field(default_factory=set)
    again: list[str] = field(default_factory=list)
    """Names of files that are there already."""


@dataclass(slots=True)
class MemberTree:
    """Lists the folders of an archive, as `Walk` does those on disk."""

    root: str
    stamp: Stamp = NO_STAMP
    """Of the archive."""
    tally: Tally = field(default_factory=Tally)
    bad: list[Skipped] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    homes: dict[str, tuple[int, int]] = field(default_factory=dict)
    mount: str = ""
    """The folder that the tree is listed as being in."""
    top: str = ""
    """The folder of the archive that the tree begins with."""
    most_folders: int = sys.maxsize
    """How many it may have: a long name can be that of a hundred."""
    _folders: dict[str, _Contents] = field(default_factory=lambda: {"": _Contents()})
    _unsafe: list[tuple[Member, str]] = field(default_factory=list)
    """What has no place in the tree, and why."""

    def add(self, members: Iterable[Member]) -> None:
        """Put members into their folders, which need no entry of their own."""
        for member in members:
            path, fault = _tidy(member.name)
            if fault or not (path or member.is_folder):
                self._unsafe.append((member, fault or "no name"))
            elif member.is_folder:
                self._folder(path)
            else:
                self._add_file(path, member)

    def _add_file(self, path: str, member: Member) -> None:
        within, _, name = path.rpartition("/")
        contents = self._folder(within)
        if name in contents.files:
            contents.again.append(name)
        else:
            contents.files[name] = member

    def _folder(self, path: str) -> _Contents:
        """Return a folder, which is made if it is not there, as are those above it."""
        if path not in self._folders:
            if len(self._folders) > self.most_folders:
                raise too_many_members(self.root, self.most_folders)
            self._folders[path] = _Contents()
            within, _, name = path.rpartition("/")
            self._folder(within).below.add(name)
        return self._folders[path]

    def folder_count(self) -> int:
        """Count the folders, but for the root."""
        return len(self._folders) - 1

    def strip_top(self, stem: str, *, even_of_images: bool = False) -> None:
        """Begin with the only folder at the top, as long as it is one too many.

        It is if folders, or archives, but no images are right in it; not, though, if it is a split
        by its name, unless the archive is called so too. If `even_of_images`, a folder that is
        called as the archive is one too many whatever it holds.
        """
        while True:
            files, tops = _names(self._folders[self.top])
            if len(tops) != 1 or files:
                return
            top = _join(self.top, tops[0])
            is_wrapper = _holds_folders(self._folders[top]) and (
                tops[0] == stem or not is_split(tops[0])
            )
            if not is_wrapper and not (even_of_images and tops[0] == stem):
                return
            self.top = top

    def holds_folders(self) -> bool:
        """Tell whether folders but no images are right at the top."""
        return _holds_folders(self._folders[self.top])

    def folders(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        self._note_beside()
        stack = [""]
        while stack:
            path = stack.pop()
            members, below = self._sort_out(path)
            yield Folder(
                path=_join(self.mount, path),
                files=tuple(members),
                has_folders=bool(below),
                blobs=tuple([member.blob for member in members.values() if member.blob]),
                sizes=tuple([member.size for member in members.values()]),
            )
            stack.extend(reversed(below))

    def _note_beside(self) -> None:
        """Note what is in no folder that is listed: unsafe names, and clutter beside the top."""
        for member, fault in self._unsafe:
            shown = _join(self.mount, _shown(member.name))
            if member.is_folder:
                self.tally.add("folder with an unsafe name", shown)
            else:
                self.bad.append(Skipped(shown, fault))
        if self.top:
            root = self._folders[""]
            for name in sorted({*root.files, *root.below} - {self.top}):
                kind = clutter_kind(name, is_folder=name in root.below)
                self.tally.add(kind, _join(self.mount, name))

    def _sort_out(self, path: str) -> tuple[dict[str, Member], list[str]]:
        """Return the files in a folder that can be read, and the paths of the folders in it."""
        contents = self._folders[_join(self.top, path)]
        members: dict[str, Member] = {}
        below: list[str] = []
        for name in sorted({*contents.files, *contents.below}):
            shown = _join(self.mount, _join(path, name))
            member, is_folder = contents.files.get(name), name in contents.below
            if kind := clutter_kind(name, is_folder=is_folder):
                self.tally.add(kind, shown)
                continue
            if is_folder:
                below.append(_join(path, name))
            if member and (is_folder or not member.blob):
                self.bad.append(Skipped(shown, member.fault or "a folder has the same name"))
            elif member:
                members[name] = member
        for name in contents.again:
            if not clutter_kind(name, is_folder=False):
                shown = _join(self.mount, _join(path, name))
                self.bad.append(Skipped(shown, "another member of this name comes before it"))
        return members, below


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name


def _tidy(name: str) -> tuple[str, str]:
    """Return the path of a member inside its archive, and why it must not be used, if so."""
    if len(name) > _MAX_NAME or name.count("/") > _MAX_DEPTH:
        return "", f"a path of more than {_MAX_NAME} characters or {_MAX_DEPTH} folders"
    if not _ODD_NAME.search(name):
        return name, ""
    for pattern, fault in _UNSAFE:
        if pattern.search(name):
            return "", fault
    return "/".join([part for part in name.split("/") if part not in ("", ".")]), ""


def _shown(name: str) -> str:
    """Return a name that is not to be used in a way that is fit for a message."""
    shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", name)
    return shown if len(shown) <= _MAX_NAME else shown[:_MAX_NAME] + "…"


def has_image_name(filename: str) -> bool:
    """Tell whether a file is meant as an image, by its name."""
    return extension(filename) in IMAGE_EXTENSIONS


def _names(contents: _Contents) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder that are no clutter."""
    return (
        [name for name in contents.files if not clutter_kind(name, is_folder=False)],
        [name for name in contents.below if not clutter_kind(name, is_folder=True)],
    )


def _holds_folders(contents: _Contents) -> bool:
    """Tell whether folders, or archives in their place, but no images are right in a folder."""
    files, folders = _names(contents)
    return not any(map(has_image_name, files)) and bool(
        folders or any(map(has_archive_name, files))
    )


def is_split(name: str) -> bool:
    """Tell whether a folder of folders is a split by its name."""
    return bool(split_word(name))
