"""The report.html of a packed DataFrame, as long as its table fits on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from imgrec.engine.spark import SparkEngine
from imgrec.inspect.job import Job as Inspection
from imgrec.inspect.report.images import table_of_results
from imgrec.inspect.report.page import make_page
from imgrec.inspect.where import InDataset
from imgrec.model import Samples
from imgrec.outcome import Report, ShardResult
from imgrec.spark.jobs import Job

MOST = 100_000
"""Of how many images a page is drawn at the most; a table of more would outgrow the driver."""


@dataclass(slots=True)
class Page:
    """Gathers the results of all shards, unless there are too many records."""

    job: Job
    count: int
    """How many records were planned."""
    _results: list[ShardResult] = field(default_factory=list)

    @property
    def is_drawn(self) -> bool:
        """Tell whether there is to be a page."""
        return self.count <= MOST

    def add(self, result: ShardResult) -> None:
        """Add what came of the next shard."""
        if self.is_drawn:
            self._results.append(result)

    def draw(self, report: Report) -> bytes:
        """Return report.html, with pictures that are read from the shards."""
        folder, options = str(self.job.staging.path), self.job.options
        table = replace(
            table_of_results(self._results, (), Samples.of(())),
            where=lambda place: InDataset(folder, place),
        )
        inspection = Inspection(run=SparkEngine(self.job.session).run)
        return make_page(table, report, inspection, options.thumbnails).data

    def missed(self) -> tuple[str, ...]:
        """Say that there is no page, if there is none."""
        if self.is_drawn:
            return ()
        return (f"no report.html is drawn of more than {MOST:,} images: run imgrec report",)
