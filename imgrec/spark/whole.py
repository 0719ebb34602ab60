"""Deciding the splits of all rows in one task, with the functions of `planning`.

Groups, several labels and the splits of another dataset need a list of all rows. One task holds it,
so that the driver does not: its memory stays the same, and that of one executor grows.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from imgrec.model import Label, Samples
from imgrec.notes import Note
from imgrec.options import PackOptions
from imgrec.planning.build import leave_out, warnings_of_samples
from imgrec.planning.groups import find_groups, note_copies
from imgrec.planning.split import assign_splits
from imgrec.source.image_pass import NONE_KNOWN
from imgrec.spark.job import Columns, Form, Job, as_note, columns_of, read_result, write_result
from imgrec.spark.scan import Scanned

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T", bound=Hashable)

_COLUMNS = ("bucket", "filename", "label", "split", "grp", "pin", "near", "content")
_FOUND = "whole.json"


class Found(NamedTuple):
    """What is known of all rows together."""

    warnings: tuple[str, ...] = ()
    are_pinned: bool = False
    """Whether the split of every row was known already."""
    left_out: Mapping[str, Note] = MappingProxyType({})
    """Copies and near-duplicates that are not packed, by name; only if those are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assigning:
    """Decides the split of all rows of `RANKED`, and writes it to a file for each bucket."""

    options: PackOptions
    form: Form
    has_groups: bool
    has_near: bool
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buckets, rows = array("i"), Columns()
        known: dict[Hashable, Hashable] = {}

        def shared(value: T) -> T:
            return known.setdefault(value, value)  # type: ignore[return-value]  # it is equal

        for batch in batches:
            columns = columns_of(batch)
            buckets.extend(columns.pop("bucket"))
            for name in ("label", "split", "grp", "pin", "near"):  # few values, of many rows
                columns[name] = list(map(shared, columns[name]))
            if self.form.is_multilabel:
                columns["labels"] = [shared(tuple(own)) for own in columns["labels"]]
            for name, cells in columns.items():
                rows.setdefault(name, []).extend(cells)
        if buckets:
            self._assign(buckets, rows)
        yield from ()

    def _assign(self, buckets: array[int], rows: Columns) -> None:
        has_pins = bool(self.options.split_from)
        samples = Samples(
            filenames=tuple(rows["filename"]),
            splits=tuple(rows["split"]),
            contents=tuple(rows["content"]),
            groups=tuple(rows["grp"]) if self.has_groups else (),
            near=tuple(rows["near"]) if self.has_near else (),
            pinned=tuple(rows["pin"]) if has_pins else (),
        )
        labels, label_sets = rows["label"], self.form.label_sets(rows)
        rows.clear()
        splits = assign_splits(samples, labels, self.options, label_sets)
        names = sorted(set(splits))
        number_of = {name: number for number, name in enumerate(names)}
        end = 0
        for bucket, run in groupby(buckets):
            start, end = end, end + sum(1 for _ in run)
            numbers = array("I", map(number_of.__getitem__, splits[start:end]))
            data = json.dumps(names).encode() + b"\n" + numbers.tobytes()
            write_result(self.folder, _splits_file(bucket), data)
        found = Found(
            warnings=(
                *([NONE_KNOWN] if has_pins and not any(samples.pinned) else ()),
                *warnings_of_samples(samples, splits, self.options),
            ),
            are_pinned="" not in (samples.pinned or [""]),
            left_out=self._leave_out(samples, label_sets or labels, splits),
        )
        write_result(self.folder, _FOUND, json.dumps(found).encode())

    def _leave_out(
        self, samples: Samples, labels: Sequence[Label], splits: Sequence[str]
    ) -> dict[str, Note]:
        """Return what `on_leak` leaves out, if near-duplicates decide about it, too."""
        if not self.has_near:
            return {}
        groups = find_groups(samples)
        notes = note_copies(samples, groups, labels, splits)
        left_out = leave_out(samples, groups, splits, notes, self.options.on_leak)
        return {samples.filenames[place]: note for place, note in left_out.items()}


def assign_all(ranked: DataFrame, scanned: Scanned, job: Job) -> Found:
    """Decide the split of all rows of `RANKED`, for `splits_of` to read."""
    form = scanned.frame.form
    assigning = _Assigning(
        options=job.options,
        form=form,
        has_groups=scanned.has_groups,
        has_near=scanned.has_near,
        folder=job.folder,
    )
    labels = ["labels"] if form.is_multilabel else []
    rows = ranked.select("place", *_COLUMNS, *labels).repartition(1)
    rows = rows.sortWithinPartitions("bucket", "place").drop("place")
    job.map_batches(rows, assigning, {"none": "int"}).count()
    warnings, are_pinned, left_out = json.loads(read_result(job.folder, _FOUND))
    return Found(
        tuple(warnings), are_pinned, {name: as_note(row) for name, row in left_out.items()}
    )


def splits_of(folder: str, bucket: int) -> list[str]:
    """Return the splits of the rows of a bucket, by place."""
    names, _, data = read_result(folder, _splits_file(bucket)).partition(b"\n")
    return list(map(json.loads(names).__getitem__, array("I", data)))


def _splits_file(bucket: int) -> str:
    return f"bucket-{bucket}.splits"
