"""Epochs in which all classes come equally often: which records come, and in what order.

Rare images come several times. One class after the other gives an image, row by row:

    class A (4 images)   a0  a1  a2  a3
    class B (2 images)   b0  b1  b0  b1      order: a0 b0  a1 b1  a2 b0  a3 b1
                         row 0 · row 1 · …

So the copies of an image are evenly spaced over the epoch: as many rows apart as its class has
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


class Visits(NamedTuple):
    """How often one class comes in an epoch."""

    records: Numbers
    """The numbers of its images, each once."""
    times: int
    """How many of the epoch's images are of this class; each record comes `times / records` times,
    rounded up or down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balanced epochs of one job."""

    classes: Sequence[Visits]
    """No two differ by more than one in their times."""
    unlabelled: Numbers
    """Records without a label, which come once."""
    batch_size: int = 1

    @property
    def count(self) -> int:
        """Count the images of an epoch."""
        return sum(visits.times for visits in self.classes) + len(self.unlabelled)

    def records(self) -> Numbers:
        """Return the numbers of all records that come, each once, in ascending order."""
        import numpy as np

        each = [*(visits.records for visits in self.classes), self.unlabelled]
        return np.unique(np.concatenate(each))

    def once(self) -> Balance:
        """Return an epoch that has each of these records once."""
        return Balance(classes=(), unlabelled=self.records())

    def order(self, seeds: Sequence[int] | None = None) -> Numbers:
        """Return the numbers of an epoch's records in their order; random if there are seeds.

        No `batch_size` records that follow each other hold an image twice, unless there are too few
        images in one of the classes for that.
        """
        import numpy as np

        chance = np.random.default_rng(list(seeds)) if seeds is not None else None
        classes = list(self.classes)
        if chance is not None:
            classes = [classes[at] for at in chance.permutation(len(classes))]
        # A last row that not all classes reach must keep their columns.
        classes.sort(key=lambda visits: -visits.times)
        order = self._rows(classes, chance) if classes else np.empty(0, np.int64)
        alone = self.unlabelled if chance is None else chance.permutation(self.unlabelled)
        places = np.arange(len(alone)) * len(order) // max(len(alone), 1)
        return np.insert(order, places, alone)

    def _rows(self, classes: Sequence[Visits], chance: np.random.Generator | None) -> Numbers:
        import numpy as np

        height, width = classes[0].times, len(classes)
        table = np.empty((height, width), np.int64)
        for column, (records, times) in enumerate(classes):
            shown = records if chance is None else chance.permutation(records)
            table[:times, column] = np.resize(shown, times)
        whole = min(visits.times for visits in classes)
        reach = sum(visits.times > whole for visits in classes)
        if chance is not None:
            step = self._mixed_columns()
            for start in range(0, width, step):
                block = slice(start, start + step)
                table[:whole, block] = chance.permuted(table[:whole, block], axis=1)
                table[whole:, start : min(start + step, reach)] = chance.permuted(
                    table[whole:, start : min(start + step, reach)], axis=1
                )
        return np.concatenate([table[:whole].ravel(), table[whole:, :reach].ravel()])

    def _mixed_columns(self) -> int:
        """Return how many neighbours of a row may change places without bringing copies near.

        Copies are at least half as far apart as they would be in fixed columns.
        """
        rows = [len(records) for records, times in self.classes if times > len(records)]
        distance = min(rows, default=len(self.classes)) * len(self.classes)
        spare = distance - max(self.batch_size, distance // 2)
        return min(max(spare + 1, 1), len(self.classes))


def balance(
    numbers: Numbers, labels: NDArray[np.int64], shard: tuple[int, int], batch_size: int
) -> Balance:
    """Return the balanced epochs of job `shard[0]` of `shard[1]`, all of the same length.

    All classes come as often as the largest; then the rows are dealt out to the jobs. Where they do
    not come out even, the last job begins with the first rows again.
    """
    import numpy as np

    job, jobs = shard
    by_label = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[by_label], return_index=True)
    groups = np.split(numbers[by_label], starts[1:])
    members = [group for label, group in zip(found, groups, strict=True) if label >= 0]
    alone = numbers[labels < 0]
    most = max(map(len, members), default=0)
    share = -(-most * len(members) // jobs)
    classes = []
    for column, records in enumerate(members):
        # Image k of a class is number k * len(members) + column of all.
        start, stop = (-(-(share * place - column) // len(members)) for place in (job, job + 1))
        if stop > start:
            shown = np.arange(start, min(stop, start + len(records))) % len(records)
            classes.append(Visits(records[shown], stop - start))
    rest = -(-len(alone) // jobs)
    taken = np.arange(rest * job, rest * (job + 1)) % max(len(alone), 1)
    return Balance(classes=classes, unlabelled=alone[taken], batch_size=batch_size)
