"""`imgrec report`: show a dataset or a source as one HTML page."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_option, add_subject, add_workers, subject_of
from imgrec.cli.parser import VERBS
from imgrec.cli.workers import working
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.report.page import ReportPage


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "report",
        help=VERBS["report"],
        description="Look at every image of a dataset, or of a source before it is packed, and "
        "write one HTML page that shows it: counts, charts, pictures, and all that is odd. It "
        "needs no network and can be sent on.",
        epilog="example: imgrec report flowers -o flowers.html --open",
        allow_abbrev=False,
    )
    add_subject(parser)
    add = parser.add_argument
    add("-o", dest="path", default="", metavar="HTML", help="default: NAME_report.html")
    add("--open", action="store_true", help="open it in the browser")
    add_option(add, "thumbnails")
    add_workers(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Write the page, and print where it is."""
    subject = subject_of(parsed)
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        page = api.report(
            subject.what,
            path=parsed.path,
            thumbnails=parsed.thumbnails,
            data_dir=parsed.data_dir,
            source=subject.options,
            engine=workers.engine,
            on_progress=workers.progress,
        )
    print(render.as_json(as_value(page)) if parsed.json else as_text(page))
    if parsed.open:
        import webbrowser

        webbrowser.open(Path(os.path.abspath(page.path)).as_uri())
    return 0


def as_value(page: ReportPage) -> dict[str, object]:
    """Return what the page tells as a JSON value."""
    facts = page.facts
    return {
        "name": printable(facts.report.name),
        "version": facts.report.version,
        "path": printable(page.path),
        "bytes": len(page.data),
        "thumbnails": page.thumbnails,
        "images": facts.images,
        "classes": list(facts.report.classes),
        "splits": {split.name: split.images for split in facts.splits},
        "findings": {found.key: found.total for found in facts.findings},
        "outliers": {found.key: found.total for found in facts.outliers},
        "seconds": round(page.seconds, 3),
    }


def as_text(page: ReportPage) -> str:
    """Return what the page tells, in short."""
    facts = page.facts
    title = " ".join(filter(None, (facts.report.name, facts.report.version)))
    classes = render.number(len(facts.report.classes), "class", "classes")
    lines = [
        render.safe(f"{title}: {render.number(facts.images, 'image')}, {classes}"),
        *(
            render.line("" if place else title, f"{found.total:,} x {found.title.lower()}")
            for title, kinds in (("findings", facts.findings), ("outliers", facts.outliers))
            for place, found in enumerate(kinds)
        ),
        render.line("page", f"{page.path}, {render.size(len(page.data))}"),
    ]
    return "\n".join(lines)
