"""Opening whatever holds a tree of files."""

from __future__ import annotations

import os

from imgrec.errors import SourceError
from imgrec.source.archives.names import has_archive_name
from imgrec.source.context import Context
from imgrec.source.tree import Lister
from imgrec.source.walk import Walk
from imgrec.storage.unreadable import disk_fault, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import given_path


def open_tree(path: str, context: Context) -> Lister:
    """Return the lister of the files of a folder or an archive, and of the archives in it.

    Raises SourceError if it is neither.
    """
    if is_url(path):
        from imgrec.source.store_walk import open_store

        return open_store(path, context)
    path = given_path(path)
    if os.path.isdir(path):
        walk = Walk(path, context.options.follow_links)
        if not _holds_archives(path):
            return walk
        from imgrec.source.archives.nested import expand

        return expand(walk, context)
    from imgrec.source.archives.archive import is_archive, open_archive
    from imgrec.source.archives.nested import expand

    if is_archive(path):
        return expand(open_archive(path, context), context)
    what = "is neither a folder nor an archive" if os.path.lexists(path) else "does not exist"
    raise SourceError(f"{path} {what}", hint="give the folder or archive of images", path=path)


def _holds_archives(folder: str) -> bool:
    """Tell whether there are archives in a folder, where downloads put them: right in it."""
    try:
        return any(map(has_archive_name, os.listdir(folder)))
    except OSError as error:
        if is_passing(error):  # a second try could succeed, without the archives
            raise disk_fault(error, folder) from error
        return False  # the walk will say why
