"""The members of a zip file."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from zipfile import ZipFile, ZipInfo
from zlib import crc32

from imgrec.blob import ZipMember
from imgrec.errors import ImgrecError, SourceError
from imgrec.source.archive_members import Listing, Member, too_many_members
from imgrec.source.tree import unreadable
from imgrec.storage.blobs import DEFLATED, STORED
from imgrec.storage.read_errors import is_passing

_LOCAL_HEADER_BYTES = 30
_ENTRY_MAGIC = b"PK\x01\x02"
_MEMBER_BYTES = 128
"""The least that a member takes: its headers, its name twice, and some data."""
_BLOCK_BYTES = 1 << 20
_ENCRYPTED, _PATCHED, _STRONGLY_ENCRYPTED, _UTF8 = 0x1, 0x20, 0x40, 0x800
"""Bits of a member's flags."""
_FIRST_DISKS = (0, 0xFFFF)
"""Numbers of the first disk; the second leaves it to the zip64 fields, where it is 0."""
_MOST_GROWTH, _MOST_PADDING = 2, 1 << 16
"""Data that cannot be packed grows by a few bytes; this leaves room for packers that do worse."""
_UNIX_SYSTEMS = (3, 19)
"""Who made the member: Unix and macOS, which store names as they are on disk, and modes."""
_DOS = "cp437"
"""What names are in by the standard, unless they are marked as UTF-8."""
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
        may_be_bomb = archive_bytes > most * _MEMBER_BYTES  # never so for an archive on disk
        if may_be_bomb and _count_entries(path) > most:
            raise too_many_members(shown, most)
        with ZipFile(path) as archive:
            infos = archive.infolist()
    except OSError as error:
        raise _unreadable(shown, error) from error
    except SourceError:
        raise
    except Exception as error:  # zipfile raises whatever it stumbles over
        if isinstance(error.__context__, OSError) and is_passing(error.__context__):
            raise _unreadable(shown, error.__context__) from error
        raise SourceError(
            f"{shown} is not a zip file that can be read: {error or type(error).__name__}",
            hint="it may be damaged, or a download that was cut off: get it again",
            path=shown,
        ) from error
    _refuse_parts(shown, infos)
    _refuse_overlaps(shown, infos)
    members = [_member(path, info, archive_bytes) for info in infos]
    systems = {info.create_system for info, one in zip(infos, members, strict=True) if one.is_raw}
    return Listing(members, [], "utf-8" if systems.intersection(_UNIX_SYSTEMS) else _DOS)


def _unreadable(shown: str, error: OSError) -> ImgrecError:
    if error.errno == errno.EINVAL:  # a damaged zip made `zipfile` seek to before its start
        return SourceError(f"cannot read {shown}: {error.strerror}", path=shown)
    return unreadable(shown, error)


def _count_entries(path: str) -> int:
    """Count what may be entries of the list of members, before they take memory as objects."""
    count, rest = 0, b""
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            count += (rest + block).count(_ENTRY_MAGIC)
            rest = block[1 - len(_ENTRY_MAGIC) :]
    return count


def _refuse_parts(shown: str, infos: Sequence[ZipInfo]) -> None:
    if any(info.volume not in _FIRST_DISKS for info in infos):
        raise SourceError(
            f"{shown} is one part of a zip that was split",
            hint="join the parts first: zip -s 0 parts.zip --out whole.zip",
            path=shown,
        )


def _refuse_overlaps(shown: str, infos: Sequence[ZipInfo]) -> None:
    """Refuse bytes that belong to two members: bombs are made so."""
    spans = sorted(
        (info.header_offset, info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size)
        for info in infos
    )
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        raise SourceError(
            f"{shown} has members that overlap: it is damaged, or a decompression bomb",
            hint="get it again from where you trust",
            path=shown,
        )


def _member(path: str, info: ZipInfo, archive_bytes: int) -> Member:
    name, is_raw = _name(info)
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system in _UNIX_SYSTEMS else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return Member(name, is_folder=True, is_raw=is_raw)
    if fault := _fault(info, kind, archive_bytes):
        return Member(name, fault=fault, is_raw=is_raw)
    blob = ZipMember(path, info.header_offset, info.compress_size, info.compress_type, info.CRC)
    return Member(name, blob=blob, size=info.file_size, is_raw=is_raw)


def _name(info: ZipInfo) -> tuple[str, bool]:
    """Return a member's name, and whether it is raw."""
    name = info.orig_filename  # which, unlike `filename`, is not cut off at a NUL
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
        if kind == _UNICODE_PATH and data[:1] == b"\1" and data[1:5] == _crc(raw):
            with suppress(UnicodeDecodeError):
                return data[5:].decode("utf-8")
    return ""


def _crc(data: bytes) -> bytes:
    return crc32(data).to_bytes(4, "little")


def _fault(info: ZipInfo, kind: int, archive_bytes: int) -> str:
    """Return why a member cannot be read; "" if it can."""
    if info.flag_bits & (_ENCRYPTED | _STRONGLY_ENCRYPTED):
        return "encrypted"
    if kind == stat.S_IFLNK:
        return "a symbolic link in an archive"
    if kind not in (0, stat.S_IFREG):
        return "a special file in an archive"
    if info.compress_type not in (STORED, DEFLATED) or info.flag_bits & _PATCHED:
        method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        return f"compressed with {method}; only stored and deflated members are read"
    end = info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size
    if info.header_offset < 0 or end > archive_bytes:
        return "its bytes are not where the archive says"
    if not _is_possible(info):
        return "its sizes in the archive contradict each other"
    return ""


def _is_possible(info: ZipInfo) -> bool:
    """Tell whether the sizes fit each other: packed bytes are read all at once."""
    if info.compress_type == STORED:
        return info.compress_size == info.file_size
    return info.compress_size <= _MOST_GROWTH * info.file_size + _MOST_PADDING
