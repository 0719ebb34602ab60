"""Compare two packed datasets by their tables of samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from imgrec import layout
from imgrec.inspect.contact_sheet import Captioned, draw_contact_sheet
from imgrec.inspect.subject import InDataset, Job
from imgrec.model import UNLABELLED
from imgrec.outcome import DatasetInfo, Report
from imgrec.read.documents import read_documents
from imgrec.read.samples import checked, read_table, wrong_table
from imgrec.storage.paths import to_path
from imgrec.text import own_name

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Column: TypeAlias = "pa.ChunkedArray[Any]"
Numbers: TypeAlias = "NDArray[np.int64]"
Codes: TypeAlias = "tuple[Numbers, Numbers]"
"""A number for each record of both datasets."""

_COMPARED = ("filename", "xxh3", "split", "label", "labels")
_COLUMNS = ("name", "content", "split", "labels")
_SHEET_IMAGES = 24
"""The most images of each kind on a contact sheet."""
_SHEET_ACROSS = 6
"""An even number, so that the two pictures of a changed image stay side by side."""
_KEYS = (
    ("name", "content", "labels", "split"),
    ("name", "content"),
    ("name",),
    ("content", "labels", "split"),
    ("content",),
)
"""What two records must share to be the same image, the strictest first.

A file with other contents under its old name is changed, even if its old contents are elsewhere.
"""


class Image(NamedTuple):
    """An image of one of the datasets."""

    filename: str
    split: str
    labels: tuple[str, ...]
    """The names of its classes, sorted."""
    number: int
    """Of its record, counted through all splits."""


class Pair(NamedTuple):
    """One image in both datasets."""

    before: Image
    after: Image


class Renumbered(NamedTuple):
    """A class with another label."""

    name: str
    before: int
    after: int


class OptionChange(NamedTuple):
    """An option with another value; None where it was not given."""

    name: str
    before: object
    after: object


class ColumnChange(NamedTuple):
    """A column of the source, such as an age, with other values."""

    name: str
    images: int
    """Images of both datasets with another value; all of them if only one has the column."""


class Relabelling(NamedTuple):
    """How many images went from one set of labels to another."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    images: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One of the two datasets."""

    name: str
    version: str
    path: str
    fingerprint: str
    images: int
    classes: int
    splits: Mapping[str, int]
    """Images by split."""

    @property
    def title(self) -> str:
        """Return the name and version."""
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a dataset differs from an earlier one.

    An image is the same in both if it has its name, or else its contents. One image can be in
    several lists: renamed and relabelled, for example. All lists are sorted by
    the later filename.
    """

    before: Version
    after: Version
    added: tuple[Image, ...] = field(repr=False)
    removed: tuple[Image, ...] = field(repr=False)
    changed: tuple[Pair, ...] = field(repr=False)
    """The same filename with other contents."""
    renamed: tuple[Pair, ...] = field(repr=False)
    """The same contents under another filename. Each copy of an image counts once."""
    relabelled: tuple[Pair, ...] = field(repr=False)
    """Labels are compared by the names of their classes."""
    moved: tuple[Pair, ...] = field(repr=False)
    """In another split."""
    classes_added: tuple[str, ...]
    classes_removed: tuple[str, ...]
    classes_renumbered: tuple[Renumbered, ...]
    columns: tuple[ColumnChange, ...]
    options: tuple[OptionChange, ...] | None
    """None if a report.json cannot be read."""
    sheet: str = ""
    """The path of the contact sheet; empty if there is none."""

    @property
    def relabellings(self) -> tuple[Relabelling, ...]:
        """Count the relabelled images by their labels, the most frequent change first."""
        counts = Counter((pair.before.labels, pair.after.labels) for pair in self.relabelled)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(Relabelling(*labels, images) for labels, images in ordered)

    @property
    def counts(self) -> dict[str, int]:
        """Count the images of each kind of difference."""
        kinds = ("added", "removed", "changed", "renamed", "relabelled", "moved")
        return {kind: len(getattr(self, kind)) for kind in kinds}

    @property
    def summary(self) -> str:
        """Return the counts of all kinds in one line."""
        kinds = [f"{count:,} {kind}" for kind, count in self.counts.items() if count]
        others = "other classes, columns or options" if self.is_different else "no difference"
        return ", ".join(kinds) or others

    def __repr__(self) -> str:
        return f"<Difference {self.before.title} -> {self.after.title}: {self.summary}>"

    @property
    def is_different(self) -> bool:
        """Return whether images, classes, columns or options differ."""
        classes = self.classes_added, self.classes_removed, self.classes_renumbered
        images = any(self.counts.values()) or any(classes)
        return images or bool(self.columns) or bool(self.options)


def compare_datasets(before: Path, after: Path) -> Difference:
    """Compare two version folders; raise DatasetError if one has no usable samples.parquet.

    No shard is read. Python objects are made only for images that differ.
    """
    documents = [read_documents(folder, report=True) for folder in (before, after)]
    infos = [one.info() for one in documents]
    class_names = tuple(sorted({name for info in infos for name in info.classes}))
    (old, old_extras), (new, new_extras) = (_read_rows(info, class_names) for info in infos)
    codes = {column: _shared_codes(old.column(column), new.column(column)) for column in _COLUMNS}
    matched = _match(old, new, codes)
    left, right = matched.before, matched.after

    def pairs(column: str) -> tuple[Pair, ...]:
        old_codes, new_codes = codes[column]
        differ = old_codes[left] != new_codes[right]
        rows, old_rows = _by_name(new, right[differ], left[differ])
        return tuple(
            map(Pair, _images(old, old_rows, class_names), _images(new, rows, class_names))
        )

    old_classes, new_classes = (info.classes for info in infos)
    return Difference(
        before=_version(infos[0]),
        after=_version(infos[1]),
        added=tuple(_images(new, _by_name(new, matched.added)[0], class_names)),
        removed=tuple(_images(old, _by_name(old, matched.removed)[0], class_names)),
        # Only images of the same name are matched although their contents differ.
        changed=pairs("content"),
        renamed=pairs("name"),
        relabelled=pairs("labels"),
        moved=pairs("split"),
        classes_added=_missing_from(old_classes, new_classes),
        classes_removed=_missing_from(new_classes, old_classes),
        classes_renumbered=tuple(_renumbered(old_classes, new_classes)),
        columns=tuple(_changed_columns(old_extras, new_extras, matched)),
        options=_changed_options(*(one.report for one in documents)),
    )


def _version(info: DatasetInfo) -> Version:
    splits = {split.name: split.examples for split in info.splits}
    return Version(
        name=info.name,
        version=info.version,
        path=info.path,
        fingerprint=info.fingerprint,
        images=sum(splits.values()),
        classes=len(info.classes),
        splits=splits,
    )


def _missing_from(known: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    there = set(known)
    return tuple(name for name in names if name not in there)


def _renumbered(before: Sequence[str], after: Sequence[str]) -> Iterator[Renumbered]:
    labels = {name: label for label, name in enumerate(after)}
    for label, name in enumerate(before):
        if labels.get(name, label) != label:
            yield Renumbered(name, label, labels[name])


def _changed_options(
    before: Report | None, after: Report | None
) -> tuple[OptionChange, ...] | None:
    if before is None or after is None:
        return None
    old, new = (
        # Every update and edit sets this one.
        {
            name: "" if _is_own(name, value, one.name) else value
            for name, value in one.options.items()
        }
        for one in (before, after)
    )
    return tuple(
        OptionChange(name, old.get(name), new.get(name))
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def _is_own(option: str, value: object, name: str) -> bool:
    return option == "split_from" and own_name(str(value)).startswith((f"{name}:", f"{name}/"))


class _Rows(NamedTuple):
    """The records of a dataset by column. Rows are in the order of their numbers."""

    name: Column
    content: Column
    """The hash of each file in the source."""
    split: Column
    labels: Column
    """The labels of each as text, comparable with those of the other dataset."""

    def column(self, name: str) -> Column:
        found: Column = getattr(self, name)
        return found


def _read_rows(info: DatasetInfo, class_names: Sequence[str]) -> tuple[_Rows, pa.Table]:
    """Read the table of a dataset, and that of its columns of the source.

    `class_names` are those of both datasets.
    """
    import numpy as np

    folder = to_path(info.path)
    if not (folder / layout.SAMPLES).exists():
        raise wrong_table(folder, "is missing")
    table = read_table(folder, info, _COMPARED, with_extra=True)
    label = "labels" if "labels" in table.column_names else "label"
    with checked(folder):
        names, hashes, splits, labels = map(table.column, ("filename", "xxh3", "split", label))
        if any(column.null_count for column in (names, hashes, splits, labels)):
            raise TypeError("a record without a name, a hash, a split or labels")
        place = {name: at for at, name in enumerate(class_names)}
        places = np.array([place[name] for name in info.classes], np.int64)
        to_text = _label_sets if label == "labels" else _single_labels
        rows = _Rows(names, hashes, splits, to_text(labels, places))
        return rows, table.drop_columns([name for name in _COMPARED if name in table.column_names])


def _changed_columns(old: pa.Table, new: pa.Table, matched: _Matched) -> Iterator[ColumnChange]:
    """Yield the columns of the source whose values differ for the same images."""
    for name in sorted({*old.column_names, *new.column_names}):
        images = len(matched.after)
        if name in old.column_names and name in new.column_names:
            before, after = old.column(name), new.column(name)
            if before.type == after.type:
                old_codes, new_codes = _shared_codes(before, after)
                images = int((old_codes[matched.before] != new_codes[matched.after]).sum())
        if images:
            yield ColumnChange(name, images)


def _single_labels(column: Column, places: Numbers) -> Column:
    """Return the place of each record's class as text; "" for no label."""
    import numpy as np
    import pyarrow as pa

    labels = column.cast(pa.int64()).to_numpy()
    if len(labels) and not UNLABELLED <= labels.min() <= labels.max() < len(places):
        raise ValueError("a label without a class")
    texts = pa.array([*map(str, places), ""], pa.string())
    rows = np.where(labels == UNLABELLED, len(places), labels)
    return pa.chunked_array([texts.take(rows)])


def _label_sets(column: Column, places: Numbers) -> Column:
    """Return the sorted places of each record's classes as text, joined by commas."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy()
    labels = pc.list_flatten(column).cast(pa.int64()).to_numpy()
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(places):
        raise ValueError("a label without a class")
    found, rows = places[labels], np.repeat(np.arange(len(lengths)), lengths)
    texts = pa.array(found[np.lexsort((found, rows))]).cast(pa.string())
    ends = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    joined: Any = pc.binary_join(pa.ListArray.from_arrays(ends, texts), ",")
    return pa.chunked_array([joined])


def _shared_codes(before: Column, after: Column) -> Codes:
    """Return a number for each value of two columns; equal values, or NaNs, have equal numbers."""
    import numpy as np
    import pyarrow as pa

    both = pa.chunked_array([*before.chunks, *after.chunks], before.type).dictionary_encode(
        "encode"
    )
    parts = [chunk.indices.to_numpy() for chunk in both.chunks]  # type: ignore[attr-defined]
    codes = np.concatenate([np.empty(0, np.int64), *parts])
    return codes[: len(before)], codes[len(before) :]


class _Matched(NamedTuple):
    """The rows of the same images in both datasets, and the rows of all others."""

    before: Numbers
    after: Numbers
    removed: Numbers
    added: Numbers


def _match(old: _Rows, new: _Rows, codes: Mapping[str, Codes]) -> _Matched:
    """Find the same images; see `_KEYS`."""
    import numpy as np

    lefts, rights = [], []
    left, right = np.arange(len(old.name)), np.arange(len(new.name))
    for stage, columns in enumerate(_KEYS):
        if stage == 1:  # Where several records fit, they are matched in the order of their names.
            (left,), (right,) = _by_name(old, left), _by_name(new, right)
        keys = [(codes[name][0][left], codes[name][1][right]) for name in columns]
        first, second = _equal_places(_joined(keys))
        lefts.append(left[first])
        rights.append(right[second])
        left, right = np.delete(left, first), np.delete(right, second)
    return _Matched(np.concatenate(lefts), np.concatenate(rights), left, right)


def _joined(keys: Sequence[Codes]) -> Codes:
    """Return one number for the numbers in several columns."""
    import numpy as np

    cut = len(keys[0][0])
    joined = np.concatenate(keys[0])
    for before, after in keys[1:]:
        values = np.concatenate((before, after))
        joined = joined * (values.max(initial=0) + 1) + values
        joined = np.unique(joined, return_inverse=True)[1]  # small, or they would overflow
    return joined[:cut], joined[cut:]


def _equal_places(codes: Codes) -> Codes:
    """Return the places of equal values: the first with the first, the second with the second."""
    import numpy as np

    counted = [_occurrences(side) for side in codes]
    step = max(int(side.max(initial=0)) for side in counted) + 1
    before, after = (side * step + nth for side, nth in zip(codes, counted, strict=True))
    _, first, second = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    return first, second


def _occurrences(values: Numbers) -> Numbers:
    """Count for each value how often it came before: [7, 9, 7] becomes [0, 0, 1]."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    runs = np.diff(starts, append=len(values))
    counted = np.empty(len(values), np.int64)
    counted[order] = np.arange(len(values)) - np.repeat(starts, runs)
    return counted


def _by_name(rows: _Rows, numbers: Numbers, *others: Numbers) -> tuple[Numbers, ...]:
    """Sort rows, and others in parallel, by their names."""
    import pyarrow.compute as pc

    order = pc.sort_indices(rows.name.take(numbers)).to_numpy()
    return tuple(one[order] for one in (numbers, *others))


def _images(rows: _Rows, numbers: Numbers, class_names: Sequence[str]) -> Iterator[Image]:
    columns = (rows.name, rows.split, rows.labels)
    names, splits, labels = (map(str, one.take(numbers).to_pylist()) for one in columns)
    texts = list(labels)
    sets = {
        text: tuple(class_names[int(place)] for place in text.split(",") if place)
        for text in {*texts}
    }
    for name, split, text, number in zip(names, splits, texts, numbers.tolist(), strict=True):
        yield Image(name, split, sets[text], number)


def draw_difference(found: Difference, job: Job) -> bytes:
    """Return a PNG of what was changed, added, removed and relabelled; b"" if nothing was."""
    tiles = [(tile,) for tile in _tiles(found)]
    return draw_contact_sheet(tiles, _SHEET_ACROSS, job) if tiles else b""


def _tiles(found: Difference) -> Iterator[Captioned]:
    old, new = found.before.path, found.after.path
    for before, after in found.changed[:_SHEET_IMAGES]:
        yield _tile("before:", old, before)
        yield _tile("after:", new, after)
    for pair in found.relabelled[:_SHEET_IMAGES]:
        yield _tile(f"{_label(pair.before)} ->", new, pair.after)
    for image in found.added[:_SHEET_IMAGES]:
        yield _tile("added:", new, image)
    for image in found.removed[:_SHEET_IMAGES]:
        yield _tile("removed:", old, image)


def _tile(what: str, folder: str, image: Image) -> Captioned:
    lines = f"{what} {_label(image)}", f"{image.split} {image.filename}"
    return Captioned(InDataset(folder, image.number), lines)


def _label(image: Image) -> str:
    return ", ".join(image.labels) or "no label"
