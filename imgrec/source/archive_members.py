"""The members of an archive: their names, the limits for them, and the tree of their folders.

Zips mark names as UTF-8, or do not. Names that are not marked are UTF-8 if all of them are.
Otherwise an encoding is used only if it alone gives plausible names: letters that are common in its
script, and as much or as little ASCII among them as its languages write. Tars hold the bytes that
names have on disk, where nothing is guessed either: only `--encoding` decodes those.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import Slice, ZipMember
from imgrec.notes import Note
from imgrec.source.tree import Folder, Lister, clutter_kind, has_image_name, joined
from imgrec.source.words import split_word
from imgrec.text import printable

COMPRESSED_TARS = (
    ".tar.gz", ".tgz", ".taz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst", ".tzst",
)  # fmt: skip
_PART = re.compile(r"\.(zip|7z|rar|tar|tgz|tar\.[a-z0-9]+)\.\d{3}$|\.z\d\d$")
"""Suffixes of the parts of a split archive."""
_SUFFIXES = (*COMPRESSED_TARS, ".zip", ".tar", ".7z", ".rar")
_RATIO = 200
"""Images do not compress; even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
"""Up to here no ratio is too large: a few blank pictures may well compress a thousandfold."""
_MEMBER_BYTES = 64
"""The least that a member takes in an uncompressed archive, without its data."""
_FREE_MEMBERS = 1 << 17
"""Up to here no number of members is too large. Each takes half a kilobyte of memory."""
_MAX_NAME = 4096
_MAX_DEPTH = 100
_ODD_NAME = re.compile(r"[\\\0\r\n]|(?:^|/)\.{0,2}(?:/|$)|^[A-Za-z]:")
"""Most names have none of these, and are safe."""
_UNSAFE = (
    (re.compile(r"\0"), "a NUL in its name"),
    (re.compile(r"[\r\n]"), "a line break in its name"),
    (re.compile(r"\\"), "a backslash in its name"),
    (re.compile(r"^/"), "an absolute path, which leads out of the archive"),
    (re.compile(r"^[A-Za-z]:"), "a drive letter in its name"),
    (re.compile(r"(?:^|/)\.\.(?:/|$)"), "a path with .., which leads out of the archive"),
)
_CONTROL = re.compile(r"[\0-\x1f\x7f]")


def has_archive_name(filename: str) -> bool:
    """Return whether a file has the name of an archive, readable by imgrec or not."""
    name = filename.lower()
    return name.endswith(_SUFFIXES) or bool(_PART.search(name))


def archive_stem(path: str) -> str:
    """Return the name of an archive without its suffix.

    >>> archive_stem("downloads/flowers.tar.gz")
    'flowers'
    """
    name = os.path.basename(os.path.abspath(path))
    known = (name[: -len(suffix)] for suffix in _SUFFIXES if name.lower().endswith(suffix))
    return next(known, os.path.splitext(name)[0]) or name


@dataclass(slots=True)
class Allowance:
    """How much some archives may unpack to in total, and how much they do."""

    max_bytes: int
    packed_bytes: int = 0
    unpacked_bytes: int = 0
    free_bytes: int = _FREE_BYTES
    members: int = 0

    def check(self, path: str, more_bytes: int) -> None:
        """Raise SourceError if an archive that unpacks to `more_bytes` exceeds the limits."""
        total = self.unpacked_bytes + more_bytes
        if total > self.max_bytes:
            raise SourceError(
                f"{path} unpacks to more than {self.max_bytes} bytes, the limit for archives",
                hint="if you trust it, pass a larger --max-archive-bytes",
                path=path,
            )
        if total > max(self.free_bytes, _RATIO * self.packed_bytes):
            raise SourceError(
                f"{path} unpacks to more than {_RATIO} times its size: "
                "it looks like a decompression bomb",
                hint="if you trust it, unpack it and pack the folder",
                path=path,
            )

    def take(self, path: str, more_bytes: int) -> None:
        """Count what an archive unpacks to; raise as `check` does."""
        self.check(path, more_bytes)
        self.unpacked_bytes += more_bytes

    def most_members(self) -> int:
        """Return how many more files and folders archives may list."""
        return max(_FREE_MEMBERS, self.packed_bytes // _MEMBER_BYTES) - self.members

    def take_members(self, path: str, count: int) -> None:
        """Count the members of an archive; raise SourceError if they are too many for its size."""
        most = self.most_members()
        if count > most:
            raise too_many_members(path, most)
        self.members += count


def too_many_members(path: str, most: int) -> SourceError:
    """Return the error for an archive with too many members for its size."""
    return SourceError(
        f"{path} lists more than {most:,} files and folders, too many for its size",
        hint="if you trust it, unpack it and pack the folder",
        path=path,
    )


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
    """Whether the encoding of the name is unknown: then it is bytes, as UTF-8 with escapes."""


class Listing(NamedTuple):
    """The members of an archive, in its order, and warnings about it."""

    members: list[Member]
    warnings: list[str]
    usual_encoding: str = "utf-8"
    """The encoding of raw names if no other is known."""
    names_are_bytes: bool = False
    """Whether raw names stay as they are, unless `--encoding` is given."""


@dataclass(slots=True)
class _Contents:
    """The files and folders directly in one folder."""

    files: dict[str, Member] = field(default_factory=dict)
    below: set[str] = field(default_factory=set)
    repeated: list[str] = field(default_factory=list)
    """Names of further files with the same name."""

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of files and of folders, except clutter."""
        return (
            [name for name in self.files if not clutter_kind(name, is_folder=False)],
            [name for name in self.below if not clutter_kind(name, is_folder=True)],
        )

    def holds_folders(self) -> bool:
        """Return whether it holds folders, or archives in their place, but no images."""
        files, folders = self.names()
        has_folders = bool(folders) or any(map(has_archive_name, files))
        return has_folders and not any(map(has_image_name, files))


@dataclass(slots=True)
class MemberTree(Lister):
    """Lists the folders of an archive; its stamp is that of the archive."""

    mount: str = ""
    """The folder of the source under which the tree is listed."""
    top: str = ""
    """The folder of the archive where the tree starts."""
    most_folders: int = sys.maxsize
    """How many it may have: one long name can make a hundred."""
    _folders: dict[str, _Contents] = field(default_factory=lambda: {"": _Contents()})
    _unsafe: list[tuple[Member, str]] = field(default_factory=list)
    """Members without a place in the tree, and why."""

    def add(self, members: Iterable[Member]) -> None:
        """Put members into their folders; folders need no entry of their own."""
        for member in members:
            path, fault = _tidy(member.name)
            if fault or not (path or member.is_folder):
                self._unsafe.append((member, fault or "no name"))
            elif member.is_folder:
                self._folder(path)
            else:
                within, _, name = path.rpartition("/")
                contents = self._folder(within)
                if name in contents.files:
                    contents.repeated.append(name)
                else:
                    contents.files[name] = member

    def _folder(self, path: str) -> _Contents:
        """Return a folder; make it, and those above it, if it is missing."""
        if path not in self._folders:
            if len(self._folders) > self.most_folders:
                raise too_many_members(self.root, self.most_folders)
            self._folders[path] = _Contents()
            within, _, name = path.rpartition("/")
            self._folder(within).below.add(name)
        return self._folders[path]

    def folder_count(self) -> int:
        """Count the folders, except the root."""
        return len(self._folders) - 1

    def strip_top(self, stem: str, *, even_of_images: bool = False) -> None:
        """Start in the only folder at the top while that is a wrapper.

        A wrapper holds folders or archives but no images. A folder with the name of a split counts
        as one only if the archive has the same name. With `even_of_images`, so does any folder with
        the name of the archive, whatever it holds.
        """
        while True:
            files, tops = self._folders[self.top].names()
            if len(tops) != 1 or files:
                return
            top, is_own = joined(self.top, tops[0]), tops[0] == stem
            is_plain = self._folders[top].holds_folders() and (is_own or not split_word(tops[0]))
            if not is_plain and not (even_of_images and is_own):
                return
            self.top = top

    def holds_folders(self) -> bool:
        """Return whether folders but no images are at the top."""
        return self._folders[self.top].holds_folders()

    def walk(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        self._note_unlisted()
        stack = [""]
        while stack:
            path = stack.pop()
            members, below = self._readable(path)
            yield Folder(
                path=joined(self.mount, path),
                files=tuple(members),
                has_folders=bool(below),
                blobs=tuple([member.blob for member in members.values() if member.blob]),
                sizes=tuple([member.size for member in members.values()]),
            )
            stack.extend(reversed(below))

    def _note_unlisted(self) -> None:
        """Note members outside all listed folders: unsafe names, and clutter beside the top."""
        for member, fault in self._unsafe:
            shown = joined(self.mount, _escaped(member.name))
            if member.is_folder:
                self.tally.add("folder with an unsafe name", shown)
            else:
                self.bad.append(Note(shown, fault))
        if self.top:
            root = self._folders[""]
            for name in sorted({*root.files, *root.below} - {self.top}):
                kind = clutter_kind(name, is_folder=name in root.below)
                self.tally.add(kind, joined(self.mount, name))

    def _readable(self, path: str) -> tuple[dict[str, Member], list[str]]:
        """Return the readable files in a folder, and the paths of the folders in it."""
        contents = self._folders[joined(self.top, path)]
        within = joined(self.mount, path)
        members: dict[str, Member] = {}
        below: list[str] = []
        for name in sorted({*contents.files, *contents.below}):
            member, is_folder = contents.files.get(name), name in contents.below
            if kind := clutter_kind(name, is_folder=is_folder):
                self.tally.add(kind, joined(within, name))
                continue
            if is_folder:
                below.append(joined(path, name))
            if member and (is_folder or not member.blob):
                fault = member.fault or "a folder has the same name"
                self.bad.append(Note(joined(within, name), fault))
            elif member:
                members[name] = member
        for name in contents.repeated:
            if not clutter_kind(name, is_folder=False):
                fault = "another member of this name comes before it"
                self.bad.append(Note(joined(within, name), fault))
        return members, below


def _tidy(name: str) -> tuple[str, str]:
    """Return the path of a member inside its archive, and why it is unsafe, if it is."""
    if len(name) > _MAX_NAME or name.count("/") > _MAX_DEPTH:
        return "", f"a path of more than {_MAX_NAME} characters or {_MAX_DEPTH} folders"
    if not _ODD_NAME.search(name):
        return name, ""
    for pattern, fault in _UNSAFE:
        if pattern.search(name):
            return "", fault
    return "/".join([part for part in name.split("/") if part not in ("", ".")]), ""


def _escaped(name: str) -> str:
    """Return an unsafe name in a form fit for a message."""
    shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", name)
    return shown if len(shown) <= _MAX_NAME else shown[:_MAX_NAME] + "…"


# The encoding of names.

_UTF8 = "utf-8"
_MOST_NAMES = 10_000
"""How many different names are used for a guess; in the end, all names must decode."""
_COMMON_SHARE = 0.8
"""The share of common characters among the different ones of plausible names."""
_FILE_EXTENSION = re.compile(rb"\.[A-Za-z0-9]{1,5}$")
"""It is not part of any language."""
_ASIAN: Mapping[str, Callable[[int], bool]] = {
    "gbk": lambda code: 0xB0A1 <= code <= 0xD7F9 and code & 0xFF >= 0xA1,
    "cp932": lambda code: 0x829F <= code <= 0x8396 or 0x889F <= code <= 0x9872 or code == 0x815B,
    "cp949": lambda code: 0xB0A1 <= code <= 0xC8FE and code & 0xFF >= 0xA1,
    "cp950": lambda code: 0xA440 <= code <= 0xC67E,
}
"""The codes of common characters: hanzi of level 1; kana and kanji of level 1; Hangul; and the
frequent characters of Big5."""
_ALPHABETS = {
    "cp437": ("LATIN", 0.0, 0.5),
    "cp1252": ("LATIN", 0.0, 0.5),
    "cp866": ("CYRILLIC", 0.9, 1.0),
    "cp1251": ("CYRILLIC", 0.9, 1.0),
    "koi8_r": ("CYRILLIC", 0.9, 1.0),
}
"""The script, and the least and the most share of letters that are not ASCII: accents are few
among Latin letters, and other alphabets are hardly mixed with Latin ones."""


def decode_names(listing: Listing, asked: str, shown: str) -> Listing:
    """Decode the raw names of a listing, all in one encoding; messages call it `shown`."""
    raw = {
        place: member.name.encode(_UTF8, "surrogateescape")
        for place, member in enumerate(listing.members)
        if member.is_raw
    }
    if not raw or (listing.names_are_bytes and not asked):
        return listing
    encoding, warning = choose_encoding(list(raw.values()), asked, shown, listing.usual_encoding)
    members = list(listing.members)
    for place, name in raw.items():
        members[place] = members[place]._replace(name=name.decode(encoding, "surrogateescape"))
    return listing._replace(members=members, warnings=[*listing.warnings, *filter(None, [warning])])


def choose_encoding(
    names: Sequence[bytes], asked: str, shown: str, usual: str = _UTF8
) -> tuple[str, str]:
    """Choose one encoding for all names that are not ASCII; return it and a warning, if any.

    It is the `usual` one if no other fits alone. Raises SourceError if `--encoding` does not fit.
    """
    is_utf8 = all(_decodes(name, _UTF8) for name in names)
    is_for_names = bool(asked) and "a/".encode(asked) == b"a/"  # UTF-16 can only be for tables
    # An encoding that decodes anything, UTF-8 too, is meant for a table beside names in UTF-8.
    if is_for_names and not (is_utf8 and _decodes_most_bytes(asked)):
        if odd := [name for name in names if not _decodes(name, asked)]:
            raise SourceError(
                f"{shown}: names of its files are not {asked} text, such as {_printable(odd[0])}",
                hint="pass the encoding of the names with --encoding, or unpack it first",
                path=shown,
            )
        return asked, ""
    if is_utf8:
        return _UTF8, ""
    parts = {part for name in sorted(set(names))[:_MOST_NAMES] for part in name.split(b"/")}
    words = sorted({_FILE_EXTENSION.sub(b"", part) for part in parts if not part.isascii()})
    fitting = [
        encoding
        for encoding in (*_ASIAN, *_ALPHABETS)
        if all(_decodes(name, encoding) for name in names) and _is_plausible(words, encoding)
    ]
    if len(fitting) == 1:
        return fitting[0], (
            f"{shown}: names of its files are not UTF-8, and were read as {fitting[0]}; if letters "
            "are wrong, pass --encoding"
        )
    if usual == _UTF8 and not fitting:  # they are bytes on disk, too
        return usual, ""
    which = " or ".join(fitting)
    which = f"may be {which}" if which else f"are not UTF-8, and were read as {usual}"
    return usual, f"{shown}: names such as {_printable(words[0])} {which}: choose with --encoding"


def _decodes(name: bytes, encoding: str) -> bool:
    try:
        name.decode(encoding)
    except UnicodeError:
        return False
    return True


def _decodes_most_bytes(encoding: str) -> bool:
    high = [bytes([byte]) for byte in range(0x80, 0x100)]
    return sum(_decodes(byte, encoding) for byte in high) > len(high) * 0.7


def _is_plausible(words: Sequence[bytes], encoding: str) -> bool:
    text = "".join(word.decode(encoding) for word in words)
    high = {character for character in text if not character.isascii()}
    if encoding in _ASIAN:
        letters = [letter.encode(encoding, "replace") for letter in high if letter.isalpha()]
        common = [code for code in letters if _ASIAN[encoding](int.from_bytes(code, "big"))]
        return bool(common) and len(common) >= _COMMON_SHARE * len(letters)
    script, least, most = _ALPHABETS[encoding]
    if not all(unicodedata.name(character, "").startswith(script) for character in high):
        return False
    are_ascii = [character.isascii() for character in text if character.isalpha()]
    return least <= are_ascii.count(False) / max(len(are_ascii), 1) <= most


def _printable(name: bytes) -> str:
    return printable(name.decode(_UTF8, "backslashreplace"))
