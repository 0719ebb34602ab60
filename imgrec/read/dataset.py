"""A packed dataset as sequences of records, read at random and without TensorFlow."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import overload

from imgrec import layout
from imgrec.codec import example
from imgrec.codec.example import Feature
from imgrec.errors import CorruptRecord, DatasetError, OutOfRange, UnknownName, UsageError
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_documents
from imgrec.read.random_access import Payload, open_shards
from imgrec.read.record import Record, parse
from imgrec.read.samples import SampleColumns, gather_columns, read_columns
from imgrec.read.splits import ALL, joined, record_ranges
from imgrec.storage.paths import to_path
from imgrec.text import printable, suggestion


class Dataset(Mapping[str, "Split"]):
    """The splits of a packed dataset, by name.

    `dataset["train"]` is a sequence of records, and so is `dataset["train[:10%]+val"]`, in all
    words that TFDS knows. It may be shared by threads, kept through a fork, and pickled.
    """

    def __init__(self, folder: Path) -> None:
        documents = read_documents(folder)
        self.info: DatasetInfo = documents.info()
        documents.refuse_other_files()
        self._shards = open_shards(self.info)
        self._columns: SampleColumns | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_columns": None}  # workers can read them again, and seldom do

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

    def __contains__(self, split: object) -> bool:
        try:
            return bool(record_ranges(split, self.info.splits))  # type: ignore[arg-type]  # it refuses others
        except (UnknownName, UsageError):
            return False

    # One opened twice is two, as with files; mappings would compare their splits.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def read(self, number: int) -> Record:
        """Return a record by its number, counted through all splits one after another."""
        return self._parsed(self._shards.read(number))

    def read_all(self, numbers: Sequence[int]) -> Iterator[Record]:
        """Yield records by their numbers; those of compressed shards must be in order."""
        return map(self._parsed, self._shards.stream(numbers))

    def features(self, number: int) -> Mapping[str, Feature]:
        """Return all that is in a record; a compressed shard is read up to it."""
        for _, data, start, end in self._shards.stream([number]):
            with self._located(number):
                return example.decode(data[start:end])
        raise AssertionError(number)

    def _parsed(self, found: Payload) -> Record:
        number, data, start, end = found
        try:
            return parse(data, start, end, self.info.classes)
        except CorruptRecord:
            with self._located(number):
                raise

    @contextmanager
    def _located(self, number: int) -> Iterator[None]:
        """Let a CorruptRecord say which record it is about."""
        try:
            yield
        except CorruptRecord as error:
            path, place = self.locate(number)
            message = f"{path}: record {place}: {error}"
            raise CorruptRecord(message, path=path, hint=error.hint) from error

    @property
    def columns(self) -> SampleColumns:
        """What is known of all records; where no table tells, all of them are read once."""
        if self._columns is None:
            folder = to_path(self.info.path)
            if (folder / layout.SAMPLES).exists():
                self._columns = read_columns(folder, self.info)
            else:
                self._columns = gather_columns(self[ALL])
        return self._columns

    def label_of(self, class_name: str) -> int:
        """Return the label of a class; raise UnknownName if there is none of that name."""
        try:
            return self.info.classes.index(class_name)
        except ValueError as error:
            raise UnknownName(
                f"{self.info.name} has no class {class_name!r}",
                hint=suggestion(self.info.classes, str(class_name)),
            ) from error

    def __repr__(self) -> str:
        splits = ", ".join(f"{split.name}: {split.examples}" for split in self.info.splits)
        return f"<Dataset {self.info.name} {self.info.version}: {splits}>"

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in there."""
        return self._shards.locate(number)

    def _repr_html_(self) -> str:
        from imgrec.read.cards import dataset_card

        splits = self.info.splits
        return dataset_card(self.info, self[splits[0].name] if splits else ())

    def split_of(self, number: int) -> str:
        """Name the split that a record is in, by its number as `read` takes it."""
        ends = accumulate(split.examples for split in self.info.splits)
        return self.info.splits[next(n for n, end in enumerate(ends) if number < end)].name


class Split(Sequence[Record]):
    """Records of a dataset, in a fixed order; a slice or a list of numbers gives a part of them."""

    def __init__(self, dataset: Dataset, name: str, numbers: Sequence[int]) -> None:
        self.dataset = dataset
        self.name = name
        self._numbers = numbers
        """Of its records, as `Dataset.read` takes them."""
        self._by_name: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_by_name": None}

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice | Iterable[int]) -> Split: ...
    def __getitem__(self, place: int | slice | Iterable[int]) -> Record | Split:
        if isinstance(place, slice):
            return self._part(self._numbers[place])
        try:
            number = self._numbers[place]  # type: ignore[index]  # or it is several
        except TypeError:
            return self._part(array("Q", self._several(place)))
        except IndexError as error:
            raise self._out_of_range(place) from error
        return self.dataset.read(number)

    def _several(self, places: object) -> Iterable[int]:
        """Return the numbers of the records at some places, or where a mask is true."""
        if isinstance(places, str | bytes) or not isinstance(places, Iterable):
            raise _no_place(places)
        # Arrays of any library have `tolist`, and make it Python's own numbers.
        listed = places.tolist() if hasattr(places, "tolist") else list(places)
        if not isinstance(listed, list):
            raise _no_place(places)
        if any(isinstance(place, bool) for place in listed):
            if len(listed) != len(self):
                raise UsageError(f"a mask of {len(listed)} does not fit {len(self)} records")
            return compress(self._numbers, listed)
        return map(self._number, listed)

    def _number(self, place: int) -> int:
        try:
            return self._numbers[place]
        except IndexError as error:
            raise self._out_of_range(place) from error
        except TypeError as error:
            raise _no_place(place) from error

    def _out_of_range(self, place: object) -> OutOfRange:
        return OutOfRange(
            f"{self.name} has {len(self)} records, and none of number {place}",
            hint=f"count from 0 to {len(self) - 1}" if len(self) else "it is empty",
        )

    def _part(self, numbers: Sequence[int]) -> Split:
        return Split(self.dataset, f"part of {self.name.removeprefix('part of ')}", numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Record]:
        return self.dataset.read_all(self._numbers)

    @property
    def numbers(self) -> Sequence[int]:
        """Number its records, as `Dataset.read` takes them."""
        return self._numbers

    @property
    def labels(self) -> array[int]:
        """Return the label of every record, without reading the images; -1 is none."""
        labels = self.dataset.columns.labels
        return array("q", [labels[number] for number in self._numbers])

    def class_counts(self) -> tuple[int, ...]:
        """Count the records of each label, without reading the images."""
        sets = self.dataset.columns.label_sets
        counts = Counter(
            chain.from_iterable(sets[at] for at in self._numbers) if sets else self.labels
        )
        return tuple(counts[label] for label in range(len(self.dataset.classes)))

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
        names = self.dataset.columns.filenames
        if self._by_name is None:
            self._by_name = {names[number]: number for number in reversed(self._numbers)}
        shown = printable(filename)
        number = self._by_name.get(shown)
        if number is None:
            raise self._no_file(shown)
        record = self.dataset.read(number)
        if record.filename != filename:  # two names of other bytes may be shown alike
            alike = [self.dataset.read(n) for n in self._numbers if names[n] == shown]
            record = next((one for one in alike if one.filename == filename), record)
        if printable(record.filename) != shown:
            raise DatasetError(
                f"{layout.SAMPLES} names {shown} where {printable(record.filename)} is",
                hint="pack the dataset again, or delete that file to read without it",
                path=self.dataset.info.path,
            )
        return record

    def _no_file(self, shown: str) -> UnknownName:
        names = self.dataset.columns.filenames
        ending = "/" + shown.rpartition("/")[2]
        meant = next((name for name in self._by_name or () if name.endswith(ending)), "")
        if shown in names:
            hint = f"it is in {self.dataset.split_of(names.index(shown))}"
        elif meant:
            hint = f"did you mean {meant}?"
        else:
            example = next(iter(self._by_name or ()), "")
            hint = f"one of its files is {example}" if example else "its records have no names"
        where = self.dataset.info.name if self.name == ALL else self.name
        return UnknownName(f"{where} has no file {shown}", hint=hint)

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.info.name}: {len(self)} records>"

    def _repr_html_(self) -> str:
        from imgrec.read.cards import split_card

        title = f"{self.name}: {len(self):,} images"
        return split_card(title, self.dataset.info, self.class_counts(), self)


def _no_place(place: object) -> UsageError:
    return UsageError(
        f"{place!r} does not number records",
        hint="give an integer, a slice, or a list or array of integers; find() takes a file's name",
    )
