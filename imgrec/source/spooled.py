"""Copies on disk of files that are read as a whole, wherever a source has them."""

from __future__ import annotations

import os

from imgrec.blob import Blob
from imgrec.errors import BadImage, SourceError
from imgrec.source.archives.archive import spool_path
from imgrec.source.context import Context
from imgrec.storage.blobs import read_pieces
from imgrec.storage.unpacked import write_blocks
from imgrec.storage.urls import is_url
from imgrec.text import path_of


def spooled(path: str, blob: Blob, size: int, context: Context) -> str:
    """Return where a file of a source can be opened: where it is, or a copy in the spool.

    The copy keeps the name, which tells what a table is written as and of which split it is.
    """
    if isinstance(blob, str):
        if not is_url(blob):
            return blob
        from imgrec.storage.remote.copying import copy_objects

        return copy_objects({path: blob}, os.path.join(context.spool, "tables"))[path]
    copy = os.path.join(spool_path(path, "", context), path_of(path.rpartition("/")[2]))
    try:
        write_blocks(copy, read_pieces(blob, size))
    except BadImage as error:
        raise SourceError(f"cannot read {path}: {error}", path=path) from error
    return copy
