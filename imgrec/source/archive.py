"""Archives: recognise and open them, and refuse those that imgrec cannot read."""

from __future__ import annotations

import lzma
import os
import re
import shlex
from bz2 import BZ2File
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import FileIO
from typing import Literal, NamedTuple

from imgrec.errors import BadImage, ImgrecError, SourceError
from imgrec.model import ZipMember
from imgrec.source.archive_formats import is_tar, list_tar, list_zip
from imgrec.source.archive_members import (
    COMPRESSED_TARS,
    Allowance,
    Listing,
    MemberTree,
    archive_stem,
    decode_names,
    has_archive_name,
)
from imgrec.source.tree import Context, Folder, Lister, TreeFile, has_image_name, unreadable
from imgrec.source.words import split_word
from imgrec.stamp import NO_STAMP, Stamp, stamp_of
from imgrec.storage.blobs import read_pieces
from imgrec.storage.files import write_blocks
from imgrec.storage.read_errors import is_temporary, read_error
from imgrec.text import listed, name_of, printable

_HEAD_BYTES = 512
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_7Z, _RAR = b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"
_NUMBERED_PART = re.compile(r"(?P<whole>.+)\.\d{3}", re.DOTALL)
_ZIP_PART = re.compile(r"(?P<stem>.+)\.(z\d\d|zip)", re.DOTALL | re.IGNORECASE)
_BLOCK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 1 << 30
"""`xz -9` needs 64 MiB; a header may ask for 4 GiB."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


class ArchiveFile(NamedTuple):
    """An archive on disk."""

    path: str
    shown: str
    """Its name in messages."""
    packed_bytes: int
    """Its size where the user has it: it may be compressed in another archive."""
    stamp: Stamp


def is_archive(path: str) -> bool:
    """Return whether a file is an archive by its content, even one that imgrec cannot read.

    A compressed file is one if it has the name of a compressed tar.
    """
    if not os.path.isfile(path):
        return False
    head = _head(path, path)
    if _decompressor(head):
        return path.lower().endswith(COMPRESSED_TARS)
    return head.startswith((*_ZIP_MAGIC, _7Z, _RAR)) or is_tar(head)


def open_archive(path: str, context: Context) -> MemberTree:
    """List the files of an archive as if they were in a folder.

    A compressed tar is unpacked to the spool. A wrapper folder at the top is left out. Raises
    SourceError if the archive cannot be read or would unpack to too much.
    """
    file = _archive_file(path, path)
    tree = _read_archive(file, context, Allowance(context.options.max_archive_bytes))
    tree.strip_top(name_of(archive_stem(path)))
    return tree


def _archive_file(path: str, shown: str) -> ArchiveFile:
    try:
        size, stamp = os.path.getsize(path), stamp_of(path)
    except OSError as error:
        raise unreadable(shown, error) from error
    return ArchiveFile(os.path.abspath(path), shown, size, stamp)


def _read_archive(file: ArchiveFile, context: Context, allowance: Allowance) -> MemberTree:
    """List the files of an archive, and count what they unpack to against an allowance."""
    allowance.packed_bytes += file.packed_bytes
    listing = decode_names(_list(file, context, allowance), context.options.encoding, file.shown)
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


def _list(file: ArchiveFile, context: Context, allowance: Allowance) -> Listing:
    refuse_foreign([(file.path, file.shown)])
    head, most = _head(file.path, file.shown), allowance.most_members()
    if head.startswith(_ZIP_MAGIC):
        return list_zip(file.path, file.shown, most)
    if decompress := _decompressor(head):
        unpacked = context.spool_path(file.shown, ".tar")
        write_blocks(unpacked, _unpacked_blocks(file, decompress, allowance))
        return list_tar(unpacked, file.shown, most)
    if is_tar(head):
        return list_tar(file.path, file.shown, most)
    raise SourceError(
        f"{file.shown} is not an archive that imgrec can read",
        hint="unpack it and pack the folder, or make a zip or a tar of it",
        path=file.shown,
    )


def _head(path: str, shown: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise unreadable(shown, error) from error


# Compressed tars.


def _unpacked_blocks(
    file: ArchiveFile, decompress: Callable[[FileIO], Iterator[bytes]], allowance: Allowance
) -> Iterator[bytes]:
    """Yield a compressed file in blocks.

    Raises SourceError if it is damaged, ends too early, or unpacks to too much.
    """
    count = 0
    try:
        with FileIO(file.path) as stream:
            for block in decompress(stream):
                count += len(block)
                allowance.check(file.shown, count)
                yield block
    except ImgrecError:
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        if isinstance(error, OSError) and is_temporary(error):
            raise read_error(error, file.shown) from error
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise SourceError(
            f"{file.shown} cannot be unpacked: {why}",
            hint="it may be damaged, or the download was interrupted: download it again",
            path=file.shown,
        ) from error


def _arrow_blocks(file: FileIO, codec: Literal["gzip", "zstd"]) -> Iterator[bytes]:
    # Measured on 390 MB of photos in a tar.gz: 2.0 s, where Python's gzip takes 2.8 s.
    import pyarrow

    buffer = memoryview(bytearray(_BLOCK_BYTES))  # read() would never free one when it fails
    with pyarrow.CompressedInputStream(file, codec) as stream:
        while count := stream.readinto(buffer):
            yield bytes(buffer[:count])


def _bz2_blocks(file: FileIO) -> Iterator[bytes]:
    with BZ2File(file) as stream:  # pyarrow's never frees its memory
        while block := stream.read(_BLOCK_BYTES):
            yield block


def _xz_blocks(file: FileIO) -> Iterator[bytes]:
    """Yield the blocks of consecutive xz streams, which zeros may separate.

    Python's LZMAFile has no limit for memory.
    """
    packed = file.read(_BLOCK_BYTES)
    while packed:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
        while not decoder.eof:
            if decoder.needs_input and not packed and not (packed := file.read(_BLOCK_BYTES)):
                raise EOFError("it ends before its end mark")
            yield decoder.decompress(packed, _BLOCK_BYTES)
            packed = b""
        packed = decoder.unused_data.lstrip(b"\0")
        while not packed and (more := file.read(_BLOCK_BYTES)):
            packed = more.lstrip(b"\0")


_COMPRESSIONS: dict[bytes, Callable[[FileIO], Iterator[bytes]]] = {
    b"\x1f\x8b": partial(_arrow_blocks, codec="gzip"),
    b"BZh": _bz2_blocks,
    b"\xfd7zXZ\0": _xz_blocks,
    b"\x28\xb5\x2f\xfd": partial(_arrow_blocks, codec="zstd"),
}
"""How to decompress a file, by its first bytes."""


def _decompressor(head: bytes) -> Callable[[FileIO], Iterator[bytes]] | None:
    return next((read for magic, read in _COMPRESSIONS.items() if head.startswith(magic)), None)


# Archives that imgrec cannot read.


class _Foreign(NamedTuple):
    kind: str
    command: str
    """Turns it into something that imgrec can read."""
    result: str
    """The path of the result."""


def refuse_foreign(archives: Sequence[tuple[str, str]]) -> None:
    """Raise SourceError if archives are 7z, RAR or parts of a split archive.

    `archives` are paths and what messages call them. The error has a command to unpack each.
    """
    found = {shown: foreign for path, shown in archives if (foreign := _foreign(path, shown))}
    if not found:
        return
    names, results = list(found), {foreign.result for foreign in found.values()}
    kinds = " and ".join(sorted({foreign.kind for foreign in found.values()}))
    commands = " && ".join(dict.fromkeys(foreign.command for foreign in found.values()))
    outer = "" if os.path.lexists(names[0]) else "unpack the outer archive; then "
    then = f"pack {results.pop()}" if len(results) == 1 else "pack the folder again"
    raise SourceError(
        f"imgrec does not read {kinds}: {listed(names, 3)}",
        hint=f"{outer}run: {commands}, and {then}",
        path=names[0],
    )


def _foreign(path: str, shown: str) -> _Foreign | None:
    """Return how to convert an archive that imgrec cannot read; None for all others."""
    within, name = os.path.split(shown.partition(" in ")[0])

    def quoted(name: str) -> str:
        return shlex.quote(os.path.join(within, name))

    numbered, zip_part = _NUMBERED_PART.fullmatch(name), _ZIP_PART.fullmatch(name)
    stem = archive_stem(numbered["whole"] if numbered else name)
    stem = quoted(stem if stem != name else f"{name}_unpacked")
    try:
        head = _head(path, shown)
    except ImgrecError:  # opening it reports why
        head = b""
    if head.startswith(_7Z):
        return _Foreign("7z archives", f"7z x {quoted(name)} -o{stem}", stem)
    if head.startswith(_RAR):
        return _Foreign("RAR archives", f"unrar x {quoted(name)} {stem}/", stem)
    if numbered:
        whole = quoted(numbered["whole"])
        return _Foreign("parts of a split archive", f"cat {whole}.??? > {whole}", whole)
    if zip_part and (not name.lower().endswith(".zip") or _has_first_part(path)):
        last, whole = quoted(f"{zip_part['stem']}.zip"), f"{stem}_whole.zip"
        return _Foreign("parts of a split archive", f"zip -s 0 {last} --out {whole}", whole)
    return None


def _has_first_part(path: str) -> bool:
    stem = os.path.splitext(path)[0]
    return any(os.path.lexists(f"{stem}{suffix}") for suffix in (".z01", ".Z01"))


# Archives inside a tree.


def expand(lister: Lister, context: Context) -> None:
    """Open the archives of a tree, one level deep.

    Each becomes a folder named after it. Beside images, only archives of tables are opened, and
    those of splits that are not unpacked yet. Raises SourceError if an archive cannot be read.
    """
    folders = {folder.path: folder for folder in lister.folders()}
    archives = [file for folder in folders.values() for file in _archives(folder)]
    if not archives:
        return
    if any(has_image_name(name) for folder in folders.values() for name in folder.files):
        opened = [file for file in archives if _belongs_to_download(file, folders)]
        ignored = [file.path for file in archives if file not in opened]
        for path in ignored:
            lister.tally.add("archive beside images", path)
        if ignored:
            lister.warnings.append(
                f"{listed(ignored)}: not opened because there are images beside archives"
            )
        archives = opened
    is_alone = len(archives) == len(folders) == 1  # perhaps beside a licence or a read-me
    files = [_unnested(archive, lister, context) for archive in archives]
    refuse_foreign([(file.path, file.shown) for file in files])
    allowance = Allowance(context.options.max_archive_bytes)
    folders = {path: _without_archives(folder) for path, folder in folders.items()}
    for archive, file in zip(archives, files, strict=True):
        tree = _read_archive(file, context, allowance)
        lister.too_deep += _mount(tree, archive, folders, lister, is_alone=is_alone)
    if lister.too_deep:
        lister.warnings.append(
            f"{listed(lister.too_deep)}: not opened, because archives are opened one level deep"
        )
    lister.relist(folders.values(), NO_STAMP.merged(*(file.stamp for file in files)))


def _archives(folder: Folder) -> list[TreeFile]:
    if not any(map(has_archive_name, folder.files)):
        return []
    return [file for file in folder.tree_files() if has_archive_name(file.path)]


def _without_archives(folder: Folder) -> Folder:
    return folder.pick([at for at, name in enumerate(folder.files) if not has_archive_name(name)])


def _mount_path(archive: TreeFile) -> str:
    """Return the folder that an archive becomes."""
    above, slash, name = archive.path.rpartition("/")
    return above + slash + archive_stem(name)


def _belongs_to_download(archive: TreeFile, folders: dict[str, Folder]) -> bool:
    """Return whether an archive belongs to a download of images: `train.csv.zip`, `test.zip`."""
    mount = _mount_path(archive)
    stem = mount.rpartition("/")[2]
    return stem.lower().endswith(_TABLES) or (bool(split_word(stem)) and mount not in folders)


def _unnested(archive: TreeFile, lister: Lister, context: Context) -> ArchiveFile:
    """Return an archive as a file on disk: a copy in the spool if it is inside another."""
    blob = archive.blob
    if isinstance(blob, str):
        return _archive_file(blob, os.path.join(lister.root, archive.path))
    shown = f"{printable(archive.path)} in {lister.root}"
    copy = context.spool_path(shown, ".archive")
    try:
        write_blocks(copy, read_pieces(blob, archive.size))
    except BadImage as error:
        raise SourceError(f"{shown} cannot be read: {error}", path=lister.root) from error
    packed_bytes = blob.packed_size if isinstance(blob, ZipMember) else archive.size
    return ArchiveFile(copy, shown, packed_bytes, lister.stamp)


def _mount(
    tree: MemberTree,
    archive: TreeFile,
    folders: dict[str, Folder],
    lister: Lister,
    *,
    is_alone: bool,
) -> list[str]:
    """Put the folders of an archive in its place; return the paths of archives in it."""
    above, mount = archive.path.rpartition("/")[0], _mount_path(archive)
    stem = mount.rpartition("/")[2]
    tree.strip_top(stem, even_of_images=True)
    is_wrapper = is_alone and tree.holds_folders() and not split_word(stem)
    if mount in folders and not is_wrapper:
        raise SourceError(
            f"{tree.root} would become {mount}, which exists already",
            hint="rename or remove one of them",
            path=lister.root,
        )
    lister.warnings += tree.warnings
    tree.tally, tree.bad = lister.tally, lister.bad
    if stem.lower().endswith(_TABLES):  # `train.csv.zip` is a table in the folder of the archive
        tree.mount = above
        folders[above] = _with_files(folders[above], next(tree.folders()))
        return []
    tree.mount = "" if is_wrapper else mount
    if not is_wrapper:
        folders[above] = folders[above]._replace(has_folders=True)
    too_deep = []
    for folder in tree.folders():
        for file in _archives(folder):
            lister.tally.add("archive inside an inner archive", file.path)
            too_deep.append(file.path)
        folders[folder.path] = _without_archives(folder)
    return too_deep


def _with_files(folder: Folder, other: Folder) -> Folder:
    """Add the files of another folder whose names are new."""
    new = other.pick([at for at, name in enumerate(other.files) if name not in folder.files])
    return folder._replace(
        files=folder.files + new.files,
        blobs=folder.blobs + new.blobs,
        sizes=folder.sizes + new.sizes,
    )
