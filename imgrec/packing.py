"""From a catalog to a published dataset: plan, write, complete, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from imgrec import layout
from imgrec.background import Background
from imgrec.engine import Engine
from imgrec.errors import DatasetExists, ExecutionError, SourceError
from imgrec.inspection.job import Job as Inspection
from imgrec.model import Catalog, Plan, ShardTask
from imgrec.options import NearDups, PackOptions
from imgrec.outcome import Packed, Report, ShardResult
from imgrec.plan.build import make_plan
from imgrec.publish.gathering import Gathered, Gathering
from imgrec.publish.publish import complete, summed_up
from imgrec.read.metadata import find_damage, read_fingerprint, read_info, read_report
from imgrec.resume import (
    Claim,
    Hearing,
    Judge,
    Resumed,
    Run,
    Verdict,
    claim_of,
    claimed_results,
    noted,
    resume,
)
from imgrec.storage.blobs import changed_after, close_files, was_swapped
from imgrec.storage.files import Seal
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote
from imgrec.storage.stages import Stage, begun_ns, is_taken
from imgrec.storage.staging import stamp
from imgrec.write.records import RecordFormat
from imgrec.write.shard import ShardWriter, warm_up

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan" or "pack"), how many more images are done, and of how many."""

_TELLING = (layout.SAMPLES, layout.PAGE, layout.REPORT)
_NEEDED_IN_THE_END = ("imgrec.publish.near", "imgrec.inspection.reporting.make")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One pack: what was asked for, who works, and where it goes."""

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
    with ExitStack() as stack:
        if not job.is_free:
            if _is_current(target, plan, catalog.newest_change_ns):
                return _packed(job, is_new=False)
            stack.enter_context(staging)
        run = Run(
            fingerprint=plan.fingerprint,
            started_ns=job.started_ns,
            newest_change_ns=catalog.newest_change_ns,
        )
        writer = _writer(plan, job, catalog.newest_change_ns)
        files_of = writer.record_format.filenames
        resumed = resume(staging, plan, run, files_of, is_wanted=options.resume)
        writing = _Writing(plan, job, writer, resumed)
        gathered = writing.finish()
        _refuse_changed(plan, catalog, job)
        if options.near_dups is NearDups.AUTO:
            from imgrec.publish.near import near_duplicates

            plan = replace(plan, near_duplicates=near_duplicates(gathered.results, job.engine.run))
        written = summed_up(staging.path, plan, gathered, options)
        page = _page_of(catalog, plan, gathered, job)
        with _keeping_shards(staging, gathered):
            files = complete(staging.path, plan, written, options, page)
        stamp(staging.path / layout.METADATA, resumed.run.started_ns)
        close_files()  # some are in the spool, and a network file system keeps what is open
        is_new = _publish(staging, files, options)
    packed = _packed(job, is_new=is_new)
    return replace(
        packed,
        kept_shards=writing.kept_shards,
        restarted=resumed.restarted,
        unfinished=_unfinished(target.parent),
    )


def _unfinished(dataset_folder: Path) -> tuple[str, ...]:
    if is_remote(dataset_folder):
        return ()
    try:
        return tuple(map(str, find_leftovers(dataset_folder)))
    except ExecutionError:
        return ()  # what is packed is packed, whatever is beside it


def _is_current(target: Path, plan: Plan, newest_change_ns: int) -> bool:
    """Tell whether the dataset is there already; raise DatasetExists if another one is."""
    if read_fingerprint(target) != plan.fingerprint:
        raise _in_the_way(target)
    if fault := find_damage(target):
        raise DatasetExists(
            f"{target} is damaged: {fault}",
            hint="pass --overwrite to pack it again",
            path=str(target),
        )
    # Names, sizes and beginnings are the same. The rest is too if nothing was touched since;
    # otherwise packing again tells, byte by byte.
    return newest_change_ns < begun_ns(target)


def _publish(staging: Stage, files: Collection[Seal], options: PackOptions) -> bool:
    """Make the dataset visible, unless the very same one is."""
    if not options.overwrite and is_taken(staging.target):
        if _checksums(staging.target) != _checksums(staging.path):
            raise _in_the_way(staging.target)
        staging.renew()
        return False
    staging.publish(files)
    return True


def _checksums(folder: Path) -> list[str]:
    """Return the lines of SHA256SUMS, but for files that tell who made them, and of what folder."""
    checksums = folder / layout.CHECKSUMS
    lines = checksums.read_text("utf-8").splitlines() if checksums.exists() else []
    return [line for line in lines if not line.endswith(_TELLING)]


def _in_the_way(target: Path) -> DatasetExists:
    return DatasetExists(
        f"{target} already holds another dataset",
        hint="pack under another --version or --name, or pass --overwrite to replace it",
        path=str(target),
    )


def _refuse_changed(plan: Plan, catalog: Catalog, job: Job) -> None:
    """Raise ExecutionError if a file of many images was written to meanwhile, or a folder swapped.

    A single image is read whole, and its size is checked; but in a file of many, offsets that were
    right when it was scanned may mean anything in another that has taken its place. And the files
    of another folder may be older than any that were scanned.
    """
    newest_ns = catalog.newest_change_ns
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


class _Writing:
    """Writes all shards but those that are there, the largest first so that the last are small."""

    def __init__(self, plan: Plan, job: Job, writer: ShardWriter, resumed: Resumed) -> None:
        self._plan, self._job, self._writer, self._resumed = plan, job, writer, resumed
        self._judge = Judge(folder=writer.folder)
        self._needed_soon = Background("pyarrow.parquet", *_NEEDED_IN_THE_END)
        self._gathering = Gathering(plan.tasks)
        self._claimed: dict[str, ShardResult] = {}
        self._kept: set[str] = set()

    @property
    def kept_shards(self) -> int:
        return len(self._kept)

    def finish(self) -> Gathered:
        tasks, noted = self._plan.tasks, self._resumed.notes
        missing = [task for task in tasks if task.filename not in noted]
        with self._written(missing) as running:  # from here on, the workers work
            self._needed_soon.start()
            if not noted:  # or the run that this one continues has said it all
                self._job.staging.note(*self._resumed.run.noted())
            claims = self._claims()
            with Hearing(self._judge, claims) as hearing:
                self._take_all(running, hearing)
                if rest := hearing.rest():  # there are more workers than threads
                    with closing(self._job.engine.run(self._judge, rest)) as judging:
                        self._keep_true(judging)
                hearing.wait()
                self._keep_true(hearing.verdicts())
        if lost := noted.keys() - self._kept:
            with self._written([task for task in tasks if task.filename in lost]) as running:
                self._take_all(running, hearing)
        self._needed_soon.wait()
        return self._gathering.finish()

    def _written(self, tasks: list[ShardTask]) -> closing[Generator[ShardResult, None, None]]:
        tasks.sort(key=lambda task: -task.expected_bytes)
        return closing(self._job.engine.run(self._writer, tasks))

    def _claims(self) -> list[Claim]:
        """Return which shards are said to be there and are to be read; keep those that need not."""
        staging = self._job.staging
        self._claimed = claimed_results(staging, self._plan, self._resumed)
        for result in self._claimed.values():
            _tell(self._job.on_progress, result, self._plan)
            if staging.is_sure:
                self._keep(result)
        return [] if staging.is_sure else [claim_of(result) for result in self._claimed.values()]

    def _take_all(self, results: Iterable[ShardResult], hearing: Hearing) -> None:
        """Take shards as they come, and meanwhile those that the hearing says are whole."""
        for result in results:
            self._take(result)
            self._keep_true(hearing.verdicts())

    def _keep_true(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.is_true:
                self._keep(self._claimed[verdict.filename])

    def _take(self, result: ShardResult) -> None:
        """Take a shard that was just written."""
        names = (result.filename, *(filename for filename, *_ in result.beside))
        self._job.staging.finish(names, *noted(result))
        if result.filename not in self._claimed:
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
