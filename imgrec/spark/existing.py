"""Compare a dataset that exists already with what a DataFrame would make."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.model import Samples, ShardTask
from imgrec.packing.reuse import (
    Members,
    SourceCheck,
    changed_since,
    noted_bad,
    refuse_other,
    wrong_skipped,
)
from imgrec.read.samples import iter_hashes
from imgrec.spark.finished import Tasks
from imgrec.spark.images import with_files
from imgrec.spark.job import ASSIGNED, Job, Place, batches_of, by_key, columns_of, together
from imgrec.spark.plan import RowPlan
from imgrec.spark.scan import Scanned
from imgrec.spark.shards import make_plan, make_tasks, sharded
from imgrec.storage.files import os_errors_as
from imgrec.storage.hidden import incomplete_path
from imgrec.storage.paths import is_remote, to_path
from imgrec.text import path_of, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_STORED = {"shown": "string", "xxh3": "binary"}
_NAMES = {"name": "string"}


@contextmanager
def scratch(target: Path) -> Iterator[Place]:
    """Yield a place for results of tasks that leaves the dataset at `target` alone."""
    if not is_remote(target):
        with os_errors_as(target), TemporaryDirectory(prefix=".imgrec-", dir=target.parent) as made:
            yield Place(made, Path(made))
        return
    from imgrec.storage.remote.read import objects
    from imgrec.storage.remote.transfer import remove_objects

    results = f"{incomplete_path(target)}/results/{os.urandom(8).hex()}"
    with TemporaryDirectory(prefix=".imgrec-") as spool:
        try:
            yield Place(results, Path(spool))
        finally:
            remove_objects(*(f"{results}/{found.path}" for found in objects(results)))


def refuse_outdated(planned: RowPlan, scanned: Scanned, job: Job, target: Path) -> None:
    """Raise DatasetExists unless the dataset at `target` is what the plan would make.

    The scan has hashed all images. Those that could not be packed are tried again.
    """
    from pyspark.sql import functions as f

    tasks = make_tasks(planned, scanned, job)
    rows = sharded(planned, scanned.frame.form, job)
    ordered = together(rows, "shard", len(tasks.shards), "place")
    job.map_batches(ordered, partial(_note_facts, tasks), _NAMES).count()
    plan = make_plan(planned, scanned, job)
    refuse_other(target, plan)
    bad = noted_bad(target, plan)
    one = job.session.range(0, 1, 1, 1)
    stored = job.map_batches(one, partial(_list_stored, str(target)), _STORED)
    fields = {**scanned.frame.form.fields(ASSIGNED), "shown": "string"}
    named = job.persist(job.map_batches(planned.rows, partial(_show_names, fields), fields))
    same = named.join(stored, "shown")
    (other,) = same.where("digest != xxh3").agg(f.min("filename")).collect()
    if other[0] is not None:
        raise changed_since(target, other[0])
    skipped = named.join(stored, "shown", "left_anti")
    names = {row["shown"]: row["filename"] for row in skipped.select("shown", "filename").collect()}
    if strangers := names.keys() ^ bad.keys():
        raise wrong_skipped(target, min(strangers))
    trying = _Trying(
        bad={name: bad[shown] for shown, name in names.items()},
        check=SourceCheck(check=plan.check, shrink_to=plan.shrink_to, newest_ns=0),
    )
    if changed := _try_again(skipped.drop("shown"), trying, scanned, job):
        raise changed_since(target, changed)


def _note_facts(tasks: Tasks, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write what decides about each shard, for the fingerprint."""
    for number, rows in by_key(batches, "shard"):
        tasks.of(number, rows, list(map(path_of, rows["blob"])))
    yield from ()


def _list_stored(folder: str, _batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn one row into the names and hashes of all images of a dataset."""
    for names, hashes in iter_hashes(to_path(folder)):
        yield from batches_of({"shown": names, "xxh3": hashes}, _STORED)


def _show_names(
    fields: Mapping[str, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the names as a dataset lists them."""
    for batch in batches:
        rows = columns_of(batch)
        yield from batches_of({**rows, "shown": list(map(printable, rows["filename"]))}, fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trying:
    """Tries to pack bad images again, and yields the names of those that are not as they were."""

    bad: Mapping[str, str]
    """Why each could not be packed, by name."""
    check: SourceCheck

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows, blobs in with_files(batches, "bucket"):
            samples = Samples(
                filenames=tuple(rows["filename"]), sizes=tuple(rows["size"]), blobs=tuple(blobs)
            )
            task = ShardTask(split="", index=0, filename="", expected_bytes=0, samples=samples)
            members = Members(task=task, hashes=b"", bad=self.bad, are_trusted=False)
            if changed := self.check(members):
                yield from batches_of({"name": [changed]}, _NAMES)


def _try_again(skipped: DataFrame, trying: _Trying, scanned: Scanned, job: Job) -> str:
    """Return the first of the bad images that would now be packed, or skipped for other reasons."""
    if not trying.bad:
        return ""
    if scanned.images is not None:
        skipped = skipped.join(scanned.images, "filename")
    with job.small_batches():
        ordered = together(skipped, "bucket", len(trying.bad), "filename")
        found = job.map_batches(ordered, trying, _NAMES).collect()
    return min((row["name"] for row in found), default="")
