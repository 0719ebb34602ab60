"""The values that flow through a pack: from the catalog of a source to the tasks of its shards.

All are immutable. Values per image are kept by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from imgrec.errors import PlanError
from imgrec.near.clusters import NearDuplicates, NearPairs
from imgrec.notes import Note, Noted, NoteKind, Notes, ignored_files, warnings_of
from imgrec.options import Check, ColumnKind, ShrinkOptions, SourceKind
from imgrec.stamp import NO_STAMP, Stamp
from imgrec.text import number, printable

T = TypeVar("T")

FORMAT = 1
"""Version of the dataset directory; part of every fingerprint."""
TRAIN, VAL, TEST = "train", "val", "test"
FOLD = "fold_"
ARCHIVE_OF = "archive of "
"""How the text of a layout begins if it was found in an archive."""
UNLABELLED = -1
"""The label of an image without a known class."""
_MOST_DIGITS = 20
"""A name with a longer number is not a fold: splits of a dataset may have any name."""

Label: TypeAlias = int | tuple[int, ...]
"""One label, or all labels of an image that may have several."""

Slice: TypeAlias = tuple[str, int]
"""Path and offset of uncompressed bytes in a larger file: in a tar, or in a spool.

A plain tuple: there may be a million, and pickling named tuples takes three times as long.
"""


class ZipMember(NamedTuple):
    """A member of a zip file, stored or deflated."""

    path: str
    header_offset: int
    """The offset of its local header."""
    packed_size: int
    method: int
    crc32: int


class Pixels(NamedTuple):
    """Uncompressed 8-bit pixels, which are packed as PNG."""

    path: str
    offset: int
    height: int
    width: int
    channels: int
    is_planar: bool
    """One channel after the other, as in CIFAR, instead of pixel by pixel."""


class Stored(NamedTuple):
    """A record of an earlier version of the dataset. Its image is packed again as it is."""

    folder: str
    """The folder of that version."""
    number: int
    """Of the record, counted through all splits."""
    format: str
    """How the stored image is encoded."""
    content: bytes
    """The XXH3 (128 bits) of the file that it was made of."""


Blob: TypeAlias = str | Slice | ZipMember | Pixels | Stored
"""Where the bytes of a sample are, for a worker to read as late as possible. A path is a whole
file. The size is kept beside it."""


def known_label(label: Label, split: str) -> Label | None:
    """Return a label, or None if it is unknown, so that no other label contradicts it.

    Where images may have several labels, having none is a label too: the image belongs to no class.
    Only in test does it mean that the labels are not published.
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
    """One image of a source."""

    filename: str
    """Posix path inside the source."""
    class_name: str
    """Its class, or "" if it is unknown."""
    split: str
    """Its split in the source, or "" if the source has none."""
    size: int
    content: bytes
    """Equal for two samples if and only if their bytes are; see `source.probe`."""
    blob: Blob


class Column(NamedTuple):
    """A column of the source that becomes a feature of the records: one value per sample."""

    name: str
    kind: ColumnKind
    values: tuple[int | float | str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples table, from the scan to the published dataset.

    Row i of each column is one sample. The first columns are the fields of `Sample`, in its order.
    A column that is unknown, or no longer needed, is empty. The scan fills all columns but the last
    two. Planning adds those and the final splits. A shard's task is a slice of the table, and its
    result has the rows that were packed. Columns are tuples: a million samples are planned twice as
    fast as objects, and Arrow does not hold names that are not UTF-8.
    """

    filenames: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    contents: tuple[bytes, ...] = ()
    blobs: tuple[Blob, ...] = ()
    groups: tuple[str, ...] = ()
    """Images of one group stay in one split; "" is not a group."""
    near: tuple[str, ...] = ()
    """The same for near-duplicates."""
    pinned: tuple[str, ...] = ()
    """The split that each image must stay in; "" for any."""
    class_sets: tuple[tuple[str, ...], ...] = ()
    """All classes of each image where one may have several; empty where each has one."""
    columns: tuple[Column, ...] = ()
    labels: tuple[int, ...] = ()
    """The label of each image; of several, the one that decides its split."""
    label_sets: tuple[tuple[int, ...], ...] = ()
    """All labels of each image where one may have several; empty where each has one."""
    checked: tuple[bytes, ...] = ()
    """For a JPEG that was decoded already, to its end and without a complaint: the XXH3 (128 bits)
    of its bytes, and its tone (`codec.tone`). b"" for other images."""

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
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        columns = values.pop("columns")
        changed = {name: change(column) for name, column in values.items() if column}
        named = [column._replace(values=change(column.values)) for column in columns]
        return Samples(**changed, columns=tuple(named))

    def to_write(self) -> Samples:
        """Return only the columns that a worker needs to write a shard."""
        return replace(
            self, class_names=(), splits=(), contents=(), near=(), pinned=(), class_sets=()
        )

    def written(self, places: Sequence[int]) -> Samples:
        """Return the samples at `places`, without what only writing them needs."""
        return replace(self, blobs=(), sizes=(), checked=()).pick(places)

    def count_classes(self) -> Counter[str]:
        """Count the images of each class."""
        if self.class_sets:
            return Counter(chain.from_iterable(self.class_sets))
        counts = Counter(self.class_names)
        del counts[""]
        return counts

    def classes(self) -> set[str]:
        """Return the classes of all images, with "" if one has none."""
        return {*self.class_names, *chain.from_iterable(self.class_sets)}

    def __iter__(self) -> Iterator[Sample]:
        columns = self.filenames, self.class_names, self.splits, self.sizes
        return map(Sample._make, zip(*columns, self.contents, self.blobs, strict=True))


def picked(column: Sequence[T], places: Sequence[int]) -> tuple[T, ...]:
    """Return the values of a column at `places`, in that order; () for an empty column."""
    if not column or len(places) < 2:
        return tuple([column[place] for place in places]) if column else ()
    # Three times as fast as a comprehension.
    values: tuple[T, ...] = itemgetter(*places)(column)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The form in which a competition takes predictions."""

    id_column: str = "id"
    """The name of the column of ids."""
    label_column: str = "label"
    """The name of the column of labels."""
    separator: str = " "
    """Separates several labels in a cell."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What the source writes for a class, where that is not its name."""
    sample: bytes = b""
    """The sample submission as CSV; b"" if there is none."""

    def named(self, label_of: Mapping[str, int], classes: Sequence[str]) -> Submission:
        """Return this with the final names of classes; a merged class has no value."""
        texts: dict[str, set[str]] = {}
        for name, label in label_of.items():
            if name:
                texts.setdefault(classes[label], set()).add(self.values.get(name, name))
        values = {name: min(own) for name, own in sorted(texts.items()) if len(own) == 1}
        return replace(self, values={key: text for key, text in values.items() if key != text})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLayout:
    """How a source was read. Programs use the facts; people read the text."""

    kind: SourceKind
    """The kind of files that hold the images; an archive is where these are."""
    sentence: str
    is_archive: bool = False
    """Whether a folder layout was found in an archive."""
    split_depth: int = 0
    """How many folders at the top of a path are its split."""
    class_depth: int = 0
    """How many folders after those are its class; 0 if they are not always the class."""
    columns: tuple[tuple[str, str], ...] = ()
    """The columns of a table that are used, with what each becomes, such as `int feature`."""
    has_coarse_labels: bool = False
    """Whether the labels are the coarse ones of CIFAR-100."""

    @classmethod
    def of_columns(
        cls, kind: SourceKind, title: str, columns: Iterable[tuple[str, str]]
    ) -> SourceLayout:
        """Return the layout of a table."""
        columns = tuple(columns)
        meanings = ", ".join([f"{name} -> {meaning}" for name, meaning in columns])
        return cls(kind=kind, sentence=f"{title}: {meanings}", columns=columns)

    @property
    def text(self) -> str:
        """Describe it in a line for people, or in several."""
        return f"{ARCHIVE_OF * self.is_archive}{self.sentence}"

    def __str__(self) -> str:
        return self.text

    @property
    def has_image_files(self) -> bool:
        """Whether each image is a file; if not, other files hold them."""
        return self.kind in (SourceKind.FOLDER, SourceKind.MANIFEST)

    @property
    def class_folders(self) -> slice | None:
        """Which parts of a path are its class; None if it has none."""
        if not self.class_depth:
            return None
        return slice(self.split_depth, self.split_depth + self.class_depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(Noted):
    """Everything that a source holds, before anything is decided about it."""

    name: str
    """The name of the source's folder or file."""
    layout: SourceLayout
    samples: Samples
    class_folders: Mapping[str, tuple[str, ...]]
    """The folders of each class, by its name on disk."""
    class_order: tuple[str, ...] | None = None
    """Class names in the order of their labels, where the source itself fixes it."""
    earlier_classes: tuple[str, ...] = ()
    """Classes of the dataset of `--split-from`, in the order of their labels."""
    notes: Notes = ()
    near: NearPairs | None = None
    """Its near-duplicates; None if nobody asked for them."""
    beyond_limit: int = 0
    """How many images `--limit-per-class` leaves out."""
    matched_globs: frozenset[str] = frozenset()
    """Globs of `--include` and `--exclude` that are known to match some file of the source."""
    submission: Submission | None = None
    stamp: Stamp = NO_STAMP
    """The stamp of the files with the bytes of the samples; never part of any output.

    Files that the scan reads whole need not be in it: their content is part of the plan.
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
        """Return a catalog of the samples at `places` and of these `bad` files.

        The others are counted as ignored, by `kind`. A class that loses all of its samples is gone.
        Raises PlanError if nothing is left.
        """
        bad, kept = tuple(bad), set(places)
        left_out = [name for at, name in enumerate(self.samples.filenames) if at not in kept]
        left_out += [file.filename for file in set(self.bad).difference(bad)]
        if not left_out:
            return self
        samples = self.samples.pick(places)
        if not samples:
            example = min(self.samples.filenames, default="") or left_out[0]
            raise PlanError(
                f"nothing is left to pack: everything is {kind}",
                hint=f"leave out less of it; one of the files is {printable(example)}",
            )
        # A class without samples may still have bad files, so it goes only with the last of those.
        gone = self.samples.classes() if bad else set(self.class_folders)
        gone -= samples.classes()
        folders = {name: own for name, own in self.class_folders.items() if name not in gone}
        others = [note for note in self.notes if note.kind is not NoteKind.BAD]
        notes = (*bad, *others, *ignored_files(kind, sorted(left_out)))
        return replace(self, samples=samples, class_folders=folders, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard to write: a slice of the samples table, and no bytes."""

    split: str
    index: int
    filename: str
    expected_bytes: int
    """The most that the shard takes if every image is packed unchanged."""
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The totals of a plan."""

    count: int
    labels: Mapping[str, Collection[int]]
    """The labels of each split."""
    columns: tuple[tuple[str, ColumnKind], ...]
    is_multilabel: bool


def labels_by_split(tasks: Iterable[ShardTask]) -> dict[str, set[int]]:
    """Return the labels of each split."""
    labels: dict[str, set[int]] = {}
    for task in tasks:
        own = task.samples.label_sets or (task.samples.labels,)
        labels.setdefault(task.split, set()).update(*own)
    return labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Noted):
    """Everything that is decided before the first byte is written."""

    name: str
    version: str
    source: str
    layout: SourceLayout
    classes: tuple[str, ...] = field(repr=False)
    tasks: tuple[ShardTask, ...] = field(repr=False)
    check: Check
    shrink_to: ShrinkOptions | None
    fingerprint: str
    notes: Notes = field(repr=False)
    near_duplicates: NearDuplicates | None = field(repr=False)
    """None if nobody asked for them."""
    options: Mapping[str, object]
    """The options behind this plan, as plain values for the report."""
    submission: Submission | None = field(default=None, repr=False)
    edits: bytes = field(default=b"", repr=False)
    """The table of corrections that the dataset keeps; b"" if there is none."""
    more_source_bytes: int = 0
    """By how much the files of the source are larger than the samples of the tasks say."""
    beyond_limit: int = 0
    """How many images `--limit-per-class` leaves out."""
    refused_with: int = 0
    """The exit code with which pack would refuse this; 0 if it would not."""

    def __repr__(self) -> str:
        what = f"{number(self.planned, 'image')}, {number(len(self.classes), 'class', 'classes')}"
        return f"<Plan {self.name} {self.version}: {what}, {number(len(self.tasks), 'shard')}>"

    @property
    def planned(self) -> int:
        """Count the images that are to be packed."""
        return sum(len(task.samples) for task in self.tasks)

    def sum_up(self) -> Planned:
        """Return the totals of this plan."""
        samples = self.tasks[0].samples if self.tasks else Samples()
        return Planned(
            count=self.planned,
            labels=labels_by_split(self.tasks),
            columns=tuple((column.name, column.kind) for column in samples.columns),
            is_multilabel=bool(samples.label_sets),
        )
