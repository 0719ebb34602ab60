"""Archives that stand in the place of folders, on disk or inside another archive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.blob import Blob, ZipMember
from imgrec.errors import BadImage, SourceError
from imgrec.model import Skipped
from imgrec.source.archives.archive import ArchiveFile, archive_file, read_archive, spool_path
from imgrec.source.archives.foreign import refuse_foreign
from imgrec.source.archives.limits import Allowance
from imgrec.source.archives.members import MemberTree, has_image_name, is_split
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.tally import Tally
from imgrec.source.tree import Closed, Folder, Lister
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.blobs import read_pieces
from imgrec.storage.unpacked import write_blocks
from imgrec.text import printable

_BESIDE_IMAGES = "archive beside images"
_TOO_DEEP = "archive inside an inner archive"
_NAMED = 5
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")


@dataclass(slots=True)
class Expanded:
    """The listing of a tree, which is kept; what it passes over is noted in the tree's lister."""

    root: str
    tally: Tally
    bad: list[Skipped]
    closed: list[Closed]
    warnings: list[str]
    homes: dict[str, tuple[int, int]]
    lister: Lister
    archives: Stamp
    """Of the archives in it."""
    listing: Iterator[Folder]
    _kept: list[Folder] = field(default_factory=list)

    @property
    def stamp(self) -> Stamp:
        """Return the stamp of what is not looked at file by file, as far as it is listed."""
        return self.lister.stamp.merged(self.archives)  # which grows while the tree is listed

    def folders(self) -> Iterator[Folder]:
        """Yield each folder once, a parent before its children, in the order of names."""
        yield from self._kept
        for folder in self.listing:
            self._kept.append(folder)
            yield folder


class _Inner(NamedTuple):
    """An archive in a tree."""

    path: str
    blob: Blob
    size: int


def expand(lister: Lister, context: Context) -> Expanded:
    """Open the archives of a tree.

    Each becomes a folder of its name, less the suffix. Beside images, only archives of tables and
    of splits that are not unpacked yet are opened; others are left alone. Raises SourceError if an
    archive cannot be read as a whole.
    """
    seen = list(lister.folders())
    archives = [inner for folder in seen for inner in _archives(folder)]
    if not archives:
        return _kept(lister, iter(seen))
    if any(has_image_name(name) for folder in seen for name in folder.files):
        expected = _expected(archives, {folder.path for folder in seen})
        _leave_alone(lister, [inner.path for inner in archives if inner not in expected])
        archives = expected
    return _Opener(lister, context).expand(seen, archives)


def kept(lister: Lister) -> Lister:
    """Return a lister that lists only once, however often it is asked."""
    return lister if isinstance(lister, Expanded) else _kept(lister, lister.folders())


def join(lister: Lister, other: Lister, mount: str) -> Lister:
    """Return a lister of a tree with another tree in it, as a folder called `mount`."""
    own = [_with_sizes(folder) for folder in lister.folders()]
    if any(f"{folder.path}/".startswith(f"{mount}/") for folder in own):
        raise SourceError(
            f"{other.root} would become {mount}, which is in {lister.root} too",
            hint="rename one of them",
            path=other.root,
        )
    below = [
        _with_sizes(folder)._replace(path=f"{mount}/{folder.path}" if folder.path else mount)
        for folder in other.folders()
    ]
    lister.bad += [file._replace(filename=f"{mount}/{file.filename}") for file in other.bad]
    lister.closed += [one._replace(path=f"{mount}/{one.path}") for one in other.closed]
    lister.warnings += other.warnings
    lister.homes.update(other.homes)
    ordered = sorted([*own, *below], key=lambda folder: folder.path.split("/"))
    return _kept(lister, iter(ordered), other.stamp)


def _with_sizes(folder: Folder) -> Folder:
    """Return a folder that tells sizes; for files on disk, any size will do."""
    return folder if folder.sizes else folder._replace(sizes=(0,) * len(folder.files))


def _expected(archives: Sequence[_Inner], folders: set[str]) -> list[_Inner]:
    """Return the archives that belong to a download of images: `train.csv.zip`, `test.zip`."""
    found = []
    for inner in archives:
        above, _, name = inner.path.rpartition("/")
        stem = archive_stem(name)
        is_unpacked = (f"{above}/{stem}" if above else stem) in folders
        if stem.lower().endswith(_TABLES) or (is_split(stem) and not is_unpacked):
            found.append(inner)
    return found


def _kept(lister: Lister, listing: Iterator[Folder], archives: Stamp = NO_STAMP) -> Expanded:
    return Expanded(
        root=lister.root,
        tally=lister.tally,
        bad=lister.bad,
        closed=lister.closed,
        warnings=lister.warnings,
        homes=lister.homes,
        lister=lister,
        archives=archives,
        listing=listing,
    )


def _archives(folder: Folder) -> Iterator[_Inner]:
    sizes = folder.sizes or (0,) * len(folder.files)
    for name, blob, size in zip(folder.files, folder.blobs, sizes, strict=True):
        if has_archive_name(name):
            yield _Inner(f"{folder.path}/{name}" if folder.path else name, blob, size)


def _without_archives(folder: Folder, *, with_sizes: bool) -> Folder:
    """Return a folder without its archives; for files on disk, any size will do."""
    places = [at for at, name in enumerate(folder.files) if not has_archive_name(name)]
    sizes = folder.sizes or ((0,) * len(folder.files) if with_sizes else ())
    return folder._replace(
        files=tuple([folder.files[at] for at in places]),
        blobs=tuple([folder.blobs[at] for at in places]),
        sizes=tuple([sizes[at] for at in places]) if sizes else (),
    )


def _leave_alone(lister: Lister, left: Sequence[str]) -> None:
    """Count and name archives that are not opened."""
    for path in left:
        lister.tally.add(_BESIDE_IMAGES, path)
    if left:
        lister.warnings.append(f"{_some(left)}: not opened, as there are images beside archives")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass(slots=True)
class _Opener:
    """Opens the archives of one tree."""

    lister: Lister
    context: Context
    stamp: Stamp = NO_STAMP
    _found: dict[str, Folder] = field(default_factory=dict)
    _too_deep: list[str] = field(default_factory=list)

    def expand(self, folders: Sequence[Folder], archives: Sequence[_Inner]) -> Expanded:
        self._found = {
            folder.path: _without_archives(folder, with_sizes=True) for folder in folders
        }
        allowance = Allowance(self.context.options.max_archive_bytes)
        is_alone = len(archives) == len(folders) == 1  # beside a licence or a read-me, maybe
        files = [self._file(inner) for inner in archives]
        refuse_foreign([file.path for file in files], [file.shown for file in files])
        for inner, file in zip(archives, files, strict=True):
            tree = read_archive(file, self.context, allowance)
            self.stamp = self.stamp.merged(file.stamp)
            self._mount(tree, inner, is_alone=is_alone)
        if self._too_deep:
            self.lister.warnings.append(
                f"{_some(self._too_deep)}: not opened, as archives are opened one level deep"
            )
        ordered = sorted(self._found.values(), key=lambda folder: folder.path.split("/"))
        return _kept(self.lister, iter(ordered), self.stamp)

    def _add_files(self, path: str, files: Folder) -> None:
        """Add the files of an archive to the folder that it is in: `train.csv.zip` is a table."""
        found = self._found[path]
        new = [at for at, name in enumerate(files.files) if name not in found.files]
        self._found[path] = found._replace(
            files=(*found.files, *(files.files[at] for at in new)),
            blobs=(*found.blobs, *(files.blobs[at] for at in new)),
            sizes=(*found.sizes, *(files.sizes[at] for at in new)),
        )

    def _file(self, inner: _Inner) -> ArchiveFile:
        """Return an archive as a file of its own, which it becomes in the spool if need be."""
        root, blob = self.lister.root, inner.blob
        if isinstance(blob, str):
            return archive_file(blob, os.path.join(root, inner.path))
        shown = f"{printable(inner.path)} in {root}"
        copy = spool_path(shown, ".archive", self.context)
        try:
            write_blocks(copy, read_pieces(blob, inner.size))
        except BadImage as error:
            raise SourceError(f"{shown} cannot be read: {error}", path=root) from error
        packed_bytes = blob.packed_size if isinstance(blob, ZipMember) else inner.size
        return ArchiveFile(copy, shown, packed_bytes, self.lister.stamp)

    def _mount(self, tree: MemberTree, inner: _Inner, *, is_alone: bool) -> None:
        """Put the folders of an archive in its place."""
        above, _, name = inner.path.rpartition("/")
        stem = archive_stem(name)
        tree.strip_top(stem, even_of_images=True)
        is_wrapper = is_alone and tree.holds_folders() and not is_split(stem)
        tree.mount = "" if is_wrapper else f"{above}/{stem}" if above else stem
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
            too_deep = [below.path for below in _archives(folder)]
            for path in too_deep:
                self.lister.tally.add(_TOO_DEEP, path)
            self._too_deep += too_deep
            self._found[folder.path] = _without_archives(folder, with_sizes=True)
