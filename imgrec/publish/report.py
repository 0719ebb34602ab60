"""What became of every file, from the plan and the results."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from imgrec.errors import ExecutionError, SourceError
from imgrec.model import (
    UNLABELLED,
    Plan,
    Resized,
    ShardTask,
    Skipped,
    split_order,
)
from imgrec.options import OnBad, PackOptions
from imgrec.outcome import RecordTable, Report, ShardResult, SplitInfo
from imgrec.text import printable, without_line

_SHOWN = 5
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet computes, or skips to get to something that it computes."""


def make_report(plan: Plan, results: Sequence[ShardResult]) -> Report:
    """Account for every file of the source. `results` must be in the order of splits and shards."""
    return Report(
        name=plan.name,
        version=plan.version,
        source=plan.source,
        layout=plan.layout,
        fingerprint=plan.fingerprint,
        options=plan.options,
        classes=plan.classes,
        splits=tuple(_splits(plan, results)),
        source_bytes=sum(result.source_bytes for result in results),
        skipped=tuple(sorted([*bad_files(plan, results), *plan.unplaced, *plan.left_out])),
        ignored=plan.ignored,
        transcoded=_merged(result.transcoded for result in results),
        damaged=_merged(result.damaged for result in results),
        resized=_resized(results) if plan.shrink_to else None,
        duplicates=plan.duplicates,
        leaks=plan.leaks,
        conflicts=plan.conflicts,
        near_duplicates=plan.near_duplicates,
        warnings=(*plan.warnings, *_emptied_classes(plan, results)),
    )


def _emptied_classes(plan: Plan, results: Sequence[ShardResult]) -> Iterator[str]:
    """Name the classes of which every image of a split turned out to be bad."""
    planned = {(task.split, label) for task in plan.tasks for label in set(_all_labels(task))}
    packed = {
        (result.split, label) for result in results for label in set(_all_labels(result.records))
    }
    for split, label in sorted(planned - packed):
        if label == UNLABELLED:
            continue
        yield f"{split} has no images of {plan.classes[label]}: all of them are bad"


def _all_labels(records: ShardTask | RecordTable) -> Iterable[int]:
    return chain.from_iterable(records.label_sets) if records.label_sets else records.labels


def _merged(parts: Iterable[Iterable[Skipped]]) -> tuple[Skipped, ...]:
    return tuple(sorted(file for part in parts for file in part))


def _resized(results: Sequence[ShardResult]) -> Resized:
    examples = _merged(result.resized.examples for result in results)
    return Resized(sum(result.resized.total for result in results), examples[:_SHOWN])


def _splits(plan: Plan, results: Sequence[ShardResult]) -> Iterator[SplitInfo]:
    for split in sorted({result.split for result in results}, key=split_order):
        shards = [result for result in results if result.split == split]
        counts = Counter(chain.from_iterable(_all_labels(shard.records) for shard in shards))
        if any(shard.records.filenames for shard in shards):
            yield SplitInfo(
                name=split,
                shard_lengths=tuple(len(shard.records.filenames) for shard in shards),
                num_bytes=sum(shard.size for shard in shards),
                class_counts=tuple(counts[label] for label in range(len(plan.classes))),
            )


def bad_files(plan: Plan, results: Sequence[ShardResult]) -> tuple[Skipped, ...]:
    """Return the images that cannot be packed, sorted, each with the reason."""
    return tuple(sorted([*plan.bad, *(bad for result in results for bad in result.bad)]))


def refuse_losses(plan: Plan, results: Sequence[ShardResult]) -> None:
    """Raise ExecutionError unless each planned sample is in its shard once, or bad."""
    written = {result.filename: result for result in results}
    for task in plan.tasks:
        result = written.get(task.filename)
        if result and result.records.filenames == task.filenames:
            continue
        accounted = (*result.records.filenames, *(b.filename for b in result.bad)) if result else ()
        if len(accounted) != len(task.filenames) or set(accounted) != set(task.filenames):
            raise ExecutionError(
                f"{task.filename} does not hold what was planned",
                hint="this should not happen: please report it",
                path=task.filename,
            )


def refuse_bad_source(plan: Plan, results: Sequence[ShardResult], options: PackOptions) -> None:
    """Raise SourceError if there are more bad images than the options allow."""
    bad = bad_files(plan, results)
    total = plan.planned + len(plan.bad)
    if len(bad) == total:
        raise SourceError(
            f"none of the {total} images can be packed: {_summed_up(bad)}",
            hint="mend the source, or the options that say how to read it",
        )
    if plan.unplaced and not bad and options.on_bad is OnBad.FAIL:
        raise SourceError(
            f"{len(plan.unplaced)} images or rows have no place: {_summed_up(plan.unplaced)}",
            hint="mend the manifest, or pass --on-bad skip",
        )
    if bad and options.on_bad is OnBad.FAIL:
        listed = "; ".join(f"{printable(file.filename)} ({file.reason})" for file in bad[:_SHOWN])
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise SourceError(
            f"{len(bad)} of {total} images are bad: {listed}{more}",
            hint="mend or delete them, or pass --on-bad skip",
        )
    if len(bad) > options.max_bad * total:
        raise SourceError(
            f"{len(bad)} of {total} images are bad, more than --max-bad {options.max_bad:g}"
            f" allows: {_summed_up(bad)}",
            hint="mend or delete them, or mend the options that say how to read them; or raise "
            "--max-bad",
        )


def _summed_up(bad: Sequence[Skipped]) -> str:
    counts = Counter(without_line(file.reason) for file in bad)
    reasons = counts.most_common(_SHOWN)
    example = {without_line(file.reason): printable(file.filename) for file in reversed(bad)}
    more = f"; and {len(counts) - _SHOWN} more reasons" if len(counts) > _SHOWN else ""
    listed = (f"{count} x {reason} (such as {example[reason]})" for reason, count in reasons)
    return "; ".join(listed) + more


def skipped_csv(report: Report) -> bytes:
    """Return skipped.csv: a row for each file that was meant to be packed and is not.

    What a spreadsheet would take for a formula begins with "./" instead, as any path may.
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    # Which does not quote a carriage return, though spreadsheets take it for the end of a row.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(("file", "reason"))
    for file in report.skipped:
        row = _harmless(printable(file.filename), "./"), _harmless(printable(file.reason), "'")
        (quoted if "\r" in "".join(row) else plain).writerow(row)
    return out.getvalue().encode()


def _harmless(cell: str, prefix: str) -> str:
    return prefix + cell if cell.startswith(_FORMULA) else cell
