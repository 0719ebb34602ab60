"""From the plan of a DataFrame to a published dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from imgrec import layout
from imgrec.model import Plan
from imgrec.notes import NoteCollector, NoteKind, warnings_of
from imgrec.outcome import ShardResult
from imgrec.plan.shards import facts_about, fingerprint
from imgrec.publish.publish import Tally, Written, complete
from imgrec.publish.samples import SamplesTable, Sink, TableForm
from imgrec.spark.buckets import together
from imgrec.spark.jobs import Job
from imgrec.spark.notes import note_pieces
from imgrec.spark.page import Page
from imgrec.spark.place import MOST, contents_name, lengths_name
from imgrec.spark.planning import RowPlan
from imgrec.spark.scan import Seen
from imgrec.spark.tables import SHARDED, with_extras
from imgrec.spark.write import (
    WRITTEN,
    Sharding,
    Writing,
    facts_name,
    read_result,
    refuse_other_counts,
)
from imgrec.storage.files import Seal, create
from imgrec.write.records import RecordFormat
from imgrec.write.shard import ShardWriter


def publish(planned: RowPlan, seen: Seen, job: Job) -> None:
    """Write all shards, complete the dataset and make it visible."""
    staging, options = job.staging, job.options
    _write(planned, seen, job)
    most = {NoteKind.TRANSCODED: MOST, NoteKind.DAMAGED: MOST}
    tally = Tally(also=options.also, notes=NoteCollector(most))
    page = Page(job, planned.planned.count)
    with create(str(staging.path / layout.SAMPLES)) as file:
        form = TableForm(classes=planned.classes, has_groups=seen.has_groups)
        table = SamplesTable(Sink(file), form)
        for result in _results(planned, job):
            staging.settle(result.filename, *(filename for filename, *_ in result.beside))
            table.add(result)
            tally.add(result)
            page.add(result)
        table.finish()
    samples = Seal(layout.SAMPLES, file.position, file.sha256())
    plan = _plan(planned, seen, job)
    plan = replace(plan, notes=(*plan.notes, *warnings_of(page.missed())))
    written = Written(planned.planned, tally, samples)
    draw = page.draw if page.is_drawn else None
    files = complete(staging.path, plan, written, options, draw)
    staging.publish(files)


def _write(planned: RowPlan, seen: Seen, job: Job) -> None:
    options, shards = job.options, planned.shards
    sharding = Sharding(shards.lengths, planned.summary.offsets, seen.extras)
    rows = job.mapped(planned.rows, sharding, with_extras(SHARDED, seen.extras))
    if seen.images is not None:
        rows = rows.join(seen.images, "filename")
    writing = Writing(
        writer=ShardWriter(
            folder=str(job.staging.path),
            check=options.check,
            shrink_to=options.shrink_options,
            record_format=RecordFormat(compression=options.shard_compression, also=options.also),
        ),
        shards=tuple(shards),
        extras=seen.extras,
        defaults=seen.defaults,
        has_groups=seen.has_groups,
        folder=job.folder,
    )
    with job.small_batches():
        ordered = together(rows, "shard", len(shards), "place")
        written = job.mapped(ordered, writing, WRITTEN).collect()
    refuse_other_counts(shards, {row["shard"]: row["records"] for row in written})


def _results(planned: RowPlan, job: Job) -> Iterator[ShardResult]:
    for number, shard in enumerate(planned.shards):
        yield read_result(job.folder, number, shard)


def _plan(planned: RowPlan, seen: Seen, job: Job) -> Plan:
    options = job.options
    return Plan(
        name=options.name,
        version=options.version,
        source=options.name,
        layout=seen.layout,
        classes=planned.classes,
        tasks=(),
        check=options.check,
        shrink_to=options.shrink_options,
        fingerprint=fingerprint_of(planned, job),
        notes=planned.notes,
        near_duplicates=None,
        options=options.deciding(),
    )


def fingerprint_of(planned: RowPlan, job: Job) -> str:
    """Return the fingerprint, from what the tasks have noted."""

    def noted(names: Iterator[str]) -> Iterator[bytes]:
        return chain.from_iterable(note_pieces(job.folder, name) for name in names)

    buckets = planned.summary.buckets
    return fingerprint(
        facts_about(job.options.name, planned.classes, job.options),
        noted(map(facts_name, range(len(planned.shards)))),
        noted(map(contents_name, buckets)),
        noted(map(lengths_name, buckets)),
    )
