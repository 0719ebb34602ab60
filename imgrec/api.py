"""The public functions, each a composition of the rooms below."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias, Unpack

from imgrec import layout
from imgrec.engine.local import running
from imgrec.errors import MissingExtra, SourceError, UsageError
from imgrec.near.clusters import ALIKE
from imgrec.options import OptionError, PackOptions, SourceOptions
from imgrec.options.declaration import listing_of, with_known_keywords
from imgrec.options.packing import (
    AnyPath,
    Embed,
    PackKeywords,
    SourceKeywords,
    parse_embeddings,
)
from imgrec.options.parsing import parse_text
from imgrec.request import options_from, pack_options, resolve_manifest, source_options_from
from imgrec.source.fetch import fetched
from imgrec.source.kinds import detect
from imgrec.storage.paths import is_remote, to_path
from imgrec.text import given_path

if TYPE_CHECKING:
    from imgrec.engine import Engine
    from imgrec.inspect.contact_sheet import Preview
    from imgrec.inspect.diff import Difference
    from imgrec.inspect.export.exporting import Exported
    from imgrec.inspect.leaks import Leaks
    from imgrec.inspect.listing import Listing
    from imgrec.inspect.report.page import ReportPage
    from imgrec.inspect.subject import Job
    from imgrec.inspect.submission import Submitted
    from imgrec.inspect.unpack import Unpacked
    from imgrec.inspect.verify import Verified
    from imgrec.model import Plan
    from imgrec.outcome import DatasetInfo, Leftover, Packed
    from imgrec.packing.catalog import OnProgress
    from imgrec.packing.next_version import Updated
    from imgrec.read.dataset import Dataset

AnyPackOptions: TypeAlias = PackOptions | Mapping[str, object] | None
AnySourceOptions: TypeAlias = SourceOptions | Mapping[str, object] | None

_MOST_PREVIEWED = 1000
_SPOOL = ".imgrec-"
"""Prefix of temporary folders."""


def pack(
    source: AnyPath,
    options: AnyPackOptions = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[PackKeywords],
) -> Packed:
    """Pack a source into a dataset that TFDS loads; return what happened to every file.

    The dataset appears under its name when all of it is written. On failure, an `ImgrecError` is
    raised and nothing has changed. Keyword arguments are the options of `imgrec pack`.

    Example: `imgrec.pack("flowers", val_split=0.1, name="petals").info.load`.
    """
    started_ns = time.time_ns()
    from imgrec.packing.pack import PackRequest, for_cluster, pack_source

    source, options = _request(source, options, keywords)
    _require_writers(options)
    if engine is not None and not engine.is_local:
        source, options = for_cluster(source, options)
    is_cluster = engine is not None and not engine.is_local
    with fetched(source, options.source, in_place=is_cluster) as here:
        request = PackRequest(
            source=source,
            fetched=here,
            asked=options,
            engine=engine,
            on_progress=on_progress,
            started_ns=started_ns,
        )
        return pack_source(request)


def plan(
    source: AnyPath,
    options: AnyPackOptions = None,
    *,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[PackKeywords],
) -> Plan:
    """Return the plan of `pack` for the same arguments, without writing anything."""
    from imgrec.notes import warnings_of
    from imgrec.packing.catalog import scan_source
    from imgrec.planning.build import make_plan
    from imgrec.publish.report import refuse_bad_source

    source, options = _request(source, options, keywords)
    with (
        running(engine, options.workers) as workers,
        fetched(source, options.source) as here,
        TemporaryDirectory(prefix=_SPOOL) as spool,
    ):
        found = detect(here.path, here.options)
        here_options = replace(options, source=here.options)
        catalog, _ = scan_source(found, here_options, workers, on_progress, spool=spool)
    made = make_plan(catalog, options)
    try:
        refuse_bad_source(made, made.planned, (), options)
        _require_writers(options)
    except (SourceError, MissingExtra) as error:
        notes = (*made.notes, *warnings_of([f"pack would refuse this: {error}"]))
        made = replace(made, notes=notes, refused_with=error.exit_code)
    return made


@with_known_keywords
def update(
    dataset: AnyPath,
    source: AnyPath = "",
    *,
    version: str = "",
    compact: bool = False,
    rehash: bool = False,
    images: AnyPath = "",
    yes: bool = False,
    embeddings: AnyPath | Embed = "",
    data_dir: AnyPath = "",
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Updated:
    """Pack the next version of a dataset from its source, as far as that has changed.

    Known images keep split, label, shard and place. Shards whose images did not change are linked.
    Without `source`, it is the one that the dataset was packed from; `version` defaults to the next
    minor one. `compact` packs all shards afresh, and `rehash` reads all files. `images` is where
    those of a table are now. `embeddings` are those of old and new images, by default the file that
    it was packed with. If nothing has changed, nothing is written. Raises DatasetExists if that
    version exists; and PlanError, unless `yes`, if a quarter of the images is gone from the source
    or a group would be in two splits.

    Example: `imgrec.update("flowers").difference.added`.
    """
    started_ns = time.time_ns()
    from imgrec.packing.update import UpdateRequest, update_dataset

    return update_dataset(
        UpdateRequest(
            folder=_find(dataset, data_dir),
            source=os.path.expanduser(parse_text("source", source)),
            version=parse_text("version", version),
            compact=compact,
            rehash=rehash,
            images=os.path.expanduser(parse_text("images", images)),
            yes=yes,
            embeddings=parse_embeddings("embeddings", embeddings),
            workers=PackOptions(workers=workers).workers,
            engine=engine,
            on_progress=on_progress,
            started_ns=started_ns,
        )
    )


@with_known_keywords
def edit(
    dataset: AnyPath,
    table: AnyPath,
    *,
    version: str = "",
    new_classes: bool = False,
    data_dir: AnyPath = "",
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Updated:
    """Make the next version of a dataset with the corrections in a table.

    Its columns are filename, action (relabel, drop or move), label and split; with only filename
    and label, it relabels. The source is not needed. Later updates keep the corrections. Raises
    SourceError with every row that cannot be used; `new_classes` allows labels that are new. If the
    rows change nothing, nothing is written.

    Example: `imgrec.edit("flowers", "corrections.csv").difference.relabelled`.
    """
    started_ns = time.time_ns()
    from imgrec.packing.edit import EditRequest, edit_dataset

    return edit_dataset(
        EditRequest(
            folder=_find(dataset, data_dir),
            table=_path("table", table),
            version=parse_text("version", version),
            new_classes=new_classes,
            workers=PackOptions(workers=workers).workers,
            engine=engine,
            on_progress=on_progress,
            started_ns=started_ns,
        )
    )


@with_known_keywords
def info(dataset: AnyPath, *, data_dir: AnyPath = "") -> DatasetInfo:
    """Return what a packed dataset holds. Give its name, or a path at any level."""
    from imgrec.read.documents import read_info

    return read_info(_find(dataset, data_dir))


@with_known_keywords
def open_dataset(dataset: AnyPath, *, data_dir: AnyPath = "", cache_dir: AnyPath = "") -> Dataset:
    """Open a packed dataset for random access. Give its name, or a path at any level.

    With `cache_dir`, shards that are read from an object store are kept there, and checked.

    Example: `imgrec.open_dataset("flowers")["train"][0].pil().show()`.
    """
    from imgrec.read.dataset import open_cached

    return open_cached(_find(dataset, data_dir), parse_text("cache_dir", cache_dir))


@with_known_keywords
def verify(
    dataset: AnyPath,
    *,
    data_dir: AnyPath = "",
    source: AnyPath = "",
    decode: bool = False,
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Verified:
    """Check every byte of a packed dataset, and return all faults.

    With `decode`, every image is decoded; with `source`, it is compared with the source. Damage of
    any kind is returned as a fault. Raises DatasetNotFound.

    Example: `assert not imgrec.verify("flowers").faults`.
    """
    from imgrec.inspect.verify import verify_folder
    from imgrec.inspect.verify.state import find_folder

    folder = find_folder(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    with _job(workers, engine, on_progress) as job, TemporaryDirectory(prefix=_SPOOL) as spool:
        path = given_path(parse_text("source", source))
        return verify_folder(folder, job, decodes=decode, source=path, spool=spool)


@with_known_keywords
def unpack(
    dataset: AnyPath,
    target: AnyPath,
    *,
    data_dir: AnyPath = "",
    split: str = "",
    split_folders: bool = False,
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Unpacked:
    """Write the images of a packed dataset under their names into a new folder, all or none.

    Nothing is written outside the folder, whatever the records contain, and nothing is
    overwritten. On failure, an `ImgrecError` is raised and nothing has changed.

    Example: `imgrec.unpack("flowers", "flowers_again").pack_again`.
    """
    from imgrec.inspect.unpack import unpack_folder

    folder = _find(dataset, data_dir)
    place = given_path(parse_text("target", target))
    with _job(workers, engine, on_progress) as job:
        return unpack_folder(folder, place, job, split=split, split_folders=split_folders)


@with_known_keywords
def export(
    dataset: AnyPath,
    target: AnyPath,
    *,
    to: str,
    data_dir: AnyPath = "",
    overwrite: bool = False,
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write a packed dataset in the format of another library into a new folder, all or nothing.

    `to` is "parquet" (Hugging Face datasets, with a dataset card and a Croissant description) or
    "webdataset" (tar files). Checksums of records are checked and images keep their bytes. The
    files are the same with any number of `workers`. With `overwrite`, the folder may hold an
    earlier export. On failure, an `ImgrecError` is raised and nothing has changed.

    Example: `imgrec.export("flowers", "flowers_hub", to="parquet").load`.
    """
    from imgrec.inspect.export.exporting import export_folder

    folder = _find(dataset, data_dir)
    place = given_path(parse_text("target", target))
    with _job(workers, engine, on_progress) as job:
        return export_folder(folder, place, parse_text("to", to), job, overwrite=overwrite)


@with_known_keywords
def clean(
    dataset: str = "",
    *,
    versions: int | None = None,
    data_dir: AnyPath = "",
    dry_run: bool = False,
) -> tuple[Leftover, ...]:
    """Remove the hidden folders of interrupted packs; return them with the bytes that this frees.

    Notes about datasets that no longer exist are removed too. A dataset whose replacement was
    interrupted is restored. With `versions`, all but the newest so many complete versions of each
    dataset are removed as well; never those that imgrec did not make or cannot read. With
    `dataset`, only that one is cleaned. With `dry_run`, nothing is changed.
    """
    from imgrec.inspect.cleaning import clean_data_dir

    if versions is not None and (type(versions) is not int or versions < 1):
        raise OptionError("{0} must be at least 1", "versions")
    where = parse_text("data_dir", data_dir) or layout.default_data_dir()
    return clean_data_dir(to_path(where), dataset=dataset, versions=versions, dry_run=dry_run)


@with_known_keywords
def list_datasets(*, data_dir: AnyPath = "") -> Listing:
    """List the datasets of a data directory, here or in a store, from their metadata.

    `data_dir` defaults to where TFDS looks. Files that versions share count once.

    Example: `[one.name for one in imgrec.list_datasets().datasets]`.
    """
    from imgrec.inspect.listing import list_data_dir

    given = parse_text("data_dir", data_dir)
    folder = to_path(given or layout.default_data_dir())
    if folder.is_file() or (given and not is_remote(folder) and not folder.exists()):
        why = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"--data-dir {given} {why}", hint="give a folder that holds datasets")
    return list_data_dir(folder)


def leaks(
    what: AnyPath,
    *,
    against: AnyPath = "",
    data_dir: AnyPath = "",
    source: AnySourceOptions = None,
    alike: int = ALIKE,
    embeddings: AnyPath | Embed = "",
    against_embeddings: AnyPath = "",
    sheet: AnyPath = "",
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[SourceKeywords],
) -> Leaks:
    """Find exact and near-duplicates in a dataset or a source.

    With `against`, find the images that are also in that dataset or source. `alike` is how much
    near-duplicates are alike at least, in per cent. `embeddings` are a .npy file, with the names of
    the images in a .txt file beside it; or a function that takes a list of pictures (arrays of
    height x width x 3, RGB) and returns a row of numbers for each. `sheet` is a PNG file to draw
    the groups into.

    Example: `assert not imgrec.leaks("flowers").is_leaking`.
    """
    from imgrec.inspect.leaks import Request, find_leaks

    subject, options = _subject(what, source, keywords)
    request = Request(
        what=subject,
        against=_path("against", against),
        data_dir=parse_text("data_dir", data_dir),
        source=options,
        alike=alike,
        embeddings=parse_embeddings("embeddings", embeddings),
        against_embeddings=parse_text("against_embeddings", against_embeddings),
        sheet=_path("sheet", sheet),
    )
    with _job(workers, engine, on_progress) as job, TemporaryDirectory(prefix=_SPOOL) as spool:
        return find_leaks(request, job, spool)


@with_known_keywords
def diff(
    before: AnyPath,
    after: AnyPath = "",
    *,
    data_dir: AnyPath = "",
    sheet: AnyPath = "",
    engine: Engine | None = None,
) -> Difference:
    """Compare two packed datasets by their tables of samples, without reading their shards.

    Without `after`, the dataset is compared with its version before. `sheet` is a PNG, JPEG or
    WebP file for pictures of what differs. Raises DatasetError for datasets that imgrec did not
    pack.

    Example: `imgrec.diff("flowers:1.0.0", "flowers:1.1.0").relabelled`.
    """
    from imgrec.inspect.contact_sheet import encode_sheet, refuse_other_formats
    from imgrec.inspect.diff import compare_datasets, draw_difference
    from imgrec.read.files import previous_version
    from imgrec.storage.named_files import refuse_no_file, write_out

    target = _path("sheet", sheet)
    refuse_no_file(target, "sheet.png")
    refuse_other_formats(target)
    old = _find(before, data_dir)
    old, new = (old, _find(after, data_dir)) if after else (previous_version(old), old)
    found = compare_datasets(old, new)
    if not target:
        return found
    with _job(None, engine, None) as job:
        drawn = draw_difference(found, job)
    if drawn:
        write_out(target, encode_sheet(drawn, target))
    return replace(found, sheet=target if drawn else "")


def report(
    what: AnyPath,
    *,
    path: AnyPath = "",
    thumbnails: int | None = None,
    data_dir: AnyPath = "",
    source: AnySourceOptions = None,
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[SourceKeywords],
) -> ReportPage:
    """Write one HTML page about all images of a dataset or a source.

    `path` defaults to `<name>_report.html` in the current folder, or `<name>_source_report.html`
    for a source.

    Example: `imgrec.report("flowers").path`.
    """
    from imgrec.inspect.report.images import table_of_dataset
    from imgrec.inspect.report.page import make_page
    from imgrec.inspect.subject import open_subject
    from imgrec.packing.pack import examine
    from imgrec.storage.named_files import refuse_no_file, write_out

    started = time.monotonic()
    thumbnails = PackOptions(thumbnails=thumbnails).thumbnails
    target = _path("path", path)
    refuse_no_file(target, "report.html")
    name, options = _subject(what, source, keywords)
    with (
        open_subject(name, options, parse_text("data_dir", data_dir)) as (subject, options),
        _job(workers, engine, on_progress) as job,
        TemporaryDirectory(prefix=_SPOOL) as spool,
    ):
        if isinstance(subject, Path):
            table, facts = table_of_dataset(subject, job)
        else:
            table, facts = examine(subject, options, job, spool)
        page = make_page(table, facts, job, thumbnails)
    target = target or f"{_page_name(subject, facts.name)}_report.html"
    write_out(target, page.data)
    return replace(page, path=target, seconds=time.monotonic() - started)


def preview(
    what: AnyPath,
    *,
    split: str = "",
    class_name: str = "",
    count: int = 24,
    path: AnyPath = "",
    data_dir: AnyPath = "",
    source: AnySourceOptions = None,
    workers: int | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **keywords: Unpack[SourceKeywords],
) -> Preview:
    """Draw a contact sheet of some images of a dataset or a source, with captions.

    `split` and `class_name` choose images; otherwise all classes take turns. `path` is a PNG, JPEG
    or WebP file and defaults to `<name>_preview.png` in the current folder, or
    `<name>_source_preview.png` for a source. Raises UnknownName for an unknown split or class.

    Example: `imgrec.preview("flowers", split="val", class_name="rose").path`.
    """
    if type(count) is not int or not 1 <= count <= _MOST_PREVIEWED:
        raise OptionError(f"{{0}} must be from 1 to {_MOST_PREVIEWED}", "count")
    from imgrec.inspect.contact_sheet import (
        choices_of_dataset,
        choices_of_plan,
        draw_preview,
        encode_sheet,
        refuse_other_formats,
    )
    from imgrec.inspect.subject import open_subject
    from imgrec.packing.pack import plan_source
    from imgrec.storage.named_files import refuse_no_file, write_out

    target = _path("path", path)
    refuse_no_file(target, "sheet.png")
    refuse_other_formats(target)
    name, options = _subject(what, source, keywords)
    split, class_name = parse_text("split", split), parse_text("class_name", class_name)
    with (
        open_subject(name, options, parse_text("data_dir", data_dir)) as (subject, options),
        _job(workers, engine, on_progress) as job,
        TemporaryDirectory(prefix=_SPOOL) as spool,
    ):
        if isinstance(subject, Path):
            choices = choices_of_dataset(subject)
        else:
            choices = choices_of_plan(plan_source(subject, options, job, spool)[1], subject.name)
        sheet = draw_preview(choices, job, split=split, class_name=class_name, count=count)
    target = target or f"{_page_name(subject, choices.name)}_preview.png"
    write_out(target, encode_sheet(sheet.data, target))
    return replace(sheet, path=target)


@with_known_keywords
def write_submission(
    dataset: AnyPath,
    predictions: object,
    path: AnyPath,
    *,
    split: str = "test",
    fill: object = None,
    overwrite: bool = False,
    data_dir: AnyPath = "",
) -> Submitted:
    """Write predictions in the form of the download's sample submission.

    `predictions` are a number for each class, labels, or class names: a dict by id, a tuple of ids
    and an array, a DataFrame with a column of ids, or a .npy, .csv or .parquet file. Without ids,
    they are in the order of `imgrec.load(dataset, split)`. `fill` is the prediction for images
    that the dataset does not have. Raises UsageError if predictions are missing, or if `path`
    exists and `overwrite` is false.

    Example: `imgrec.write_submission("aptos", dict(zip(ids, scores)), "submission.csv")`.
    """
    from imgrec.inspect.submission import make_submission
    from imgrec.storage.named_files import refuse_existing, refuse_no_file, write_out

    target = _path("path", path)
    refuse_no_file(target, "submission.csv")
    if not overwrite:
        refuse_existing(target, "choose another name, or pass --overwrite to replace it")
    opened = open_dataset(dataset, data_dir=data_dir)
    value = None if fill is None else str(fill)
    data, submitted = make_submission(opened, predictions, parse_text("split", split), value)
    write_out(target, data)
    return replace(submitted, path=target)


def _page_name(subject: object, name: str) -> str:
    """Return the beginning of a page's file name: a source may have the name of a dataset."""
    return layout.legal_name(name) + ("" if isinstance(subject, Path) else "_source")


def _request(
    source: AnyPath, options: AnyPackOptions, keywords: Mapping[str, object]
) -> tuple[str, PackOptions]:
    """Return a source and its options after resolving a manifest; keywords go over `options`."""
    asked = options_from(keywords, pack_options(options)) if keywords else pack_options(options)
    path, source_options = resolve_manifest(parse_text("source", source), asked.source)
    return path, replace(asked, source=source_options)


def _subject(
    what: AnyPath, source: AnySourceOptions, keywords: Mapping[str, object]
) -> tuple[str, SourceOptions]:
    """Return a dataset or a source, and the options for reading a source; keywords go over them."""
    options = source_options_from(keywords, source)
    return resolve_manifest(parse_text("what", what), options)


def _path(name: str, given: AnyPath) -> str:
    return os.path.expanduser(parse_text(name, given))


def _find(dataset: AnyPath, data_dir: AnyPath) -> Path:
    from imgrec.read.files import find_dataset

    return find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))


@contextmanager
def _job(
    workers: int | None, engine: Engine | None, on_progress: OnProgress | None
) -> Iterator[Job]:
    """Start `workers` processes, unless an engine is given."""
    from imgrec.inspect.subject import Job

    with running(engine, PackOptions(workers=workers).workers) as started:
        yield Job(run=started.run, on_progress=on_progress)


def _require_writers(options: PackOptions) -> None:
    """Raise MissingExtra now rather than after the scan if a format cannot be written."""
    if options.also:
        from imgrec.write.records import require_array_record

        require_array_record()


_LISTING, _OF_SOURCES = listing_of(PackOptions, SourceOptions), listing_of(SourceOptions)
for _function in (pack, plan):
    _function.__doc__ = f"{_function.__doc__}\n\n{_LISTING}"
for _reader in (leaks, report, preview):
    _reader.__doc__ = f"{_reader.__doc__}\n\nFor a source, these too:\n\n{_OF_SOURCES}"
