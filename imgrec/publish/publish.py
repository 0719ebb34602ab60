"""Completing a dataset: everything beside the shards, checksums last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.codec import submission as submission_codec
from imgrec.model import FORMAT, Plan, Planned
from imgrec.notes import NoteKind
from imgrec.options import PackOptions
from imgrec.outcome import Report
from imgrec.publish import tfds_files
from imgrec.publish.gathering import Gathered
from imgrec.publish.report import make_report, refuse_bad_source, refuse_losses, skipped_csv
from imgrec.publish.tally import Tally, tallied
from imgrec.storage.files import Seal, remove, write_file


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
