"""Archives of class folders, read where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from xxhash import xxh3_128_hexdigest

from imgrec.errors import ImgrecError, SourceError
from imgrec.source.archives.decompress import compression, decompressed
from imgrec.source.archives.foreign import MAGIC, refuse_foreign
from imgrec.source.archives.limits import Allowance
from imgrec.source.archives.members import Listing, MemberTree
from imgrec.source.archives.name_encoding import with_names
from imgrec.source.archives.names import COMPRESSED_TARS, archive_stem
from imgrec.source.archives.tars import is_tar, list_tar
from imgrec.source.archives.zips import list_zip
from imgrec.source.context import Context
from imgrec.stamp import Stamp, stamp_of
from imgrec.storage.unpacked import write_blocks
from imgrec.storage.unreadable import disk_fault, is_passing
from imgrec.text import name_of

_HEAD_BYTES = 512
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


class ArchiveFile(NamedTuple):
    """An archive, and what is to be known of it beside its bytes."""

    path: str
    shown: str
    """What it is called in messages."""
    packed_bytes: int
    """What it takes on disk, where it may be compressed in another archive."""
    stamp: Stamp


def is_archive(path: str) -> bool:
    """Tell by its content whether a file is an archive, be it one that can be read or not.

    Of compressed files, those are that are called as compressed tars are.
    """
    if not os.path.isfile(path):
        return False
    head = _head(path, path)
    if compression(head):
        return path.lower().endswith(COMPRESSED_TARS)
    return head.startswith((*_ZIP_MAGIC, *MAGIC)) or is_tar(head)


def open_archive(path: str, context: Context) -> MemberTree:
    """Return the lister of an archive's files, as if they were in a folder.

    A compressed tar is unpacked into the spool. One extra folder at the top is left out. Raises
    SourceError if the archive cannot be read as a whole or would unpack to too much.
    """
    file = archive_file(path, path)
    tree = read_archive(file, context, Allowance(context.options.max_archive_bytes))
    tree.strip_top(name_of(archive_stem(path)))
    return tree


def archive_file(path: str, shown: str) -> ArchiveFile:
    """Return an archive on disk."""
    try:
        size, stamp = os.path.getsize(path), stamp_of(path)
    except OSError as error:
        raise _unreadable(shown, error) from error
    return ArchiveFile(os.path.abspath(path), shown, size, stamp)


def read_archive(file: ArchiveFile, context: Context, allowance: Allowance) -> MemberTree:
    """Return an archive's files as they are in it; take what they unpack to off an allowance."""
    allowance.packed_bytes += file.packed_bytes
    listing = with_names(_list(file, context, allowance), context.options.encoding, file.shown)
    if not listing.members:
        raise SourceError(f"{file.shown} is an empty archive", path=file.shown)
    allowance.take(file.shown, sum(member.size for member in listing.members))
    allowance.take_members(file.shown, len(listing.members))
    tree = MemberTree(
        file.shown,
        stamp=file.stamp,
        warnings=listing.warnings,
        most_folders=allowance.most_members(),
    )
    tree.add(listing.members)
    allowance.take_members(file.shown, tree.folder_count())
    return tree


def spool_path(shown: str, suffix: str, context: Context) -> str:
    """Return the file of the spool for something that is made of an archive."""
    name = xxh3_128_hexdigest(shown.encode("utf-8", "surrogateescape"))
    return os.path.join(context.spool, name + suffix)


def _list(file: ArchiveFile, context: Context, allowance: Allowance) -> Listing:
    refuse_foreign([file.path], [file.shown])
    head, most = _head(file.path, file.shown), allowance.most_members()
    if head.startswith(_ZIP_MAGIC):
        return list_zip(file.path, file.shown, most)
    if codec := compression(head):
        unpacked = spool_path(file.shown, ".tar", context)
        write_blocks(unpacked, _metered(file, codec, allowance))
        return list_tar(unpacked, file.shown, most)
    if is_tar(head):
        return list_tar(file.path, file.shown, most)
    raise SourceError(
        f"{file.shown} is no archive that imgrec knows",
        hint="unpack it and pack the folder, or make a zip or a tar of it",
        path=file.shown,
    )


def _metered(file: ArchiveFile, codec: str, allowance: Allowance) -> Iterator[bytes]:
    """Yield what a compressed file holds, as long as that is not too much."""
    count = 0
    for block in decompressed(file.path, codec, file.shown):
        count += len(block)
        allowance.check(file.shown, count)
        yield block


def _head(path: str, shown: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(shown, error) from error


def _unreadable(shown: str, error: OSError) -> ImgrecError:
    if is_passing(error):
        return disk_fault(error, shown)
    return SourceError(f"cannot read {shown}: {error.strerror}", path=shown)
