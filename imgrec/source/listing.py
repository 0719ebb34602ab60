"""Opening whatever holds a tree of files."""

from __future__ import annotations

from imgrec.source.context import Context
from imgrec.source.tree import Lister
from imgrec.source.walk import Walk


def open_tree(path: str, context: Context) -> Lister:
    """Return the lister of a folder's or an archive's files."""
    return Walk(path, context.options.follow_links)
