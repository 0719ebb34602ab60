"""The public functions, each a composition of the rooms below."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeAlias

from imgrec import layout
from imgrec.engine import Engine
from imgrec.engine.local import LocalEngine
from imgrec.errors import DatasetExists, UsageError
from imgrec.model import Plan, ShardResult
from imgrec.options import PackOptions
from imgrec.outcome import DatasetInfo, Packed
from imgrec.plan.build import dataset_name, make_plan
from imgrec.publish.publish import complete
from imgrec.publish.samples import preload
from imgrec.read.locate import find_dataset
from imgrec.read.metadata import find_damage, read_fingerprint, read_info, read_report
from imgrec.source.context import Context
from imgrec.source.detect import name_of, scan
from imgrec.storage.staging import Staging, stamp
from imgrec.write.shard import ShardWriter, warm_up

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan" or "pack"), how many more images are done, and of how many."""


def pack(
    source: str | os.PathLike[str],
    options: PackOptions | None = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Packed:
    """Pack a source into a dataset that TFDS loads, and say what became of every file.

    Nothing is visible under the dataset's name before all of it is written. Raises an
    `ImgrecError` otherwise; then nothing has changed.

    Example: `imgrec.pack("flowers", imgrec.PackOptions(val_fraction=0.1)).info.load`.
    """
    options = options or PackOptions()
    started_ns = time.time_ns()
    path = os.fspath(source)
    target = _target(path, options)
    _refuse_output_inside(path, options)
    is_free = options.overwrite or not target.exists()
    with _running(engine, options) as running, ExitStack() as stack:
        staging = Staging(target)
        spool = str(stack.enter_context(staging).spool) if is_free else _temporary(stack)
        context = _context(options, running, on_progress, spool, keeps_small=is_free)
        catalog = scan(path, context)
        running.prepare(warm_up, options.check)
        plan = make_plan(catalog, options)
        if not is_free:
            if _is_current(target, plan, catalog.newest_change_ns):
                return _packed(target, started_ns, is_new=False)
            stack.enter_context(staging)
        results = _write(plan, staging, running, on_progress)
        complete(staging.path, plan, results, options)
        stamp(staging.path / layout.METADATA, started_ns)
        is_new = _publish(staging, options)
    return _packed(target, started_ns, is_new=is_new)


def dry_run(
    source: str | os.PathLike[str],
    options: PackOptions | None = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Decide all that `pack` would, and write nothing."""
    options = options or PackOptions()
    path = os.fspath(source)
    with _running(engine, options) as running, ExitStack() as stack:
        context = _context(options, running, on_progress, _temporary(stack))
        return make_plan(scan(path, context), options)


def info(dataset: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] = "") -> DatasetInfo:
    """Say what a packed dataset holds, found by name or by a path at any level."""
    return read_info(find_dataset(os.fspath(dataset), os.fspath(data_dir)))


@contextmanager
def _running(engine: Engine | None, options: PackOptions) -> Iterator[Engine]:
    """Yield the engine given, or one of our own, which is stopped afterwards."""
    if engine is not None:
        yield engine
        return
    with LocalEngine(options.workers) as own:
        yield own


def _context(
    options: PackOptions,
    engine: Engine,
    on_progress: OnProgress | None,
    spool: str,
    *,
    keeps_small: bool = False,
) -> Context:
    def seen(files: int) -> None:
        if on_progress:
            on_progress("scan", files, None)

    return Context(
        options=options.source,
        run=engine.run,
        on_progress=seen,
        spool=spool,
        keeps_small=keeps_small,
    )


def _temporary(stack: ExitStack) -> str:
    return stack.enter_context(TemporaryDirectory(prefix="imgrec-"))


def _data_dir(options: PackOptions) -> Path:
    return Path(options.data_dir).expanduser() if options.data_dir else layout.default_data_dir()


def _target(source: str, options: PackOptions) -> Path:
    name = dataset_name(name_of(source, options.source), options)
    return layout.dataset_dir(_data_dir(options), name, options.version)


def _refuse_output_inside(source: str, options: PackOptions) -> None:
    if _data_dir(options).resolve().is_relative_to(Path(source).resolve()):
        raise UsageError(
            f"--data-dir {_data_dir(options)} is inside the source {source}",
            hint="choose a folder outside, or the next run would find the output of this one",
        )


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
    return newest_change_ns < (target / layout.METADATA).stat().st_mtime_ns


def _publish(staging: Staging, options: PackOptions) -> bool:
    """Make the dataset visible, unless the very same one is."""
    if staging.target.exists() and not options.overwrite:
        old, new = (folder / layout.CHECKSUMS for folder in (staging.target, staging.path))
        if not old.exists() or old.read_bytes() != new.read_bytes():
            raise _in_the_way(staging.target)
        stamp(
            staging.target / layout.METADATA,
            (staging.path / layout.METADATA).stat().st_mtime_ns,
        )
        return False
    staging.publish()
    return True


def _in_the_way(target: Path) -> DatasetExists:
    return DatasetExists(
        f"{target} already holds another dataset",
        hint="pack under another --version or --name, or pass --overwrite to replace it",
        path=str(target),
    )


def _write(
    plan: Plan, staging: Staging, engine: Engine, on_progress: OnProgress | None
) -> list[ShardResult]:
    """Write all shards, the largest first so that no worker is left with one at the end."""
    writer = ShardWriter(folder=str(staging.path), check=plan.check)
    tasks = sorted(plan.tasks, key=lambda task: -task.expected_bytes)
    Thread(target=preload, daemon=True).start()  # while the workers work
    results = {}
    with closing(engine.run(writer, tasks)) as running:
        for result in running:
            results[result.filename] = result
            staging.settle(result.filename)
            if on_progress:
                done = len(result.records.filenames) + len(result.bad)
                on_progress("pack", done, plan.planned)
    return [results[task.filename] for task in plan.tasks]


def _packed(target: Path, started_ns: int, *, is_new: bool) -> Packed:
    return Packed(
        info=read_info(target),
        report=read_report(target),
        seconds=(time.time_ns() - started_ns) / 1e9,
        is_new=is_new,
    )
