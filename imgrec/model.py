"""The values that flow through a pack: from the catalog of a source to the shards to write.

All are immutable. Whatever there is one of per image is kept by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from imgrec.blob import Blob
from imgrec.errors import PlanError
from imgrec.near.duplicates import NearDuplicates, NearPairs
from imgrec.notes import Note, Noted, NoteKind, Notes, ignored_files, warnings_of
from imgrec.options import Check, ColumnKind, ShrinkOptions
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.text import printable

T = TypeVar("T")

FORMAT = 1
"""Version of the dataset directory; part of every fingerprint."""
TRAIN, VAL, TEST = "train", "val", "test"
FOLD = "fold_"
UNLABELLED = -1
"""The label of an image of which no class is known."""
_MOST_DIGITS = 20
"""Longer numbers do not count folds: names of splits in a dataset may be anything."""

Label: TypeAlias = int | tuple[int, ...]
"""What an image is labelled with: one label, or all of several."""


def known_label(label: Label, split: str) -> Label | None:
    """Return a label; None for an image without one, which no other label contradicts.

    Where an image may have several labels, having none of them says something too: that it is of
    no class. Only in test does it mean that nobody has told.
    """
    return None if label == UNLABELLED or (label == () and split == TEST) else label


def split_order(split: str) -> tuple[int, str]:
    """Sort key of splits: train, the folds by number, val, test.

    >>> sorted(["test", "fold_10", "fold_2", "val", "train"], key=split_order)
    ['train', 'fold_2', 'fold_10', 'val', 'test']
    """
    number = split.removeprefix(FOLD)
    is_fold = split.startswith(FOLD) and number.isdecimal() and len(number) < _MOST_DIGITS
    fold = int(number) if is_fold else -1
    return {TRAIN: -1, VAL: 1 << 30, TEST: 1 << 31}.get(split, fold), split


class Sample(NamedTuple):
    """One image of a source: where its bytes are and what the source says of it."""

    filename: str
    """Posix path inside the source."""
    class_name: str
    """Its class, or "" if the source does not say."""
    split: str
    """The split the source puts it in, or "" where the source has none."""
    size: int
    content: bytes
    """Equal for two samples exactly when their bytes are; see `source.probe`."""
    blob: Blob


class Column(NamedTuple):
    """A column of the source that travels into the records: one value a sample."""

    name: str
    kind: ColumnKind
    values: tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples table: images by column, from the scan to the published dataset.

    Row i of each column is one sample. The first columns are the fields of `Sample`, in its order.
    A column that is not known, or not needed any more, is empty. The scan fills all columns but
    the last two, planning adds those and the final splits, a shard's task is a slice of the table,
    and its result has the rows that were packed. Tuples, since a million samples are planned twice
    as fast as objects, and names that are not UTF-8 do not fit into Arrow.
    """

    filenames: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    contents: tuple[bytes, ...] = ()
    blobs: tuple[Blob, ...] = ()
    groups: tuple[str, ...] = ()
    """What must stay in one split together, "" for nothing else; empty if there are no groups."""
    near: tuple[str, ...] = ()
    """The same for what looks alike."""
    pinned: tuple[str, ...] = ()
    """The split that each image must stay in, "" for any; empty if all are free."""
    class_sets: tuple[tuple[str, ...], ...] = ()
    """All classes of each image where one may have several; empty where each has one."""
    columns: tuple[Column, ...] = ()
    labels: tuple[int, ...] = ()
    """The label of each image; of several, the one by which it is put into a split."""
    label_sets: tuple[tuple[int, ...], ...] = ()
    """All labels of each image where one may have several; empty where each has one."""

    @classmethod
    def of(cls, rows: Iterable[Sample]) -> Samples:
        """Gather samples into columns."""
        return cls(*zip(*rows, strict=True))

    def __len__(self) -> int:
        return len(self.filenames)

    def pick(self, places: Sequence[int]) -> Samples:
        """Return the samples at `places`, in that order."""
        return self._each(lambda column: picked(column, places))

    def slice(self, start: int, stop: int) -> Samples:
        """Return the samples from `start` to `stop`."""
        return self._each(lambda column: column[start:stop])

    def _each(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Samples:
        """Change every column that is known."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        columns = found.pop("columns")
        changed = {name: change(column) for name, column in found.items() if column}
        named = [column._replace(values=change(column.values)) for column in columns]
        return Samples(**changed, columns=tuple(named))

    def to_write(self) -> Samples:
        """Return only the columns that a worker needs to write a shard."""
        return replace(
            self, class_names=(), splits=(), contents=(), near=(), pinned=(), class_sets=()
        )

    def written(self, places: Sequence[int]) -> Samples:
        """Return the samples at `places`, without where their bytes were."""
        return replace(self, blobs=(), sizes=()).pick(places)

    def count_classes(self) -> Counter[str]:
        """Count the images of each class."""
        if self.class_sets:
            return Counter(chain.from_iterable(self.class_sets))
        counts = Counter(self.class_names)
        del counts[""]
        return counts

    def classes(self) -> set[str]:
        """Return the classes that images have, with "" if one has none."""
        return {*self.class_names, *chain.from_iterable(self.class_sets)}

    def __iter__(self) -> Iterator[Sample]:
        columns = self.filenames, self.class_names, self.splits, self.sizes
        return map(Sample._make, zip(*columns, self.contents, self.blobs, strict=True))


def picked(column: Sequence[T], places: Sequence[int]) -> tuple[T, ...]:
    """Return the values of a column at `places`, in that order; none of an empty column."""
    if not column or len(places) < 2:
        return tuple([column[place] for place in places]) if column else ()
    # It takes a third of the time of a comprehension.
    values: tuple[T, ...] = itemgetter(*places)(column)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What predictions for a source must look like when they are handed in."""

    id_column: str = "id"
    """The name of the column of ids."""
    label_column: str = "label"
    """The name of the column of labels."""
    separator: str = " "
    """What parts several labels in a cell."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What the source itself writes for a class, where that is not its name."""
    sample: bytes = b""
    """The sample submission as CSV; b"" if there is none."""

    def named(self, label_of: Mapping[str, int], classes: Sequence[str]) -> Submission:
        """Return this with classes by their final names; one of several values has none."""
        found: dict[str, set[str]] = {}
        for name, label in label_of.items():
            if name:
                found.setdefault(classes[label], set()).add(self.values.get(name, name))
        values = {name: min(texts) for name, texts in sorted(found.items()) if len(texts) == 1}
        return replace(self, values={key: text for key, text in values.items() if key != text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(Noted):
    """All that a source holds, before anything is decided about it."""

    name: str
    """What the source calls itself: the folder's name."""
    layout: str
    samples: Samples
    class_folders: Mapping[str, tuple[str, ...]]
    """The folders of each class, by the class's name as it stands on disk."""
    class_order: tuple[str, ...] | None = None
    """Class names in the order of their labels, where the source itself fixes it."""
    earlier_classes: tuple[str, ...] = ()
    """Those of the dataset that `--split-from` names, in the order of their labels."""
    notes: Notes = ()
    near: NearPairs | None = None
    """Its near-duplicates; None if they were not looked for."""
    beyond_limit: int = 0
    """How many images `--limit-per-class` leaves out."""
    matched_globs: frozenset[str] = frozenset()
    """Those of `--include` and `--exclude` that are known to fit some file of the source."""
    submission: Submission | None = None
    """None if the source says nothing about predictions."""
    stamp: Stamp = NO_STAMP
    """Of the files in which the bytes of the samples are; never part of any output.

    Files that are read whole when they are listed need not be in it: their content decides about
    the plan.
    """
    homes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The device and inode of each folder that was walked, by its path."""

    def noted(self, notes: Iterable[Note]) -> Catalog:
        """Return this with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def warn(self, *warnings: str) -> Catalog:
        """Return this with more remarks about the whole source."""
        return self.noted(warnings_of(warnings))

    def keep(self, places: Sequence[int], bad: Iterable[Note], kind: str) -> Catalog:
        """Return a catalog of the samples at `places` and of the bad files that are to stay.

        What is left out is counted as ignored, by `kind`. A class that loses all of its samples
        is gone. Raises PlanError if nothing is left.
        """
        stay, kept = tuple(bad), set(places)
        left_out = [name for at, name in enumerate(self.samples.filenames) if at not in kept]
        left_out += [file.filename for file in set(self.bad).difference(stay)]
        if not left_out:
            return self
        samples = self.samples.pick(places)
        if not samples:
            example = min(self.samples.filenames, default="") or left_out[0]
            raise PlanError(
                f"nothing is left to pack: everything is {kind}",
                hint=f"leave out less of it; one of the files is {printable(example)}",
            )
        # A class without samples may have bad ones still, so it goes only with the last of those.
        gone = self.samples.classes() if stay else set(self.class_folders)
        gone -= samples.classes()
        folders = {name: where for name, where in self.class_folders.items() if name not in gone}
        others = [note for note in self.notes if note.kind is not NoteKind.BAD]
        notes = (*stay, *others, *ignored_files(kind, sorted(left_out)))
        return replace(self, samples=samples, class_folders=folders, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard to write: a slice of the samples table, and no bytes."""

    split: str
    index: int
    filename: str
    expected_bytes: int
    """The most that the shard takes if every image is packed as it is."""
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is to be packed, in sum."""

    count: int
    labels: Mapping[str, Collection[int]]
    """The labels that the images of each split are to have."""
    columns: tuple[tuple[str, ColumnKind], ...]
    is_multilabel: bool


def labels_by_split(tasks: Iterable[ShardTask]) -> dict[str, set[int]]:
    """Return the labels that the images of each split are to have."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.split, set()).update(
            *(task.samples.label_sets or (task.samples.labels,))
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Noted):
    """Everything that is decided before the first byte is written."""

    name: str
    version: str
    source: str
    layout: str
    classes: tuple[str, ...]
    tasks: tuple[ShardTask, ...]
    check: Check
    shrink_to: ShrinkOptions | None
    fingerprint: str
    notes: Notes
    near_duplicates: NearDuplicates | None
    """None if they were not looked for."""
    options: Mapping[str, object]
    """The options behind this plan, as plain values for the report."""
    submission: Submission | None = None
    """As in `Catalog`."""
    beyond_limit: int = 0
    """As in `Catalog`."""
    refused_with: int = 0
    """The exit code with which pack would refuse this; 0 if it would not."""

    @property
    def planned(self) -> int:
        """Count the images that are to be packed."""
        return sum(len(task.samples.filenames) for task in self.tasks)

    def sum_up(self) -> Planned:
        """Return what is to be packed, in sum."""
        return Planned(
            count=self.planned,
            labels=labels_by_split(self.tasks),
            columns=tuple(
                (column.name, column.kind)
                for task in self.tasks[:1]
                for column in task.samples.columns
            ),
            is_multilabel=any(task.samples.label_sets for task in self.tasks[:1]),
        )
