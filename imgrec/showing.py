"""The public functions that show a dataset, or a source before it is packed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.engine.local import running
from imgrec.errors import UsageError
from imgrec.inspection.job import Job
from imgrec.inspection.subject import find_subject
from imgrec.options import SourceOptions
from imgrec.options.parsing import options_of, parse_text
from imgrec.storage.named_output import refuse_no_file, write_out

if TYPE_CHECKING:
    from imgrec.engine import Engine
    from imgrec.inspection.previewing import Preview
    from imgrec.inspection.reporting.make import ReportPage
    from imgrec.packing import OnProgress

_MOST_SHOWN = 1000


def report(
    what: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] = "",
    thumbnails: int | None = None,
    data_dir: str | os.PathLike[str] = "",
    source: SourceOptions | Mapping[str, object] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> ReportPage:
    """Look at every image of a dataset or a source, and show what is there as one HTML page.

    `path` is where the page goes: `<name>_report.html` in the current folder if it is not given.

    Example: `imgrec.report("flowers").path`.
    """
    if thumbnails is not None and (type(thumbnails) is not int or thumbnails < 0):
        raise UsageError(f"--thumbnails {thumbnails} is no number", hint="give 0 or more")
    refuse_no_file(parse_text("path", path), "report.html")
    from imgrec.inspection.reporting.make import show
    from imgrec.inspection.reporting.records import table_of_dataset

    started = time.monotonic()
    options = options_of(SourceOptions, source, "source")
    subject = find_subject(parse_text("what", what), options, parse_text("data_dir", data_dir))
    with running(engine) as workers, TemporaryDirectory(prefix="imgrec-") as spool:
        job = Job(run=workers.run, on_progress=on_progress)
        if isinstance(subject, Path):
            table, told = table_of_dataset(subject, job)
        else:
            from imgrec.examining import examine

            table, told = examine(subject, options, job, spool)
        page = show(table, told, job, thumbnails)
    target = parse_text("path", path) or f"{_file_stem(told.name)}_report.html"
    write_out(target, page.data)
    return page.at(target, time.monotonic() - started)


def preview(
    what: str | os.PathLike[str],
    *,
    split: str = "",
    class_name: str = "",
    count: int = 24,
    path: str | os.PathLike[str] = "",
    data_dir: str | os.PathLike[str] = "",
    source: SourceOptions | Mapping[str, object] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Preview:
    """Draw a contact sheet of some images of a dataset or a source, with captions.

    `split` and `class_name` say which images; of all classes, some are shown in turn. `path` is
    where the sheet goes, as PNG, JPEG or WebP by its extension: `<name>_preview.png` in the
    current folder if it is not given. Raises UnknownName, which lists what there is, if there is
    no such split or class.

    Example: `imgrec.preview("flowers", split="val", class_name="rose").path`.
    """
    if type(count) is not int or not 1 <= count <= _MOST_SHOWN:
        raise UsageError(
            f"-n {count} is no number of images", hint=f"give a number from 1 to {_MOST_SHOWN}"
        )
    refuse_no_file(parse_text("path", path), "sheet.png")
    from imgrec.inspection.contact import encoded, refuse_other_formats

    refuse_other_formats(parse_text("path", path))
    from imgrec.inspection.previewing import Wanted, choices_of_dataset, choices_of_plan, draw

    options = options_of(SourceOptions, source, "source")
    wanted = Wanted(
        split=parse_text("split", split),
        class_name=parse_text("class_name", class_name),
        count=count,
    )
    subject = find_subject(parse_text("what", what), options, parse_text("data_dir", data_dir))
    with running(engine) as workers, TemporaryDirectory(prefix="imgrec-") as spool:
        job = Job(run=workers.run, on_progress=on_progress)
        if isinstance(subject, Path):
            choices = choices_of_dataset(subject)
        else:
            from imgrec.examining import plan_source

            choices = choices_of_plan(plan_source(subject, options, job, spool)[1], subject.name)
        sheet = draw(choices, wanted, job)
    target = parse_text("path", path) or f"{_file_stem(choices.name)}_preview.png"
    write_out(target, encoded(sheet.data, target))
    return sheet.at(target)


def _file_stem(name: str) -> str:
    """Return a name that a file can have, wherever it comes from."""
    from imgrec.layout import legal_name

    return legal_name(name)
