"""A dataset as formats see it: its facts, the fields of its records, and its shards as tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.inspect.image_files import read_records, wrong_length
from imgrec.options import ColumnKind
from imgrec.outcome import DatasetInfo, Report
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record


class Column(NamedTuple):
    """The type of a column of the source."""

    kind: ColumnKind
    is_list: bool = False
    """Whether records may have any number of values. imgrec writes only columns with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What records hold besides an image and its name."""

    classes: tuple[str, ...]
    is_multilabel: bool
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The facts about a dataset."""

    info: DatasetInfo
    form: Form
    report: Report | None
    """None if it cannot be read."""

    @property
    def images(self) -> int:
        """Count the images of all splits."""
        return sum(split.examples for split in self.info.splits)

    @property
    def description(self) -> str:
        """Return what people say about the dataset, or else how large it is."""
        return self.info.about.description or layout.description(
            self.images, len(self.form.classes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard of the dataset, as a task for a worker."""

    path: str
    compression: str
    images: int
    split: str
    target: str
    """The name of the file to write, below the folder of the export."""
    keys: Sequence[str]
    """The key of each record, in formats that have keys; else empty."""

    def records(self, form: Form) -> Iterator[Record]:
        """Yield all records, with their checksums checked; raise DatasetError if any is wrong."""
        count = 0
        for record in read_records(self.path, self.compression, form.classes):
            count += 1
            if count > self.images:
                raise wrong_length(self.path, "more", self.images)
            yield record
        if count < self.images:
            raise wrong_length(self.path, count, self.images)


class WrittenFile(NamedTuple):
    """A file of an export that holds images."""

    name: str
    split: str
    images: int
    size: int
    sha256: str
    image_bytes: int
    unpacked_bytes: int
    """The size of its rows in memory, as far as the format can tell."""


class Format(Protocol):
    """A module that writes one format."""

    def file_name(self, split: str, index: int, count: int) -> str:
        """Name the file for a shard; raise DatasetError if the format refuses the split."""
        ...

    def keys(self, dataset: Dataset) -> Sequence[str]:
        """Return the key of each record, if records of this format have keys."""
        ...

    def write(self, shard: Shard, form: Form, folder: str) -> WrittenFile:
        """Write the file for a shard. This runs in a worker."""
        ...

    def documents(self, contents: Contents, files: Sequence[WrittenFile]) -> Mapping[str, str]:
        """Return the texts to write beside the images, by name."""
        ...

    def is_own_file(self, name: str) -> bool:
        """Return whether an export to this format may contain a file of that name."""
        ...

    def load_line(self, target: str, contents: Contents) -> str:
        """Return the line of Python that loads the export from the folder `target`."""
        ...


def refuse_split(split: str, pattern: re.Pattern[str], allowed: str) -> None:
    """Raise DatasetError if a format cannot name a split."""
    if not pattern.fullmatch(split):
        raise DatasetError(
            f"the split {split} cannot be exported to this format, which allows {allowed}",
            hint="export to another format, or pack the dataset with other names of splits",
        )
