"""A packed dataset as sequences of records, read at random and without TensorFlow."""

from __future__ import annotations

import operator
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, overload

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
from imgrec.read.records_by_number import Payload
from imgrec.read.samples import SampleColumns, gather_columns, read_columns
from imgrec.read.splits import ALL, joined, record_ranges
from imgrec.read.store_shards import open_shards
from imgrec.spelling import same_name
from imgrec.storage.paths import is_remote, refuse_remote, to_path
from imgrec.text import printable, suggestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.html import Picture
    from imgrec.storage.remote.cache import Cache

_PICTURE_SIDE = 144


class Dataset(Mapping[str, "Split"]):
    """The splits of a packed dataset, by name.

    `dataset["train"]` is a sequence of records. So is `dataset["train[:10%]+val"]`, in the syntax
    of TFDS. Threads may share a dataset. It survives a fork, and can be pickled.
    """

    def __init__(self, folder: Path, cache: Cache | None = None) -> None:
        """Open the dataset in a folder; with a cache, read its shards from copies."""
        documents = read_documents(folder)
        self.info: DatasetInfo = documents.info()
        documents.refuse_other_files()
        self._shards = open_shards(self.info, cache)
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

    def gather(self, numbers: Sequence[int]) -> Iterator[Record]:
        """Start to read all of these records, in large ranges, and yield them in this order."""
        return map(self._parse, self._shards.gather(numbers))

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

    def label_of(self, class_name: str | SupportsIndex) -> int:
        """Return the label of a class, given its name or label; raise UnknownName if none."""
        classes = self.info.classes
        if isinstance(class_name, SupportsIndex):
            label = operator.index(class_name)
            if 0 <= label < len(classes):
                return label
            raise UnknownName(
                f"{self.info.name} has no label {label}",
                hint=f"labels are 0 to {len(classes) - 1}" if classes else "it has no classes",
            )
        try:
            is_text = isinstance(class_name, str)
            return classes.index(same_name(class_name, classes) if is_text else class_name)
        except ValueError as error:
            raise UnknownName(
                f"{self.info.name} has no class {class_name!r}",
                hint=suggestion(classes, str(class_name)),
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
        from imgrec.html import Card, SplitRow

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


def open_cached(folder: Path, cache_dir: str, cache_bytes: int | None = None) -> Dataset:
    """Open a dataset; with `cache_dir`, keep the shards it reads from a store there."""
    refuse_remote(cache_dir, "cache_dir")
    if not cache_dir or not is_remote(folder):
        return Dataset(folder)
    from imgrec.storage.remote.cache import Cache

    return Dataset(folder, Cache(str(folder), cache_dir, cache_bytes))


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
        # The arrays and numbers of all libraries have `tolist`, which converts to Python's own.
        if hasattr(places, "tolist"):
            listed = places.tolist()
        else:
            listed = [one.tolist() if hasattr(one, "tolist") else one for one in places]
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
    def labels(self) -> NDArray[np.int64]:
        """Return the label of every record, without reading the images; -1 for none."""
        import numpy as np

        labels = np.asarray(self.dataset.columns.labels, np.int64)
        return labels[np.asarray(self.numbers, np.int64)]

    @property
    def filenames(self) -> list[str]:
        """Return the path of every file in the source, as `find` takes it.

        The images are not read. Bytes that are not UTF-8 are escaped.
        """
        names = self.dataset.columns.filenames
        return [names[number] for number in self.numbers]

    def class_counts(self) -> tuple[int, ...]:
        """Count the records of each label, without reading the images."""
        sets = self.dataset.columns.label_sets
        if sets:
            counts = Counter(chain.from_iterable(sets[at] for at in self.numbers))
        else:
            counts = Counter(self.labels.tolist())
        return tuple(counts[label] for label in range(len(self.dataset.classes)))

    def of_class(self, class_name: str | SupportsIndex) -> Split:
        """Return the records of a class, given its name or label; raise UnknownName if none."""
        label = self.dataset.label_of(class_name)
        labels, sets, _ = self.dataset.columns
        numbers = (
            at for at in self.numbers if (label in sets[at] if sets else labels[at] == label)
        )
        return self._part(array("Q", numbers))

    def find(self, filename: str | bytes) -> Record:
        """Return the record of a file by its path in the source; raise UnknownName if none.

        Bytes are taken too, as `imgrec.load(..., as_dict=True)` returns them.
        """
        names = self.dataset.columns.filenames
        if self._by_name is None:
            self._by_name = {names[number]: number for number in reversed(self.numbers)}
        if isinstance(filename, bytes):
            filename = filename.decode("utf-8", "surrogateescape")
        if not isinstance(filename, str):
            raise UsageError(f"{filename!r} is not the path of a file", hint="give a str or bytes")
        shown = printable(filename)
        if shown not in self._by_name and (meant := same_name(shown, [*self._by_name])) != shown:
            shown = filename = meant
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
        meant = _similar_name(shown, self._by_name or ())
        if shown in names:
            hint = f"it is in {self.dataset.split_of(names.index(shown))}"
        elif meant:
            hint = f"did you mean {meant}?"
        else:
            example = next(iter(self._by_name or ()), "")
            hint = f"one of its files is {example}" if example else "its records have no names"
        owner = self.dataset.info.name if self.name == ALL else self.name
        return UnknownName(f"{owner} has no file {shown}", hint=hint)

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Return the place of a record, or of a file by its path in the source.

        Raises UnknownName for an unknown file, and UsageError for a record that is not here.
        """
        if isinstance(value, str | bytes):
            value = self.find(value)
        places = range(len(self))[start:stop]
        if isinstance(value, Record):
            # Only records of the same name are read: names are known without the images.
            names, shown = self.dataset.columns.filenames, printable(value.filename)
            for place in places:
                if names[self.numbers[place]] == shown and self[place] == value:
                    return place
        raise UsageError(f"{value!r} is not in {self.name}", hint="give a record, or a file's path")

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.info.name}: {len(self)} records>"

    def _repr_html_(self) -> str:
        from imgrec.html import Card

        info = self.dataset.info
        return Card(
            title=f"{self.name}: {len(self):,} images",
            subtitle=f"of {info.name} {info.version}",
            pictures=_pictures(self),
            classes=info.classes,
            counts=[("images", self.class_counts())],
        ).html()


def _similar_name(wanted: str, names: Iterable[str]) -> str:
    """Return the file that was probably meant: its folder, ending or case may differ."""
    base = wanted.rpartition("/")[2].casefold()
    by_stem = ""
    for name in names:
        own = name.rpartition("/")[2].casefold()
        if own == base:
            return name
        if not by_stem and own.rpartition(".")[0] == base:
            by_stem = name
    return by_stem


def _not_an_index(place: object) -> UsageError:
    return UsageError(
        f"{place!r} does not number records",
        hint="give an integer, a slice, or a list or array of integers; find() takes a file's name",
    )


def _pictures(records: Iterable[Record]) -> Iterator[Picture]:
    """Yield the first images, for the card of a notebook."""
    from imgrec.codec.decode import encode_thumbnail, thumbnail
    from imgrec.html import MAX_PICTURES, Picture

    with suppress(ImgrecError):  # a damaged record ends the pictures
        for record in islice(records, MAX_PICTURES):
            small = thumbnail(record.image, record.filename, _PICTURE_SIDE)
            labels = ", ".join(record.class_names)
            caption = " · ".join(filter(None, (labels, record.filename)))
            yield Picture(encode_thumbnail(small), caption)
