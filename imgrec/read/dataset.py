"""A packed dataset as sequences of records, read at random and without TensorFlow."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from imgrec.errors import CorruptRecord, OutOfRange, UnknownName
from imgrec.outcome import DatasetInfo
from imgrec.read.metadata import read_info
from imgrec.read.record import Record, parse
from imgrec.read.samples import SampleColumns, read_columns
from imgrec.read.shards import Shards, joined
from imgrec.read.spec import record_ranges
from imgrec.text import printable


class Dataset(Mapping[str, "Split"]):
    """The splits of a packed dataset, by name.

    `dataset["train"]` is a sequence of records, and so is `dataset["train[:10%]+val"]`, in all
    words that TFDS knows. It may be shared by threads, kept through a fork, and pickled.
    """

    def __init__(self, folder: Path) -> None:
        self.info: DatasetInfo = read_info(folder)
        self._shards = Shards(self.info)

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels."""
        return self.info.classes

    def __getitem__(self, split: str) -> Split:
        return Split(self, split, joined(record_ranges(split, self.info.splits)))

    def __iter__(self) -> Iterator[str]:
        return (split.name for split in self.info.splits)

    def __len__(self) -> int:
        return len(self.info.splits)

    def read(self, number: int) -> Record:
        """Return a record by its number, counted through all splits one after another."""
        data, start, end = self._shards.read(number)
        try:
            return parse(data, start, end, self.info.classes)
        except CorruptRecord as error:
            path, place = self._shards.locate(number)
            raise CorruptRecord(
                f"{path}: record {place}: {error}", path=path, hint=error.hint
            ) from error

    @cached_property
    def columns(self) -> SampleColumns:
        """What is known of all records without reading them."""
        return read_columns(Path(self.info.path), self.info)

    def label_of(self, class_name: str) -> int:
        """Return the label of a class; raise UnknownName if there is none of that name."""
        try:
            return self.info.classes.index(class_name)
        except ValueError as error:
            shown = ", ".join(self.info.classes[:20])
            more = f" and {len(self.info.classes) - 20} more" * (len(self.info.classes) > 20)
            raise UnknownName(
                f"{self.info.name} has no class {class_name!r}", hint=f"there is {shown}{more}"
            ) from error

    def __repr__(self) -> str:
        splits = ", ".join(f"{split.name}: {split.examples}" for split in self.info.splits)
        return f"<Dataset {self.info.name} {self.info.version}: {splits}>"


class Split(Sequence[Record]):
    """Records of a dataset, in a fixed order; a slice or a list of numbers gives a part of them."""

    def __init__(self, dataset: Dataset, name: str, numbers: Sequence[int]) -> None:
        self.dataset = dataset
        self.name = name
        self._numbers = numbers
        """Of its records, as `Dataset.read` takes them."""

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice | Sequence[int]) -> Split: ...
    def __getitem__(self, place: int | slice | Sequence[int]) -> Record | Split:
        if isinstance(place, slice):
            return self._part(self._numbers[place])
        if hasattr(place, "__iter__"):
            return self._part(array("Q", [self._number(one) for one in place]))
        return self.dataset.read(self._number(place))

    def _number(self, place: int) -> int:
        try:
            return self._numbers[place]
        except IndexError as error:
            raise OutOfRange(
                f"{self.name} has {len(self)} records, and none of number {place}",
                hint=f"count from 0 to {len(self) - 1}",
            ) from error

    def _part(self, numbers: Sequence[int]) -> Split:
        return Split(self.dataset, self.name, numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Record]:
        return map(self.dataset.read, self._numbers)

    @property
    def labels(self) -> array[int]:
        """Return the label of every record, without reading the images; -1 is none."""
        labels = self.dataset.columns.labels
        return array("q", [labels[number] for number in self._numbers])

    def of_class(self, class_name: str) -> Split:
        """Return the records of one class; raise UnknownName if there is none of that name."""
        label = self.dataset.label_of(class_name)
        columns = self.dataset.columns
        if columns.label_sets:
            return self._part(
                array("Q", [at for at in self._numbers if label in columns.label_sets[at]])
            )
        return self._part(array("Q", [at for at in self._numbers if columns.labels[at] == label]))

    def find(self, filename: str) -> Record:
        """Return the record of a file, by its path inside the source; raise UnknownName if none."""
        number = self._by_name.get(printable(filename))
        if number is None:
            example = f"one of its files is {self[0].filename}" if len(self) else "it is empty"
            raise UnknownName(f"{self.name} has no file {filename!r}", hint=example)
        return self.dataset.read(number)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        names = self.dataset.columns.filenames
        return {names[number]: number for number in self._numbers}

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.info.name}: {len(self)} records>"
