"""Find what to inspect: a dataset or a source, its records and images."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from imgrec import layout
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import DatasetNotFound, UsageError
from imgrec.model import Blob, Catalog, Pixels
from imgrec.options import SourceOptions
from imgrec.outcome import DatasetInfo
from imgrec.read.files import find_dataset, is_path
from imgrec.read.splits import ALL
from imgrec.storage.blobs import read_blob
from imgrec.storage.paths import is_remote, to_path
from imgrec.storage.urls import is_url
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.read.dataset import Dataset, Split
    from imgrec.read.record import Record
    from imgrec.source.kinds import Source

T = TypeVar("T")
R = TypeVar("R")

_BATCH = 512

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage, how many more records are done, and of how many."""


class Run(Protocol):
    """Calls a picklable function on each of many tasks, somewhere."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Yield the results in any order; when closed, stop working."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The engine that runs the tasks, and the callback for progress."""

    run: Run
    on_progress: OnProgress | None = None

    def progress(self, stage: str, done: int, total: int | None) -> None:
        """Report how many more records are done."""
        if self.on_progress:
            self.on_progress(stage, done, total)


class Subject(NamedTuple):
    """A dataset's folder, or a source, with the options for reading it."""

    found: Path | Source
    options: SourceOptions


@contextmanager
def open_subject(what: str, options: SourceOptions, data_dir: str) -> Iterator[Subject]:
    """Yield the folder of a dataset, or a source if there is no dataset of that name.

    Copies of a source on a store are deleted at the end.
    """
    try:
        # Options of a source make no sense for a dataset.
        folder = find_dataset(what, data_dir) if options == SourceOptions() else None
    except DatasetNotFound as error:
        if not (to_path(what).exists() if is_url(what) else os.path.exists(what)):
            hint = f"{error.hint}; or give the path of a source"
            raise DatasetNotFound(error.message, hint=hint, path=error.path) from error
        folder = None
    if folder is not None:
        yield Subject(folder, options)
        return
    from imgrec.source.fetch import fetched
    from imgrec.source.kinds import detect

    with fetched(what, options) as here:
        yield Subject(detect(here.path, here.options), here.options)


def shadowing(what: str, options: SourceOptions, data_dir: str) -> str:
    """Return the data directory of the dataset `what` if it hides a folder of that name here.

    Returns "" if only one of them exists, or if they are the same folder.
    """
    if options != SourceOptions() or is_url(what) or is_path(what) or not os.path.isdir(what):
        return ""
    try:
        found = find_dataset(what, data_dir)
    except DatasetNotFound:
        return ""
    is_here = not is_remote(found) and found.resolve().is_relative_to(Path(what).resolve())
    return "" if is_here else str(found.parent.parent)


def scan_for(job: Job, source: Source, options: SourceOptions, spool: str) -> Catalog:
    """List the images of a source. Archives that cannot be read in place are unpacked to `spool`.

    Nothing is packed, so questions that `pack` would ask are answered with yes.
    """
    from imgrec.source.kinds import scan
    from imgrec.source.tree import Context

    context = Context(
        options=replace(options, yes=True),
        run=job.run,
        on_progress=lambda files: job.progress("scan", files, None),
        spool=spool,
    )
    catalog = scan(source, context)
    if options.class_changes():
        from imgrec.planning.classes import change_classes

        catalog = change_classes(catalog, options)
    if options.min_side:
        from imgrec.source.image_pass import without_small

        catalog = without_small(catalog, options.min_side, job.run)
    return catalog


class InSource(NamedTuple):
    """The place of an image in a source."""

    blob: Blob
    size: int
    filename: str


class InDataset(NamedTuple):
    """The place of an image in a dataset."""

    folder: str
    number: int
    """Of its record, counted through all splits."""


ImagePlace: TypeAlias = InSource | InDataset


class RecordBatch(NamedTuple):
    """Some records of a dataset, as a task for a worker."""

    folder: str
    start: int
    stop: int


def record_batches(info: DatasetInfo) -> Iterator[RecordBatch]:
    """Yield the records of each shard in batches. A compressed shard is one, read in order."""
    start = 0
    for length in [length for split in info.splits for length in split.shard_lengths]:
        step = max(length, 1) if info.compression else _BATCH
        for first in range(start, start + length, step):
            yield RecordBatch(info.path, first, min(first + step, start + length))
        start += length


def open_dataset(folder: str) -> Dataset:
    """Open a dataset in a worker, once for many batches."""
    info = to_path(folder) / layout.DATASET_INFO
    # A worker of Spark lives on, and finds another dataset at the same place after an overwrite.
    status = None if is_remote(info) or not info.exists() else info.stat()
    return _open(folder, status and (status.st_ino, status.st_mtime_ns))


@lru_cache(maxsize=4)
def _open(folder: str, _version: tuple[int, int] | None) -> Dataset:
    from imgrec.read.dataset import Dataset

    return Dataset(to_path(folder))


def read_image(place: ImagePlace) -> tuple[bytes, Pixels | None, str]:
    """Return the bytes of an image, their layout if they are raw pixels, and its name."""
    if isinstance(place, InDataset):
        record = next(iter(open_dataset(place.folder).read_all([place.number])))
        return record.image, None, record.filename
    blob, name = place.blob, place.filename
    return read_blob(blob, place.size, name=name), blob if isinstance(blob, Pixels) else None, name


class RecordPlace(NamedTuple):
    """The place of a record."""

    split: str
    number: int
    """In its split."""
    shard: str
    """The name of the file."""
    in_shard: int
    """Its number in the shard."""


def read_head(dataset: Dataset, split: str, count: int) -> tuple[Split, Iterator[Record]]:
    """Return the first records of a split, by default of the first one."""
    if count < 0:
        raise UsageError(f"-n {count} is negative", hint="give 0 or more")
    head = dataset[split or _first_split(dataset)][:count]
    return head, iter(head)


def find_number(dataset: Dataset, what: str, split: str) -> int:
    """Return the number of a record, given its number in a split or its filename.

    Without a split, a number counts in the first one, and a file is looked for in all. Raises
    UnknownName or OutOfRange.
    """
    if what.removeprefix("-").isdecimal():
        return dataset[split or _first_split(dataset)][[int(what)]].numbers[0]
    part = dataset[split or ALL]
    names, shown = dataset.columns.filenames, printable(what)
    for number in part.numbers:
        if names[number] == shown:
            return number
    part.find(what)  # raises, and suggests similar names
    raise AssertionError(what)


def _first_split(dataset: Dataset) -> str:
    return next(iter(dataset), ALL)


def place_of(dataset: Dataset, number: int) -> RecordPlace:
    """Return the place of a record, given its number as `Dataset.read` takes it."""
    path, in_shard = dataset.locate(number)
    before = 0
    for split in dataset.info.splits:
        if number < before + split.examples:
            break
        before += split.examples
    return RecordPlace(split.name, number - before, os.path.basename(path), in_shard)


def format_of(record: Record) -> str:
    """Name the format of a record's image."""
    return sniff(record.image[:HEAD_BYTES]) or "unknown"
