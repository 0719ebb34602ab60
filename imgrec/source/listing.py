"""Opening a source as a tree of files: a folder, an archive or an object store."""

from __future__ import annotations

import os
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.archives.names import archive_stem, has_archive_name
from imgrec.source.context import Context
from imgrec.source.manifests.tables import is_table
from imgrec.source.split_words import split_word
from imgrec.source.tally import clutter_kind
from imgrec.source.tree import Lister, has_image_name
from imgrec.source.walk import StoreWalk, Walk
from imgrec.storage.read_errors import disk_fault, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of


def open_tree(path: str, context: Context) -> Lister:
    """List the files of a folder or an archive, and of the archives in it.

    If `--test-images` names another one, it becomes a folder in it. Raises SourceError if a path is
    neither.
    """
    lister = _open_one(path, context)
    other = place_of_test_images(lister.root, context.options.test_images).outside
    if not other or is_table(other):
        return lister
    from imgrec.source.archives.nested import join

    join(lister, _open_one(other, context), _mount(other))
    return lister


class TestImagesPlace(NamedTuple):
    """Where `--test-images` points: into the source, or to a file or folder outside of it."""

    inside: str = ""
    outside: str = ""


def place_of_test_images(root: str, given: str) -> TestImagesPlace:
    """Tell what `--test-images` means for a source."""
    if not given or is_url(given) or is_url(root):
        return TestImagesPlace(inside=given.strip("/"))
    is_relative = not os.path.isabs(given)
    if is_relative and os.path.isdir(root) and os.path.lexists(os.path.join(root, given)):
        return TestImagesPlace(inside=os.path.normpath(given))
    if not os.path.lexists(given_path(given)):
        return TestImagesPlace(inside=given.strip("/"))
    real, above = os.path.realpath(given_path(given)), os.path.realpath(root)
    if os.path.isdir(root) and real.startswith(os.path.join(above, "")):
        return TestImagesPlace(inside=name_of(os.path.relpath(real, above)))
    is_table_file = os.path.isfile(real) and is_table(real)
    return TestImagesPlace(inside="" if is_table_file else _mount(given), outside=given_path(given))


def _mount(path: str) -> str:
    """Return what a folder or archive of test images is called in the source."""
    stem = path if os.path.isdir(path) else archive_stem(path)
    return name_of(os.path.basename(os.path.abspath(stem)))


def _open_one(path: str, context: Context) -> Lister:
    if is_url(path):
        return _expanded(StoreWalk(path, spool=context.spool), context)
    path = given_path(path)
    if os.path.isdir(path):
        path = _unwrapped(path)
        walk = Walk(path, follow_links=context.options.follow_links)
        return _expanded(walk, context) if _holds_archives(path) else walk
    from imgrec.source.archives.archive import is_archive, open_archive

    if is_archive(path):
        return _expanded(open_archive(path, context), context)
    what = "is neither a folder nor an archive" if os.path.lexists(path) else "does not exist"
    raise SourceError(f"{path} {what}", hint="give the folder or archive of images", path=path)


def _expanded(lister: Lister, context: Context) -> Lister:
    from imgrec.source.archives.nested import expand

    expand(lister, context)
    return lister


def _unwrapped(folder: str) -> str:
    """Return the folder where the source starts: an only folder in a folder is a mere wrapper.

    The rule is that of archives (`MemberTree.strip_top`), so that both give the same names.
    """
    while True:
        files, folders = _entries(folder)
        if files or len(folders) != 1:
            return folder
        inner = os.path.join(folder, folders[0])
        files, below = _entries(inner)
        is_own = folders[0] == os.path.basename(os.path.abspath(folder))
        holds = below or any(map(has_archive_name, files))
        if any(map(has_image_name, files)) or not holds or (split_word(folders[0]) and not is_own):
            return folder
        folder = inner


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, but for clutter."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not clutter_kind(entry.name, is_folder=is_folder):
                    (folders if is_folder else files).append(entry.name)
    except OSError:  # the walk reports why
        return [], []
    return files, folders


def _holds_archives(folder: str) -> bool:
    """Tell whether there are archives in a folder, where downloads put them: right in it."""
    try:
        return any(map(has_archive_name, os.listdir(folder)))
    except OSError as error:
        if is_passing(error):  # a second try could succeed, without the archives
            raise disk_fault(error, folder) from error
        return False  # the walk reports why
