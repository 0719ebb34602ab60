"""From a table of images and the report of a pack to the bytes of report.html."""

from __future__ import annotations

from imgrec.inspection.job import Job
from imgrec.inspection.reporting.gather import gather
from imgrec.inspection.reporting.page import draw_page, shown_places
from imgrec.inspection.reporting.table import ImageTable
from imgrec.inspection.reporting.thumbnails import count_for, make_thumbnails
from imgrec.outcome import Report


def make_page(table: ImageTable, report: Report, job: Job, thumbnails: int | None) -> bytes:
    """Return the page that shows all images of a table, with so many thumbnails at the most."""
    facts = gather(table, report, count_for(thumbnails, len(report.classes)))
    return draw_page(facts, make_thumbnails(shown_places(facts), job))
