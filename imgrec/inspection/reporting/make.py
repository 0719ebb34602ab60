"""From a table of images and the report of a pack to the bytes of report.html."""

from __future__ import annotations

from dataclasses import dataclass, replace

from imgrec.errors import DatasetError
from imgrec.inspection.job import Job
from imgrec.inspection.reporting.facts import Facts
from imgrec.inspection.reporting.gather import gather
from imgrec.inspection.reporting.page import draw_page, shown_places
from imgrec.inspection.reporting.table import ImageTable
from imgrec.inspection.reporting.thumbnails import count_for, make_thumbnails
from imgrec.outcome import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """A page that shows a dataset, and what it tells."""

    facts: Facts
    thumbnails: int
    """How many different pictures it shows."""
    data: bytes
    path: str = ""
    seconds: float = 0.0

    def at(self, path: str, seconds: float) -> ReportPage:
        """Return the page as it was written there."""
        return replace(self, path=path, seconds=seconds)


def show(table: ImageTable, report: Report, job: Job, thumbnails: int | None) -> ReportPage:
    """Return the page that shows all images of a table, with so many thumbnails at the most."""
    if not len(table):
        raise DatasetError(f"{report.name} holds no images", hint="there is nothing to show")
    facts = gather(table, report, count_for(thumbnails, len(report.classes)))
    made = make_thumbnails(shown_places(facts), job)
    return ReportPage(facts=facts, thumbnails=len(made), data=draw_page(facts, made))
