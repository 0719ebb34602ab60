"""A dataset that is being viewed: rows for the grid, and everything about one record."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from imgrec import layout
from imgrec.codec.example import Feature
from imgrec.codec.sniff import sniff
from imgrec.errors import DatasetError, ImgrecError
from imgrec.outcome import DatasetInfo
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.read.shards import refuse_impossible
from imgrec.text import printable
from imgrec.view.catalogue import Catalogue, Row, columns_of_rows, read_columns

_PROGRESS_EVERY = 256
_SHOWN_VALUES = 64
_SHOWN_CHARACTERS = 2000
_SHOWN_BYTES = 48
_HEAD_BYTES = 64
"""Enough to recognise a format."""
_KINDS: Mapping[type, str] = {bytes: "bytes", int: "int64", float: "float"}


class ViewedDataset:
    """A dataset and the catalogue of its records.

    A thread reads the indexes of all shards before someone waits for them. A dataset without
    samples.parquet, as TFDS writes them, is instead read once in full; until that is done, the
    catalogue knows only the splits.
    """

    def __init__(self, folder: Path) -> None:
        self.dataset = Dataset(folder)
        info = self.dataset.info
        _refuse_compressed(info)
        self.gathered: int | None = None
        """The number of records read so far; None once the catalogue is complete."""
        self._is_closed = False
        if (folder / layout.SAMPLES).exists():
            self.catalogue = Catalogue(read_columns(folder, info))
            work = self._read_indexes
        else:
            refuse_impossible(info)
            unknown = [Row()] * sum(split.examples for split in info.splits)
            self.catalogue = Catalogue(columns_of_rows(unknown, info))
            self.gathered = 0
            work = self._gather
        threading.Thread(target=work, daemon=True, name="imgrec-view").start()

    def close(self) -> None:
        """Stop reading."""
        self._is_closed = True

    def __len__(self) -> int:
        return len(self.catalogue.columns)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return what the grid shows about some records."""
        if self.gathered is None:
            return self.catalogue.columns.rows(numbers)
        return [self._row(number) for number in numbers]

    def details(self, number: int) -> dict[str, object]:
        """Return the contents of a record as a JSON value; for a damaged one, the fault."""
        shard, place = self.dataset.locate(number)
        columns = self.catalogue.columns
        split = columns.splits[number]
        value: dict[str, object] = {
            "number": number,
            "split": printable(columns.split_names[split]),
            "split_place": number - int(columns.splits.searchsorted(split)),
            "shard": Path(shard).name,
            "place": place,
        }
        try:
            features = self.dataset.features(number)
            value["features"] = [_feature(*item) for item in sorted(features.items())]
            return value | _parsed(self.dataset.read(number))
        except ImgrecError as error:
            return value | {"error": printable(str(error)), "hint": printable(error.hint)}

    def _row(self, number: int) -> Row:
        try:
            record = self.dataset.read(number)
        except DatasetError:
            return Row()
        height, width, _ = record.shape
        image_format = sniff(record.image[:_HEAD_BYTES])
        return Row(record.labels, printable(record.filename), height, width, image_format)

    def _read_indexes(self) -> None:
        start = 0
        splits = self.dataset.info.splits
        for length in [length for split in splits for length in split.shard_lengths]:
            if length and not self._is_closed:
                self._row(start)
            start += length

    def _gather(self) -> None:
        rows: list[Row] = []
        for number in range(len(self)):
            rows.append(self._row(number))
            if number % _PROGRESS_EVERY == 0:
                self.gathered = number
            if self._is_closed:
                return
        self.catalogue = Catalogue(columns_of_rows(rows, self.dataset.info))
        self.gathered = None


def _refuse_compressed(info: DatasetInfo) -> None:
    if info.compression:
        raise DatasetError(
            f"{info.name} is {info.compression}-compressed, so its records cannot be read by "
            "number",
            hint="pack it without --compression to view it",
            path=info.path,
        )


def _parsed(record: Record) -> dict[str, object]:
    height, width, channels = record.shape
    return {
        "filename": printable(record.filename),
        "labels": list(record.labels),
        "height": height,
        "width": width,
        "channels": channels,
        "format": sniff(record.image[:_HEAD_BYTES]),
        "bytes": len(record.image),
    }


def _feature(name: str, values: Feature) -> dict[str, object]:
    kind = _KINDS[type(values[0])] if values else "empty"
    text = ", ".join(_texts(values[:_SHOWN_VALUES]))
    is_cut = len(values) > _SHOWN_VALUES or len(text) > _SHOWN_CHARACTERS
    return {
        "name": printable(name),
        "kind": kind,
        "count": len(values),
        "bytes": sum(len(value) for value in values if isinstance(value, bytes)),
        "text": text[:_SHOWN_CHARACTERS] + " …" * is_cut,
    }


def _texts(values: Sequence[bytes | int | float]) -> Iterator[str]:
    """Yield values as text: as JSON numbers they would lose digits in a browser."""
    for value in values:
        yield _bytes_text(value) if isinstance(value, bytes) else repr(value)


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not value):
        return f'"{text}"'
    return value[:_SHOWN_BYTES].hex(" ") + " …" * (len(value) > _SHOWN_BYTES)
