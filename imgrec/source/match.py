"""What a kind of source finds in a listing, and what it makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from imgrec.model import Catalog
from imgrec.source.context import Context
from imgrec.source.tree import TreeFile


class Match(NamedTuple):
    """The files of a kind."""

    files: tuple[TreeFile, ...]
    names: tuple[str, ...] = ()
    """The classes in the order of their labels, where a file tells."""
    others: tuple[TreeFile, ...] = ()
    """The files of the listing that are not of this kind."""


class Kind(Protocol):
    """A kind of source whose images are inside other files."""

    def detect(self, listing: Sequence[TreeFile], context: Context) -> Match | None:
        """Return the files of this kind; None if there are none."""
        ...

    def scan(self, match: Match, root: str, context: Context) -> Catalog:
        """List the images in them."""
        ...
