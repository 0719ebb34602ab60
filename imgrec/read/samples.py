"""samples.parquet: one row for each record, read by column and in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec import layout
from imgrec.codec.untrusted import iter_bounded, read_bounded
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

_ROWS = 1 << 14
"""Rows read at once."""


class SamplesFile:
    """An open samples.parquet.

    Opening and reading raise OSError, ValueError or ArrowException for a file that is not Parquet,
    or unpacks to far more than its size.
    """

    def __init__(self, folder: Path, repeated: Sequence[str] = ()) -> None:
        """Open the table; columns in `repeated` are read as dictionaries, to save memory."""
        import pyarrow.parquet as pq

        self._path = seekable(folder / layout.SAMPLES)
        self._file = pq.ParquetFile(self._path, read_dictionary=list(repeated))
        groups = [self._file.metadata.row_group(at) for at in range(self._file.num_row_groups)]
        self.num_rows = sum(group.num_rows for group in groups)
        self.unpacked_bytes = sum(group.total_byte_size for group in groups)
        self.column_names: list[str] = self._file.schema_arrow.names
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: pa.RecordBatch | None = None
        self._batch_start = 0

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return those of `columns` that exist."""
        existing = [name for name in self.column_names if name in columns]
        return read_bounded(self._file, self._path, existing)

    def rows(self, start: int, count: int) -> pa.Table:
        """Return up to `count` rows. Going back means reading from the start again."""
        import pyarrow as pa

        if self._batches is None or start < self._batch_start:
            self._batches = iter_bounded(self._file, self._path, self.column_names)
            self._batch_start, self._batch = 0, next(self._batches, None)
        parts, stop = [], start + count
        while self._batch is not None and self._batch_start < stop:
            end = self._batch_start + self._batch.num_rows
            if end > start:
                skip = max(start - self._batch_start, 0)
                parts.append(self._batch.slice(skip, min(stop, end) - self._batch_start - skip))
            if end > stop:
                break
            self._batch_start, self._batch = end, next(self._batches, None)
        return pa.Table.from_batches(parts) if parts else self._file.schema_arrow.empty_table()

    def first_rows(self, column: str) -> dict[str, int]:
        """Return the first row of each value of a column."""
        first: dict[str, int] = {}
        row = 0
        for batch in iter_bounded(self._file, self._path, [column]):
            cells = batch.column(0)
            for value in cells.unique():
                first.setdefault(value.as_py(), row + cells.index(value).as_py())
            row += batch.num_rows
        return first


def read_table(
    folder: Path, info: DatasetInfo, columns: Sequence[str], *, with_extra: bool = False
) -> pa.Table:
    """Read those of `columns` that exist, and with `with_extra` those of `layout.is_extra_column`.

    Raises DatasetError unless each record has a row.
    """
    table = _read_table(folder, columns, with_extra=with_extra)
    count = sum(split.examples for split in info.splits)
    if table.num_rows != count:
        raise wrong_table(folder, f"has {table.num_rows} rows for {count} records")
    return table


def _read_table(folder: Path, columns: Sequence[str], *, with_extra: bool = False) -> pa.Table:
    import pyarrow as pa

    try:
        repeated = [name for name in ("format",) if name in columns]
        file = SamplesFile(folder, repeated)
        extra = filter(layout.is_extra_column, file.column_names) if with_extra else ()
        return file.read([*columns, *extra])
    # KeyError: a table without the column `format`. ValueError: also names that are not UTF-8.
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise wrong_table(folder, "cannot be read") from error


def wrong_table(folder: Path, what: str = "is not as imgrec writes it") -> DatasetError:
    """Return the error for a table that cannot be used."""
    path = folder / layout.SAMPLES
    return DatasetError(
        f"{path} {what}, so names, labels and splits of its images are unknown",
        hint="name a dataset that imgrec packed, or pack it again",
        path=str(path),
    )


@contextmanager
def checked(folder: Path) -> Iterator[None]:
    """Turn the errors of unexpected columns or values into a DatasetError."""
    import pyarrow as pa

    try:
        yield
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise wrong_table(folder) from error


class SampleColumns(NamedTuple):
    """Labels and names of all records, by number."""

    labels: Sequence[int]
    """-1 where an image has no label, or may have several."""
    label_sets: Sequence[Sequence[int]]
    """All labels of each image, if images may have several; else empty."""
    filenames: Sequence[str]
    """As `text.printable` shows them."""


def read_columns(folder: Path, info: DatasetInfo) -> SampleColumns:
    """Read the labels and names of all records; raise DatasetError if the table is wrong."""
    table = read_table(folder, info, ("label", "labels", "filename"))
    with checked(folder):
        values = table.to_pydict()
        labels = array("q", values.get("label") or [UNLABELLED] * table.num_rows)
        if None in values["filename"] or None in values.get("labels", ()):
            raise TypeError("a record without a name or labels")
        return SampleColumns(labels, values.get("labels", ()), values["filename"])


def gather_columns(records: Iterable[Record]) -> SampleColumns:
    """Collect from the records themselves what `read_columns` reads from the table."""
    labels, label_sets, filenames = array("q"), [], []
    is_multilabel = False
    for record in records:
        labels.append(record.label)
        label_sets.append(record.labels)
        filenames.append(printable(record.filename))
        is_multilabel |= record.label == UNLABELLED and bool(record.labels)
    return SampleColumns(labels, label_sets if is_multilabel else (), filenames)


def read_labels(folder: Path, info: DatasetInfo) -> NDArray[np.int64]:
    """Read only the label of each record; raise DatasetError if the table is wrong."""
    import pyarrow as pa

    table = read_table(folder, info, ("label",))
    with checked(folder):
        column = table.column("label")
        labels = column.cast(pa.int64()).to_numpy()
        if column.null_count:
            raise TypeError("a record without a label")
        if len(labels) and not -1 <= labels.min() <= labels.max() < max(len(info.classes), 1):
            raise TypeError("a label without a class")
        return labels


class ImageRange(NamedTuple):
    """The formats of all images, and their largest sides."""

    formats: frozenset[str]
    max_height: int
    max_width: int


def read_image_range(folder: Path) -> ImageRange:
    """Read formats and largest sides; raise DatasetError if the table is wrong."""
    import pyarrow.compute as pc

    table = _read_table(folder, ("format", "height", "width"))
    with checked(folder):
        return ImageRange(
            formats=frozenset(map(str, pc.unique(table.column("format")).to_pylist())),
            max_height=int(pc.max(table.column("height")).as_py()),
            max_width=int(pc.max(table.column("width")).as_py()),
        )


def read_hashes(folder: Path) -> list[tuple[str, str]]:
    """Return the shard of each record and the hash of its source file; raise DatasetError."""
    table = _read_table(folder, ("shard", "xxh3"))
    with checked(folder):
        columns = table.to_pydict()
        return list(zip(map(str, columns["shard"]), map(str, columns["xxh3"]), strict=True))


def iter_hashes(folder: Path) -> Iterator[tuple[list[str], list[bytes]]]:
    """Yield the names of records, and the hashes of their source files, in bounded memory.

    Names are as `text.printable` shows them. Raises DatasetError.
    """
    import pyarrow as pa

    try:
        file = SamplesFile(folder)
        with checked(folder):
            for start in range(0, file.num_rows, _ROWS):
                rows = file.rows(start, _ROWS).select(["filename", "xxh3"]).to_pydict()
                yield rows["filename"], list(map(bytes.fromhex, rows["xxh3"]))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise wrong_table(folder, "cannot be read") from error


def read_groups(folder: Path) -> dict[str, list[str]]:
    """Return the groups of the records of each shard; empty if they are unknown."""
    groups: dict[str, list[str]] = {}
    with suppress(DatasetError):  # a dataset without a table, or with a damaged one
        columns = _read_table(folder, ("shard", "group")).to_pydict()
        for shard, group in zip(columns["shard"], columns.get("group", ()), strict=False):
            groups.setdefault(str(shard), []).append(str(group or ""))
    return groups


def read_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image by the hash of its source file; raise DatasetError.

    For an image in several splits, this is the split furthest from training.
    """
    table = _read_table(folder, ("xxh3", "split"))
    with checked(folder):
        rows = [(str(row["split"]), str(row["xxh3"])) for row in table.to_pylist()]
        rows.sort(key=lambda row: split_order(row[0]))
        return {bytes.fromhex(digest): split for split, digest in rows}
