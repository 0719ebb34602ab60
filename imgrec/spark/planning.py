"""The plan of a DataFrame: splits and shards, computed by executors from hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import imgrec.spark.grouped as grouped
from imgrec.model import Planned
from imgrec.notes import NoteKind, Notes, groups_of_copies, unlisted_warnings, warnings_of
from imgrec.options import OnLeak
from imgrec.plan.build import SHOWN, missing_classes, missing_splits, parted_groups
from imgrec.plan.classes import FoundClasses, number_classes
from imgrec.plan.groups import refuse_leaks
from imgrec.plan.shards import cut_at, options_for
from imgrec.spark.buckets import UNITS, Settling, bits_for, bucketed, list_units
from imgrec.spark.jobs import Job
from imgrec.spark.notes import Ends
from imgrec.spark.place import KINDS, Placing, Summary, summarize
from imgrec.spark.scan import Seen
from imgrec.spark.shares import Share, shares
from imgrec.spark.tables import PLACED, SETTLED, with_extras
from imgrec.spark.write import Shards
from imgrec.storage.blobs import close_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """Where every row goes."""

    rows: DataFrame
    """As `PLACED` says."""
    classes: tuple[str, ...]
    summary: Summary
    planned: Planned
    shards: Shards
    notes: Notes


def plan_rows(seen: Seen, job: Job) -> RowPlan:
    """Decide label, split, shard and place of every good row."""
    options = job.options
    folders = {name: (name,) for name in seen.classes}
    classes, label_of = number_classes(FoundClasses(folders=folders, images=seen.classes), options)
    settling = Settling(seed=options.seed, label_of=label_of, extras=seen.extras)
    bits = bits_for(seen.good)
    rows = bucketed(seen.rows, bits)
    settled = job.keep(job.mapped(rows, settling, with_extras(SETTLED, seen.extras)))
    is_divided = bool(options.val_split or options.test_split)
    found: dict[int, Share] = {}
    if is_divided and seen.has_groups:
        settled = job.keep(grouped.deal(settled, seen.extras, job))
    elif is_divided:
        units = job.keep(job.mapped(settled, list_units, UNITS))
        found = shares(units, bits, options.split_options)
    placing = Placing(shares=found, on_leak=options.on_leak, extras=seen.extras, folder=job.folder)
    placed = job.keep(job.mapped(settled, placing, with_extras(PLACED, seen.extras)))
    buckets = sorted(row["bucket"] for row in settled.select("bucket").distinct().collect())
    placed.count()
    summary = summarize(job.folder, buckets)
    if options.on_leak is OnLeak.FAIL:
        leaks = groups_of_copies(summary.notes.notes(NoteKind.LEAK))
        refuse_leaks(leaks, summary.notes.total(NoteKind.LEAK))
    parted = grouped.parted(settled, SHOWN) if seen.has_groups else ([], 0)
    notes = summary.notes.notes(*KINDS)
    warnings = (
        *parted_groups(*parted),
        *missing_splits(summary.counts(), options),
        *missing_classes(classes, {split: summary.labels[split] for split in summary.counts()}),
    )
    return RowPlan(
        rows=placed,
        classes=classes,
        summary=summary,
        planned=Planned(
            count=sum(summary.counts().values()),
            labels=summary.labels,
            columns=seen.extras,
            is_multilabel=False,
        ),
        shards=_shards(summary, job),
        notes=(*seen.notes, *notes, *warnings_of(warnings), *unlisted_warnings(notes)),
    )


def _shards(summary: Summary, job: Job) -> Shards:
    options, counts = job.options, summary.counts()
    lengths = {
        split: cut_at(Ends(summary.parts[split]), options_for(split, counts, options.shard_options))
        for split in counts
    }
    close_files()
    return Shards(lengths, options.name, options.shard_compression)
