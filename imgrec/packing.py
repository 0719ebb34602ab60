"""From a catalog to a published dataset: plan, write, complete, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from imgrec.background import Background
from imgrec.current import checksums_of, refuse_other
from imgrec.engine import Engine
from imgrec.errors import DatasetExists, ExecutionError, SourceError
from imgrec.inspection.job import Job as Inspection
from imgrec.model import Catalog, Plan, ShardTask
from imgrec.options import NearDups, PackOptions
from imgrec.origin import Seen, origin_of, seen_before
from imgrec.outcome import Packed, Report, ShardResult
from imgrec.plan.build import make_plan
from imgrec.publish.gathering import Gathered, Gathering
from imgrec.publish.publish import complete, summed_up
from imgrec.read.metadata import read_info, read_report
from imgrec.resume import (
    Claim,
    Hearing,
    Judge,
    Resumed,
    Run,
    Verdict,
    find_claims,
    resume,
)
from imgrec.storage.blobs import changed_after, close_files, was_swapped
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote
from imgrec.storage.stages import Stage, is_taken, note_origin, read_origin
from imgrec.write.recheck import SourceCheck
from imgrec.write.records import RecordFormat
from imgrec.write.shard import ShardWriter, warm_up

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan" or "pack"), how many more images are done, and of how many."""

_NEEDED_IN_THE_END = ("imgrec.publish.near", "imgrec.inspection.reporting.make")


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
    job.engine.prepare(warm_up, options.check)
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
    judge = Judge(folder=writer.folder, source_check=source_check)
    writing = _Writing(plan, job, writer, _Earlier(run, resumed, judge))
    gathered = writing.finish()
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
    paths = {blob[0] for task in plan.tasks for blob in task.blobs if not isinstance(blob, str)}
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
        if any(result.records.filenames for result in gathered.results):
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


class _Earlier(NamedTuple):
    """What an earlier run left, and how to find out what of it can be kept."""

    run: Run
    """The present one."""
    resumed: Resumed
    judge: Judge


class _Writing:
    """Writes all shards but those that are there, the largest first so that the last are small."""

    def __init__(self, plan: Plan, job: Job, writer: ShardWriter, earlier: _Earlier) -> None:
        self._plan, self._job, self._writer, self._earlier = plan, job, writer, earlier
        self._needed_soon = Background("pyarrow.parquet", *_NEEDED_IN_THE_END)
        self._gathering = Gathering(plan.tasks, plan.classes)
        self._claims: dict[str, Claim] = {}
        self._kept: set[str] = set()
        self.outdated_shards = 0

    @property
    def kept_shards(self) -> int:
        return len(self._kept)

    def finish(self) -> Gathered:
        tasks, (run, resumed, judge) = self._plan.tasks, self._earlier
        missing = [task for task in tasks if task.filename not in resumed.notes]
        with self._written(missing) as running:  # from here on, the workers work
            self._needed_soon.start()
            if not resumed.notes:  # or the run that this one continues has said it all
                self._job.staging.note(*run.noted())
            self._take_claims()
            doubtful = [claim for claim in self._claims.values() if not claim.is_certain]
            # Only workers read the source: archives stay open between reads, for one thread.
            with Hearing(judge, [claim for claim in doubtful if not claim.members]) as hearing:
                self._take_all(running, hearing)
                rest = [claim for claim in doubtful if claim.members] + hearing.rest()
                if rest:  # there are more workers than threads
                    with closing(self._job.engine.run(judge, rest)) as judging:
                        self._keep_true(judging)
                hearing.wait()
                self._keep_true(hearing.verdicts())
        if lost := resumed.notes.keys() - self._kept:
            with self._written([task for task in tasks if task.filename in lost]) as running:
                self._take_all(running, hearing)
        self._needed_soon.wait()
        return self._gathering.finish()

    def _written(self, tasks: list[ShardTask]) -> closing[Generator[ShardResult, None, None]]:
        tasks.sort(key=lambda task: -task.expected_bytes)
        return closing(self._job.engine.run(self._writer, tasks))

    def _take_claims(self) -> None:
        """Find the shards that are said to be there; keep those that need no look."""
        run, resumed, _ = self._earlier
        claims = find_claims(self._job.staging, self._plan, run, resumed)
        self._claims = {claim.result.filename: claim for claim in claims}
        for claim in claims:
            _tell(self._job.on_progress, claim.result, self._plan)
            if claim.is_certain:
                self._keep(claim.result)

    def _take_all(self, results: Iterable[ShardResult], hearing: Hearing) -> None:
        """Take shards as they come, and meanwhile those that the hearing says are whole."""
        for result in results:
            self._take(result)
            self._keep_true(hearing.verdicts())

    def _keep_true(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.is_true:
                self._keep(self._claims[verdict.filename].result)
            self.outdated_shards += not verdict.is_current

    def _take(self, result: ShardResult) -> None:
        """Take a shard that was just written."""
        names = (result.filename, *(filename for filename, *_ in result.beside))
        self._job.staging.finish(names, *self._earlier.run.noted_shard(result))
        if result.filename not in self._claims:
            _tell(self._job.on_progress, result, self._plan)
        self._add(result)

    def _keep(self, result: ShardResult) -> None:
        """Take a shard that a run before has written."""
        self._add(result)
        self._kept.add(result.filename)

    def _add(self, result: ShardResult) -> None:
        self._needed_soon.wait()
        self._gathering.add(result)


def _page_of(
    catalog: Catalog, plan: Plan, gathered: Gathered, job: Job
) -> Callable[[Report], bytes]:
    """Return what draws report.html, with pictures that are read once more from the source."""

    def draw(report: Report) -> bytes:
        from imgrec.inspection.reporting.make import show
        from imgrec.inspection.reporting.table import table_of_results

        table = table_of_results(gathered.results, plan.tasks, catalog.samples)
        inspection = Inspection(run=job.engine.run)
        return show(table, report, inspection, job.options.thumbnails).data

    return draw


def _tell(on_progress: OnProgress | None, result: ShardResult, plan: Plan) -> None:
    if on_progress:
        on_progress("pack", len(result.records.filenames) + len(result.bad), plan.planned)


def _packed(job: Job, *, is_new: bool) -> Packed:
    target = job.staging.target
    return Packed(
        info=read_info(target),
        report=read_report(target),
        seconds=(time.time_ns() - job.started_ns) / 1e9,
        is_new=is_new,
    )
