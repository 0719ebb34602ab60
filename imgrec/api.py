"""The public functions, each a composition of the rooms below."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec import layout
from imgrec.background import Background
from imgrec.engine.local import LocalEngine
from imgrec.errors import SourceError, UsageError
from imgrec.options import PackOptions
from imgrec.source.context import Context
from imgrec.source.detect import Source, detect, scan
from imgrec.storage.staging import Staging

if TYPE_CHECKING:
    from imgrec.engine import Engine
    from imgrec.model import Catalog, Plan
    from imgrec.outcome import DatasetInfo, Packed
    from imgrec.packing import OnProgress
    from imgrec.read.dataset import Dataset


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
    found = detect(os.fspath(source), options.source)
    target = _target(found, options)
    _refuse_output_inside(found, options)
    is_free = options.overwrite or not target.exists()
    with _running(engine, options) as running, ExitStack() as stack:
        staging = Staging(target)
        spool = str(stack.enter_context(staging).spool) if is_free else _temporary(stack)
        rest = Background("imgrec.packing")

        def seen(files: int) -> None:
            rest.start()  # now that the scan is under way
            if on_progress:
                on_progress("scan", files, None)

        context = Context(
            options=options.source,
            run=running.run,
            on_progress=seen,
            spool=spool,
            keeps_small=is_free,
        )
        catalog = scan(found, context)
        rest.wait()
        catalog = _refined(catalog, options, running)
        from imgrec.packing import Job, pack_catalog

        job = Job(
            options=options,
            engine=running,
            on_progress=on_progress,
            started_ns=started_ns,
            staging=staging,
            is_free=is_free,
        )
        return pack_catalog(catalog, job)


def dry_run(
    source: str | os.PathLike[str],
    options: PackOptions | None = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Decide all that `pack` would, and write nothing."""
    options = options or PackOptions()
    found = detect(os.fspath(source), options.source)
    with _running(engine, options) as running, ExitStack() as stack:

        def seen(files: int) -> None:
            if on_progress:
                on_progress("scan", files, None)

        context = Context(
            options=options.source, run=running.run, on_progress=seen, spool=_temporary(stack)
        )
        catalog = _refined(scan(found, context), options, running)
    from imgrec.plan.build import make_plan
    from imgrec.publish.report import refuse_bad_source

    plan = make_plan(catalog, options)
    try:
        refuse_bad_source(plan, (), options)
    except SourceError as error:
        plan = replace(plan, warnings=(*plan.warnings, f"pack would refuse this: {error}"))
    return plan


def info(dataset: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] = "") -> DatasetInfo:
    """Say what a packed dataset holds, found by name or by a path at any level."""
    from imgrec.read.locate import find_dataset
    from imgrec.read.metadata import read_info

    return read_info(find_dataset(os.fspath(dataset), os.fspath(data_dir)))


def open_dataset(
    dataset: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] = ""
) -> Dataset:
    """Open a packed dataset, found by name or by a path at any level, for reading at random.

    Example: `imgrec.open_dataset("flowers")["train"][0].pil().show()`.
    """
    from imgrec.read.dataset import Dataset
    from imgrec.read.locate import find_dataset

    return Dataset(find_dataset(os.fspath(dataset), os.fspath(data_dir)))


@contextmanager
def _running(engine: Engine | None, options: PackOptions) -> Iterator[Engine]:
    """Yield the engine given, or one of our own, which is stopped afterwards."""
    if engine is not None:
        yield engine
        return
    with LocalEngine(options.workers) as own:
        yield own


def _refined(catalog: Catalog, options: PackOptions, engine: Engine) -> Catalog:
    """Return a catalog with what only a closer look, or another dataset, can tell."""
    if not (options.source.min_side or options.split_from or options.split_file):
        return catalog
    from imgrec.read.locate import find_dataset
    from imgrec.read.samples import read_splits
    from imgrec.source.closer_look import pin, without_small
    from imgrec.source.split_file import pin_by_name

    if options.source.min_side:
        catalog = without_small(catalog, options.source.min_side, engine.run)
    if options.split_from:
        known = read_splits(find_dataset(options.split_from, options.data_dir))
        catalog = pin(catalog, known, engine.run)
    if options.split_file:
        catalog = pin_by_name(catalog, options.split_file)
    return catalog


def _temporary(stack: ExitStack) -> str:
    return stack.enter_context(TemporaryDirectory(prefix="imgrec-"))


def _data_dir(options: PackOptions) -> Path:
    return Path(options.data_dir).expanduser() if options.data_dir else layout.default_data_dir()


def _target(source: Source, options: PackOptions) -> Path:
    name = layout.dataset_name(source.name, options.name)
    return layout.dataset_dir(_data_dir(options), name, options.version)


def _refuse_output_inside(source: Source, options: PackOptions) -> None:
    for folder in filter(None, (source.path, options.source.images)):
        if _data_dir(options).resolve().is_relative_to(Path(folder).resolve()):
            raise UsageError(
                f"--data-dir {_data_dir(options)} is inside the source {folder}",
                hint="choose a folder outside, or the next run would find the output of this one",
            )
