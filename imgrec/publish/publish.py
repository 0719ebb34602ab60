"""Complete a dataset: write everything beside the shards, checksums last."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.codec import submission as submission_codec
from imgrec.errors import ExecutionError, SourceError
from imgrec.layout import twin_filename
from imgrec.model import FORMAT, UNLABELLED, Plan, Planned, ShardTask, known_label, split_order
from imgrec.near.duplicates import Images, NearDuplicates, Run, find_similar
from imgrec.near.search import DISTANCE
from imgrec.notes import Note, NoteCollector, NoteKind, unlisted_warnings, warnings_of
from imgrec.options import OnBad, PackOptions
from imgrec.outcome import RecordTable, Report, ShardResult, SplitInfo
from imgrec.publish import tfds_files
from imgrec.publish.samples import SamplesTable, TableForm
from imgrec.storage.files import Seal, remove, write_file
from imgrec.text import printable, without_line


@dataclass(slots=True)
class _Split:
    lengths: list[int] = field(default_factory=list)
    num_bytes: int = 0
    labels: Counter[int] = field(default_factory=Counter)
    twin_bytes: Counter[str] = field(default_factory=Counter)
    """By the format of the twins."""
    seals: list[Seal] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What the shards that were added say together."""

    also: tuple[str, ...] = ()
    """The formats in which records are, too."""
    source_bytes: int = 0
    plain_bytes: int = 0
    notes: NoteCollector = field(default_factory=lambda: NoteCollector({}))
    sides: tuple[set[int], set[int], set[int]] = field(
        default_factory=lambda: (set(), set(), set())
    )
    """All heights, all widths and all numbers of channels."""
    _splits: dict[str, _Split] = field(default_factory=dict)

    def add(self, result: ShardResult) -> None:
        """Add a shard; those of a split come in their order."""
        split = self._splits.setdefault(result.split, _Split())
        split.lengths.append(len(result.records.samples.filenames))
        split.num_bytes += result.size
        split.labels.update(_all_labels(result.records))
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

    def splits(self, classes: Sequence[str]) -> Iterator[SplitInfo]:
        """Yield the splits that hold records."""
        for name in self._filled():
            split = self._splits[name]
            yield SplitInfo(
                name=name,
                shard_lengths=tuple(split.lengths),
                num_bytes=split.num_bytes,
                class_counts=tuple(split.labels[label] for label in range(len(classes))),
            )

    def _filled(self) -> list[str]:
        filled = [name for name, split in self._splits.items() if any(split.lengths)]
        return sorted(filled, key=split_order)

    def packed(self) -> set[tuple[str, int]]:
        """Return each split with each label that some of its records have."""
        return {(name, label) for name, split in self._splits.items() for label in split.labels}

    def seals(self) -> Iterator[Seal]:
        """Yield the seals of the files of all splits that hold records."""
        return chain.from_iterable(self._splits[name].seals for name in self._filled())

    def idle_seals(self) -> Iterator[Seal]:
        """Yield those of splits in which every image was bad."""
        empty = self._splits.keys() - set(self._filled())
        return chain.from_iterable(self._splits[name].seals for name in empty)

    def twin_bytes(self, also: str) -> dict[str, int]:
        """Return the bytes of the twins of each split."""
        return {name: self._splits[name].twin_bytes[also] for name in self._filled()}


def tallied(results: Iterable[ShardResult], also: Iterable[str]) -> Tally:
    """Return what shards, in the order of the plan, say together."""
    tally = Tally(also=tuple(also))
    for result in results:
        tally.add(result)
    return tally


def _all_labels(records: RecordTable) -> Iterable[int]:
    return (
        chain.from_iterable(records.samples.label_sets)
        if records.samples.label_sets
        else records.samples.labels
    )


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


_HASH_BYTES = 16


def near_duplicates(results: Sequence[ShardResult], run: Run) -> NearDuplicates | None:
    """Sum up the near-duplicates among the records that have a signature; None if none has."""
    signed = [result for result in results if result.records.signatures]
    if not signed:
        return None
    names: list[str] = []
    hashes = b"".join([result.records.hashes for result in signed])
    splits: dict[str, str] = {}
    labels: dict[str, object] = {}
    for result in signed:
        records = result.records
        names += records.samples.filenames
        splits |= dict.fromkeys(records.samples.filenames, result.split)
        found = records.samples.label_sets or records.samples.labels
        known = [known_label(label, result.split) for label in found]
        labels |= zip(records.samples.filenames, known, strict=True)
    contents = [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]
    signatures = b"".join([result.records.signatures for result in signed])
    similar = find_similar(Images(names, contents, signatures), DISTANCE, run)
    return similar.near_pairs().sum_up(splits, labels)


class Written(NamedTuple):
    """What was to be written, and what the shards say that were."""

    planned: Planned
    tally: Tally
    samples: Seal
    """Of the table of all records."""


def summed_up(folder: Path, plan: Plan, gathered: Gathered, options: PackOptions) -> Written:
    """Sum up what the shards of a plan say; raise ExecutionError if it is not what was planned."""
    refuse_losses(plan.tasks, gathered.results)
    samples = write_file(str(folder / layout.SAMPLES), gathered.samples)
    return Written(plan.sum_up(), tallied(gathered.results, options.also), samples)


def complete(
    folder: Path,
    plan: Plan,
    written: Written,
    options: PackOptions,
    draw_page: Callable[[Report], bytes] | None = None,
) -> list[Seal]:
    """Write all that goes beside the shards in `folder`; return the seals of all files in there.

    `draw_page` makes report.html, if there is to be one. Raises, and the folder is worth nothing,
    if too much of the source is bad.
    """
    planned, tally = written.planned, written.tally
    refuse_bad_source(plan, planned.count, tally.notes.notes(NoteKind.BAD), options)
    report = make_report(plan, planned, tally)
    remove(*(str(folder / seal.filename) for seal in tally.idle_seals()))
    seals = [*tally.seals(), written.samples]
    for filename, data in _documents(plan, written, report, options):
        seals.append(write_file(str(folder / filename), data))
    if draw_page:
        seals.append(write_file(str(folder / layout.PAGE), draw_page(report)))
    lines = (f"{seal.sha256}  {seal.filename}\n" for seal in sorted(seals))
    checksums = write_file(str(folder / layout.CHECKSUMS), "".join(lines).encode())
    return [*seals, checksums]


def _documents(
    plan: Plan, written: Written, report: Report, options: PackOptions
) -> Iterator[tuple[str, bytes]]:
    planned, tally = written.planned, written.tally
    schema = tfds_files.Schema(
        classes=len(report.classes),
        shape=tfds_files.common_shape(tally.sides),
        is_multilabel=planned.is_multilabel,
        columns=planned.columns,
        file_format=layout.FILE_FORMATS[options.shard_compression],
        also=options.also,
    )
    labels = layout.SEQUENCE_LABELS if schema.is_multilabel else layout.LABELS
    yield labels, tfds_files.label_lines(report.classes)
    yield layout.REPORT, report_codec.encode(report)
    yield layout.SKIPPED, skipped_csv(report)
    if plan.submission and plan.submission.sample:
        yield layout.SUBMISSION, plan.submission.sample
    yield layout.METADATA, _metadata(plan, report, tally, options)
    yield layout.FEATURES, tfds_files.features(schema)
    yield layout.DATASET_INFO, tfds_files.dataset_info(report, schema)


def _metadata(plan: Plan, report: Report, tally: Tally, options: PackOptions) -> bytes:
    """Return metadata.json, which TFDS shows as `builder.info.metadata`."""
    value: dict[str, dict[str, object]] = {
        "imgrec": {
            "format": FORMAT,
            "fingerprint": report.fingerprint,
            "class_counts": {split.name: split.class_counts for split in report.splits},
        }
    }
    if options.shard_compression:
        value["imgrec"] |= _compression(options.shard_compression, tally)
    if options.also:
        value["imgrec"]["also"] = {also: tally.twin_bytes(also) for also in options.also}
    if plan.submission:
        value["imgrec"]["submission"] = submission_codec.encode(plan.submission)
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _compression(compression: str, tally: Tally) -> dict[str, object]:
    return {
        "compression": compression,
        "uncompressed_bytes": tally.plain_bytes,
        "readers": "imgrec.load, imgrec.open_dataset, "
        f'tf.data.TFRecordDataset(..., compression_type="{compression.upper()}"); TFDS has no '
        "option for compressed shards and cannot read them",
    }


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
