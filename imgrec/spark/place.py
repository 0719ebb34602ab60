"""Splits, and the sum of what is planned, bucket by bucket."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imgrec.model import TRAIN, Samples, split_order
from imgrec.notes import COPIES, Note, NoteCollector, NoteKind, Notes
from imgrec.options import OnLeak
from imgrec.plan.groups import find_groups, leaked_copies, note_copies
from imgrec.plan.shards import lengths_of, record_bytes
from imgrec.spark.buckets import samples_of, train_of
from imgrec.spark.notes import Part, read_note, write_ends, write_note
from imgrec.spark.shares import Share
from imgrec.spark.tables import PLACED, Columns, Extras, batches_of, by_key, picked, with_extras

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 10_000
"""How many images of a kind a report names, so that the driver's memory does not grow with them."""
KINDS = (NoteKind.LEFT_OUT, *COPIES)
"""What is noted about the rows of a bucket."""
DEALT = "dealt"
"""The column with the split that a row's group is dealt out to, if there are groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Turns rows of `SETTLED` into rows of `PLACED`, and notes the rest of what a plan says."""

    shares: Mapping[int, Share]
    """Of each label; empty if groups are dealt out, or nothing is to be divided."""
    on_leak: OnLeak
    extras: Extras
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Place the rows of some buckets."""
        fields = with_extras(PLACED, self.extras)
        for bucket, rows in by_key(batches, "bucket"):
            samples = samples_of(rows)
            splits = self._splits(rows, samples)
            groups = find_groups(samples)
            notes = note_copies(samples, groups, rows["label"], splits)
            is_dropped = self.on_leak is OnLeak.DROP
            left_out = leaked_copies(samples, groups, splits) if is_dropped else {}
            rows["split"] = splits
            kept = [place for place in range(len(samples)) if place not in left_out]
            rows = picked(rows, kept)
            self._note(bucket, rows, (*left_out.values(), *notes))
            rows["place"] = _count_by(rows["split"])
            if kept:
                yield from batches_of(rows, fields)

    def _splits(self, rows: Columns, samples: Samples) -> list[str]:
        labels, units, splits = train_of(samples, rows["label"])
        if DEALT in rows:
            dealt = zip(splits, rows[DEALT], strict=True)
            return [home if home and split == TRAIN else split for split, home in dealt]
        if not self.shares:
            return list(splits)
        homes = {
            unit: self.shares[label].split_of((rows["draw"][unit], rows["content"][unit]))
            for unit, label in labels.items()
        }
        return [
            homes.get(unit, split) if split == TRAIN else split
            for unit, split in zip(units, splits, strict=True)
        ]

    def _note(self, bucket: int, rows: Columns, notes: Notes) -> None:
        by_split: dict[str, list[int]] = defaultdict(list)
        for place, split in enumerate(rows["split"]):
            by_split[split].append(place)
        planned = record_bytes(rows["size"], rows["filename"])
        totals = {
            split: write_ends(
                self.folder, _ends_name(bucket, split), (planned[place] for place in places)
            )
            for split, places in by_split.items()
        }
        write_note(self.folder, contents_name(bucket), b"".join(rows["content"]))
        write_note(self.folder, lengths_name(bucket), lengths_of(rows["content"]))
        value = {
            "splits": {split: (len(by_split[split]), totals[split]) for split in by_split},
            "labels": {
                split: sorted({rows["label"][place] for place in places})
                for split, places in by_split.items()
            },
            "notes": notes,
        }
        write_note(self.folder, _bucket_name(bucket), json.dumps(value).encode())


def _count_by(values: Iterable[str]) -> list[int]:
    counts: Counter[str] = Counter()
    places = []
    for value in values:
        places.append(counts[value])
        counts[value] += 1
    return places


def _bucket_name(bucket: int) -> str:
    return f"bucket-{bucket}.json"


def _ends_name(bucket: int, split: str) -> str:
    return f"bucket-{bucket}.{split}.ends"


def contents_name(bucket: int) -> str:
    """Name the note with the contents of a bucket."""
    return f"bucket-{bucket}.contents"


def lengths_name(bucket: int) -> str:
    """Name the note with the lengths of the contents of a bucket."""
    return f"bucket-{bucket}.lengths"


@dataclass(slots=True)
class Summary:
    """What the notes about all buckets say together."""

    buckets: list[int] = field(default_factory=list)
    """Those that have rows, in the order of rank."""
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """The records of each split, bucket by bucket."""
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    """How many records of a split there are before those of a bucket."""
    labels: dict[str, set[int]] = field(default_factory=dict)
    notes: NoteCollector = field(default_factory=lambda: NoteCollector(dict.fromkeys(KINDS, MOST)))

    def counts(self) -> dict[str, int]:
        """Return the number of records of each split, in the order of splits."""
        splits = sorted(self.parts, key=split_order)
        return {split: sum(part.records for part in self.parts[split]) for split in splits}


def summarize(folder: str, buckets: Iterable[int]) -> Summary:
    """Read the notes about buckets, in their order."""
    summary = Summary()
    sizes: Counter[str] = Counter()
    for bucket in buckets:
        value = json.loads(read_note(folder, _bucket_name(bucket)))
        summary.buckets.append(bucket)
        for split, (count, total) in value["splits"].items():
            path = os.path.join(folder, _ends_name(bucket, split))
            summary.parts.setdefault(split, []).append(Part(path, count, total))
            summary.offsets.setdefault(split, {})[bucket] = sizes[split]
            sizes[split] += count
            summary.labels.setdefault(split, set()).update(value["labels"][split])
        summary.notes.add(
            Note(filename, reason, NoteKind(kind), other)
            for filename, reason, kind, other, _ in value["notes"]
        )
    return summary
