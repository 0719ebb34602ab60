"""All images that a report tells of, by column."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

from imgrec.codec.tone import UNKNOWN, Tone, tone_at
from imgrec.inspection.where import InSource, Where
from imgrec.model import Samples, ShardTask
from imgrec.outcome import ShardResult


class Span(NamedTuple):
    """The images of one split, which follow each other."""

    split: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTable:
    """Images by column: a million rows stay small."""

    names: Sequence[str]
    spans: tuple[Span, ...]
    labels: Sequence[int]
    label_sets: Sequence[Sequence[int]]
    """All labels of each image, where one may have several; else empty."""
    shapes: array[int]
    """Height, width and channels of image i at 3i, 3i+1 and 3i+2."""
    formats: Sequence[str]
    sizes: array[int]
    """Bytes of each record."""
    orientations: bytes
    """As in `RecordTable`."""
    tones: bytes
    """As in `RecordTable`; empty if none is known."""
    where: Callable[[int], Where]
    """Tells where the bytes of an image are."""
    others: Callable[[str], Where | None] = lambda _name: None
    """Tells where a file is that is not among the images, by its name; None if nobody knows."""

    def __len__(self) -> int:
        return len(self.names)

    def split_of(self, place: int) -> str:
        """Name the split that an image is in."""
        return next(span.split for span in self.spans if place < span.stop)

    def labels_of(self, place: int) -> Sequence[int]:
        """Return the labels of an image; none if it has none."""
        if self.label_sets:
            return self.label_sets[place]
        return (self.labels[place],) if self.labels[place] >= 0 else ()

    def shape_of(self, place: int) -> tuple[int, int, int]:
        """Return height, width and channels of an image."""
        height, width, channels = self.shapes[3 * place : 3 * place + 3]
        return height, width, channels

    def tone_of(self, place: int) -> Tone | None:
        """Tell how bright an image is, if that is known."""
        return tone_at(self.tones, place)


def spans_of(lengths: Iterator[tuple[str, int]]) -> Iterator[Span]:
    """Join the images of what follows each other and is of one split."""
    counts: dict[str, int] = {}
    for split, length in lengths:
        counts[split] = counts.get(split, 0) + length
    start = 0
    for split, count in counts.items():
        yield Span(split, start, start + count)
        start += count


def table_of_results(
    results: Sequence[ShardResult], tasks: Sequence[ShardTask], samples: Samples
) -> ImageTable:
    """Gather what writing the shards of a plan, or examining them, has shown.

    `samples` are all images of the source, packed or not.
    """
    records = [result.records for result in results]
    ends = list(accumulate(len(part.filenames) for part in records))
    tones = [part.tones or UNKNOWN * len(part.filenames) for part in records]

    def where(place: int) -> Where:
        shard = bisect_right(ends, place)
        task, names = tasks[shard], records[shard].filenames
        name = names[place - ends[shard] + len(names)]
        at = task.filenames.index(name)
        return InSource(task.blobs[at], task.sizes[at], name)

    found: dict[str, int] = {}

    def others(name: str) -> Where | None:
        if not found:
            found.update((each, at) for at, each in enumerate(samples.filenames))
        at = found.get(name)
        return None if at is None else InSource(samples.blobs[at], samples.sizes[at], name)

    return ImageTable(
        names=list(chain.from_iterable(part.filenames for part in records)),
        spans=tuple(spans_of((r.split, len(r.records.filenames)) for r in results)),
        labels=_joined("q", (part.labels for part in records)),
        label_sets=list(chain.from_iterable(part.label_sets for part in records)),
        shapes=_joined("I", (part.shapes for part in records)),
        formats=list(chain.from_iterable(part.formats for part in records)),
        sizes=_joined("Q", (part.lengths for part in records)),
        orientations=b"".join([part.orientations for part in records]),
        tones=b"".join(tones) if any(part.tones for part in records) else b"",
        where=where,
        others=others,
    )


def _joined(kind: str, parts: Iterator[array[int]]) -> array[int]:
    whole: array[int] = array(kind)
    for part in parts:
        whole.extend(part)
    return whole


def places_of(table: ImageTable, names: set[str]) -> Mapping[str, int]:
    """Return where some images are in the table, by their names; the first of equal ones."""
    found: dict[str, int] = {}
    for place, name in enumerate(table.names):
        if name in names:
            found.setdefault(name, place)
    return found
