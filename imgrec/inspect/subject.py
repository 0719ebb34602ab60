"""What is to be looked at: a dataset, or else a source."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from imgrec.errors import DatasetNotFound
from imgrec.inspect.job import Job
from imgrec.model import Catalog
from imgrec.options import SourceOptions
from imgrec.read.locate import find_dataset, is_path
from imgrec.source.kinds import Source, detect, scan
from imgrec.source.tree import Context
from imgrec.storage.paths import is_remote
from imgrec.storage.urls import is_url


def find_subject(what: str, options: SourceOptions, data_dir: str) -> Path | Source:
    """Return the folder of a dataset; or, if there is none of that name, a source."""
    try:
        # Whoever says how a source is to be read means a source.
        if options == SourceOptions():
            return find_dataset(what, data_dir)
    except DatasetNotFound as error:
        if is_url(what):
            hint = "give a dataset; a source on a store is looked at with imgrec plan, or packed"
            raise DatasetNotFound(error.message, hint=hint, path=error.path) from error
        if not os.path.exists(what):
            hint = f"{error.hint}; or give the path of a source"
            raise DatasetNotFound(error.message, hint=hint, path=error.path) from error
    return detect(what, options)


def shadowing(what: str, options: SourceOptions, data_dir: str) -> str:
    """Return the data directory whose dataset a word means, though a folder here is called so.

    Returns "" if there are not both, or if it is the same folder.
    """
    if options != SourceOptions() or is_url(what) or is_path(what) or not os.path.isdir(what):
        return ""
    try:
        found = find_dataset(what, data_dir)
    except DatasetNotFound:
        return ""
    is_here = not is_remote(found) and found.resolve().is_relative_to(Path(what).resolve())
    return "" if is_here else str(found.parent.parent)


def scan_for(job: Job, source: Source, options: SourceOptions, spool: str) -> Catalog:
    """List all that a source holds; what must be unpacked to be read goes to `spool`.

    Nothing is packed, so what is doubtful about it can be looked at.
    """
    context = Context(
        options=replace(options, yes=True),
        run=job.run,
        on_progress=lambda files: job.tell("scan", files, None),
        spool=spool,
    )
    return scan(source, context)
