"""Writing the shards of a DataFrame on the executors, and publishing them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec import layout
from imgrec.codec import json_files
from imgrec.engine.spark import SparkEngine
from imgrec.errors import ExecutionError
from imgrec.inspect.report.images import in_dataset, table_of_results
from imgrec.inspect.report.page import make_page
from imgrec.inspect.subject import Job as Inspection
from imgrec.model import Blob, Column, Plan, Samples, ShardTask
from imgrec.notes import NoteCollector, warnings_of
from imgrec.options import ColumnKind
from imgrec.options.source import ColumnValue
from imgrec.outcome import Report, ShardResult
from imgrec.planning.shards import dataset_facts, fingerprint, record_bytes, task_facts
from imgrec.publish.publish import complete
from imgrec.publish.report import Totals, refuse_loss
from imgrec.publish.samples import TableForm, create_samples
from imgrec.spark.job import (
    SHARDED,
    Columns,
    Extras,
    Job,
    batches_of,
    columns_of,
    extra_columns,
    read_result,
    result_pieces,
    together,
    with_extras,
    write_result,
)
from imgrec.spark.plan import MOST, RowPlan, Shards, bucket_file
from imgrec.spark.scan import Scanned, digest_of
from imgrec.storage.attempts import Attempt
from imgrec.storage.files import Seal, append_to_spool
from imgrec.storage.staging import Staging
from imgrec.text import path_of, printable
from imgrec.write.records import RecordFormat
from imgrec.write.sending import SentShard, ShardSender
from imgrec.write.shard import ShardWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_SHOWN = 3
_MOST_ON_PAGE = 100_000
"""The most images for which report.html is drawn: its table is in the driver's memory."""
UNSTABLE = (
    "imgrec reads the DataFrame twice and needs the same rows each time: persist or checkpoint it, "
    "or write it to a table and pack that"
)
WRITTEN = {"shard": "int", "records": "int"}
_TASK_COLUMNS = ("filenames", "labels", "groups", "columns")
"""The columns of the task that the encoded result leaves out."""


@dataclass(frozen=True)
class _Sharding:
    """Turns rows of `ASSIGNED` into rows of `SHARDED`."""

    lengths: Mapping[str, Sequence[int]]
    offsets: Mapping[str, Mapping[int, int]]
    extras: Extras

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
            yield from batches_of(rows, with_extras(SHARDED, self.extras))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """Writes shards from their sorted rows, and the result of each to a file."""

    writer: ShardWriter
    shards: tuple[ShardTask, ...]
    extras: Extras
    defaults: tuple[ColumnValue, ...]
    """The value of a missing cell in each of `extras`."""
    has_groups: bool
    folder: str
    attempts: str
    """The URL to send shards to; "" if the writer puts them into place."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number, rows, blobs = -1, Columns(), list[Blob]()
        with TemporaryDirectory(prefix="imgrec-") as place:
            for batch in batches:
                columns = columns_of(batch)
                images = columns.pop("image", None)
                for at, shard in enumerate(columns["shard"]):
                    if shard != number:
                        yield from self._write(number, rows, blobs)
                        number, rows, blobs = shard, {name: [] for name in columns}, []
                    for name, cells in columns.items():
                        rows[name].append(cells[at])
                    path = path_of(rows["blob"][-1])
                    blobs.append(path if images is None else _kept(images[at], rows, place))
            yield from self._write(number, rows, blobs)

    def _write(self, number: int, rows: Columns, blobs: list[Blob]) -> Iterator[pa.RecordBatch]:
        if not blobs:
            return
        task = replace(
            self.shards[number],
            expected_bytes=sum(record_bytes(rows["size"], rows["filename"])),
            samples=Samples(
                blobs=tuple(blobs),
                filenames=tuple(rows["filename"]),
                sizes=tuple(rows["size"]),
                labels=tuple(rows["label"]),
                groups=tuple(rows["grp"]) if self.has_groups else (),
                columns=extra_columns(rows, self.extras, self.defaults),
            ),
        )
        result, files = self._write_shard(task)
        refuse_loss(task, result)
        columns = {name: getattr(task.samples, name) for name in _TASK_COLUMNS}
        head = json.dumps({**columns, "files": files}).encode()
        write_result(
            self.folder, f"{number}.result", head + b"\n" + json_files.encode_result(result)
        )
        write_result(self.folder, _facts_file(number), task_facts(task))
        yield from batches_of({"shard": [number], "records": [len(blobs)]}, WRITTEN)

    def _write_shard(self, task: ShardTask) -> SentShard:
        if self.attempts:
            return ShardSender(writer=self.writer, attempts=self.attempts)(task)
        return SentShard(self.writer(task), {})


def _kept(image: bytes | None, rows: Columns, folder: str) -> Blob:
    """Keep an image on the executor's disk until its shard is written."""
    if image is None or digest_of(image) != rows["digest"][-1]:
        raise ExecutionError(
            f"{printable(rows['filename'][-1])} changed between two reads of the DataFrame: "
            f"{rows['size'][-1]} bytes when planned, {len(image or b'')} other bytes when written",
            hint=UNSTABLE,
        )
    path, offset = append_to_spool(folder, [image])
    if not path:
        raise ExecutionError(
            f"cannot write the images of a shard to {folder}",
            hint="set TMPDIR of the executors to a disk with room for several shards",
        )
    return path, offset


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


def _read_shard_result(folder: str, number: int, shard: ShardTask) -> SentShard:
    columns, _, result = read_result(folder, f"{number}.result").partition(b"\n")
    value = json.loads(columns)
    samples = Samples(
        filenames=tuple(value["filenames"]),
        labels=tuple(value["labels"]),
        groups=tuple(value["groups"]),
        columns=tuple(
            Column(name, ColumnKind(kind), tuple(cells)) for name, kind, cells in value["columns"]
        ),
    )
    files = {name: Attempt(*sent) for name, sent in value["files"].items()}
    return SentShard(json_files.decode_result(result, replace(shard, samples=samples)), files)


def _facts_file(number: int) -> str:
    return f"{number}.facts"


def publish(planned: RowPlan, scanned: Scanned, job: Job) -> None:
    """Write all shards, then the other files, and make the dataset visible."""
    staging, options = job.staging, job.options
    _write(planned, scanned, job)
    totals = Totals(planned.planned, options.also, NoteCollector(MOST))
    results: list[ShardResult] = []
    is_far = not isinstance(staging, Staging)
    has_page = planned.planned.count <= _MOST_ON_PAGE and not is_far
    form = TableForm(classes=planned.classes, has_groups=scanned.has_groups)
    with create_samples(staging.path, form) as (table, file):
        for result, sent in _results(planned, job):
            if not isinstance(staging, Staging):
                staging.accept(sent)
            staging.start_sync(result.filename, *(filename for filename, *_ in result.beside))
            table.add(result)
            totals.add(result)
            if has_page:
                results.append(result)
    samples = Seal(layout.SAMPLES, file.position, file.sha256())
    plan = _plan(planned, scanned, job)
    if not has_page:
        which = "on a store" if is_far else f"for more than {_MOST_ON_PAGE:,} images"
        why = f"no report.html {which}; run imgrec report"
        plan = replace(plan, notes=(*plan.notes, *warnings_of([why])))
    draw = partial(_draw_page, results, job) if has_page else None
    files = complete(staging.path, plan, totals, options, samples, draw)
    staging.publish(files)


def _draw_page(results: Sequence[ShardResult], job: Job, report: Report) -> bytes:
    """Return report.html, with images read from the shards."""
    table = table_of_results(results, in_dataset(str(job.staging.path)))
    inspection = Inspection(run=SparkEngine(job.session).run)
    return make_page(table, report, inspection, job.options.thumbnails).data


def sharded(planned: RowPlan, scanned: Scanned, job: Job) -> DataFrame:
    """Add the shard of every row to a plan's rows; columns as in `SHARDED`."""
    sharding = _Sharding(planned.shards.lengths, planned.summary.offsets, scanned.frame.extras)
    return job.map_batches(planned.rows, sharding, with_extras(SHARDED, scanned.frame.extras))


def _write(planned: RowPlan, scanned: Scanned, job: Job) -> None:
    options, shards = job.options, planned.shards
    rows = sharded(planned, scanned, job)
    if scanned.images is not None:
        rows = rows.join(scanned.images, "filename")
    writing = _Writing(
        writer=ShardWriter(
            folder=str(job.staging.path),
            check=options.check,
            shrink_to=options.shrink_options,
            record_format=RecordFormat(compression=options.shard_compression, also=options.also),
        ),
        shards=tuple(shards),
        extras=scanned.frame.extras,
        defaults=scanned.frame.defaults,
        has_groups=scanned.has_groups,
        folder=job.folder,
        attempts="" if isinstance(job.staging, Staging) else job.staging.attempts,
    )
    with job.small_batches():
        ordered = together(rows, "shard", len(shards), "place")
        written = job.map_batches(ordered, writing, WRITTEN).collect()
    refuse_other_counts(shards, {row["shard"]: row["records"] for row in written})
    job.fetch()


def _results(planned: RowPlan, job: Job) -> Iterator[SentShard]:
    for number, shard in enumerate(planned.shards):
        yield _read_shard_result(job.here, number, shard)


def _plan(planned: RowPlan, scanned: Scanned, job: Job) -> Plan:
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
        near_duplicates=None,
        options=options.deciding(),
    )


def fingerprint_of(planned: RowPlan, job: Job) -> str:
    """Compute the fingerprint from the result files of tasks."""

    def pieces(names: Iterator[str]) -> Iterator[bytes]:
        return chain.from_iterable(result_pieces(job.here, name) for name in names)

    buckets = planned.summary.buckets
    return fingerprint(
        dataset_facts(job.options.name, planned.classes, job.options),
        pieces(map(_facts_file, range(len(planned.shards)))),
        pieces(bucket_file(bucket, "contents") for bucket in buckets),
        pieces(bucket_file(bucket, "lengths") for bucket in buckets),
    )
