"""The table of a dataset's records, `samples.parquet`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec import layout
from imgrec.codec.parquet import read_bounded
from imgrec.errors import DatasetError
from imgrec.model import UNLABELLED, split_order
from imgrec.outcome import DatasetInfo
from imgrec.read.record import Record
from imgrec.storage.paths import seekable
from imgrec.text import printable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class SampleColumns(NamedTuple):
    """What is known of all records of a dataset, by their number, without reading them."""

    labels: Sequence[int]
    """-1 where an image has none, or may have several."""
    label_sets: Sequence[Sequence[int]]
    """All labels of each image, where one may have several; else empty."""
    filenames: Sequence[str]
    """As `text.printable` shows them."""


def read_columns(folder: Path, info: DatasetInfo) -> SampleColumns:
    """Read the labels and names of all records; raise DatasetError if they are not all there."""
    table = read_table(folder, info, ("label", "labels", "filename"))
    count = table.num_rows
    values = table.to_pydict()
    try:
        labels = array("q", values.get("label") or [UNLABELLED] * count)
        if None in values["filename"] or None in values.get("labels", ()):
            raise TypeError("a record without a name or labels")
        return SampleColumns(labels, values.get("labels", ()), values["filename"])
    except (KeyError, TypeError) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def read_labels(folder: Path, info: DatasetInfo) -> NDArray[np.int64]:
    """Read the label of each record, and nothing else; raise as `read_columns`."""
    import pyarrow as pa

    try:
        column = read_table(folder, info, ("label",)).column("label")
        if column.null_count:
            raise TypeError("a record without a label")
        labels = column.cast(pa.int64()).to_numpy()
        if len(labels) and not -1 <= labels.min() <= labels.max() < max(len(info.classes), 1):
            raise TypeError("a label without a class")
        return labels
    except (KeyError, TypeError, pa.ArrowException) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def read_table(folder: Path, info: DatasetInfo, columns: Sequence[str]) -> pa.Table:
    """Read those of `columns` that there are, a row for each record; raise as `read_columns`."""
    table = _read_table(folder, columns)
    count = sum(split.examples for split in info.splits)
    if table.num_rows != count:
        raise wrong_table(folder, f"tells of {table.num_rows} records, and there are {count}")
    return table


def gather_columns(records: Iterable[Record]) -> SampleColumns:
    """Find out from all records themselves what `read_columns` reads of them."""
    labels, label_sets, filenames = array("q"), [], []
    is_multilabel = False
    for record in records:
        labels.append(record.label)
        label_sets.append(record.labels)
        filenames.append(printable(record.filename))
        is_multilabel |= record.label == UNLABELLED and bool(record.labels)
    return SampleColumns(labels, label_sets if is_multilabel else (), filenames)


class Pictures(NamedTuple):
    """What the images of a dataset are like, all in all."""

    formats: frozenset[str]
    max_height: int
    max_width: int


def read_pictures(folder: Path) -> Pictures:
    """Read of what formats the images of a dataset are and how large; raise as `read_columns`."""
    import pyarrow.compute as pc

    table = _read_table(folder, ("format", "height", "width"))
    try:
        return Pictures(
            formats=frozenset(map(str, pc.unique(table.column("format")).to_pylist())),
            max_height=int(pc.max(table.column("height")).as_py()),
            max_width=int(pc.max(table.column("width")).as_py()),
        )
    except (KeyError, TypeError) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def _read_table(folder: Path, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / layout.SAMPLES
    try:
        repeated = [name for name in ("format",) if name in columns]
        opened = seekable(path)
        file = pq.ParquetFile(opened, read_dictionary=repeated)
        found = [name for name in file.schema_arrow.names if name in columns]
        return read_bounded(file, opened, found)
    # Among these are names that are not UTF-8, and a table without a column of formats.
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise wrong_table(folder, "cannot be read") from error


def wrong_table(folder: Path, what: str) -> DatasetError:
    """Return the error that says what is wrong with the table."""
    path = folder / layout.SAMPLES
    return DatasetError(
        f"{path} {what}, so names, labels and splits of its images are not known",
        hint="name a dataset that imgrec packed, or pack it again",
        path=str(path),
    )


def read_hashes(folder: Path) -> list[tuple[str, str]]:
    """Return the shard of each record, and the hash of its image's file; raise DatasetError."""
    columns = _read_table(folder, ("shard", "xxh3")).to_pydict()
    try:
        return list(zip(map(str, columns["shard"]), map(str, columns["xxh3"]), strict=True))
    except KeyError as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def read_groups(folder: Path) -> dict[str, list[str]]:
    """Return the group of each record by shard; nothing if no table tells."""
    found: dict[str, list[str]] = {}
    with suppress(DatasetError):  # a dataset without a table, or with a damaged one
        columns = _read_table(folder, ("shard", "group")).to_pydict()
        for shard, group in zip(columns["shard"], columns.get("group", ()), strict=False):
            found.setdefault(str(shard), []).append(str(group or ""))
    return found


def read_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image of a dataset, by the hash of its bytes in the source.

    One that is in several is said to be in the one furthest from training.
    """
    table = _read_table(folder, ("xxh3", "split"))
    try:
        rows = [(str(row["split"]), str(row["xxh3"])) for row in table.to_pylist()]
        rows.sort(key=lambda row: split_order(row[0]))
        return {bytes.fromhex(digest): split for split, digest in rows}
    except (KeyError, ValueError) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error
