"""Which kind of source something is, and what it is called."""

from __future__ import annotations

import os

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.options import SourceOptions
from imgrec.source import folder
from imgrec.source.context import Context


def name_of(source: str, options: SourceOptions) -> str:
    """Return what a source calls itself; raise SourceError if it is not there."""
    if not os.path.lexists(source):
        raise SourceError(
            f"{source} does not exist", hint="give a folder of class folders", path=source
        )
    if not os.path.isdir(source):
        raise SourceError(
            f"{source} is not a folder", hint="give a folder of class folders", path=source
        )
    return os.path.basename(os.path.abspath(source)) or "root"


def scan(source: str, context: Context) -> Catalog:
    """Find out what a source is and list all that it holds."""
    name_of(source, context.options)
    return folder.scan(source, context)
