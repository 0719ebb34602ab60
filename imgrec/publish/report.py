"""What became of every file, from the plan and the results."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from imgrec.errors import ExecutionError, SourceError
from imgrec.model import UNLABELLED, Plan, Planned, ShardTask
from imgrec.notes import Note, NoteKind, unlisted_warnings, warnings_of
from imgrec.options import OnBad, PackOptions
from imgrec.outcome import Report, ShardResult
from imgrec.publish.tally import Tally
from imgrec.text import printable, without_line

_SHOWN = 5
_FOUND_IN_SHARDS = NoteKind.BAD, NoteKind.TRANSCODED, NoteKind.DAMAGED, NoteKind.RESIZED
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_SEPARATOR = re.compile(r"[;\t\r]")
_FORMULA_INSIDE = re.compile(r"([;\t\r\n])(?=\s*[=+@-])")
"""What a spreadsheet computes, or skips to get to something that it computes."""


def make_report(plan: Plan, planned: Planned, tally: Tally) -> Report:
    """Account for every file of the source."""
    found = tally.notes.notes(*_FOUND_IN_SHARDS)
    return Report(
        name=plan.name,
        version=plan.version,
        source=plan.source,
        layout=plan.layout,
        fingerprint=plan.fingerprint,
        options=plan.options,
        classes=plan.classes,
        splits=tuple(tally.splits(plan.classes)),
        source_bytes=tally.source_bytes,
        notes=(
            *plan.notes,
            *found,
            *warnings_of(_emptied_classes(plan.classes, planned, tally)),
            *unlisted_warnings(found),
        ),
        near_duplicates=plan.near_duplicates,
    )


def _emptied_classes(classes: Sequence[str], planned: Planned, tally: Tally) -> Iterator[str]:
    """Name the classes of which every image of a split turned out to be bad."""
    wanted = {(split, label) for split, labels in planned.labels.items() for label in labels}
    for split, label in sorted(wanted - tally.packed()):
        if label != UNLABELLED:
            yield f"{split} has no images of {classes[label]}: those meant for it are bad"


def refuse_losses(tasks: Iterable[ShardTask], results: Iterable[ShardResult]) -> None:
    """Raise ExecutionError unless each planned sample is in its shard once, or bad."""
    written = {result.filename: result for result in results}
    for task in tasks:
        result = written.get(task.filename)
        if result and result.records.samples.filenames == task.samples.filenames:
            continue
        accounted = (
            (*result.records.samples.filenames, *(b.filename for b in result.bad)) if result else ()
        )
        if len(accounted) != len(task.samples.filenames) or set(accounted) != set(
            task.samples.filenames
        ):
            raise ExecutionError(
                f"{task.filename} does not hold what was planned",
                hint="this should not happen: please report it",
                path=task.filename,
            )


def refuse_bad_source(plan: Plan, count: int, found: Iterable[Note], options: PackOptions) -> None:
    """Raise SourceError if there are more bad images than the options allow.

    `count` images were to be packed, and those `found` among them are bad. What a limit leaves out
    counts as good: bad files are known of the whole source, so it is their share of that.
    """
    bad = sorted([*plan.bad, *found])
    total = count + len(plan.bad)
    if len(bad) == total:
        raise SourceError(
            f"none of the {total} images can be packed: {_summed_up(bad)}",
            hint="mend the source, or the options that say how to read it",
        )
    total += plan.beyond_limit
    if plan.unplaced and not bad and options.on_bad is OnBad.FAIL:
        raise SourceError(
            f"{len(plan.unplaced)} rows repeat others: {_summed_up(plan.unplaced)}",
            hint="mend the manifest, or pass --on-bad skip",
        )
    if bad and options.on_bad is OnBad.FAIL:
        listed = "; ".join(f"{printable(file.filename)} ({file.reason})" for file in bad[:_SHOWN])
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise SourceError(
            f"{len(bad)} of {total} images are bad: {listed}{more}",
            hint="repair or delete them, or pass --on-bad skip",
        )
    if len(bad) > options.max_bad * total:
        raise SourceError(
            f"{len(bad)} of {total} images are bad, more than --max-bad {options.max_bad:g}"
            f" allows: {_summed_up(bad)}",
            hint="repair or delete them, or change the options that say how to read them; or pass "
            "--max-bad 1 to pack the rest: skipped.csv beside it lists them all",
        )


def _summed_up(bad: Sequence[Note]) -> str:
    counts = Counter(without_line(file.reason) for file in bad)
    reasons = counts.most_common(_SHOWN)
    example = {without_line(file.reason): printable(file.filename) for file in reversed(bad)}
    more = f"; and {len(counts) - _SHOWN} more reasons" if len(counts) > _SHOWN else ""
    listed = (f"{count} x {reason} (such as {example[reason]})" for reason, count in reasons)
    return "; ".join(listed) + more


def skipped_csv(report: Report) -> bytes:
    """Return skipped.csv: a row for each file that was meant to be packed and is not.

    What a spreadsheet would take for a formula begins with "./" instead, as any path may; in a
    reason, with an apostrophe. In many countries they split lines at semicolons, not at commas.
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    # Which quotes commas and line feeds only. The name is at the beginning of the line, where
    # quotes count whatever the line is split at.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(("file", "reason"))
    for file in report.skipped:
        reason = _FORMULA_INSIDE.sub(r"\1'", printable(file.reason))
        row = _harmless(printable(file.filename), "./"), _harmless(reason, "'")
        (quoted if _SEPARATOR.search("".join(row)) else plain).writerow(row)
    return out.getvalue().encode()


def _harmless(cell: str, prefix: str) -> str:
    return prefix + cell if cell.startswith(_FORMULA) else cell
