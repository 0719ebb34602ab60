"""The results of all shards in the order of the plan, in whatever order they come."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from imgrec.model import ShardTask
from imgrec.outcome import ShardResult
from imgrec.publish.samples import SamplesTable, TableForm


class Gathered(NamedTuple):
    """All shards of a dataset."""

    results: Sequence[ShardResult]
    """In the order of the plan."""
    samples: bytes
    """The table of their records, as Parquet."""


class Gathering:
    """Takes results as they come; the table of samples is made on the way."""

    def __init__(self, tasks: Sequence[ShardTask], classes: Sequence[str]) -> None:
        self._names = [task.filename for task in tasks]
        self._found: dict[str, ShardResult] = {}
        self._out = io.BytesIO()
        form = TableForm(
            classes=tuple(classes),
            is_multilabel=any(task.samples.label_sets for task in tasks),
            has_groups=any(task.samples.groups for task in tasks),
        )
        self._table = SamplesTable(self._out, form)
        self._in_table = 0

    def add(self, result: ShardResult) -> None:
        """Take the result of one shard."""
        self._found[result.filename] = result
        self._extend_table()

    def _extend_table(self) -> None:
        for name in self._names[self._in_table :]:
            if name not in self._found:
                break
            self._table.add(self._found[name])
            self._in_table += 1

    def finish(self) -> Gathered:
        """Return all results; each task must have one."""
        self._extend_table()
        self._table.finish()
        return Gathered([self._found[name] for name in self._names], self._out.getvalue())
