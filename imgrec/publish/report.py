"""Account for every file: sum up the results of all shards, and make the report."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from imgrec.errors import ExecutionError, SourceError
from imgrec.layout import twin_filename
from imgrec.model import (
    UNLABELLED,
    Blob,
    Plan,
    Planned,
    Samples,
    ShardTask,
    known_label,
    split_order,
)
from imgrec.near.clusters import NearDuplicates
from imgrec.near.duplicates import Images, Sight, find_clear
from imgrec.near.search import Run
from imgrec.notes import Note, NoteCollector, unlisted_warnings, warnings_of
from imgrec.options import OnBad, PackOptions
from imgrec.outcome import Report, ShardResult, SplitInfo
from imgrec.source.looking import close_sight
from imgrec.storage.files import Seal
from imgrec.text import are, number, printable, without_line

_SHOWN = 5
_HASH_BYTES = 16
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_SEPARATOR = re.compile(r"[;\t\r]")
_FORMULA_INSIDE = re.compile(r"([;\t\r\n])(?=\s*[=+@-])")
"""Where a spreadsheet could find a formula inside a cell."""


@dataclass(slots=True)
class _SplitTotals:
    lengths: list[int] = field(default_factory=list)
    num_bytes: int = 0
    labels: Counter[int] = field(default_factory=Counter)
    twin_bytes: Counter[str] = field(default_factory=Counter)
    """By file format."""
    seals: list[Seal] = field(default_factory=list)


@dataclass(slots=True)
class Totals:
    """The sums over all shards. Memory does not grow with the number of images."""

    planned: Planned
    also: tuple[str, ...] = ()
    """Other file formats that hold the records, too."""
    notes: NoteCollector = field(default_factory=NoteCollector)
    source_bytes: int = 0
    plain_bytes: int = 0
    sides: tuple[set[int], set[int], set[int]] = field(
        default_factory=lambda: (set(), set(), set())
    )
    """All heights, all widths and all numbers of channels."""
    _splits: dict[str, _SplitTotals] = field(default_factory=dict)

    def add(self, result: ShardResult) -> None:
        """Add a shard. Those of one split must come in order."""
        samples = result.records.samples
        split = self._splits.setdefault(result.split, _SplitTotals())
        split.lengths.append(len(samples))
        split.num_bytes += result.size
        split.labels.update(chain.from_iterable(samples.label_sets or (samples.labels,)))
        twins = {twin_filename(result.filename, also): also for also in self.also}
        for filename, size, _ in result.beside:
            if filename in twins:
                split.twin_bytes[twins[filename]] += size
        own = Seal(result.filename, result.size, result.sha256)
        split.seals += [own, *map(Seal._make, result.beside)]
        self.source_bytes += result.source_bytes
        self.plain_bytes += result.plain_size
        self.notes.add(result.notes)
        for axis, sizes in enumerate(self.sides):
            sizes.update(result.records.shapes[axis::3])

    @property
    def splits(self) -> dict[str, _SplitTotals]:
        """The splits that hold records, in their order."""
        filled = [name for name, split in self._splits.items() if any(split.lengths)]
        return {name: self._splits[name] for name in sorted(filled, key=split_order)}

    def packed_labels(self) -> set[tuple[str, int]]:
        """Return each split with each label that some of its records have."""
        return {(name, label) for name, split in self._splits.items() for label in split.labels}

    def seals(self) -> list[Seal]:
        """Return the seals of all files of the splits that hold records."""
        return [seal for split in self.splits.values() for seal in split.seals]

    def empty_seals(self) -> list[Seal]:
        """Return the seals of all files of splits in which every image was bad."""
        empty = self._splits.keys() - self.splits.keys()
        return [seal for name in empty for seal in self._splits[name].seals]

    def twin_bytes(self, also: str) -> dict[str, int]:
        """Return the size of each split in another file format."""
        return {name: split.twin_bytes[also] for name, split in self.splits.items()}


def make_report(plan: Plan, totals: Totals) -> Report:
    """Account for every file of the source."""
    found = totals.notes.notes()
    labels = range(len(plan.classes))
    return Report(
        name=plan.name,
        version=plan.version,
        source=plan.source,
        layout=plan.layout,
        fingerprint=plan.fingerprint,
        options=plan.options,
        classes=plan.classes,
        splits=tuple(
            SplitInfo(
                name=name,
                shard_lengths=tuple(split.lengths),
                num_bytes=split.num_bytes,
                class_counts=tuple(split.labels[label] for label in labels),
            )
            for name, split in totals.splits.items()
        ),
        source_bytes=max(totals.source_bytes + plan.more_source_bytes, 0),
        notes=(
            *plan.notes,
            *found,
            *warnings_of(_emptied_classes(plan.classes, totals)),
            *unlisted_warnings(found),
        ),
        near_duplicates=plan.near_duplicates,
    )


def _emptied_classes(classes: Sequence[str], totals: Totals) -> Iterator[str]:
    """Name the classes that a split lost because every image turned out to be bad."""
    planned = {
        (split, label) for split, labels in totals.planned.labels.items() for label in labels
    }
    for split, label in sorted(planned - totals.packed_labels()):
        if label != UNLABELLED:
            yield f"{split} has no images of {classes[label]}: those meant for it are bad"


def near_duplicates(
    results: Sequence[ShardResult], plan: Plan, alike: int, run: Run
) -> NearDuplicates | None:
    """Sum up the near-duplicates among records with a descriptor; None if none has.

    Only some images that may be alike are read again, from where the plan found them.
    """
    described = [result for result in results if result.records.descriptors]
    if not described:
        return None
    hashes = b"".join([result.records.hashes for result in described])
    names: list[str] = []
    splits: dict[str, str] = {}
    labels: dict[str, object] = {}
    for result in described:
        samples = result.records.samples
        names += samples.filenames
        splits |= dict.fromkeys(samples.filenames, result.split)
        known = [known_label(label, result.split) for label in samples.label_sets or samples.labels]
        labels |= zip(samples.filenames, known, strict=True)
    contents = [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]
    descriptors = b"".join([result.records.descriptors for result in described])

    def see_closely(places: Sequence[int]) -> bytes:
        samples = _pick_files(plan, [names[place] for place in places])
        return close_sight(samples, run)(range(len(samples)))

    images = Images(names, contents, descriptors)
    sides = [splits[name] for name in names]
    found, not_compared = find_clear(images, sides, alike, run, Sight(see_closely))
    return found.near_pairs().sum_up(splits, labels)._replace(not_compared=not_compared)


def _pick_files(plan: Plan, names: Sequence[str]) -> Samples:
    """Return the planned samples of some names, in their order."""
    rows: dict[str, tuple[Blob, int]] = {}
    for task in plan.tasks:
        samples = task.samples
        rows |= zip(samples.filenames, zip(samples.blobs, samples.sizes, strict=True), strict=True)
    blobs, sizes = zip(*(rows[name] for name in names), strict=True) if names else ((), ())
    return Samples(filenames=tuple(names), blobs=blobs, sizes=sizes)


def refuse_loss(task: ShardTask, result: ShardResult) -> None:
    """Raise ExecutionError unless each sample of a task is in its shard once, or bad."""
    planned, written = task.samples.filenames, result.records.samples.filenames
    if written == planned:
        return
    accounted = (*written, *(file.filename for file in result.bad))
    if sorted(accounted) != sorted(planned):
        raise ExecutionError(
            f"{task.filename} does not hold what was planned",
            hint="this should not happen: please report it",
            path=task.filename,
        )


def refuse_bad_source(plan: Plan, count: int, found: Iterable[Note], options: PackOptions) -> None:
    """Raise SourceError if there are more bad images than the options allow.

    `count` images were planned, and those `found` among them are bad. Images beyond a limit count
    as good: bad files are known of the whole source, so this is their share of the whole source.
    """
    bad = sorted([*plan.bad, *found])
    total = count + len(plan.bad)
    if len(bad) == total:
        raise SourceError(
            f"none of the {total} images can be packed: {_sum_up(bad)}",
            hint="repair the source, or change the options for reading it",
        )
    total += plan.beyond_limit
    if plan.unplaced and not bad and options.on_bad is OnBad.FAIL:
        raise SourceError(
            f"{len(plan.unplaced)} rows repeat others: {_sum_up(plan.unplaced)}",
            hint="correct the manifest, or pass --on-bad skip",
        )
    those = f"{len(bad)} of {number(total, 'image')} {are(len(bad))}"
    if bad and options.on_bad is OnBad.FAIL:
        listed = "; ".join(f"{printable(file.filename)} ({file.reason})" for file in bad[:_SHOWN])
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise SourceError(
            f"{those} bad: {listed}{more}",
            hint="repair or delete them, or pass --on-bad skip",
        )
    if len(bad) > options.max_bad * total:
        enough = next(at / 100 for at in range(1, 101) if len(bad) <= at / 100 * total)
        raise SourceError(
            f"{those} bad, more than --max-bad {options.max_bad:g} allows: {_sum_up(bad)}",
            hint=f"repair or delete them, or pass --max-bad {enough} to pack the rest",
        )


def _sum_up(bad: Sequence[Note]) -> str:
    counts = Counter(without_line(file.reason) for file in bad)
    example = {without_line(file.reason): printable(file.filename) for file in reversed(bad)}
    more = f"; and {len(counts) - _SHOWN} more reasons" if len(counts) > _SHOWN else ""
    reasons = counts.most_common(_SHOWN)
    listed = (f"{count} x {reason} (such as {example[reason]})" for reason, count in reasons)
    return "; ".join(listed) + more


def skipped_csv(report: Report) -> bytes:
    """Return skipped.csv: one row for each file that was meant to be packed and is not.

    A cell that a spreadsheet would take for a formula gets a prefix: "./" for a path, an
    apostrophe for a reason. In many countries spreadsheets split lines at semicolons.
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    # The plain writer quotes commas and line feeds only. A quoted name at the beginning of a line
    # holds together at any separator.
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(("file", "reason"))
    for file in report.skipped:
        reason = _FORMULA_INSIDE.sub(r"\1'", printable(file.reason))
        row = _harmless(printable(file.filename), "./"), _harmless(reason, "'")
        (quoted if _SEPARATOR.search("".join(row)) else plain).writerow(row)
    return out.getvalue().encode()


def _harmless(cell: str, prefix: str) -> str:
    return prefix + cell if cell.startswith(_FORMULA) else cell
