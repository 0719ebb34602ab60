"""From a catalog to a published dataset: plan, write, complete, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from imgrec.current import checksums_of, refuse_other
from imgrec.engine import Engine
from imgrec.errors import DatasetExists, ExecutionError, SourceError
from imgrec.inspect.job import Job as Inspection
from imgrec.model import Catalog, Plan
from imgrec.options import NearDups, PackOptions
from imgrec.origin import Seen, origin_of, seen_before
from imgrec.outcome import Packed, Report, ShardResult
from imgrec.plan.build import make_plan
from imgrec.publish.gathering import Gathered, Gathering
from imgrec.publish.publish import complete, summed_up
from imgrec.read.documents import read_info, read_report
from imgrec.resume import (
    CheckedShard,
    Run,
    ShardCheck,
    find_finished_shards,
    resume,
    verify_finished_shards,
)
from imgrec.storage.blobs import changed_after, close_files, was_swapped
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote
from imgrec.storage.staging import Stage, is_taken, note_origin, read_origin
from imgrec.write.recheck import SourceCheck
from imgrec.write.records import RecordFormat
from imgrec.write.shard import ShardWriter

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan" or "pack"), how many more images are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One pack: what was asked for, who works, and where it goes."""

    source: str
    """As it was given, as are the options that were `asked` for."""
    asked: PackOptions
    options: PackOptions
    engine: Engine
    on_progress: OnProgress | None
    started_ns: int
    staging: Stage
    is_free: bool
    """Whether nothing stands in the way of the target; then the staging is open already."""
    own_folders: tuple[str, ...]
    """Where files of the source were copied to, from archives or an object store."""


def pack_catalog(catalog: Catalog, job: Job) -> Packed:
    """Pack all that a catalog lists, unless the same dataset is there."""
    options, staging, target = job.options, job.staging, job.staging.target
    plan = make_plan(catalog, options)
    seen = Seen.of(catalog.stamp, job.started_ns)
    source_check = SourceCheck(
        check=plan.check, shrink_to=plan.shrink_to, newest_ns=catalog.stamp.newest_ns
    )
    if not job.is_free:
        before = seen_before(read_origin(target), checksums_of(target))
        are_trusted = before.is_still(catalog.stamp)
        refuse_other(target, plan, source_check, job.engine, are_trusted=are_trusted)
        if not are_trusted:
            note_origin(target, _origin(job, seen, checksums_of(target)))
        return _packed(job, is_new=False)
    run = Run(fingerprint=plan.fingerprint, stamp=catalog.stamp, seen=seen)
    writer = _writer(plan, job, catalog.stamp.newest_ns)
    files_of = writer.record_format.filenames
    resumed = resume(staging, plan, run, files_of, is_wanted=options.resume)
    if not resumed.notes:  # otherwise the note of the interrupted run is still there
        staging.note(*run.noted())
    finished = find_finished_shards(staging, plan, run, resumed)
    shard_check = ShardCheck(folder=writer.folder, source_check=source_check)
    writing = _Writing(plan, job, run)
    writing.reuse(verify_finished_shards(finished, shard_check, job.engine))
    gathered = writing.write(writer)
    _refuse_changed(plan, catalog, job)
    if options.near_dups is NearDups.AUTO:
        from imgrec.publish.near import near_duplicates

        plan = replace(plan, near_duplicates=near_duplicates(gathered.results, job.engine.run))
    written = summed_up(staging.path, plan, gathered, options)
    page = _page_of(catalog, plan, gathered, job)
    with _keeping_shards(staging, gathered):
        files = complete(staging.path, plan, written, options, page)
    close_files()  # some are in the spool, and a network file system keeps what is open
    if is_taken(target) and not options.overwrite:
        raise DatasetExists(
            f"another run has published {target} meanwhile",
            hint="run this again to compare it with the source",
            path=str(target),
        )
    staging.publish(files, _origin(job, seen, checksums_of(staging.path)))
    return replace(
        _packed(job, is_new=True),
        kept_shards=writing.kept_shards,
        outdated_shards=writing.outdated_shards,
        restarted=resumed.restarted,
        unfinished=_unfinished(target.parent),
    )


def _origin(job: Job, seen: Seen, checksums: str) -> bytes:
    return origin_of(job.source, job.asked, seen, checksums).encode()


def _unfinished(dataset_folder: Path) -> tuple[str, ...]:
    if is_remote(dataset_folder):
        return ()
    try:
        return tuple(map(str, find_leftovers(dataset_folder)))
    except ExecutionError:
        return ()  # what is packed is packed, whatever is beside it


def _refuse_changed(plan: Plan, catalog: Catalog, job: Job) -> None:
    """Raise ExecutionError if a file of many images was written to meanwhile, or a folder swapped.

    A single image is read whole, and its size is checked; but in a file of many, offsets that were
    right when it was scanned may mean anything in another that has taken its place. And the files
    of another folder may be older than any that were scanned.
    """
    newest_ns = catalog.stamp.newest_ns
    paths = {
        blob[0] for task in plan.tasks for blob in task.samples.blobs if not isinstance(blob, str)
    }
    theirs = (path for path in paths if not any(map(Path(path).is_relative_to, job.own_folders)))
    changed = [path for path in theirs if changed_after(path, newest_ns)]
    changed += [path for path, home in catalog.homes.items() if was_swapped(path, home, newest_ns)]
    if changed:
        job.staging.keep((), ())
        raise ExecutionError(
            f"{min(changed)} changed while it was being packed",
            hint="run it again when nobody writes to it any more",
            path=min(changed),
        )


@contextmanager
def _keeping_shards(staging: Stage, gathered: Gathered) -> Iterator[None]:
    """Say, if too many images are bad, that the shards wait for a run that allows so many."""
    try:
        yield
    except SourceError as error:
        if any(result.records.samples.filenames for result in gathered.results):
            error.hint += "; finished shards are kept: a run that allows bad images reuses them"
        else:
            staging.keep((), ())
        raise


def _writer(plan: Plan, job: Job, newest_ns: int) -> ShardWriter:
    options = job.options
    return ShardWriter(
        folder=str(job.staging.path),
        check=plan.check,
        shrink_to=plan.shrink_to,
        record_format=RecordFormat(compression=options.shard_compression, also=options.also),
        signs=options.near_dups is NearDups.AUTO,
        newest_ns=newest_ns,
    )


class _Writing:
    """Gathers the results of all shards, reused or written, and reports progress."""

    def __init__(self, plan: Plan, job: Job, run: Run) -> None:
        self._plan, self._job, self._run = plan, job, run
        self._gathering = Gathering(plan.tasks, plan.classes)
        self._kept: set[str] = set()
        self.outdated_shards = 0

    @property
    def kept_shards(self) -> int:
        return len(self._kept)

    def reuse(self, checked: Iterable[CheckedShard]) -> None:
        """Take the finished shards that are intact and current."""
        for shard in checked:
            self.outdated_shards += not shard.is_current
            if shard.is_intact and shard.is_current:
                self._add(shard.result)
                self._kept.add(shard.result.filename)

    def write(self, writer: ShardWriter) -> Gathered:
        """Write the shards that were not reused; return the results of all."""
        missing = [task for task in self._plan.tasks if task.filename not in self._kept]
        missing.sort(key=lambda task: -task.expected_bytes)  # so that the last ones are small
        with closing(self._job.engine.run(writer, missing)) as running:
            for result in running:
                names = (result.filename, *(filename for filename, *_ in result.beside))
                self._job.staging.finish(names, *self._run.noted_shard(result))
                self._add(result)
        return self._gathering.finish()

    def _add(self, result: ShardResult) -> None:
        self._gathering.add(result)
        if self._job.on_progress:
            done = len(result.records.samples) + len(result.bad)
            self._job.on_progress("pack", done, self._plan.planned)


def _page_of(
    catalog: Catalog, plan: Plan, gathered: Gathered, job: Job
) -> Callable[[Report], bytes]:
    """Return what draws report.html, with pictures that are read once more from the source."""

    def draw(report: Report) -> bytes:
        from imgrec.inspect.report.images import table_of_results
        from imgrec.inspect.report.page import make_page

        table = table_of_results(gathered.results, plan.tasks, catalog.samples)
        inspection = Inspection(run=job.engine.run)
        return make_page(table, report, inspection, job.options.thumbnails).data

    return draw


def _packed(job: Job, *, is_new: bool) -> Packed:
    target = job.staging.target
    return Packed(
        info=read_info(target),
        report=read_report(target),
        seconds=(time.time_ns() - job.started_ns) / 1e9,
        is_new=is_new,
    )
