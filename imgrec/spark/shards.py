"""Writing the shards of a DataFrame on the executors, and publishing them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec import layout
from imgrec.engine.spark import SparkEngine
from imgrec.errors import ExecutionError
from imgrec.inspect.report.images import in_dataset, table_of_results
from imgrec.inspect.report.page import make_page
from imgrec.inspect.subject import Job as Inspection
from imgrec.model import Plan, ShardTask
from imgrec.notes import NoteCollector, warnings_of
from imgrec.outcome import Report, ShardResult
from imgrec.packing.reuse import SourceCheck, made_by
from imgrec.planning.shards import dataset_facts, embeddings_facts, fingerprint
from imgrec.publish.publish import complete
from imgrec.publish.report import Totals, refuse_loss
from imgrec.publish.samples import TableForm, create_samples
from imgrec.spark.finished import (
    WRITTEN,
    Checking,
    FinishedShard,
    Tasks,
    facts_file,
    written_row,
)
from imgrec.spark.images import UNSTABLE, with_files
from imgrec.spark.job import (
    SHARDED,
    Form,
    Job,
    batches_of,
    columns_of,
    picked,
    read_result,
    result_names,
    result_pieces,
    together,
    write_result,
)
from imgrec.spark.plan import MOST, RowPlan, Shards, bucket_file
from imgrec.spark.scan import Scanned
from imgrec.storage.files import Seal
from imgrec.storage.staging import Stage, Staging
from imgrec.write.records import RecordFormat
from imgrec.write.sending import SentShard, ShardSender
from imgrec.write.shard import ShardWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

_SHOWN = 3
_MOST_ON_PAGE = 100_000
"""The most images for which report.html is drawn: its table is in the driver's memory."""


@dataclass(frozen=True)
class _Sharding:
    """Turns rows of `ASSIGNED` into rows of `SHARDED`."""

    lengths: Mapping[str, Sequence[int]]
    offsets: Mapping[str, Mapping[int, int]]
    form: Form
    finished: frozenset[int]
    """Shards whose rows are left out."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        starts = {
            split: list(accumulate(lengths, initial=0)) for split, lengths in self.lengths.items()
        }
        firsts = dict(
            zip(self.lengths, accumulate(map(len, self.lengths.values()), initial=0), strict=False)
        )
        for batch in batches:
            rows = columns_of(batch)
            where = zip(rows["split"], rows["bucket"], rows["place"], strict=True)
            rows["place"] = [self.offsets[split][bucket] + place for split, bucket, place in where]
            rows["shard"] = [
                firsts[split] + bisect_right(starts[split], place) - 1
                for split, place in zip(rows["split"], rows["place"], strict=True)
            ]
            if self.finished:
                left = [at for at, shard in enumerate(rows["shard"]) if shard not in self.finished]
                rows = picked(rows, left)
            yield from batches_of(rows, self.form.fields(SHARDED))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """Writes shards from their sorted rows, and a note about each."""

    tasks: Tasks
    writer: ShardWriter
    notes: str
    attempts: str
    """The URL to send shards to; "" if the writer puts them into place."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows, blobs in with_files(batches, "shard"):
            task, fingerprint = self.tasks.of(number, rows, blobs)
            result, files = self._write_shard(task)
            refuse_loss(task, result)
            note = FinishedShard(fingerprint, result, files).note()
            write_result(self.notes, task.filename, note)
            yield from written_row(number, len(blobs), fingerprint)

    def _write_shard(self, task: ShardTask) -> SentShard:
        if self.attempts:
            return ShardSender(writer=self.writer, attempts=self.attempts)(task)
        return SentShard(self.writer(task), {})


def refuse_other_counts(shards: Shards, written: Mapping[int, int]) -> None:
    """Raise ExecutionError unless each shard has as many records as planned."""
    planned = [length for lengths in shards.lengths.values() for length in lengths]
    wrong = [
        (shard.filename, planned[number], written.get(number, 0))
        for number, shard in enumerate(shards)
        if written.get(number, 0) != planned[number]
    ]
    if not wrong:
        return
    shown = "; ".join(f"{name}: {want} planned, {got} found" for name, want, got in wrong[:_SHOWN])
    more = f"; {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    raise ExecutionError(
        f"planned {sum(planned)} rows of the DataFrame, but found {sum(written.values())} when "
        f"writing shards ({shown}{more})",
        hint=UNSTABLE,
    )


def publish(planned: RowPlan, scanned: Scanned, job: Job, staging: Stage) -> int:
    """Write all shards, then the other files, and make the dataset visible.

    Returns how many shards of an earlier run were kept.
    """
    written = _write(planned, scanned, job, staging)
    totals = Totals(planned.planned, job.options.also, NoteCollector(MOST))
    results: list[ShardResult] = []
    is_far = not isinstance(staging, Staging)
    has_page = planned.planned.count <= _MOST_ON_PAGE and not is_far
    form = TableForm(
        classes=planned.classes,
        is_multilabel=planned.planned.is_multilabel,
        has_groups=scanned.has_groups,
    )
    with create_samples(staging.path, form) as (table, file):
        for _, result, sent in _finished(planned, written, job, staging):
            if not isinstance(staging, Staging):
                staging.accept(sent)
            staging.start_sync(result.filename, *(filename for filename, *_ in result.beside))
            table.add(result)
            totals.add(result)
            if has_page:
                results.append(result)
    samples = Seal(layout.SAMPLES, file.position, file.sha256())
    plan = make_plan(planned, scanned, job)
    if not has_page:
        which = "on a store" if is_far else f"for more than {_MOST_ON_PAGE:,} images"
        why = f"no report.html {which}; run imgrec report"
        plan = replace(plan, notes=(*plan.notes, *warnings_of([why])))
    draw = partial(_draw_page, results, staging.path, job) if has_page else None
    files = complete(staging.path, plan, totals, job.options, samples, draw)
    staging.publish(files)
    return written.kept


def _draw_page(results: Sequence[ShardResult], folder: Path, job: Job, report: Report) -> bytes:
    """Return report.html, with images read from the shards."""
    table = table_of_results(results, in_dataset(str(folder)))
    inspection = Inspection(run=SparkEngine(job.session).run)
    return make_page(table, report, inspection, job.options.thumbnails).data


def sharded(planned: RowPlan, form: Form, job: Job, finished: Iterable[int] = ()) -> DataFrame:
    """Add the shard of every row to a plan's rows, without those of finished shards.

    Columns are as in `SHARDED`.
    """
    offsets = planned.summary.offsets
    sharding = _Sharding(planned.shards.lengths, offsets, form, frozenset(finished))
    return job.map_batches(planned.rows, sharding, form.fields(SHARDED))


class _Written(NamedTuple):
    """All shards of a dataset, before it is published."""

    kept: int
    """How many of them an earlier run has finished."""
    fingerprints: Mapping[int, str]
    """Those of their tasks, by number."""


def make_tasks(planned: RowPlan, scanned: Scanned, job: Job) -> Tasks:
    """Return what makes the task of each shard from its rows."""
    facts = dataset_facts(job.options.name, planned.classes, job.options)
    return Tasks(
        shards=tuple(planned.shards),
        form=scanned.frame.form,
        has_groups=scanned.has_groups,
        facts=made_by().encode() + facts,
        folder=job.folder,
    )


def _write(planned: RowPlan, scanned: Scanned, job: Job, staging: Stage) -> _Written:
    """Write all shards that no earlier run has finished."""
    options, shards = job.options, planned.shards
    tasks = make_tasks(planned, scanned, job)
    kept = _keep_finished(planned, scanned, tasks, job, staging)
    rows = sharded(planned, scanned.frame.form, job, (row["shard"] for row in kept))
    if scanned.images is not None:
        rows = rows.join(scanned.images, "filename")
    writing = _Writing(
        tasks=tasks,
        writer=ShardWriter(
            folder=str(staging.path),
            check=options.check,
            shrink_to=options.shrink_options,
            record_format=RecordFormat(compression=options.shard_compression, also=options.also),
        ),
        notes=staging.shard_notes,
        attempts="" if isinstance(staging, Staging) else staging.attempts,
    )
    new: list[Row] = []
    if len(kept) < len(shards):
        with job.small_batches():
            ordered = together(rows, "shard", len(shards) - len(kept), "place")
            new = job.map_batches(ordered, writing, WRITTEN).collect()
    written = (*kept, *new)
    refuse_other_counts(shards, {row["shard"]: row["records"] for row in written})
    return _Written(len(kept), {row["shard"]: row["fingerprint"] for row in written})


def _keep_finished(
    planned: RowPlan, scanned: Scanned, tasks: Tasks, job: Job, staging: Stage
) -> Sequence[Row]:
    """Return the shards that an earlier run has finished; remove all else that it left."""
    options = job.options
    noted = result_names(staging.shard_notes) if options.resume else set()
    found: list[Row] = []
    if any(shard.filename in noted for shard in tasks.shards):
        checking = Checking(
            tasks=tasks,
            folder=str(staging.path),
            notes=staging.shard_notes,
            source_check=None
            if scanned.images is not None
            else SourceCheck(check=options.check, shrink_to=options.shrink_options, newest_ns=0),
        )
        rows = sharded(planned, scanned.frame.form, job)
        ordered = together(rows, "shard", len(tasks.shards), "place")
        found = job.map_batches(ordered, checking, WRITTEN).collect()
    files = [name for row in found for name in row["files"]]
    if not isinstance(staging, Staging):
        files = list(map(staging.name_of, files))
    staging.keep(files, [tasks.shards[row["shard"]].filename for row in found])
    return found


def _finished(
    planned: RowPlan, written: _Written, job: Job, staging: Stage
) -> Iterator[FinishedShard]:
    """Yield all shards, in the order of the plan."""
    folder = job.fetch(staging.shard_notes)
    for number, shard in enumerate(planned.shards):
        found = FinishedShard.of_note(read_result(folder, shard.filename), shard)
        if found is None or found.fingerprint != written.fingerprints[number]:
            raise ExecutionError(
                f"the note about {shard.filename} is not what was written",
                hint="is another run packing to the same place? Run this again when it is done",
                path=shard.filename,
            )
        yield found


def make_plan(planned: RowPlan, scanned: Scanned, job: Job) -> Plan:
    """Return the plan without its tasks, when their facts have been written."""
    options = job.options
    return Plan(
        name=options.name,
        version=options.version,
        source=options.name,
        layout=scanned.frame.layout,
        classes=planned.classes,
        tasks=(),
        check=options.check,
        shrink_to=options.shrink_options,
        fingerprint=fingerprint_of(planned, job),
        notes=planned.notes,
        near_duplicates=planned.near_duplicates,
        options=options.deciding(),
    )


def fingerprint_of(planned: RowPlan, job: Job) -> str:
    """Compute the fingerprint from the result files of tasks."""

    def pieces(names: Iterator[str]) -> Iterator[bytes]:
        return chain.from_iterable(result_pieces(folder, name) for name in names)

    folder, buckets = job.fetch(), planned.summary.buckets
    facts = dataset_facts(job.options.name, planned.classes, job.options)
    return fingerprint(
        facts + embeddings_facts(planned.near_duplicates),
        pieces(map(facts_file, range(len(planned.shards)))),
        pieces(bucket_file(bucket, "contents") for bucket in buckets),
        pieces(bucket_file(bucket, "lengths") for bucket in buckets),
    )
