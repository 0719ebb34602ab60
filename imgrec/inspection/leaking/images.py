"""What all images of a packed dataset, or of a source, look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec import phash
from imgrec.errors import BadImage
from imgrec.inspection.job import Job
from imgrec.inspection.possible import refuse_impossible
from imgrec.inspection.where import InDataset, InSource, Where, opened
from imgrec.model import TRAIN, Catalog
from imgrec.read.dataset import Dataset
from imgrec.source.near_dups import look_at

_BATCH = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images by column."""

    name: str
    """What they are the images of: a dataset or a source."""
    version: str = ""
    """That of the dataset; empty for a source."""
    names: Sequence[str]
    splits: Sequence[str]
    """Empty for all where there are none."""
    labels: Sequence[tuple[str, ...]]
    """The classes of each; empty for one without."""
    hashes: Sequence[bytes]
    """Of the bytes of each; b"" where there are none to be read."""
    signatures: bytes
    where: Callable[[int], Where]
    """Tells where the bytes of an image are."""
    unreadable: int
    """How many of them cannot be decoded: they are compared to the byte."""
    bad: int = 0
    """Files that are known to be no images before they are looked at."""


def images_of_source(catalog: Catalog, source: str, job: Job) -> Images:
    """Look at all images of a source."""
    samples = catalog.samples
    looks = look_at(samples, job.run, lambda done, total: job.tell("look", done, total))
    is_split = any(samples.splits)
    return Images(
        name=source,
        names=samples.filenames,
        splits=[split or TRAIN for split in samples.splits] if is_split else samples.splits,
        labels=samples.label_sets or [(name,) if name else () for name in samples.class_names],
        hashes=looks.hashes,
        signatures=looks.signatures,
        unreadable=looks.pixels.count(0),
        where=lambda at: InSource(samples.blobs[at], samples.sizes[at], samples.filenames[at]),
        bad=len(catalog.bad),
    )


class _Records(NamedTuple):
    """Some records of a dataset, as a worker gets them."""

    folder: str
    start: int
    stop: int


class _Looks(NamedTuple):
    """What some records look like."""

    start: int
    names: list[str]
    labels: list[tuple[str, ...]]
    hashes: list[bytes]
    signatures: bytes
    unreadable: int


def images_of_dataset(folder: Path, job: Job) -> Images:
    """Look at all images of a packed dataset; raise DatasetError if it cannot be read."""
    dataset = Dataset(folder)
    info = dataset.info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: dict[int, _Looks] = {}
    for looks in job.run(_look, list(_batches(dataset, str(folder)))):
        found[looks.start] = looks
        job.tell("look", len(looks.names), count)
    parts = [found[start] for start in sorted(found)]
    names = [name for part in parts for name in part.names]
    splits = [split.name for split in info.splits for _ in range(split.examples)]
    return Images(
        name=info.name,
        version=info.version,
        names=[name or f"record {number}" for number, name in enumerate(names)],
        splits=splits,
        labels=[labels for part in parts for labels in part.labels],
        hashes=[value for part in parts for value in part.hashes],
        signatures=b"".join([part.signatures for part in parts]),
        unreadable=sum(part.unreadable for part in parts),
        where=lambda number: InDataset(str(folder), number),
    )


def _batches(dataset: Dataset, folder: str) -> Iterator[_Records]:
    """Yield the records of each shard, many at once; all of a compressed one, read in order."""
    start = 0
    for length in [length for split in dataset.info.splits for length in split.shard_lengths]:
        step = length if dataset.info.compression else _BATCH
        for first in range(start, start + length, max(step, 1)):
            yield _Records(folder, first, min(first + step, start + length))
        start += length


def _look(records: _Records) -> _Looks:
    names, labels, hashes = [], [], []
    sketches: list[phash.Sketch | None] = []
    for record in opened(records.folder).read_all(range(records.start, records.stop)):
        names.append(record.filename)
        labels.append(record.class_names)
        hashes.append(xxh3_128_digest(record.image))
        try:
            sketches.append(phash.sketch(record.image, record.filename))
        except BadImage:
            sketches.append(None)
    signatures = phash.encode(sketches)
    return _Looks(records.start, names, labels, hashes, signatures, sketches.count(None))
