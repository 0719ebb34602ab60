"""Find images that a dataset or a source has twice, or that are also in another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128_digest

from imgrec.codec import descriptor
from imgrec.errors import BadImage, UsageError
from imgrec.inspect.contact_sheet import (
    Captioned,
    draw_contact_sheet,
    encode_sheet,
    refuse_other_formats,
)
from imgrec.inspect.subject import (
    ImagePlace,
    InDataset,
    InSource,
    Job,
    RecordBatch,
    find_subject,
    open_dataset,
    record_batches,
    scan_for,
)
from imgrec.model import TRAIN, Catalog
from imgrec.near import duplicates
from imgrec.near.search import DISTANCE, MAX_DISTANCE, Search, find_pairs
from imgrec.options import SourceOptions
from imgrec.read.dataset import Dataset
from imgrec.read.shards import refuse_impossible
from imgrec.source.image_pass import look_at
from imgrec.storage.named_files import refuse_no_file, write_out

_SHEET_PAIRS = 50
_SHEET_ACROSS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compare, and how."""

    what: str
    """A dataset, by name or path; or a source."""
    against: str = ""
    """A dataset or source to compare it with; empty compares it with itself."""
    data_dir: str = ""
    source: SourceOptions = field(default_factory=SourceOptions)
    """How to read `what` if it is a source."""
    distance: float = DISTANCE
    sheet: str = ""
    """ImagePlace to write a contact sheet of the pairs, as PNG, JPEG or WebP by its extension."""

    def __post_init__(self) -> None:
        if isinstance(self.distance, bool) or not isinstance(self.distance, int | float):
            raise UsageError(f"distance cannot be {self.distance!r}", hint="give a number")
        if not 0 <= self.distance <= MAX_DISTANCE:
            raise UsageError(
                f"--distance {self.distance:g} is out of range",
                hint=f"give a number from 0 to {MAX_DISTANCE:g}, such as {DISTANCE:g}",
            )
        refuse_no_file(self.sheet, "pairs.png")
        refuse_other_formats(self.sheet)


class Kind(StrEnum):
    """The relation of two near-duplicates, the worst first."""

    AGAINST = "against"
    """One is in the other dataset."""
    SPLITS = "across splits"
    CLASSES = "across classes"
    WITHIN = "within"


_ORDER = {kind: place for place, kind in enumerate(Kind)}


class LeakedImage(NamedTuple):
    """One image of a pair."""

    name: str
    split: str
    """Empty where there are no splits."""
    labels: tuple[str, ...]
    where: ImagePlace


class LeakPair(NamedTuple):
    """Two images that look alike."""

    kind: Kind
    first: LeakedImage
    second: LeakedImage
    distance: float
    """In thousandths: see `near.search`."""
    is_mirrored: bool
    is_exact: bool
    """True if they have the same bytes."""

    def order(self) -> tuple[object, ...]:
        """Return the sort key: the worst and nearest first."""
        named = self.first.name, self.second.name, self.first.split, self.second.split
        return _ORDER[self.kind], not self.is_exact, self.distance, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """The pairs found in a dataset or source, or between two of them."""

    name: str
    """The dataset or source."""
    version: str
    """Empty for a source."""
    against: str
    """The other dataset or source; empty if there was none."""
    images: int
    flat: int
    """Images with too little content to compare: only exact copies of them are found."""
    unreadable: int
    distance: float
    pairs: tuple[LeakPair, ...]
    """Sorted. Of equal images, each is paired with the first.

    Every image with a near-duplicate in another split, or of another class, is in such a pair.
    """
    sheet: str = ""
    """The path of the contact sheet; empty if there is none."""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """Return the name and version."""
        return _title(self.name, self.version)

    def of(self, kind: Kind) -> list[LeakPair]:
        """Return the pairs of one kind."""
        return [pair for pair in self.pairs if pair.kind is kind]

    @property
    def is_leaking(self) -> bool:
        """Tell whether an image is in two splits, or in the other dataset."""
        return any(pair.kind in (Kind.AGAINST, Kind.SPLITS) for pair in self.pairs)


def _title(name: str, version: str) -> str:
    return f"{name} {version}".strip()


def find_leaks(request: Request, job: Job, spool: str) -> Leaks:
    """Compare images as asked. Archives are unpacked to folders in `spool`."""
    started = time.monotonic()
    read = _reader(request.what, request.source, request.data_dir)
    if request.against:
        read_others = _reader(request.against, SourceOptions(), request.data_dir)
        images, others = (
            one(job, os.path.join(spool, str(number)))
            for number, one in enumerate((read, read_others))
        )
        pairs = _pairs_between(images, others, request.distance, job)
        against = _title(others.name, others.version)
    else:
        images, against = read(job, spool), ""
        pairs = _pairs_within(images, request.distance, job)
    pairs.sort(key=LeakPair.order)
    sheet = request.sheet if pairs else ""
    if sheet:
        write_out(sheet, encode_sheet(_draw_sheet(pairs[:_SHEET_PAIRS], job), sheet))
    return Leaks(
        name=images.name,
        version=images.version,
        against=against,
        images=len(images.names),
        flat=duplicates.count_flat(images.signatures) - images.unreadable,
        unreadable=images.unreadable + images.bad,
        distance=request.distance,
        pairs=tuple(pairs),
        sheet=sheet,
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Images:
    """Images by column."""

    name: str
    """The dataset or source."""
    version: str = ""
    names: Sequence[str]
    splits: Sequence[str]
    """Empty texts where there are no splits."""
    labels: Sequence[tuple[str, ...]]
    """The classes of each image."""
    hashes: Sequence[bytes]
    """XXH3 of the bytes of each; b"" for a file that could not be read."""
    signatures: bytes
    where: Callable[[int], ImagePlace]
    """Returns the place of an image, by its row."""
    unreadable: int
    """Images that could not be decoded: only exact copies of them are found."""
    bad: int = 0
    """Files that the scan already found not to be images."""


_Reader: TypeAlias = Callable[[Job, str], _Images]
"""Reads all images, given a folder to unpack archives to."""


def _reader(what: str, options: SourceOptions, data_dir: str) -> _Reader:
    subject = find_subject(what, options, data_dir)
    if isinstance(subject, Path):
        return lambda job, _spool: _images_of_dataset(subject, job)
    return lambda job, spool: _images_of_source(scan_for(job, subject, options, spool), what, job)


def _images_of_source(catalog: Catalog, source: str, job: Job) -> _Images:
    samples = catalog.samples
    looks = look_at(samples, job.run, lambda done, total: job.progress("look", done, total))
    is_split = any(samples.splits)
    return _Images(
        name=source,
        names=samples.filenames,
        splits=[split or TRAIN for split in samples.splits] if is_split else samples.splits,
        labels=samples.class_sets or [(name,) if name else () for name in samples.class_names],
        hashes=looks.hashes,
        signatures=looks.signatures,
        unreadable=looks.pixels.count(0),
        where=lambda at: InSource(samples.blobs[at], samples.sizes[at], samples.filenames[at]),
        bad=len(catalog.bad),
    )


class _Records(NamedTuple):
    """Some records of a dataset by column."""

    start: int
    names: list[str]
    labels: list[tuple[str, ...]]
    hashes: list[bytes]
    signatures: bytes
    unreadable: int


def _images_of_dataset(folder: Path, job: Job) -> _Images:
    info = Dataset(folder).info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: dict[int, _Records] = {}
    for records in job.run(_read_batch, list(record_batches(info))):
        found[records.start] = records
        job.progress("look", len(records.names), count)
    parts = [found[start] for start in sorted(found)]
    names = [name for part in parts for name in part.names]
    return _Images(
        name=info.name,
        version=info.version,
        names=[name or f"record {number}" for number, name in enumerate(names)],
        splits=[split.name for split in info.splits for _ in range(split.examples)],
        labels=[labels for part in parts for labels in part.labels],
        hashes=[value for part in parts for value in part.hashes],
        signatures=b"".join([part.signatures for part in parts]),
        unreadable=sum(part.unreadable for part in parts),
        where=lambda number: InDataset(info.path, number),
    )


def _read_batch(batch: RecordBatch) -> _Records:
    names, labels, hashes = [], [], []
    sketches: list[descriptor.Sketch | None] = []
    for record in open_dataset(batch.folder).read_all(range(batch.start, batch.stop)):
        names.append(record.filename)
        labels.append(record.class_names)
        hashes.append(xxh3_128_digest(record.image))
        try:
            sketches.append(descriptor.sketch(record.image, record.filename))
        except BadImage:
            sketches.append(None)
    signatures = descriptor.encode(sketches)
    return _Records(batch.start, names, labels, hashes, signatures, sketches.count(None))


def _pairs_within(images: _Images, distance: float, job: Job) -> list[LeakPair]:
    """Compare all images with each other."""
    # A file that could not be read has no hash, and is like no other.
    contents = [value or b"%d" % place for place, value in enumerate(images.hashes)]
    known = duplicates.Images(images.names, contents, images.signatures)
    found = duplicates.find_similar(known, distance, job.run)
    sides = (images.splits, [frozenset(labels) or None for labels in images.labels])
    pairs = []
    for first, second, apart, is_mirrored in chain(found.pairs(), *map(found.pairs_across, sides)):
        one, other = _image(images, first), _image(images, second)
        is_exact = contents[first] == contents[second]
        pairs.append(LeakPair(_kind(one, other), one, other, apart, is_mirrored, is_exact))
    return pairs


def _pairs_between(images: _Images, others: _Images, distance: float, job: Job) -> list[LeakPair]:
    """Find the images that are among others as well, each with the nearest of them."""
    pairs = dict(_nearest(images, others, distance, job))
    pairs |= dict(_exact(images, others))
    return list(pairs.values())


def _nearest(
    images: _Images, others: _Images, distance: float, job: Job
) -> Iterator[tuple[int, LeakPair]]:
    """Yield pairs by the row of their first image; the last pair of each is the nearest."""
    [edges] = job.run(find_pairs, [Search(images.signatures, distance, others.signatures)])
    rows = sorted(edges, key=lambda pair: (pair.first, -pair.distance, -pair.second))
    for first, second, apart, is_mirrored in rows:
        one, other = _image(images, first), _image(others, second)
        yield (
            first,
            LeakPair(Kind.AGAINST, one, other, round(apart, 3), is_mirrored, is_exact=False),
        )


def _exact(images: _Images, others: _Images) -> Iterator[tuple[int, LeakPair]]:
    """Yield the images whose bytes are among others, with the first of those."""
    theirs = {value: place for place, value in reversed(list(enumerate(others.hashes)))}
    theirs.pop(b"", None)
    for place, value in enumerate(images.hashes):
        if value in theirs:
            one, other = _image(images, place), _image(others, theirs[value])
            yield place, LeakPair(Kind.AGAINST, one, other, 0.0, is_mirrored=False, is_exact=True)


def _image(images: _Images, place: int) -> LeakedImage:
    return LeakedImage(
        images.names[place], images.splits[place], images.labels[place], images.where(place)
    )


def _kind(one: LeakedImage, other: LeakedImage) -> Kind:
    if one.split != other.split:
        return Kind.SPLITS
    # An image without a label contradicts none.
    are_labelled = one.labels and other.labels
    differ = are_labelled and set(one.labels) != set(other.labels)
    return Kind.CLASSES if differ else Kind.WITHIN


def _draw_sheet(pairs: Sequence[LeakPair], job: Job) -> bytes:
    """Return a PNG of pairs, each with files, splits, labels and distance."""
    shown = [(_captioned(pair.first, _caption(pair)), _captioned(pair.second)) for pair in pairs]
    return draw_contact_sheet(shown, _SHEET_ACROSS, job)


def _captioned(image: LeakedImage, caption: str = "") -> Captioned:
    split_and_labels = " ".join(filter(None, (image.split, *image.labels)))
    return Captioned(image.where, (image.name, split_and_labels, caption))


def _caption(pair: LeakPair) -> str:
    if pair.is_exact:
        return f"{pair.kind}: the same file"
    return f"{pair.kind}: {pair.distance:.1f}" + (", mirrored" if pair.is_mirrored else "")
