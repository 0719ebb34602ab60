"""The members of a tar file.

A tar is a row of members, each a header of 512 bytes and its data, filled up to such blocks:
    name 0:100 · size 124:136 · checksum 148:156 · type 156 · link 157:257 · prefix 345:500
Single headers are read with `tarfile`, but the walk from header to header is our own: that of
`tarfile` takes five times as long and, in Pythons still in use, loops on negative sizes and takes
quadratic time for large extended headers.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from tarfile import TarInfo

from imgrec.errors import SourceError
from imgrec.source.archive_members import Listing, Member, too_many_members
from imgrec.source.tree import unreadable
from imgrec.text import printable

_BLOCK = tarfile.BLOCKSIZE
_WINDOW_BYTES = 8 * _BLOCK
"""How much is read at once: more than a header, as small files bring the next one along."""
_MAX_EXTENSION_BYTES = 1 << 20
"""The most that an extended header may take; real ones hold a name and a few times."""
_MAX_KEPT_BYTES = 1 << 15
"""The most that is kept of a name, or of another value."""
_TAIL_BYTES = 1 << 20
_SPARSE_GOES_ON, _SPARSE_GOES_ON_AGAIN = 482, 504
"""The byte of a sparse header, and of each block after it, that announces one more block."""

_REGULAR = (b"0", b"\0", b"7")
_LINK = b"1"
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
_FOLDERS = (b"5", b"D")
_LABEL = b"V"
_LONG_NAMES = {b"L": "path", b"K": "linkpath"}
_PAX, _PAX_FOR_ALL = (b"x", b"X"), b"g"
_EXTENSIONS = frozenset({*_LONG_NAMES, *_PAX, _PAX_FOR_ALL})
_SPARSE, _SPARSE_KEY = b"S", "GNU.sparse."
_USED_KEYS = frozenset({
    "path", "linkpath", "size",
    *(f"{_SPARSE_KEY}{key}" for key in ("name", "major", "size", "realsize", "numblocks", "map")),
})  # fmt: skip
"""The fields kept of extended headers; a member may have any number of them."""
_FAULTS = {
    b"2": "a symbolic link in an archive",
    b"3": "a device in an archive",
    b"4": "a device in an archive",
    b"6": "a pipe in an archive",
    _SPARSE: "a sparse file in an archive",
    b"M": "the rest of a file that begins in another archive",
}


def is_tar(head: bytes) -> bool:
    """Tell whether a file that begins with these 512 bytes is a tar."""
    try:
        TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def list_tar(path: str, shown: str, most: int) -> Listing:
    """List the members of an uncompressed tar, called `shown` in messages.

    A hard link to an earlier member is that member once more. Raises SourceError if the file is
    damaged, not a tar, or has more than `most` members.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            tar = _Tar(file.fileno(), path, shown, os.fstat(file.fileno()).st_size)
            members = list(islice(tar.members(), most + 1))
    except OSError as error:
        raise unreadable(shown, error) from error
    if len(members) > most:
        raise too_many_members(shown, most)
    raw = [member._replace(is_raw=not member.name.isascii()) for member in members]
    return Listing(raw, tar.warnings, names_are_bytes=True)


@dataclass(slots=True)
class _Tar:
    """A walk from header to header."""

    descriptor: int
    path: str
    shown: str
    size: int
    warnings: list[str] = field(default_factory=list)
    _window: bytes = b""
    _window_start: int = 0

    def members(self) -> Iterator[Member]:
        seen: dict[str, Member] = {}
        extended: dict[str, str] = {}  # from extended headers, for the member after them
        at = 0
        while header := self._header(at):
            at += _BLOCK
            if header.type in _EXTENSIONS:
                extended |= self._extension(header, at)
                at = self._after(header, at)
                continue
            self._complete(header, extended)
            if header.type == _SPARSE:
                at = self._after_sparse_map(at)
            member = self._member(header, extended, at, seen)
            at, extended = self._after(header, at), {}
            if header.type != _LABEL:
                seen.setdefault(header.name, member)
                yield member

    def _header(self, at: int) -> TarInfo | None:
        """Return the header at an offset; None at the end."""
        block = self._block(at)
        if not block:
            self.warnings.append(f"{self.shown} has no end mark: it may have been cut off")
            return None
        if not block.strip(b"\0"):
            if os.pread(self.descriptor, _TAIL_BYTES, at).strip(b"\0"):
                self.warnings.append(f"{self.shown} goes on after its end mark, which is not read")
            return None
        try:
            return TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise self._damaged(f"{error} at byte {at}") from error

    def _block(self, at: int) -> bytes:
        start = at - self._window_start
        if not 0 <= start <= len(self._window) - _BLOCK:
            self._window = os.pread(self.descriptor, _WINDOW_BYTES, at)
            self._window_start, start = at, 0
        return self._window[start : start + _BLOCK]

    def _after(self, header: TarInfo, start: int) -> int:
        """Return where the header after a member is whose data begin at `start`."""
        size = 0 if header.type in _WITHOUT_DATA else header.size
        if size < 0 or start + size > self.size:
            what = f"{printable(header.name)} should have {size} bytes, and has not"
            raise self._damaged(what)
        return start + -(-size // _BLOCK) * _BLOCK

    def _after_sparse_map(self, at: int) -> int:
        goes_on = self._block(at - _BLOCK)[_SPARSE_GOES_ON]
        while goes_on:
            block = self._block(at)
            if len(block) < _BLOCK:
                raise self._damaged("it ends in the map of a sparse file")
            goes_on = block[_SPARSE_GOES_ON_AGAIN]
            at += _BLOCK
        return at

    def _extension(self, header: TarInfo, start: int) -> dict[str, str]:
        """Return the fields of an extended header, for the member after it."""
        if not 0 <= header.size <= _MAX_EXTENSION_BYTES:
            raise self._damaged(f"an extended header of {header.size} bytes at byte {start}")
        data = os.pread(self.descriptor, header.size, start)
        if header.type in _LONG_NAMES:
            name = _decoded(data.partition(b"\0")[0])
            return {_LONG_NAMES[header.type]: name}
        records = _pax_records(data)
        if records is None:
            raise self._damaged(f"an extended header that makes no sense at byte {start}")
        if header.type != _PAX_FOR_ALL:
            return {key: value for key, value in records.items() if key in _USED_KEYS}
        if not records.keys().isdisjoint(("path", "linkpath", "size")):
            raise self._damaged("one extended header gives all members the same name or size")
        return {}

    def _complete(self, header: TarInfo, extended: Mapping[str, str]) -> None:
        """Complete the header of a member from its extended headers."""
        header.name = extended.get(f"{_SPARSE_KEY}name") or extended.get("path") or header.name
        header.linkname = extended.get("linkpath") or header.linkname
        if size := extended.get("size"):
            header.size = int(size) if size.isdecimal() and len(size) < 20 else -1

    def _member(
        self, header: TarInfo, extended: Mapping[str, str], start: int, seen: Mapping[str, Member]
    ) -> Member:
        name, kind = header.name, header.type
        is_regular = kind in _REGULAR
        if kind in _FOLDERS or (is_regular and not header.size and name.endswith("/")):
            return Member(name, is_folder=True)
        if kind == _LINK:
            target = seen.get(header.linkname)
            if target is None or target.is_folder:
                return Member(name, fault="a hard link to no file before it")
            return target._replace(name=name)
        if any(key.startswith(_SPARSE_KEY) for key in extended):
            return Member(name, fault=_FAULTS[_SPARSE])
        if not is_regular:
            return Member(name, fault=_FAULTS.get(kind, "an unknown kind of member"))
        return Member(name, blob=(self.path, start), size=header.size)

    def _damaged(self, what: str) -> SourceError:
        return SourceError(
            f"{self.shown} is not a tar that can be read: {what}",
            hint="it may be damaged, or a download that was cut off: get it again",
            path=self.shown,
        )


def _pax_records(data: bytes) -> dict[str, str] | None:
    r"""Read the records of an extended header; None if they are none.

    >>> _pax_records(b"13 path=rose\n10 size=7\n")
    {'path': 'rose', 'size': '7'}
    """
    records = {}
    at = 0
    while at < len(data) and data[at]:
        digits, _, _ = data[at : at + 20].partition(b" ")
        end = at + int(digits) if digits.isdigit() else 0
        key, equals, value = data[at + len(digits) + 1 : end - 1].partition(b"=")
        if not equals or end > len(data) or data[end - 1 : end] != b"\n":
            return None
        records[key.decode("utf-8", "replace")] = _decoded(value)
        at = end
    return records


def _decoded(name: bytes) -> str:
    """Return a name; one that is too long for any file is cut."""
    return name[:_MAX_KEPT_BYTES].decode("utf-8", "surrogateescape")
