"""Archives: which files are archives, what is in them, and which ones imgrec does not read."""

from __future__ import annotations

import lzma
import os
import re
import shlex
from bz2 import BZ2File
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from typing import Literal, NamedTuple

from imgrec.blob import ZipMember
from imgrec.errors import BadImage, ImgrecError, SourceError
from imgrec.source.archive_members import Allowance, Listing, MemberTree
from imgrec.source.archive_names import (
    COMPRESSED_TARS,
    archive_stem,
    choose_encoding,
    has_archive_name,
)
from imgrec.source.split_words import split_word
from imgrec.source.tars import is_tar, list_tar
from imgrec.source.tree import (
    Context,
    Folder,
    Lister,
    TreeFile,
    files_of,
    has_image_name,
    spool_path,
    unreadable,
)
from imgrec.source.zips import list_zip
from imgrec.stamp import NO_STAMP, Stamp, stamp_of
from imgrec.storage.blobs import read_pieces
from imgrec.storage.files import write_blocks
from imgrec.storage.read_errors import disk_fault, is_passing
from imgrec.text import name_of, printable

_HEAD_BYTES = 512
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_SHOWN = 3
_7Z, _RAR = b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"
_FOREIGN_MAGIC = (_7Z, _RAR)
_NUMBERED = re.compile(r"(?P<whole>.+)\.\d{3}", re.DOTALL)
_ZIP_PART = re.compile(r"(?P<stem>.+)\.(z\d\d|zip)", re.DOTALL | re.IGNORECASE)
_PARTS = "parts of an archive that was split"
_BLOCK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 1 << 30
"""`xz -9` needs 64 MiB; a header may ask for 4 GiB."""
_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)


class ArchiveFile(NamedTuple):
    """An archive on disk."""

    path: str
    shown: str
    """What it is called in messages."""
    packed_bytes: int
    """Its size where the user has it: it may be compressed in another archive."""
    stamp: Stamp


def is_archive(path: str) -> bool:
    """Tell by its content whether a file is an archive, readable by imgrec or not.

    A compressed file is one if it has the name of a compressed tar.
    """
    if not os.path.isfile(path):
        return False
    head = _head(path, path)
    if _compression(head):
        return path.lower().endswith(COMPRESSED_TARS)
    return head.startswith((*_ZIP_MAGIC, *_FOREIGN_MAGIC)) or is_tar(head)


def open_archive(path: str, context: Context) -> MemberTree:
    """List the files of an archive as if they were in a folder.

    A compressed tar is unpacked to the spool. A wrapper folder at the top is left out. Raises
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
        raise unreadable(shown, error) from error
    return ArchiveFile(os.path.abspath(path), shown, size, stamp)


def read_archive(file: ArchiveFile, context: Context, allowance: Allowance) -> MemberTree:
    """List the files of an archive; count what they unpack to against an allowance."""
    allowance.packed_bytes += file.packed_bytes
    listing = _decode_names(_list(file, context, allowance), context.options.encoding, file.shown)
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


def _decode_names(listing: Listing, asked: str, shown: str) -> Listing:
    """Decode the raw names of a listing, all of them in one encoding."""
    raw = {
        at: member.name.encode("utf-8", "surrogateescape")
        for at, member in enumerate(listing.members)
        if member.is_raw
    }
    if not raw or (listing.names_are_bytes and not asked):
        return listing
    names = list(raw.values())
    encoding, warning = choose_encoding(names, asked, shown, listing.usual_encoding)
    members = list(listing.members)
    for at, name in raw.items():
        members[at] = members[at]._replace(name=name.decode(encoding, "surrogateescape"))
    return listing._replace(members=members, warnings=[*listing.warnings, *filter(None, [warning])])


def _list(file: ArchiveFile, context: Context, allowance: Allowance) -> Listing:
    refuse_foreign([file.path], [file.shown])
    head, most = _head(file.path, file.shown), allowance.most_members()
    if head.startswith(_ZIP_MAGIC):
        return list_zip(file.path, file.shown, most)
    if codec := _compression(head):
        unpacked = spool_path(file.shown, ".tar", context)
        write_blocks(unpacked, _metered(file, codec, allowance))
        return list_tar(unpacked, file.shown, most)
    if is_tar(head):
        return list_tar(file.path, file.shown, most)
    raise SourceError(
        f"{file.shown} is not an archive that imgrec reads",
        hint="unpack it and pack the folder, or make a zip or a tar of it",
        path=file.shown,
    )


def _metered(file: ArchiveFile, codec: str, allowance: Allowance) -> Iterator[bytes]:
    """Yield the blocks of a compressed file, as long as they are not too many."""
    count = 0
    for block in _decompressed(file.path, codec, file.shown):
        count += len(block)
        allowance.check(file.shown, count)
        yield block


def _head(path: str, shown: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise unreadable(shown, error) from error


# Compressed tars.


def _compression(head: bytes) -> str:
    """Return the compression of a file by its first bytes; "" for none.

    >>> _compression(b"BZh91AY&SY")
    'bz2'
    """
    return next((name for magic, name in _COMPRESSIONS if head.startswith(magic)), "")


def _decompressed(path: str, codec: str, shown: str) -> Iterator[bytes]:
    """Yield the blocks of a compressed file, called `shown` in messages.

    Raises SourceError if it cannot be read, is damaged, or ends too early.
    """
    try:
        with FileIO(path) as file:
            yield from _READERS[codec](file)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        if isinstance(error, OSError) and is_passing(error):
            raise disk_fault(error, shown) from error
        why = (error.strerror if isinstance(error, OSError) else "") or error
        raise SourceError(
            f"{shown} cannot be unpacked: {why}",
            hint="it may be damaged, or a download that was cut off: get it again",
            path=shown,
        ) from error


def _arrow_blocks(file: FileIO, codec: Literal["gzip", "zstd"]) -> Iterator[bytes]:
    # Measured on 390 MB of photos in a tar.gz: 2.0 s, where Python's gzip takes 2.8 s.
    import pyarrow

    buffer = memoryview(bytearray(_BLOCK_BYTES))  # read() would never free one when it fails
    with pyarrow.CompressedInputStream(file, codec) as stream:
        while count := stream.readinto(buffer):
            yield bytes(buffer[:count])


def _bz2_blocks(file: FileIO) -> Iterator[bytes]:
    with BZ2File(file) as stream:  # each of pyarrow's keeps its memory for good
        while block := stream.read(_BLOCK_BYTES):
            yield block


def _xz_blocks(file: FileIO) -> Iterator[bytes]:
    """Yield the blocks of one xz stream after another, with zeros between them or not."""
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


_READERS: dict[str, Callable[[FileIO], Iterator[bytes]]] = {
    "gzip": partial(_arrow_blocks, codec="gzip"),
    "bz2": _bz2_blocks,
    "zstd": partial(_arrow_blocks, codec="zstd"),
    "xz": _xz_blocks,
}


# Archives that imgrec does not read.


class _Foreign(NamedTuple):
    kind: str
    command: str
    """Turns it into something that imgrec reads."""
    result: str
    """The path of that."""


def refuse_foreign(paths: Sequence[str], shown: Sequence[str]) -> None:
    """Raise SourceError if some of these archives are 7z, RAR or parts of a split archive.

    `shown` has their names in messages. The error has a command to unpack each.
    """
    found = {
        name: foreign
        for path, name in zip(paths, shown, strict=True)
        if (foreign := _foreign(path, name))
    }
    if not found:
        return
    names, kinds = list(found), {foreign.kind for foreign in found.values()}
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    commands = " && ".join(dict.fromkeys(foreign.command for foreign in found.values()))
    outer = "" if os.path.lexists(names[0]) else "unpack what it is in; then "
    made = {foreign.result for foreign in found.values()}
    then = f"pack {made.pop()}" if len(made) == 1 else "pack the folder again"
    raise SourceError(
        f"imgrec does not read {' and '.join(sorted(kinds))}: {', '.join(names[:_SHOWN])}{more}",
        hint=f"{outer}run: {commands}, and {then}",
        path=names[0],
    )


def _foreign(path: str, shown: str) -> _Foreign | None:
    """Return what to do with an archive that imgrec does not read; None for all others."""
    within, name = os.path.split(shown.partition(" in ")[0])
    numbered, zip_part = _NUMBERED.fullmatch(name), _ZIP_PART.fullmatch(name)
    own = shlex.quote(os.path.join(within, name))
    stem = archive_stem(numbered["whole"] if numbered else name)
    stem = shlex.quote(os.path.join(within, stem if stem != name else f"{name}_unpacked"))
    try:
        head = _head(path, shown)
    except ImgrecError:  # whoever reads it reports why it failed
        head = b""
    if head.startswith(_7Z):
        return _Foreign("7z archives", f"7z x {own} -o{stem}", stem)
    if head.startswith(_RAR):
        return _Foreign("RAR archives", f"unrar x {own} {stem}/", stem)
    if numbered:
        whole = shlex.quote(os.path.join(within, numbered["whole"]))
        return _Foreign(_PARTS, f"cat {whole}.??? > {whole}", whole)
    if zip_part and (not name.lower().endswith(".zip") or _has_first_part(path)):
        last = shlex.quote(os.path.join(within, f"{zip_part['stem']}.zip"))
        return _Foreign(_PARTS, f"zip -s 0 {last} --out {stem}_whole.zip", f"{stem}_whole.zip")
    return None


def _has_first_part(path: str) -> bool:
    stem = os.path.splitext(path)[0]
    return any(os.path.lexists(f"{stem}{suffix}") for suffix in (".z01", ".Z01"))


_BESIDE_IMAGES = "archive beside images"
_TOO_DEEP = "archive inside an inner archive"
_NAMED = 5
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


def expand(lister: Lister, context: Context) -> None:
    """Open the archives of a tree, one level deep.

    Each becomes a folder of its name, less the suffix. Beside images, only archives of tables and
    of splits that are not unpacked yet are opened. Raises SourceError if an archive cannot be read
    as a whole.
    """
    seen = list(lister.folders())
    archives = [file for folder in seen for file in _archives(folder)]
    if not archives:
        return
    if any(has_image_name(name) for folder in seen for name in folder.files):
        expected = _expected(archives, {folder.path for folder in seen})
        if left := [file.path for file in archives if file not in expected]:
            for path in left:
                lister.tally.add(_BESIDE_IMAGES, path)
            lister.warnings.append(
                f"{_some(left)}: not opened, as there are images beside archives"
            )
        archives = expected
    _Opener(lister, context).expand(seen, archives)


def join(lister: Lister, other: Lister, mount: str) -> None:
    """Add another tree to a tree, as a folder called `mount`."""
    own = [folder.with_sizes() for folder in lister.folders()]
    if any(f"{folder.path}/".startswith(f"{mount}/") for folder in own):
        raise SourceError(
            f"{other.root} would become {mount}, which is in {lister.root} too",
            hint="rename one of them",
            path=other.root,
        )
    below = [
        folder.with_sizes()._replace(path=f"{mount}/{folder.path}" if folder.path else mount)
        for folder in other.folders()
    ]
    lister.bad += [file._replace(filename=f"{mount}/{file.filename}") for file in other.bad]
    lister.closed += [one._replace(path=f"{mount}/{one.path}") for one in other.closed]
    lister.warnings += other.warnings
    lister.homes.update(other.homes)
    lister.relist(_ordered([*own, *below]), other.stamp)


def _ordered(folders: Sequence[Folder]) -> list[Folder]:
    return sorted(folders, key=lambda folder: folder.path.split("/"))


def _archives(folder: Folder) -> list[TreeFile]:
    if not any(map(has_archive_name, folder.files)):
        return []
    return [file for file in files_of(folder) if has_archive_name(file.path)]


def _without_archives(folder: Folder) -> Folder:
    places = [at for at, name in enumerate(folder.files) if not has_archive_name(name)]
    return folder.with_sizes().pick(places)


def _expected(archives: Sequence[TreeFile], folders: set[str]) -> list[TreeFile]:
    """Return the archives that belong to a download of images: `train.csv.zip`, `test.zip`."""
    found = []
    for file in archives:
        mount = _mount_of(file)
        stem = mount.rpartition("/")[2]
        if stem.lower().endswith(_TABLES) or (split_word(stem) and mount not in folders):
            found.append(file)
    return found


def _mount_of(file: TreeFile) -> str:
    """Return the folder that an archive becomes."""
    above, slash, name = file.path.rpartition("/")
    return above + slash + archive_stem(name)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass(slots=True)
class _Opener:
    """Opens the archives of one tree."""

    lister: Lister
    context: Context
    _found: dict[str, Folder] = field(default_factory=dict)
    _too_deep: list[str] = field(default_factory=list)

    def expand(self, folders: Sequence[Folder], archives: Sequence[TreeFile]) -> None:
        self._found = {folder.path: _without_archives(folder) for folder in folders}
        allowance = Allowance(self.context.options.max_archive_bytes)
        is_alone = len(archives) == len(folders) == 1  # perhaps beside a licence or a read-me
        files = [self._file(archive) for archive in archives]
        refuse_foreign([file.path for file in files], [file.shown for file in files])
        stamp: Stamp = NO_STAMP
        for archive, file in zip(archives, files, strict=True):
            tree = read_archive(file, self.context, allowance)
            stamp = stamp.merged(file.stamp)
            self._mount(tree, archive, is_alone=is_alone)
        if self._too_deep:
            self.lister.warnings.append(
                f"{_some(self._too_deep)}: not opened, as archives are opened one level deep"
            )
        self.lister.relist(_ordered(list(self._found.values())), stamp)

    def _file(self, archive: TreeFile) -> ArchiveFile:
        """Return an archive as a file on disk: a copy in the spool if it is inside another."""
        root, blob = self.lister.root, archive.blob
        if isinstance(blob, str):
            return archive_file(blob, os.path.join(root, archive.path))
        shown = f"{printable(archive.path)} in {root}"
        copy = spool_path(shown, ".archive", self.context)
        try:
            write_blocks(copy, read_pieces(blob, archive.size))
        except BadImage as error:
            raise SourceError(f"{shown} cannot be read: {error}", path=root) from error
        packed_bytes = blob.packed_size if isinstance(blob, ZipMember) else archive.size
        return ArchiveFile(copy, shown, packed_bytes, self.lister.stamp)

    def _mount(self, tree: MemberTree, archive: TreeFile, *, is_alone: bool) -> None:
        """Put the folders of an archive in its place."""
        above = archive.path.rpartition("/")[0]
        mount = _mount_of(archive)
        stem = mount.rpartition("/")[2]
        tree.strip_top(stem, even_of_images=True)
        is_wrapper = is_alone and tree.holds_folders() and not split_word(stem)
        tree.mount = "" if is_wrapper else mount
        if tree.mount in self._found and not is_wrapper:
            raise SourceError(
                f"{tree.root} would become {tree.mount}, which is there too",
                hint="rename or remove one of them",
                path=self.lister.root,
            )
        self.lister.warnings += tree.warnings
        tree.tally, tree.bad = self.lister.tally, self.lister.bad
        if stem.lower().endswith(_TABLES):
            tree.mount = above
            self._add_files(above, next(tree.folders()))
            return
        if not is_wrapper:
            self._found[above] = self._found[above]._replace(has_folders=True)
        for folder in tree.folders():
            for file in _archives(folder):
                self.lister.tally.add(_TOO_DEEP, file.path)
                self._too_deep.append(file.path)
            self._found[folder.path] = _without_archives(folder)

    def _add_files(self, path: str, files: Folder) -> None:
        """Add the files of an archive to the folder that it is in: `train.csv.zip` is a table."""
        found = self._found[path]
        new = files.pick([at for at, name in enumerate(files.files) if name not in found.files])
        self._found[path] = found._replace(
            files=found.files + new.files,
            blobs=found.blobs + new.blobs,
            sizes=found.sizes + new.sizes,
        )
