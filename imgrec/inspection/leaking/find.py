"""From what is asked for to what is found: look at all images, compare them, draw the sheet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from imgrec.errors import DatasetNotFound, UsageError
from imgrec.inspection.job import Job
from imgrec.inspection.leaking.images import Images, images_of_dataset, images_of_source
from imgrec.inspection.leaking.leaks import Leaks, find_contamination, find_leaks
from imgrec.inspection.leaking.sheet import draw_sheet
from imgrec.near.search import DISTANCE, MOST_DISTANCE
from imgrec.options import SourceOptions
from imgrec.read.locate import find_dataset
from imgrec.source.context import Context
from imgrec.source.detect import detect, scan
from imgrec.storage.files import write_file

_Look: TypeAlias = Callable[[Job, str], Images]
"""Looks at images, with a folder for what must be unpacked first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be compared, and how."""

    what: str
    """A dataset, by name or path; or a source."""
    against: str = ""
    """The same of what it is compared with; empty for itself."""
    data_dir: str = ""
    source: SourceOptions = field(default_factory=SourceOptions)
    """How `what` is read if it is a source."""
    distance: float = DISTANCE
    sheet: str = ""
    """Where to put a contact sheet of the pairs, as PNG."""

    def __post_init__(self) -> None:
        if isinstance(self.distance, bool) or not isinstance(self.distance, int | float):
            raise UsageError(f"distance cannot be {self.distance!r}", hint="give a number")
        if not 0 <= self.distance <= MOST_DISTANCE:
            raise UsageError(
                f"--distance {self.distance:g} is not one at which images look alike",
                hint=f"give a number from 0 to {MOST_DISTANCE:g}, such as {DISTANCE:g}",
            )
        folder = os.path.dirname(self.sheet) or "."
        if self.sheet and (os.path.isdir(self.sheet) or not os.path.isdir(folder)):
            raise UsageError(f"{self.sheet} cannot be a file", hint="give a path such as pairs.png")


def find(request: Request, job: Job, spool: str) -> Leaks:
    """Compare images as asked. What must be unpacked to be read goes to folders in `spool`."""
    started = time.monotonic()
    look = _looking(request.what, request.source, request.data_dir)
    if request.against:
        look_there = _looking(request.against, SourceOptions(), request.data_dir)
        images, others = (
            one(job, os.path.join(spool, str(number)))
            for number, one in enumerate((look, look_there))
        )
        found = find_contamination(images, others, request.distance, job)
    else:
        found = find_leaks(look(job, spool), request.distance, job)
    sheet = request.sheet if found.pairs else ""
    if sheet:
        write_file(sheet, draw_sheet(found.pairs, job))
    return replace(found, sheet=sheet, seconds=time.monotonic() - started)


def _looking(what: str, options: SourceOptions, data_dir: str) -> _Look:
    """Return the way to look at a dataset; or, if there is none of that name, at a source."""
    try:
        # Whoever says how a source is to be read means a source.
        folder = find_dataset(what, data_dir) if options == SourceOptions() else None
    except DatasetNotFound as error:
        if not os.path.exists(what):
            hint = f"{error.hint}; or give the path of a source"
            raise DatasetNotFound(error.message, hint=hint, path=error.path) from error
        folder = None
    if folder is not None:
        return lambda job, _spool: images_of_dataset(folder, job)
    source = detect(what, options)

    def look(job: Job, spool: str) -> Images:
        context = Context(
            options=options,
            run=job.run,
            on_progress=lambda files: job.tell("scan", files, None),
            spool=spool,
        )
        return images_of_source(scan(source, context), what, job)

    return look
