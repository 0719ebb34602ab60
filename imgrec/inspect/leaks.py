"""Find images that a dataset or a source has twice, or that are also in another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import NamedTuple

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
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.build import choose_limited
from imgrec.read.dataset import Dataset
from imgrec.read.shards import refuse_impossible
from imgrec.source.image_pass import read_signatures
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
    """Where to write a contact sheet of the pairs, as PNG, JPEG or WebP by its extension."""

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
        return [*Kind].index(self.kind), not self.is_exact, self.distance, named


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
        return f"{self.name} {self.version}".strip()

    def of(self, kind: Kind) -> list[LeakPair]:
        """Return the pairs of one kind."""
        return [pair for pair in self.pairs if pair.kind is kind]

    @property
    def is_leaking(self) -> bool:
        """Return whether an image is in two splits, or in the other dataset."""
        return any(pair.kind in (Kind.AGAINST, Kind.SPLITS) for pair in self.pairs)


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
    place_of: Callable[[int], ImagePlace]
    """Returns the place of an image, by its row."""
    unreadable: int
    """Images that could not be decoded: only exact copies of them are found."""
    bad: int = 0
    """Files that the scan already found not to be images."""

    def image(self, row: int) -> LeakedImage:
        return LeakedImage(self.names[row], self.splits[row], self.labels[row], self.place_of(row))


def find_leaks(request: Request, job: Job, spool: str) -> Leaks:
    """Compare images as asked. Archives are unpacked to folders in `spool`."""
    started = time.monotonic()
    # Find both before reading either, so that a wrong name is reported at once.
    read = _reader(request.what, request.source, request.data_dir)
    if request.against:
        read_others = _reader(request.against, SourceOptions(), request.data_dir)
        images = read(job, os.path.join(spool, "0"))
        others = read_others(job, os.path.join(spool, "1"))
        pairs = _pairs_between(images, others, request.distance, job)
        against = f"{others.name} {others.version}".strip()
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


def _reader(what: str, options: SourceOptions, data_dir: str) -> Callable[[Job, str], _Images]:
    """Return a function that reads all images, given a folder to unpack archives to."""
    subject = find_subject(what, options, data_dir)
    if isinstance(subject, Path):
        return lambda job, _spool: _images_of_dataset(subject, job)
    return lambda job, spool: _images_of_source(
        choose_limited(scan_for(job, subject, options, spool), options, PackOptions().seed),
        what,
        job,
    )


def _images_of_source(catalog: Catalog, source: str, job: Job) -> _Images:
    samples = catalog.samples
    looks = read_signatures(samples, job.run, lambda done, total: job.progress("look", done, total))
    is_split = any(samples.splits)
    return _Images(
        name=source,
        names=samples.filenames,
        splits=[split or TRAIN for split in samples.splits] if is_split else samples.splits,
        labels=samples.class_sets or [(name,) if name else () for name in samples.class_names],
        hashes=looks.hashes,
        signatures=looks.signatures,
        unreadable=looks.pixels.count(0),
        place_of=lambda at: InSource(samples.blobs[at], samples.sizes[at], samples.filenames[at]),
        bad=len(catalog.bad),
    )


class _Batch(NamedTuple):
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
    found: list[_Batch] = []
    for batch in job.run(_read_batch, list(record_batches(info))):
        found.append(batch)
        job.progress("look", len(batch.names), count)
    found.sort(key=lambda batch: batch.start)
    names = chain.from_iterable(batch.names for batch in found)
    return _Images(
        name=info.name,
        version=info.version,
        names=[name or f"record {number}" for number, name in enumerate(names)],
        splits=[split.name for split in info.splits for _ in range(split.examples)],
        labels=[labels for batch in found for labels in batch.labels],
        hashes=[value for batch in found for value in batch.hashes],
        signatures=b"".join([batch.signatures for batch in found]),
        unreadable=sum(batch.unreadable for batch in found),
        place_of=lambda number: InDataset(info.path, number),
    )


def _read_batch(batch: RecordBatch) -> _Batch:
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
    return _Batch(batch.start, names, labels, hashes, signatures, sketches.count(None))


def _pairs_within(images: _Images, distance: float, job: Job) -> list[LeakPair]:
    """Compare all images with each other."""
    # A file that could not be read has no hash, and equals no other.
    contents = [value or b"%d" % row for row, value in enumerate(images.hashes)]
    known = duplicates.Images(images.names, contents, images.signatures)
    found = duplicates.find_similar(known, distance, job.run)
    sides = (images.splits, [frozenset(labels) or None for labels in images.labels])
    pairs = []
    for first, second, apart, is_mirrored in chain(found.pairs(), *map(found.pairs_across, sides)):
        one, other = images.image(first), images.image(second)
        is_exact = contents[first] == contents[second]
        pairs.append(LeakPair(_kind(one, other), one, other, apart, is_mirrored, is_exact))
    return pairs


def _kind(one: LeakedImage, other: LeakedImage) -> Kind:
    if one.split != other.split:
        return Kind.SPLITS
    # An image without a label contradicts none.
    are_labelled = one.labels and other.labels
    differ = are_labelled and set(one.labels) != set(other.labels)
    return Kind.CLASSES if differ else Kind.WITHIN


def _pairs_between(images: _Images, others: _Images, distance: float, job: Job) -> list[LeakPair]:
    """Find the images that are among others too: each with an equal one, else the nearest."""
    pairs: dict[int, LeakPair] = {}
    [edges] = job.run(find_pairs, [Search(images.signatures, distance, others.signatures)])
    # The nearest comes last, and replaces the others.
    for edge in sorted(edges, key=lambda edge: (edge.first, -edge.distance, -edge.second)):
        one, other = images.image(edge.first), others.image(edge.second)
        apart = round(edge.distance, 3)
        is_mirrored = edge.is_mirrored
        pairs[edge.first] = LeakPair(Kind.AGAINST, one, other, apart, is_mirrored, is_exact=False)
    first_rows = {value: row for row, value in reversed(list(enumerate(others.hashes))) if value}
    for row, value in enumerate(images.hashes):
        if value in first_rows:
            one, other = images.image(row), others.image(first_rows[value])
            pairs[row] = LeakPair(Kind.AGAINST, one, other, 0.0, is_mirrored=False, is_exact=True)
    return list(pairs.values())


def _draw_sheet(pairs: Sequence[LeakPair], job: Job) -> bytes:
    """Return a PNG of pairs, each with files, splits, labels and distance."""
    groups = []
    for pair in pairs:
        how = "the same file" if pair.is_exact else f"{pair.distance:.1f}"
        how += ", mirrored" if pair.is_mirrored else ""
        captions = (f"{pair.kind}: {how}", "")
        groups.append(
            tuple(
                Captioned(
                    image.where,
                    (image.name, " ".join(filter(None, (image.split, *image.labels))), caption),
                )
                for image, caption in zip((pair.first, pair.second), captions, strict=True)
            )
        )
    return draw_contact_sheet(groups, _SHEET_ACROSS, job)
