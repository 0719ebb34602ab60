"""From what is asked for to what is found: look at all images, compare them, draw the sheet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from imgrec.errors import UsageError
from imgrec.inspection.contact import encoded, refuse_other_formats
from imgrec.inspection.job import Job
from imgrec.inspection.leaking.images import Images, images_of_dataset, images_of_source
from imgrec.inspection.leaking.leaks import Leaks, find_contamination, find_leaks
from imgrec.inspection.leaking.sheet import draw_sheet
from imgrec.inspection.subject import find_subject, scan_for
from imgrec.near.search import DISTANCE, MOST_DISTANCE
from imgrec.options import SourceOptions
from imgrec.storage.named_output import refuse_no_file, write_out

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
    """Where to put a contact sheet of the pairs, as PNG, JPEG or WebP by its extension."""

    def __post_init__(self) -> None:
        if isinstance(self.distance, bool) or not isinstance(self.distance, int | float):
            raise UsageError(f"distance cannot be {self.distance!r}", hint="give a number")
        if not 0 <= self.distance <= MOST_DISTANCE:
            raise UsageError(
                f"--distance {self.distance:g} is not one at which images look alike",
                hint=f"give a number from 0 to {MOST_DISTANCE:g}, such as {DISTANCE:g}",
            )
        refuse_no_file(self.sheet, "pairs.png")
        refuse_other_formats(self.sheet)


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
        write_out(sheet, encoded(draw_sheet(found.pairs, job), sheet))
    return replace(found, sheet=sheet, seconds=time.monotonic() - started)


def _looking(what: str, options: SourceOptions, data_dir: str) -> _Look:
    """Return the way to look at a dataset; or, if there is none of that name, at a source."""
    subject = find_subject(what, options, data_dir)
    if isinstance(subject, Path):
        return lambda job, _spool: images_of_dataset(subject, job)
    return lambda job, spool: images_of_source(scan_for(job, subject, options, spool), what, job)
