"""Listing the members of zip and tar files.

A tar is a row of members, each a header of 512 bytes and its data, filled up to such blocks:
    name 0:100 · size 124:136 · checksum 148:156 · type 156 · link 157:257 · prefix 345:500
Single headers are read with `tarfile`, but the walk from header to header is our own: that of
`tarfile` takes five times as long and, in Pythons still in use, loops on negative sizes and takes
quadratic time for large extended headers.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from tarfile import TarInfo
from zipfile import ZipFile, ZipInfo
from zlib import crc32

from imgrec.errors import ImgrecError, SourceError
from imgrec.model import ZipMember
from imgrec.source.archive_members import Listing, Member, too_many_members
from imgrec.source.tree import unreadable
from imgrec.storage.blobs import DEFLATED, STORED
from imgrec.storage.read_errors import is_temporary
from imgrec.text import printable

_LINK_FAULT = "a symbolic link in an archive"


def _damaged(shown: str, kind: str, why: object) -> SourceError:
    return SourceError(
        f"{shown} is not a readable {kind}: {why}",
        hint="it may be damaged, or the download was interrupted: download it again",
        path=shown,
    )


# Zip files.

_LOCAL_HEADER_BYTES = 30
_ENTRY_MAGIC = b"PK\x01\x02"
_MEMBER_BYTES = 128
"""The least that a member takes: its headers, its name twice, and some data."""
_COUNT_BYTES = 1 << 20
_ENCRYPTED, _PATCHED, _STRONGLY_ENCRYPTED, _UTF8 = 0x1, 0x20, 0x40, 0x800
"""Bits of a member's flags."""
_FIRST_DISKS = (0, 0xFFFF)
"""Numbers of the first disk; the second refers to the zip64 fields, where it is 0."""
_MOST_GROWTH, _MOST_PADDING = 2, 1 << 16
"""Data that cannot be packed grows by a few bytes; this leaves room for packers that do worse."""
_UNIX_SYSTEMS = (3, 19)
"""Who made the member: Unix and macOS, which store modes, and names as they are on disk."""
_DOS = "cp437"
"""The standard's encoding of names that are not marked as UTF-8."""
_UNICODE_PATH = 0x7075
_EXTRA_HEADER = struct.Struct("<HH")
_METHODS = {
    1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "zstd", 95: "xz",
    98: "PPMd", 99: "AES",
}  # fmt: skip


def list_zip(path: str, shown: str, most: int) -> Listing:
    """List the members of a zip file, called `shown` in messages.

    Raises SourceError if it is damaged, not a zip, or has more than `most` members.
    """
    try:
        archive_bytes = os.path.getsize(path)
        # Entries are counted before they take memory as objects. Most zips are too small for many.
        if archive_bytes > most * _MEMBER_BYTES and _count_entries(path) > most:
            raise too_many_members(shown, most)
        with ZipFile(path) as archive:
            infos = archive.infolist()
    except OSError as error:
        raise _unreadable_zip(shown, error) from error
    except SourceError:
        raise
    except Exception as error:  # a damaged zip makes zipfile raise almost anything
        if isinstance(error.__context__, OSError) and is_temporary(error.__context__):
            raise _unreadable_zip(shown, error.__context__) from error
        raise _damaged(shown, "zip file", error or type(error).__name__) from error
    _refuse_parts(shown, infos)
    _refuse_overlaps(shown, infos)
    members = [_zip_member(path, info, archive_bytes) for info in infos]
    systems = {info.create_system for info, one in zip(infos, members, strict=True) if one.is_raw}
    return Listing(members, [], "utf-8" if systems.intersection(_UNIX_SYSTEMS) else _DOS)


def _unreadable_zip(shown: str, error: OSError) -> ImgrecError:
    if error.errno == errno.EINVAL:  # a damaged zip made `zipfile` seek to before its start
        return SourceError(f"cannot read {shown}: {error.strerror}", path=shown)
    return unreadable(shown, error)


def _count_entries(path: str) -> int:
    """Return at least the number of entries in the list of members."""
    count, rest = 0, b""
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_COUNT_BYTES):
            count += (rest + block).count(_ENTRY_MAGIC)
            rest = block[1 - len(_ENTRY_MAGIC) :]
    return count


def _refuse_parts(shown: str, infos: Sequence[ZipInfo]) -> None:
    if any(info.volume not in _FIRST_DISKS for info in infos):
        raise SourceError(
            f"{shown} is one part of a split zip",
            hint="join the parts first: zip -s 0 parts.zip --out whole.zip",
            path=shown,
        )


def _refuse_overlaps(shown: str, infos: Sequence[ZipInfo]) -> None:
    """Refuse members that share bytes, as in decompression bombs."""
    spans = sorted(
        (info.header_offset, info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size)
        for info in infos
    )
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        raise SourceError(
            f"{shown} has members that overlap: it is damaged, or a decompression bomb",
            hint="download it again from a source you trust",
            path=shown,
        )


def _zip_member(path: str, info: ZipInfo, archive_bytes: int) -> Member:
    name, is_raw = _zip_name(info)
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system in _UNIX_SYSTEMS else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return Member(name, is_folder=True, is_raw=is_raw)
    if fault := _zip_fault(info, kind, archive_bytes):
        return Member(name, fault=fault, is_raw=is_raw)
    blob = ZipMember(path, info.header_offset, info.compress_size, info.compress_type, info.CRC)
    return Member(name, blob=blob, size=info.file_size, is_raw=is_raw)


def _zip_name(info: ZipInfo) -> tuple[str, bool]:
    """Return a member's name, and whether its encoding is unknown."""
    name = info.orig_filename  # unlike `filename`, it is not cut off at a NUL
    if info.flag_bits & _UTF8 or name.isascii():
        return name, False
    raw = name.encode(_DOS)  # as `zipfile` has decoded it
    if name := _unicode_name(info.extra, raw):
        return name, False
    return raw.decode("utf-8", "surrogateescape"), True


def _unicode_name(extra: bytes, raw: bytes) -> str:
    """Return the name in UTF-8 that Windows programs add to one of another encoding; "" for none.

    Extra fields are `id size data`, little-endian; that of the name is
        version 0:1 (1) · CRC-32 of the other name 1:5 · name 5:
    and counts only if the other name was not changed afterwards.
    """
    at = 0
    while at + _EXTRA_HEADER.size <= len(extra):
        kind, size = _EXTRA_HEADER.unpack_from(extra, at)
        at += _EXTRA_HEADER.size
        data = extra[at : at + size]
        at += size
        is_current = data[1:5] == crc32(raw).to_bytes(4, "little")
        if kind == _UNICODE_PATH and data[:1] == b"\1" and is_current:
            with suppress(UnicodeDecodeError):
                return data[5:].decode("utf-8")
    return ""


def _zip_fault(info: ZipInfo, kind: int, archive_bytes: int) -> str:
    """Return why a member cannot be read; "" if it can."""
    if info.flag_bits & (_ENCRYPTED | _STRONGLY_ENCRYPTED):
        return "encrypted"
    if kind == stat.S_IFLNK:
        return _LINK_FAULT
    if kind not in (0, stat.S_IFREG):
        return "a special file in an archive"
    if info.compress_type not in (STORED, DEFLATED) or info.flag_bits & _PATCHED:
        method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        return f"compressed with {method}; only stored and deflated members are read"
    end = info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size
    if info.header_offset < 0 or end > archive_bytes:
        return "its bytes are not where the archive says"
    # Packed bytes are read all at once, so their number must be plausible.
    most_packed = _MOST_GROWTH * info.file_size + _MOST_PADDING
    is_stored = info.compress_type == STORED
    if info.compress_size != info.file_size if is_stored else info.compress_size > most_packed:
        return "its sizes in the archive contradict each other"
    return ""


# Tar files.

_BLOCK = tarfile.BLOCKSIZE
_WINDOW_BYTES = 8 * _BLOCK
"""Read at once: more than a header, because that of the next small file often comes along."""
_MAX_EXTENSION_BYTES = 1 << 20
"""The most that an extended header may take; real ones hold a name and a few times."""
_MAX_NAME_BYTES = 1 << 15
_TAIL_BYTES = 1 << 20
_SPARSE_CONTINUES, _SPARSE_BLOCK_CONTINUES = 482, 504
"""The byte of a sparse header, and of each block after it, that announces one more block."""
_REGULAR = (b"0", b"\0", b"7")
_HARD_LINK = b"1"
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
_FOLDERS = (b"5", b"D")
_VOLUME_LABEL = b"V"
_LONG_NAMES = {b"L": "path", b"K": "linkpath"}
_PAX, _PAX_FOR_ALL = (b"x", b"X"), b"g"
_EXTENSIONS = frozenset({*_LONG_NAMES, *_PAX, _PAX_FOR_ALL})
_SPARSE, _SPARSE_KEY = b"S", "GNU.sparse."
_USED_KEYS = frozenset({
    "path", "linkpath", "size",
    *(f"{_SPARSE_KEY}{key}" for key in ("name", "major", "size", "realsize", "numblocks", "map")),
})  # fmt: skip
"""The fields kept of extended headers; a member may have any number of them."""
_TAR_FAULTS = {
    b"2": _LINK_FAULT,
    b"3": "a device in an archive",
    b"4": "a device in an archive",
    b"6": "a pipe in an archive",
    _SPARSE: "a sparse file in an archive",
    b"M": "the rest of a file that begins in another archive",
}


def is_tar(head: bytes) -> bool:
    """Return whether a file that begins with these 512 bytes is a tar."""
    try:
        TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def list_tar(path: str, shown: str, most: int) -> Listing:
    """List the members of an uncompressed tar, called `shown` in messages.

    A hard link to an earlier member repeats that member. Raises SourceError if the file is
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
        earlier: dict[str, Member] = {}
        extended: dict[str, str] = {}  # from extended headers, for the member after them
        at = 0
        while header := self._header(at):
            at += _BLOCK
            if header.type in _EXTENSIONS:
                extended |= self._extension(header, at)
                at = self._end(header, at)
                continue
            _complete(header, extended)
            if header.type == _SPARSE:
                at = self._after_sparse_map(at)
            member = self._member(header, extended, at, earlier)
            at, extended = self._end(header, at), {}
            if header.type != _VOLUME_LABEL:
                earlier.setdefault(header.name, member)
                yield member

    def _header(self, at: int) -> TarInfo | None:
        """Return the header at an offset; None at the end."""
        block = self._block(at)
        if not block:
            self.warnings.append(f"{self.shown} has no end mark: it may be cut off")
            return None
        if not block.strip(b"\0"):
            if os.pread(self.descriptor, _TAIL_BYTES, at).strip(b"\0"):
                self.warnings.append(f"{self.shown} has data after its end mark, which is not read")
            return None
        try:
            return TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise _damaged(self.shown, "tar", f"{error} at byte {at}") from error

    def _block(self, at: int) -> bytes:
        start = at - self._window_start
        if not 0 <= start <= len(self._window) - _BLOCK:
            self._window = os.pread(self.descriptor, _WINDOW_BYTES, at)
            self._window_start, start = at, 0
        return self._window[start : start + _BLOCK]

    def _end(self, header: TarInfo, start: int) -> int:
        """Return where the next header is, after data that begin at `start`."""
        size = 0 if header.type in _WITHOUT_DATA else header.size
        if size < 0 or start + size > self.size:
            why = f"{printable(header.name)} has fewer than the {size} bytes in its header"
            raise _damaged(self.shown, "tar", why)
        return start + -(-size // _BLOCK) * _BLOCK

    def _after_sparse_map(self, at: int) -> int:
        continues = self._block(at - _BLOCK)[_SPARSE_CONTINUES]
        while continues:
            block = self._block(at)
            if len(block) < _BLOCK:
                raise _damaged(self.shown, "tar", "it ends in the map of a sparse file")
            continues = block[_SPARSE_BLOCK_CONTINUES]
            at += _BLOCK
        return at

    def _extension(self, header: TarInfo, start: int) -> dict[str, str]:
        """Return the fields of an extended header, for the member after it."""
        if not 0 <= header.size <= _MAX_EXTENSION_BYTES:
            why = f"an extended header of {header.size} bytes at byte {start}"
            raise _damaged(self.shown, "tar", why)
        data = os.pread(self.descriptor, header.size, start)
        if header.type in _LONG_NAMES:
            return {_LONG_NAMES[header.type]: _decoded(data.partition(b"\0")[0])}
        records = _pax_records(data)
        if records is None:
            raise _damaged(self.shown, "tar", f"an invalid extended header at byte {start}")
        if header.type != _PAX_FOR_ALL:
            return {key: value for key, value in records.items() if key in _USED_KEYS}
        if not records.keys().isdisjoint(("path", "linkpath", "size")):
            why = "one extended header gives all members the same name or size"
            raise _damaged(self.shown, "tar", why)
        return {}

    def _member(
        self, header: TarInfo, extended: Mapping[str, str], start: int, earlier: dict[str, Member]
    ) -> Member:
        name, kind = header.name, header.type
        is_regular = kind in _REGULAR
        if kind in _FOLDERS or (is_regular and not header.size and name.endswith("/")):
            return Member(name, is_folder=True)
        if kind == _HARD_LINK:
            target = earlier.get(header.linkname)
            if target is None or target.is_folder:
                return Member(name, fault="a hard link to no file before it")
            return target._replace(name=name)
        if any(key.startswith(_SPARSE_KEY) for key in extended):
            return Member(name, fault=_TAR_FAULTS[_SPARSE])
        if not is_regular:
            return Member(name, fault=_TAR_FAULTS.get(kind, "an unknown kind of member"))
        return Member(name, blob=(self.path, start), size=header.size)


def _complete(header: TarInfo, extended: Mapping[str, str]) -> None:
    """Complete the header of a member from its extended headers."""
    header.name = extended.get(f"{_SPARSE_KEY}name") or extended.get("path") or header.name
    header.linkname = extended.get("linkpath") or header.linkname
    if size := extended.get("size"):
        header.size = int(size) if size.isdecimal() and len(size) < 20 else -1


def _pax_records(data: bytes) -> dict[str, str] | None:
    r"""Parse the records of an extended header; return None if they are invalid.

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
    return name[:_MAX_NAME_BYTES].decode("utf-8", "surrogateescape")
