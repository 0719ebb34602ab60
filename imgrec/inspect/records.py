"""Single records of a dataset: which one is meant, where it is, and all that is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import UsageError
from imgrec.read.dataset import Dataset, Split
from imgrec.read.record import Record
from imgrec.read.splits import ALL
from imgrec.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a record is."""

    split: str
    number: int
    """In its split."""
    shard: str
    """The name of the file."""
    in_shard: int
    """Its number in the shard."""


def first_split(dataset: Dataset) -> str:
    """Name the first split of a dataset."""
    return next(iter(dataset), ALL)


def read_head(dataset: Dataset, split: str, count: int) -> tuple[Split, Iterator[Record]]:
    """Return the first records that a split's name stands for; of the first split if it is ""."""
    if count < 0:
        raise UsageError(f"-n {count} is no number of records", hint="give 0 or more")
    head = dataset[split or first_split(dataset)][:count]
    return head, iter(head)


def find_number(dataset: Dataset, what: str, split: str) -> int:
    """Return the number of a record by its number in a split, or by its file.

    Without a split, a number counts in the first one, and a file is looked for in all. Raises
    UnknownName or OutOfRange if there is none.
    """
    if what.removeprefix("-").isdecimal():
        part = dataset[split or first_split(dataset)]
        return part[[int(what)]].numbers[0]
    part = dataset[split or ALL]
    names, shown = dataset.columns.filenames, printable(what)
    for number in part.numbers:
        if names[number] == shown:
            return number
    part.find(what)  # which says what there is instead
    raise AssertionError(what)


def place_of(dataset: Dataset, number: int) -> Place:
    """Say where a record is, by its number as `Dataset.read` takes it."""
    path, in_shard = dataset.locate(number)
    split, before = dataset.split_of(number), 0
    for one in dataset.info.splits:
        if one.name == split:
            break
        before += one.examples
    shard = os.path.basename(path)
    return Place(split=split, number=number - before, shard=shard, in_shard=in_shard)


def format_of(record: Record) -> str:
    """Name the format of a record's image."""
    return sniff(record.image[:HEAD_BYTES]) or "unknown"
