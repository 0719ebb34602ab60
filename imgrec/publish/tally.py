"""The sum of what all shards of a dataset say, gathered from one after the other.

Of a hundred million images, no more is kept in memory than what must be named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from imgrec.layout import twin_filename
from imgrec.model import split_order
from imgrec.notes import NoteCollector
from imgrec.outcome import RecordTable, ShardResult, SplitInfo
from imgrec.storage.files import Seal


@dataclass(slots=True)
class _Split:
    lengths: list[int] = field(default_factory=list)
    num_bytes: int = 0
    labels: Counter[int] = field(default_factory=Counter)
    twin_bytes: Counter[str] = field(default_factory=Counter)
    """By the format of the twins."""
    seals: list[Seal] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What the shards that were added say together."""

    also: tuple[str, ...] = ()
    """The formats in which records are, too."""
    source_bytes: int = 0
    plain_bytes: int = 0
    notes: NoteCollector = field(default_factory=lambda: NoteCollector({}))
    sides: tuple[set[int], set[int], set[int]] = field(
        default_factory=lambda: (set(), set(), set())
    )
    """All heights, all widths and all numbers of channels."""
    _splits: dict[str, _Split] = field(default_factory=dict)

    def add(self, result: ShardResult) -> None:
        """Add a shard; those of a split come in their order."""
        split = self._splits.setdefault(result.split, _Split())
        split.lengths.append(len(result.records.samples.filenames))
        split.num_bytes += result.size
        split.labels.update(_all_labels(result.records))
        twins = {twin_filename(result.filename, also): also for also in self.also}
        for filename, size, _ in result.beside:
            if filename in twins:
                split.twin_bytes[twins[filename]] += size
        own = Seal(result.filename, result.size, result.sha256)
        split.seals += [own, *map(Seal._make, result.beside)]
        self.source_bytes += result.source_bytes
        self.plain_bytes += result.plain_size
        self.notes.add(result.notes)
        for axis, sizes in enumerate(self.sides):
            sizes.update(result.records.shapes[axis::3])

    def splits(self, classes: Sequence[str]) -> Iterator[SplitInfo]:
        """Yield the splits that hold records."""
        for name in self._filled():
            split = self._splits[name]
            yield SplitInfo(
                name=name,
                shard_lengths=tuple(split.lengths),
                num_bytes=split.num_bytes,
                class_counts=tuple(split.labels[label] for label in range(len(classes))),
            )

    def _filled(self) -> list[str]:
        filled = [name for name, split in self._splits.items() if any(split.lengths)]
        return sorted(filled, key=split_order)

    def packed(self) -> set[tuple[str, int]]:
        """Return each split with each label that some of its records have."""
        return {(name, label) for name, split in self._splits.items() for label in split.labels}

    def seals(self) -> Iterator[Seal]:
        """Yield the seals of the files of all splits that hold records."""
        return chain.from_iterable(self._splits[name].seals for name in self._filled())

    def idle_seals(self) -> Iterator[Seal]:
        """Yield those of splits in which every image was bad."""
        empty = self._splits.keys() - set(self._filled())
        return chain.from_iterable(self._splits[name].seals for name in empty)

    def twin_bytes(self, also: str) -> dict[str, int]:
        """Return the bytes of the twins of each split."""
        return {name: self._splits[name].twin_bytes[also] for name in self._filled()}


def tallied(results: Iterable[ShardResult], also: Iterable[str]) -> Tally:
    """Return what shards, in the order of the plan, say together."""
    tally = Tally(also=tuple(also))
    for result in results:
        tally.add(result)
    return tally


def _all_labels(records: RecordTable) -> Iterable[int]:
    return (
        chain.from_iterable(records.samples.label_sets)
        if records.samples.label_sets
        else records.samples.labels
    )
