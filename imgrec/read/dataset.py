"""A packed dataset as sequences of records, read at random and without TensorFlow."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, overload

from imgrec import layout
from imgrec.codec import example
from imgrec.codec.example import Feature
from imgrec.errors import (
    CorruptRecord,
    DatasetError,
    ImgrecError,
    OutOfRange,
    UnknownName,
    UsageError,
)
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_documents
from imgrec.read.record import Record, parse
from imgrec.read.samples import SampleColumns, gather_columns, read_columns
from imgrec.read.shards import Payload, open_shards
from imgrec.read.splits import ALL, joined, record_ranges
from imgrec.storage.paths import to_path
from imgrec.text import printable, suggestion

if TYPE_CHECKING:
    from imgrec.notebook import Picture

_PICTURE_SIDE = 144


class Dataset(Mapping[str, "Split"]):
    """The splits of a packed dataset, by name.

    `dataset["train"]` is a sequence of records. So is `dataset["train[:10%]+val"]`, in the syntax
    of TFDS. Threads may share a dataset. It survives a fork, and can be pickled.
    """

    def __init__(self, folder: Path) -> None:
        documents = read_documents(folder)
        self.info: DatasetInfo = documents.info()
        documents.refuse_other_files()
        self._shards = open_shards(self.info)
        self._columns: SampleColumns | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_columns": None}  # workers seldom need them, and can read them

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

    # Like open files, two datasets are equal only if they are the same object.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def read(self, number: int) -> Record:
        """Return a record by its number, counted through all splits."""
        return self._parse(self._shards.read(number))

    def read_all(self, numbers: Sequence[int]) -> Iterator[Record]:
        """Yield records by their numbers; those of compressed shards must be in order."""
        return map(self._parse, self._shards.stream(numbers))

    def features(self, number: int) -> Mapping[str, Feature]:
        """Return all features of a record; a compressed shard is read up to it."""
        (payload,) = self._shards.stream([number])
        with self._errors_locate(number):
            return example.decode(payload.data[payload.start : payload.end])

    def _parse(self, payload: Payload) -> Record:
        number, data, start, end = payload
        try:
            return parse(data, start, end, self.info.classes)
        except CorruptRecord:
            with self._errors_locate(number):
                raise

    @contextmanager
    def _errors_locate(self, number: int) -> Iterator[None]:
        """Add the shard and the record's number to a CorruptRecord."""
        try:
            yield
        except CorruptRecord as error:
            path, place = self.locate(number)
            message = f"{path}: record {place}: {error}"
            raise CorruptRecord(message, path=path, hint=error.hint) from error

    @property
    def columns(self) -> SampleColumns:
        """Labels and names of all records. Without samples.parquet, all records are read once."""
        if self._columns is None:
            folder = to_path(self.info.path)
            if (folder / layout.SAMPLES).exists():
                self._columns = read_columns(folder, self.info)
            else:
                self._columns = gather_columns(self[ALL])
        return self._columns

    def label_of(self, class_name: str) -> int:
        """Return the label of a class; raise UnknownName if there is no such class."""
        try:
            return self.info.classes.index(class_name)
        except ValueError as error:
            raise UnknownName(
                f"{self.info.name} has no class {class_name!r}",
                hint=suggestion(self.info.classes, str(class_name)),
            ) from error

    def locate(self, number: int) -> tuple[str, int]:
        """Return the path of a record's shard, and its number in that shard."""
        return self._shards.locate(number)

    def split_of(self, number: int) -> str:
        """Name the split of a record, by its number as `read` takes it."""
        ends = accumulate(split.examples for split in self.info.splits)
        return self.info.splits[next(n for n, end in enumerate(ends) if number < end)].name

    def __repr__(self) -> str:
        splits = ", ".join(f"{split.name}: {split.examples}" for split in self.info.splits)
        return f"<Dataset {self.info.name} {self.info.version}: {splits}>"

    def _repr_html_(self) -> str:
        from imgrec.notebook import Card, SplitRow

        info = self.info
        images = sum(split.examples for split in info.splits)
        return Card(
            title=f"{info.name} {info.version}",
            subtitle=f"{images:,} images, {len(info.classes):,} classes",
            splits=[
                SplitRow(split.name, split.examples, len(split.shard_lengths), split.num_bytes)
                for split in info.splits
            ],
            pictures=_pictures(self[info.splits[0].name] if info.splits else ()),
            classes=info.classes,
            counts=[(split.name, split.class_counts) for split in info.splits],
        ).html()


class Split(Sequence[Record]):
    """Records of a dataset in a fixed order. A slice or a list of numbers gives a part of them."""

    def __init__(self, dataset: Dataset, name: str, numbers: Sequence[int]) -> None:
        self.dataset = dataset
        self.name = name
        self.numbers = numbers
        """The numbers of the records, as `Dataset.read` takes them."""
        self._by_name: dict[str, int] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_by_name": None}

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice | Iterable[int]) -> Split: ...
    def __getitem__(self, place: int | slice | Iterable[int]) -> Record | Split:
        if isinstance(place, slice):
            return self._part(self.numbers[place])
        try:
            number = self.numbers[place]  # type: ignore[index]  # or it is several
        except TypeError:
            return self._part(array("Q", self._several(place)))
        except IndexError as error:
            raise self._out_of_range(place) from error
        return self.dataset.read(number)

    def _several(self, places: object) -> Iterable[int]:
        """Return the numbers of the records at some places, or where a mask is true."""
        if isinstance(places, str | bytes) or not isinstance(places, Iterable):
            raise _not_an_index(places)
        # The arrays of all libraries have `tolist`, which converts to Python's own numbers.
        listed = places.tolist() if hasattr(places, "tolist") else list(places)
        if not isinstance(listed, list):
            raise _not_an_index(places)
        if any(isinstance(place, bool) for place in listed):
            if len(listed) != len(self):
                raise UsageError(f"a mask of {len(listed)} does not fit {len(self)} records")
            return compress(self.numbers, listed)
        return map(self._number, listed)

    def _number(self, place: int) -> int:
        try:
            return self.numbers[place]
        except IndexError as error:
            raise self._out_of_range(place) from error
        except TypeError as error:
            raise _not_an_index(place) from error

    def _out_of_range(self, place: object) -> OutOfRange:
        return OutOfRange(
            f"{self.name} has {len(self)} records; {place} is out of range",
            hint=f"count from 0 to {len(self) - 1}" if len(self) else "it is empty",
        )

    def _part(self, numbers: Sequence[int]) -> Split:
        return Split(self.dataset, f"part of {self.name.removeprefix('part of ')}", numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Record]:
        return self.dataset.read_all(self.numbers)

    @property
    def labels(self) -> array[int]:
        """Return the label of every record, without reading the images; -1 for none."""
        labels = self.dataset.columns.labels
        return array("q", [labels[number] for number in self.numbers])

    def class_counts(self) -> tuple[int, ...]:
        """Count the records of each label, without reading the images."""
        sets = self.dataset.columns.label_sets
        labels = chain.from_iterable(sets[at] for at in self.numbers) if sets else self.labels
        counts = Counter(labels)
        return tuple(counts[label] for label in range(len(self.dataset.classes)))

    def of_class(self, class_name: str) -> Split:
        """Return the records of one class; raise UnknownName if there is no such class."""
        label = self.dataset.label_of(class_name)
        labels, sets, _ = self.dataset.columns
        numbers = (
            at for at in self.numbers if (label in sets[at] if sets else labels[at] == label)
        )
        return self._part(array("Q", numbers))

    def find(self, filename: str) -> Record:
        """Return the record of a file by its path in the source; raise UnknownName if none."""
        names = self.dataset.columns.filenames
        if self._by_name is None:
            self._by_name = {names[number]: number for number in reversed(self.numbers)}
        shown = printable(filename)
        number = self._by_name.get(shown)
        if number is None:
            raise self._no_file(shown)
        record = self.dataset.read(number)
        if record.filename != filename:  # names of different bytes may look the same
            alike = [self.dataset.read(n) for n in self.numbers if names[n] == shown]
            record = next((one for one in alike if one.filename == filename), record)
        if printable(record.filename) != shown:
            raise DatasetError(
                f"{layout.SAMPLES} names {shown}, but the record is {printable(record.filename)}",
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
        owner = self.dataset.info.name if self.name == ALL else self.name
        return UnknownName(f"{owner} has no file {shown}", hint=hint)

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.info.name}: {len(self)} records>"

    def _repr_html_(self) -> str:
        from imgrec.notebook import Card

        info = self.dataset.info
        return Card(
            title=f"{self.name}: {len(self):,} images",
            subtitle=f"of {info.name} {info.version}",
            pictures=_pictures(self),
            classes=info.classes,
            counts=[("images", self.class_counts())],
        ).html()


def _not_an_index(place: object) -> UsageError:
    return UsageError(
        f"{place!r} does not number records",
        hint="give an integer, a slice, or a list or array of integers; find() takes a file's name",
    )


def _pictures(records: Iterable[Record]) -> Iterator[Picture]:
    """Yield the first images, for the card of a notebook."""
    from imgrec.codec.decode import encode_thumbnail, thumbnail
    from imgrec.notebook import MAX_PICTURES, Picture

    with suppress(ImgrecError):  # a damaged record ends the pictures
        for record in islice(records, MAX_PICTURES):
            small = thumbnail(record.image, record.filename, _PICTURE_SIDE)
            labels = ", ".join(record.class_names)
            caption = " · ".join(filter(None, (labels, record.filename)))
            yield Picture(encode_thumbnail(small), caption)
