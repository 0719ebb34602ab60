"""Archives among the files of a tree: each is opened, and listed as a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from imgrec.blob import ZipMember
from imgrec.errors import BadImage, SourceError
from imgrec.source.archives.archive import (
    ArchiveFile,
    archive_file,
    read_archive,
    refuse_foreign,
)
from imgrec.source.archives.limits import Allowance
from imgrec.source.archives.members import MemberTree
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.split_words import split_word
from imgrec.source.tree import (
    Folder,
    Lister,
    TreeFile,
    files_of,
    has_image_name,
    spool_path,
)
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.storage.blobs import read_pieces
from imgrec.storage.spool import write_blocks
from imgrec.text import printable

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
