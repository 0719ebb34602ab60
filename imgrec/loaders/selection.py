"""Choose the records of a split that a job reads: its part of them, or balanced epochs.

In a balanced epoch all classes come equally often, so images of rare classes are repeated. The
classes take turns, row by row:

    class A (4 images)   a0  a1  a2  a3
    class B (2 images)   b0  b1  b0  b1      order: a0 b0  a1 b1  a2 b0  a3 b1
                         row 0 · row 1 · …

So the copies of an image are evenly spaced over the epoch: as many rows apart as its class has
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imgrec import layout
from imgrec.errors import UsageError
from imgrec.model import TRAIN
from imgrec.options.loading import LoadOptions
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_documents, read_info
from imgrec.read.samples import read_labels
from imgrec.read.shards import shard_lengths
from imgrec.read.splits import cut, fold_names, part_of, record_ranges
from imgrec.read.store_shards import fetch_shards
from imgrec.read.tfds_files import Features

if TYPE_CHECKING:
    from imgrec.storage.remote.cache import Cache

Numbers: TypeAlias = NDArray[np.int64]


class ClassRecords(NamedTuple):
    """The records of one class in a balanced epoch."""

    records: Numbers
    """The number of each image, once."""
    times: int
    """How many images of the epoch are of this class. Each record comes `times / records` times,
    rounded up or down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balanced epochs of one job."""

    classes: Sequence[ClassRecords]
    """Their times differ by one at most."""
    unlabelled: Numbers
    """Records without a label. Each comes once."""
    batch_size: int = 1

    @property
    def count(self) -> int:
        """Count the images of an epoch."""
        return sum(one.times for one in self.classes) + len(self.unlabelled)

    def records(self) -> Numbers:
        """Return the number of each record that is used, once, in ascending order."""
        return np.unique(np.concatenate([*(one.records for one in self.classes), self.unlabelled]))

    def order(self, seeds: Sequence[int] | None = None) -> Numbers:
        """Return the numbers of an epoch's records in order; with seeds, in random order.

        No `batch_size` consecutive records have an image twice, unless a class has too few images.
        """
        random = np.random.default_rng(list(seeds)) if seeds is not None else None
        classes = list(self.classes)
        if random is not None:
            classes = [classes[at] for at in random.permutation(len(classes))]
        # Classes that do not reach the last row come last, so that the others keep their columns.
        classes.sort(key=lambda one: -one.times)
        order = self._rows(classes, random) if classes else np.empty(0, np.int64)
        unlabelled = self.unlabelled if random is None else random.permutation(self.unlabelled)
        places = np.arange(len(unlabelled)) * len(order) // max(len(unlabelled), 1)
        return np.insert(order, places, unlabelled)

    def _rows(self, classes: Sequence[ClassRecords], random: np.random.Generator | None) -> Numbers:
        table = np.empty((classes[0].times, len(classes)), np.int64)
        for column, (records, times) in enumerate(classes):
            shown = records if random is None else random.permutation(records)
            table[:times, column] = np.resize(shown, times)
        full = classes[-1].times  # the rows that all classes reach
        width = sum(one.times > full for one in classes)  # of the last row, if it is not full
        if random is not None:
            step = self._shuffled_columns()
            for start in range(0, len(classes), step):
                for rows, stop in ((slice(full), len(classes)), (slice(full, None), width)):
                    block = rows, slice(start, min(start + step, stop))
                    table[block] = random.permuted(table[block], axis=1)
        return np.concatenate([table[:full].ravel(), table[full:, :width].ravel()])

    def _shuffled_columns(self) -> int:
        """Return how many neighbours in a row may be shuffled without bringing copies close.

        Copies stay at least half as far apart as in fixed columns.
        """
        rows = [len(records) for records, times in self.classes if times > len(records)]
        distance = min(rows, default=len(self.classes)) * len(self.classes)
        spare = distance - max(self.batch_size, distance // 2)
        return min(max(spare + 1, 1), len(self.classes))


def balance(numbers: Numbers, labels: Numbers, shard: tuple[int, int], batch_size: int) -> Balance:
    """Return the balanced epochs of job `shard[0]` of `shard[1]`, as long as those of all jobs.

    All classes come as often as the largest, and the jobs share the rows. If the rows cannot
    be divided evenly, the last job starts again with the first rows.
    """
    job, jobs = shard
    by_label = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[by_label], return_index=True)
    groups = np.split(numbers[by_label], starts[1:])
    members = [group for label, group in zip(found, groups, strict=True) if label >= 0]
    unlabelled = numbers[labels < 0]
    most = max(map(len, members), default=0)
    share = -(-most * len(members) // jobs)
    classes = []
    for column, records in enumerate(members):
        # Image k of a class is number k * len(members) + column of all.
        start, stop = (-(-(share * place - column) // len(members)) for place in (job, job + 1))
        if stop > start:
            shown = np.arange(start, min(stop, start + len(records))) % len(records)
            classes.append(ClassRecords(records[shown], stop - start))
    rest = -(-len(unlabelled) // jobs)
    taken = np.arange(rest * job, rest * (job + 1)) % max(len(unlabelled), 1)
    return Balance(classes=classes, unlabelled=unlabelled[taken], batch_size=batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The records that one job reads."""

    info: DatasetInfo
    features: Features
    ranges: Sequence[range]
    """Their numbers, counted through all splits."""
    limit: int | None = None
    """The most records in an epoch."""
    balance: Balance | None = None
    """Which records to read instead of all in `ranges`, if classes are balanced."""

    @property
    def records(self) -> int:
        """Count the records."""
        return sum(map(len, self.ranges))

    @property
    def epoch_count(self) -> int:
        """Count the images of an epoch."""
        if self.balance is not None:
            return self.balance.count
        return self.records if self.limit is None else min(self.records, self.limit)

    @property
    def record_bytes(self) -> int:
        """Return the mean size of the dataset's records."""
        examples = sum(split.examples for split in self.info.splits)
        return sum(split.num_bytes for split in self.info.splits) // max(examples, 1)

    def copied(self, cache: Cache) -> Selection:
        """Copy the shards from a store; return a selection that reads the copies."""
        shards = {piece.shard for piece in cut(self.ranges, shard_lengths(self.info))}
        return replace(self, info=fetch_shards(self.info, cache, shards))


def select_records(folder: Path, split: str, options: LoadOptions) -> Selection:
    """Choose the records for `imgrec.load`; raise UsageError if the options do not fit them."""
    documents = read_documents(folder)
    info, features = documents.info(), documents.imgrec_features()
    ranges = [records for records in record_ranges(split, info.splits) if records]
    limit = None
    if options.shard is not None and not options.balance:
        job, jobs = options.shard
        if options.batch_size and options.drop_remainder:
            limit = sum(map(len, ranges)) // jobs  # so that all jobs have equally many batches
        ranges = part_of(ranges, job, jobs)
    selection = Selection(info=info, features=features, ranges=ranges, limit=limit)
    if not selection.epoch_count:
        raise UsageError(f"split {split!r} is empty", hint="name a split with records")
    if not options.balance:
        _refuse_skipping_all(selection, options)
    is_one_size = options.image_size or (features.is_one_size and not options.orient)
    if not is_one_size and (options.batch_size or options.cache):
        name = "batch_size" if options.batch_size else "cache"
        raise UsageError(
            f"images of different sizes cannot be {'batched' if options.batch_size else 'cached'}",
            hint=f"give image_size=(height, width), or leave out {name}",
        )
    if not options.balance:
        return selection
    if features.is_multilabel:
        raise UsageError(
            "images with several labels cannot be balanced by class",
            hint="leave out balance, and weigh the classes in the loss",
        )
    if info.compression and not options.cache:
        raise UsageError(
            f"the shards of {info.name} are compressed, so balance cannot read them by number",
            hint="pass cache=True too, or pack without --compression",
        )
    numbers = np.concatenate([np.arange(each.start, each.stop) for each in ranges])
    labels = read_labels(folder, info)[numbers]
    epochs = balance(numbers, labels, options.shard or (0, 1), options.batch_size or 1)
    selection = Selection(info=info, features=features, ranges=ranges, balance=epochs)
    _refuse_skipping_all(selection, options)
    return selection


def _refuse_skipping_all(selection: Selection, options: LoadOptions) -> None:
    """Raise UsageError if nothing is left after `skip_to`."""
    size = options.batch_size or 1
    count = selection.epoch_count * max(options.repeat, 1)
    if options.repeat is not True and options.skip_to * size >= count:
        raise UsageError(
            f"skip_to={options.skip_to} leaves nothing of {-(-count // size)} batches",
            hint="pass repeat=True to go on with the next epoch, or skip fewer",
        )


def weigh_classes(folder: Path, split: str) -> dict[int, float]:
    """Return the weight of each label, for `model.fit(class_weight=...)`.

    It is images / (classes * images of the class), so the mean over all images is 1. Classes
    without an image in the split do not count, and weigh 0. Without a split, it is that of `train`,
    or of all folds if there is no `train`. Raises UsageError if images may have several labels:
    Keras would use only the first 1 of each row.
    """
    info = read_info(folder)
    folds = fold_names(info.splits)
    has_train = any(one.name == TRAIN for one in info.splits)
    split = split or (TRAIN if has_train or not folds else "+".join(folds))
    ranges = record_ranges(split, info.splits)
    if (folder / layout.SEQUENCE_LABELS).is_file():
        raise UsageError(
            f"images of {info.name} have several labels, and Keras weighs each image by one",
            hint="weigh the classes in the loss instead",
        )
    labels = read_labels(folder, info)
    counts = np.zeros(len(info.classes), np.int64)
    for records in ranges:
        part = labels[records.start : records.stop]
        counts += np.bincount(part[part >= 0], minlength=len(counts))
    if not counts.any():
        raise UsageError(f"{split!r} has no labels to weigh", hint="name a split with labels")
    share = counts.sum() / np.count_nonzero(counts)
    return {label: float(share / count) if count else 0.0 for label, count in enumerate(counts)}
