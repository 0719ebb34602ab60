"""A source as its pack would find it, with nothing written."""

from __future__ import annotations

from dataclasses import replace

from imgrec.errors import SourceError
from imgrec.inspect.job import Job
from imgrec.inspect.report.images import ImageTable, table_of_results
from imgrec.inspect.subject import scan_for
from imgrec.model import Catalog, Plan
from imgrec.options import Check, PackOptions, SourceOptions
from imgrec.outcome import Report, ShardResult
from imgrec.plan.build import make_plan
from imgrec.publish.near import near_duplicates
from imgrec.publish.report import make_report
from imgrec.publish.tally import tallied
from imgrec.source.kinds import Source
from imgrec.write.shard import ShardExaminer

_PART_BYTES = 16 << 20
"""How much of the source a worker is given at once."""


def plan_source(
    source: Source, options: SourceOptions, job: Job, spool: str
) -> tuple[Catalog, Plan]:
    """List all images of a source, with the labels and splits that it gives them."""
    catalog = scan_for(job, source, options, spool)
    return catalog, make_plan(catalog, PackOptions(source=options, shard_size=_PART_BYTES))


def examine(
    source: Source, options: SourceOptions, job: Job, spool: str
) -> tuple[ImageTable, Report]:
    """Look at every image of a source as if it were packed, in the splits that the source has.

    Raises SourceError if none of them could be packed.
    """
    catalog, plan = plan_source(source, options, job, spool)
    found: dict[str, ShardResult] = {}
    for result in job.run(ShardExaminer(check=Check.DECODE, signs=True), plan.tasks):
        found[result.filename] = result
        job.tell("look", len(result.records.samples.filenames) + len(result.bad), plan.planned)
    results = [found[task.filename] for task in plan.tasks]
    if not any(result.records.samples.filenames for result in results):
        raise SourceError(
            f"none of the {plan.planned + len(plan.bad)} images of {source.path} can be read",
            hint="imgrec pack says why",
            path=source.path,
        )
    plan = replace(plan, near_duplicates=near_duplicates(results, job.run))
    report = replace(
        make_report(plan, plan.sum_up(), tallied(results, ())),
        name=source.name,
        version="",
        fingerprint="",
        options=options.deciding(),
    )
    return table_of_results(results, plan.tasks, catalog.samples), report
