"""The public functions, each a composition of the rooms below."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec import layout
from imgrec.engine.local import running
from imgrec.errors import MissingExtra, SourceError
from imgrec.options import OptionError, PackOptions, SourceOptions
from imgrec.options.declaration import options_of
from imgrec.options.parsing import parse_text
from imgrec.request import pack_options, resolve_manifest
from imgrec.source.fetch import fetched
from imgrec.source.kinds import detect
from imgrec.storage.paths import refuse_remote, to_path
from imgrec.text import given_path

if TYPE_CHECKING:
    from imgrec.engine import Engine
    from imgrec.inspect.contact_sheet import Preview
    from imgrec.inspect.leaks import Leaks
    from imgrec.inspect.report.page import ReportPage
    from imgrec.inspect.submission import Submitted
    from imgrec.inspect.unpack import Unpacked
    from imgrec.inspect.verify.verify import Verified
    from imgrec.model import Plan
    from imgrec.outcome import DatasetInfo, Leftover, Packed
    from imgrec.packing import OnProgress
    from imgrec.read.dataset import Dataset

_MOST_PREVIEWED = 1000


def pack(
    source: str | os.PathLike[str],
    options: PackOptions | Mapping[str, object] | None = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Packed:
    """Pack a source into a dataset that TFDS loads, and say what became of every file.

    Nothing is visible under the dataset's name before all of it is written. Raises an
    `ImgrecError` otherwise; then nothing has changed.

    Example: `imgrec.pack("flowers", imgrec.PackOptions(val_split=0.1)).info.load`.
    """
    started_ns = time.time_ns()
    source, options = _request(source, options)
    _require_writers(options)
    from imgrec.packing import PackRequest, for_cluster, pack_source

    if engine is not None and not engine.is_local:
        source, options = for_cluster(source, options)
    with fetched(source, options.source) as here:
        request = PackRequest(
            source=source,
            fetched=here,
            asked=options,
            engine=engine,
            on_progress=on_progress,
            started_ns=started_ns,
        )
        return pack_source(request)


def dry_run(
    source: str | os.PathLike[str],
    options: PackOptions | Mapping[str, object] | None = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Decide all that `pack` would, and write nothing."""
    from imgrec.packing import scan_source

    source, options = _request(source, options)
    with running(engine, options.workers) as workers, ExitStack() as stack:
        here = stack.enter_context(fetched(source, options.source))
        found = detect(here.path, here.options)
        here_options = replace(options, source=here.options)
        spool = _temporary(stack)
        catalog = scan_source(found, here_options, workers, on_progress, spool=spool)
    from imgrec.notes import warnings_of
    from imgrec.plan.build import make_plan
    from imgrec.publish.report import refuse_bad_source

    plan = make_plan(catalog, options)
    try:
        refuse_bad_source(plan, plan.planned, (), options)
        _require_writers(options)
    except (SourceError, MissingExtra) as error:
        notes = (*plan.notes, *warnings_of([f"pack would refuse this: {error}"]))
        plan = replace(plan, notes=notes, refused_with=error.exit_code)
    return plan


def info(dataset: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] = "") -> DatasetInfo:
    """Say what a packed dataset holds, found by name or by a path at any level."""
    from imgrec.read.documents import read_info
    from imgrec.read.locate import find_dataset

    return read_info(find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir)))


def open_dataset(
    dataset: str | os.PathLike[str], *, data_dir: str | os.PathLike[str] = ""
) -> Dataset:
    """Open a packed dataset, found by name or by a path at any level, for reading at random.

    Example: `imgrec.open_dataset("flowers")["train"][0].pil().show()`.
    """
    from imgrec.read.dataset import Dataset
    from imgrec.read.locate import find_dataset

    return Dataset(find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir)))


def verify(
    dataset: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] = "",
    source: str | os.PathLike[str] = "",
    decode: bool = False,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Verified:
    """Look at every byte of a packed dataset, and list all that is wrong with it.

    With `decode`, every image is decoded; with `source`, it is compared with what it was packed
    from. Damage of any kind is a fault in what is returned. Raises DatasetNotFound.

    Example: `assert not imgrec.verify("flowers").faults`.
    """
    from imgrec.inspect.subject import Job
    from imgrec.inspect.verify.source import SourcePlace
    from imgrec.inspect.verify.state import find_folder
    from imgrec.inspect.verify.verify import verify_folder

    folder = find_folder(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    with running(engine) as workers, ExitStack() as stack:
        job = Job(run=workers.run, on_progress=on_progress)
        place = (
            SourcePlace(given_path(parse_text("source", source)), _temporary(stack))
            if source
            else None
        )
        return verify_folder(folder, job, decodes=decode, source=place)


def unpack(
    dataset: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] = "",
    split: str = "",
    split_folders: bool = False,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Unpacked:
    """Write the images of a packed dataset under their names into a new folder, all or none.

    Nothing is written outside of it, whatever the records say, and nothing is overwritten. Raises
    an `ImgrecError` otherwise; then nothing has changed.

    Example: `imgrec.unpack("flowers", "flowers_again").pack_again`.
    """
    from imgrec.inspect.subject import Job
    from imgrec.inspect.unpack import Selection, unpack_folder
    from imgrec.read.locate import find_dataset

    folder = find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    place = given_path(parse_text("target", target))
    with running(engine) as workers:
        job = Job(run=workers.run, on_progress=on_progress)
        return unpack_folder(folder, place, Selection(split, split_folders), job)


def clean(*, data_dir: str | os.PathLike[str] = "", dry_run: bool = False) -> tuple[Leftover, ...]:
    """Remove the hidden folders of packs that were cut off; return which, and how large.

    Notes about datasets that are gone are removed, too. A dataset that was put aside but not
    replaced comes back. With `dry_run`, nothing is changed.
    """
    from imgrec.outcome import Leftover
    from imgrec.storage.leftovers import (
        find_leftovers,
        find_orphans,
        remove_leftover,
        restorable,
        size_of,
    )

    where = parse_text("data_dir", data_dir) or layout.default_data_dir()
    refuse_remote(where, "imgrec clean")
    root = to_path(where)
    folders = [path for path in sorted(root.glob("*")) if path.is_dir() and not path.is_symlink()]
    left = []
    places = (root, *folders)  # it may be a dataset's own folder
    for path in [*find_leftovers(*places), *find_orphans(*places)]:
        left.append(Leftover(path=str(path), size=size_of(path), restored=restorable(path)))
        if not dry_run:
            remove_leftover(path)
    return tuple(left)


def leaks(
    what: str | os.PathLike[str],
    *,
    against: str | os.PathLike[str] = "",
    data_dir: str | os.PathLike[str] = "",
    source: SourceOptions | Mapping[str, object] | None = None,
    distance: float = 4.0,
    sheet: str | os.PathLike[str] = "",
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Leaks:
    """Find the images that a dataset or a source has twice, exactly or nearly.

    With `against`, find those that are in another dataset or source, too. `distance` says how much
    near-duplicates may differ, in thousandths. `sheet` is where to draw the pairs, as PNG.

    Example: `assert not imgrec.leaks("flowers").is_leaking`.
    """
    from imgrec.inspect.leaks import Request, find_leaks
    from imgrec.inspect.subject import Job

    subject, options = _subject(what, source)
    request = Request(
        what=subject,
        against=parse_text("against", against),
        data_dir=parse_text("data_dir", data_dir),
        source=options,
        distance=distance,
        sheet=parse_text("sheet", sheet),
    )
    with running(engine) as workers, ExitStack() as stack:
        job = Job(run=workers.run, on_progress=on_progress)
        return find_leaks(request, job, _temporary(stack))


def report(
    what: str | os.PathLike[str],
    *,
    path: str | os.PathLike[str] = "",
    thumbnails: int | None = None,
    data_dir: str | os.PathLike[str] = "",
    source: SourceOptions | Mapping[str, object] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> ReportPage:
    """Look at every image of a dataset or a source, and show what is there as one HTML page.

    `path` is where the page goes: `<name>_report.html` in the current folder if it is not given.

    Example: `imgrec.report("flowers").path`.
    """
    thumbnails = PackOptions(thumbnails=thumbnails).thumbnails
    from imgrec.inspect.report.images import table_of_dataset
    from imgrec.inspect.report.page import make_page
    from imgrec.inspect.subject import Job, find_subject
    from imgrec.storage.named_files import refuse_no_file, write_out

    refuse_no_file(parse_text("path", path), "report.html")

    started = time.monotonic()
    name, options = _subject(what, source)
    subject = find_subject(name, options, parse_text("data_dir", data_dir))
    with running(engine) as workers, TemporaryDirectory(prefix="imgrec-") as spool:
        job = Job(run=workers.run, on_progress=on_progress)
        if isinstance(subject, Path):
            table, told = table_of_dataset(subject, job)
        else:
            from imgrec.packing import examine

            table, told = examine(subject, options, job, spool)
        page = make_page(table, told, job, thumbnails)
    target = parse_text("path", path) or f"{layout.legal_name(told.name)}_report.html"
    write_out(target, page.data)
    return replace(page, path=target, seconds=time.monotonic() - started)


def preview(
    what: str | os.PathLike[str],
    *,
    split: str = "",
    class_name: str = "",
    count: int = 24,
    path: str | os.PathLike[str] = "",
    data_dir: str | os.PathLike[str] = "",
    source: SourceOptions | Mapping[str, object] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Preview:
    """Draw a contact sheet of some images of a dataset or a source, with captions.

    `split` and `class_name` choose images; otherwise all classes take turns. `path` is a PNG, JPEG
    or WebP file; the default is `<name>_preview.png` in the current folder. Raises UnknownName
    for an unknown split or class.

    Example: `imgrec.preview("flowers", split="val", class_name="rose").path`.
    """
    if type(count) is not int or not 1 <= count <= _MOST_PREVIEWED:
        raise OptionError(f"{{0}} must be from 1 to {_MOST_PREVIEWED}", "count")
    from imgrec.inspect.contact_sheet import (
        Selection,
        choices_of_dataset,
        choices_of_plan,
        draw_preview,
        encode_sheet,
        refuse_other_formats,
    )
    from imgrec.inspect.subject import Job, find_subject
    from imgrec.storage.named_files import refuse_no_file, write_out

    refuse_no_file(parse_text("path", path), "sheet.png")
    refuse_other_formats(parse_text("path", path))

    name, options = _subject(what, source)
    selection = Selection(parse_text("split", split), parse_text("class_name", class_name), count)
    subject = find_subject(name, options, parse_text("data_dir", data_dir))
    with running(engine) as workers, TemporaryDirectory(prefix="imgrec-") as spool:
        job = Job(run=workers.run, on_progress=on_progress)
        if isinstance(subject, Path):
            choices = choices_of_dataset(subject)
        else:
            from imgrec.packing import plan_source

            choices = choices_of_plan(plan_source(subject, options, job, spool)[1], subject.name)
        sheet = draw_preview(choices, selection, job)
    target = parse_text("path", path) or f"{layout.legal_name(choices.name)}_preview.png"
    write_out(target, encode_sheet(sheet.data, target))
    return replace(sheet, path=target)


def write_submission(
    dataset: str | os.PathLike[str],
    predictions: object,
    path: str | os.PathLike[str],
    *,
    split: str = "test",
    fill: object = None,
    data_dir: str | os.PathLike[str] = "",
) -> Submitted:
    """Write predictions as the sample submission of a download asks for them.

    `predictions` are a number for each class, labels, or class names: a dict by id, a tuple of ids
    and an array, a DataFrame with a column of ids, or a .npy, .csv or .parquet file. Without ids,
    they come in the order of `imgrec.load(dataset, split)`. `fill` is for images that the dataset
    does not have. Raises UsageError if some are missing, and if there is a file at `path` already.

    Example: `imgrec.write_submission("aptos", dict(zip(ids, scores)), "submission.csv")`.
    """
    from imgrec.inspect.submission import make_submission
    from imgrec.storage.named_files import refuse_no_file, write_new

    target = parse_text("path", path)
    refuse_no_file(target, "submission.csv")
    opened = open_dataset(dataset, data_dir=data_dir)
    value = None if fill is None else str(fill)
    data, submitted = make_submission(opened, predictions, parse_text("split", split), value)
    write_new(target, data)
    return replace(submitted, path=target)


def _request(
    source: str | os.PathLike[str], options: PackOptions | Mapping[str, object] | None
) -> tuple[str, PackOptions]:
    """Return a source and its options after deciding what a manifest means."""
    asked = pack_options(options)
    where, of_source = resolve_manifest(parse_text("source", source), asked.source)
    return where, replace(asked, source=of_source)


def _subject(
    what: str | os.PathLike[str], source: SourceOptions | Mapping[str, object] | None
) -> tuple[str, SourceOptions]:
    """Return a dataset or a source, and how to read a source."""
    options = options_of(SourceOptions, source, "source")
    return resolve_manifest(parse_text("what", what), options)


def _require_writers(options: PackOptions) -> None:
    """Raise MissingExtra if a package is missing without which the output cannot be written."""
    if options.also:
        from imgrec.write.records import require_array_record

        require_array_record()


def _temporary(stack: ExitStack, parent: Path | None = None) -> str:
    return stack.enter_context(TemporaryDirectory(prefix=".imgrec-", dir=parent))
