"""What is known of all records of a dataset, in arrays that are quick to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec import layout
from imgrec.codec.sniff import sniff
from imgrec.errors import DatasetError
from imgrec.model import UNLABELLED
from imgrec.outcome import DatasetInfo
from imgrec.read.samples import read_table, wrong_table
from imgrec.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from imgrec.read.dataset import Dataset

Integers: TypeAlias = "NDArray[np.int64]"
Names: TypeAlias = Any
"""An array of text, chunked or not: pyarrow's stubs and its functions disagree on their types."""

_TABLE = ("label", "labels", "filename", "height", "width", "format")
_TOLD_EVERY = 256


class Row(NamedTuple):
    """What the grid shows of one record."""

    labels: tuple[int, ...] = ()
    filename: str = ""
    """As `text.printable` shows it."""
    height: int = 0
    width: int = 0
    """Zero where it is not known."""
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """All records by column, in the order of their numbers."""

    split_names: tuple[str, ...]
    splits: Integers
    """The place in `split_names` of each record's split."""
    classes: int
    """How many there are."""
    labels: Integers
    """-1 where there is none."""
    owners: Integers | None
    """The record of each label, where one may have several; None where each record has one."""
    filenames: Names
    heights: Integers
    widths: Integers
    format_names: tuple[str, ...]
    formats: Integers
    """The place in `format_names` of each image's."""
    is_complete: bool = True
    """False if nothing but the splits is known."""

    def __len__(self) -> int:
        return len(self.splits)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return what is known of some records."""
        places = np.asarray(numbers, dtype=np.int64)
        filenames = self.filenames.take(pa.array(places)).to_pylist()
        sizes = (self.heights[places].tolist(), self.widths[places].tolist())
        formats = [self.format_names[code] for code in self.formats[places]]
        labels = map(self._labels_of, places.tolist())
        return [Row(*row) for row in zip(labels, filenames, *sizes, formats, strict=True)]

    def _labels_of(self, number: int) -> tuple[int, ...]:
        if self.owners is None:
            found = self.labels[number : number + 1]
        else:
            first, last = np.searchsorted(self.owners, [number, number + 1])
            found = self.labels[first:last]
        return tuple(label for label in found.tolist() if label != UNLABELLED)


def read(folder: Path, info: DatasetInfo) -> Columns:
    """Read the table of a dataset; raise DatasetError if it is not one that imgrec writes."""
    table = read_table(folder, info, _TABLE)
    try:
        names, formats = _coded(table.column("format"))
        labels, owners = _labels(table)
        return Columns(
            **_splits(info),
            classes=len(info.classes),
            labels=_known(labels, info),
            owners=owners,
            filenames=_texts(table.column("filename")),
            heights=_integers(table.column("height")),
            widths=_integers(table.column("width")),
            format_names=names,
            formats=formats,
        )
    except (KeyError, TypeError, pa.ArrowException) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def bare(info: DatasetInfo) -> Columns:
    """Return the columns of a dataset of which nothing but its splits is known."""
    return _columns(info, [Row()] * sum(split.examples for split in info.splits), complete=False)


def gather(dataset: Dataset, on_progress: Callable[[int], bool]) -> Columns | None:
    """Find out from all records themselves what no table tells.

    `on_progress` gets how many are read, and says whether to go on; None is returned if not.
    """
    rows = []
    for number in range(sum(split.examples for split in dataset.info.splits)):
        rows.append(look(dataset, number))
        if number % _TOLD_EVERY == 0 and not on_progress(number):
            return None
    return _columns(dataset.info, rows, complete=True)


def look(dataset: Dataset, number: int) -> Row:
    """Read a record for what the grid shows of it; of a damaged one, that is nothing."""
    try:
        record = dataset.read(number)
    except DatasetError:
        return Row()
    height, width, _ = record.shape
    image_format = sniff(record.image[:64])
    return Row(record.labels, printable(record.filename), height, width, image_format)


def _columns(info: DatasetInfo, rows: Sequence[Row], *, complete: bool) -> Columns:
    names = tuple(sorted({row.format for row in rows}))
    codes = {name: code for code, name in enumerate(names)}
    pairs = [(at, label) for at, row in enumerate(rows) for label in row.labels or (UNLABELLED,)]
    owners, labels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Columns(
        **_splits(info),
        classes=len(info.classes),
        labels=_known(labels, info),
        owners=owners if len(owners) > len(rows) else None,
        filenames=pa.array([row.filename for row in rows], pa.string()),
        heights=_sides([row.height for row in rows]),
        widths=_sides([row.width for row in rows]),
        format_names=names,
        formats=np.array([codes[row.format] for row in rows], dtype=np.int64),
        is_complete=complete,
    )


def has_table(folder: Path) -> bool:
    """Tell whether a dataset has a table of its records, as those of imgrec have."""
    return (folder / layout.SAMPLES).exists()


def _splits(info: DatasetInfo) -> dict[str, Any]:  # two of the columns, of two types
    counts = [split.examples for split in info.splits]
    return {
        "split_names": tuple(split.name for split in info.splits),
        "splits": np.repeat(np.arange(len(counts), dtype=np.int64), counts),
    }


def _labels(table: pa.Table) -> tuple[Integers, Integers | None]:
    """Return all labels and, where a record may have several, the record of each."""
    if "labels" not in table.column_names:
        return _integers(table.column("label"), UNLABELLED), None
    lists = table.column("labels").combine_chunks()
    counts = _integers(pc.list_value_length(lists))
    values = _integers(pc.list_flatten(lists), UNLABELLED)
    # A record without labels has one that says so.
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), np.maximum(counts, 1))
    labels = np.full(len(owners), UNLABELLED, dtype=np.int64)
    labels[np.repeat(counts > 0, np.maximum(counts, 1))] = values
    return labels, owners


def _known(labels: Integers, info: DatasetInfo) -> Integers:
    """Return labels, of which those that no class has say that there is none."""
    return np.where((labels >= 0) & (labels < len(info.classes)), labels, UNLABELLED)


def _coded(column: Any) -> tuple[tuple[str, ...], Integers]:  # as of Names
    """Return the texts that there are, and of each row which one it is."""
    coded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    found = [*_texts(coded.dictionary).to_pylist(), *([""] if coded.null_count else [])]
    names = tuple(sorted(set(found)))
    order = np.array([names.index(name) for name in found], dtype=np.int64)
    return names, order[_integers(coded.indices, len(found) - 1)]


def _texts(column: Any) -> Names:  # as of Names
    return column.cast(pa.string()).fill_null("")


def _integers(column: Any, missing: int = 0) -> Integers:  # as of Names
    values: Integers = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return values


def _sides(values: Sequence[int]) -> Integers:
    """Return sides of images, which a record may claim to be of any length."""
    return np.clip(np.array(values, dtype=np.float64), 0, 1 << 31).astype(np.int64)
