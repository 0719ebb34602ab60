"""From a catalog to a published dataset: plan, write, complete, publish."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.engine import Engine
from imgrec.errors import DatasetExists, ExecutionError, SourceError, UsageError
from imgrec.inspect.subject import Job as Inspection
from imgrec.layout import default_data_dir
from imgrec.model import Catalog, Plan, split_order
from imgrec.options import Check, NearDups, PackOptions, SourceOptions
from imgrec.outcome import Packed, Report, ShardResult
from imgrec.plan.build import choose, make_plan
from imgrec.publish.publish import (
    Gathered,
    Gathering,
    complete,
    make_report,
    near_duplicates,
    summed_up,
    tallied,
)
from imgrec.read.dataset import Dataset
from imgrec.read.documents import read_info, read_report
from imgrec.read.locate import find_dataset
from imgrec.read.samples import read_splits
from imgrec.reuse import (
    CheckedShard,
    Run,
    Seen,
    ShardCheck,
    SourceCheck,
    checksums_of,
    find_finished_shards,
    origin_of,
    refuse_other,
    resume,
    seen_before,
    verify_finished_shards,
)
from imgrec.source.image_pass import pin, refine_near_dups, without_small
from imgrec.source.kinds import Source
from imgrec.source.split_file import pin_by_name
from imgrec.source.split_words import split_word
from imgrec.storage.blobs import changed_after, close_files, was_swapped
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.paths import is_remote, refuse_unwritable, to_path
from imgrec.storage.staging import Stage, is_taken, note_origin, read_origin
from imgrec.write.records import RecordFormat
from imgrec.write.shard import ShardExaminer, ShardWriter

if TYPE_CHECKING:
    from imgrec.inspect.report.images import ImageTable

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan" or "pack"), how many more images are done, and of how many."""


def anywhere(source: str, options: PackOptions) -> tuple[str, PackOptions]:
    """Return source and options for workers whose working directory and home may be others."""
    images = options.source.images and os.path.abspath(options.source.images)
    data_dir = os.path.expanduser(options.data_dir) or default_data_dir()
    where = replace(options.source, images=images)
    options = replace(options, source=where, data_dir=os.path.abspath(data_dir))
    return os.path.abspath(source), options


def place(source: Source, options: PackOptions) -> Path:
    """Return the folder that a dataset will be; raise UsageError if it cannot be there."""
    where = options.data_dir or layout.default_data_dir()
    refuse_unwritable(where)
    data_dir = to_path(where)
    for folder in filter(None, (source.path, options.source.images)):
        if data_dir.resolve().is_relative_to(to_path(folder).resolve()):
            raise UsageError(
                f"--data-dir {data_dir} is inside the source {folder}",
                hint="choose a folder outside, or the next run would find the output of this one",
            )
    name = layout.dataset_name(source.name, options.name)
    return layout.dataset_dir(data_dir, name, options.version)


def refuse_far(engine: Engine | None, source: str, options: PackOptions) -> None:
    """Raise UsageError for what only engines on this machine do: reading and writing stores."""
    if engine is None or engine.is_local:
        return
    for what, path in (
        ("--data-dir", options.data_dir or layout.default_data_dir()),
        ("the source", source),
    ):
        if is_remote(path):
            raise UsageError(
                f"{what} {path} is on an object store, which the local engine alone packs",
                hint="leave out --engine, or mount it where all executors see it",
            )


def refined(
    catalog: Catalog, options: PackOptions, engine: Engine, on_progress: OnProgress | None
) -> Catalog:
    """Return a catalog without what is too small, with pins, and with its near-duplicates."""
    if options.source.min_side:
        catalog = without_small(catalog, options.source.min_side, engine.run)
    if options.split_from:
        earlier = find_dataset(options.split_from, options.data_dir)
        catalog = pin(catalog, _known_splits(earlier), engine.run)
        catalog = replace(catalog, earlier_classes=read_info(earlier).classes)
    if options.split_file:
        catalog = pin_by_name(catalog, options.split_file)
    if options.near_dups in (NearDups.AUTO, NearDups.OFF):
        return catalog

    def looked(images: int, total: int) -> None:
        if on_progress:
            on_progress("look", images, total)

    chosen = _chosen(catalog, options.source)
    return refine_near_dups(catalog, chosen, options.near_dups, engine.run, looked)


def _known_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image of a dataset, by its hash; TFDS may have written it."""
    if read_info(folder).fingerprint:
        return read_splits(folder)
    dataset, known = Dataset(folder), dict[bytes, str]()
    # As in `read_splits`, the split furthest from training comes last, and so wins.
    for split in sorted(dataset, key=lambda name: split_order(split_word(name) or name)):
        for record in dataset[split]:
            known[xxh3_128_digest(record.image)] = split_word(split) or split
    return known


def _chosen(catalog: Catalog, options: SourceOptions) -> set[str]:
    """Name the files that are to be packed: no other is worth keeping in the place of one."""
    chosen = choose(catalog, replace(options, group_by=""))
    return set(chosen.samples.filenames)


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
        from imgrec.publish.publish import near_duplicates

        plan = replace(plan, near_duplicates=near_duplicates(gathered.results, job.engine.run))
    written = summed_up(staging.path, plan, gathered, options)
    page = _page_of(catalog, gathered, job)
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


def _page_of(catalog: Catalog, gathered: Gathered, job: Job) -> Callable[[Report], bytes]:
    """Return what draws report.html, with pictures that are read once more from the source."""

    def draw(report: Report) -> bytes:
        from imgrec.inspect.report.images import in_source, table_of_results
        from imgrec.inspect.report.page import make_page

        table = table_of_results(gathered.results, in_source(catalog.samples))
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


_PART_BYTES = 16 << 20
"""How much of the source a worker is given at once."""


def plan_source(
    source: Source, options: SourceOptions, job: Inspection, spool: str
) -> tuple[Catalog, Plan]:
    """List all images of a source, with the labels and splits that it gives them."""
    from imgrec.inspect.subject import scan_for

    catalog = scan_for(job, source, options, spool)
    return catalog, make_plan(catalog, PackOptions(source=options, shard_size=_PART_BYTES))


def examine(
    source: Source, options: SourceOptions, job: Inspection, spool: str
) -> tuple[ImageTable, Report]:
    """Look at every image of a source as if it were packed, in the splits that the source has.

    Raises SourceError if none of them could be packed.
    """
    from imgrec.inspect.report.images import in_source, table_of_results

    catalog, plan = plan_source(source, options, job, spool)
    found: dict[str, ShardResult] = {}
    for result in job.run(ShardExaminer(check=Check.DECODE, signs=True), plan.tasks):
        found[result.filename] = result
        job.progress("look", len(result.records.samples.filenames) + len(result.bad), plan.planned)
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
    return table_of_results(results, in_source(catalog.samples)), report
