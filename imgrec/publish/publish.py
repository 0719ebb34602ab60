"""Complete a dataset: write every file beside the shards, checksums last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from imgrec import layout
from imgrec.codec import json_files
from imgrec.model import FORMAT, Plan
from imgrec.notes import NoteKind
from imgrec.options import PackOptions
from imgrec.outcome import Report
from imgrec.publish import tfds_files
from imgrec.publish.report import Totals, make_report, refuse_bad_source, skipped_csv
from imgrec.storage.files import Seal, remove, write_file


def complete(
    folder: Path,
    plan: Plan,
    totals: Totals,
    options: PackOptions,
    samples: Seal,
    draw_page: Callable[[Report], bytes] | None = None,
) -> list[Seal]:
    """Write everything beside the shards and `samples`; return the seals of all files.

    `draw_page` makes report.html, if there is to be one. Raises SourceError if too much of the
    source is bad.
    """
    bad = totals.notes.notes(NoteKind.BAD)
    refuse_bad_source(plan, totals.planned.count, bad, options)
    report = make_report(plan, totals)
    remove(*(str(folder / seal.filename) for seal in totals.empty_seals()))
    seals = [*totals.seals(), samples]
    for filename, data in _documents(plan, totals, report, options):
        seals.append(write_file(str(folder / filename), data))
    if draw_page:
        seals.append(write_file(str(folder / layout.PAGE), draw_page(report)))
    lines = (f"{seal.sha256}  {seal.filename}\n" for seal in sorted(seals))
    checksums = write_file(str(folder / layout.CHECKSUMS), "".join(lines).encode())
    return [*seals, checksums]


def _documents(
    plan: Plan, totals: Totals, report: Report, options: PackOptions
) -> Iterator[tuple[str, bytes]]:
    schema = tfds_files.Schema(
        classes=len(report.classes),
        shape=tfds_files.common_shape(totals.sides),
        is_multilabel=totals.planned.is_multilabel,
        columns=totals.planned.columns,
        file_format=layout.FILE_FORMATS[options.shard_compression],
        also=options.also,
    )
    labels = layout.SEQUENCE_LABELS if schema.is_multilabel else layout.LABELS
    yield labels, "".join(f"{name}\n" for name in report.classes).encode()
    yield layout.REPORT, json_files.encode_report(report)
    yield layout.SKIPPED, skipped_csv(report)
    if plan.submission and plan.submission.sample:
        yield layout.SUBMISSION, plan.submission.sample
    yield layout.METADATA, _metadata(plan, report, totals, options)
    yield layout.FEATURES, tfds_files.features(schema)
    yield layout.DATASET_INFO, tfds_files.dataset_info(report, schema)


def _metadata(plan: Plan, report: Report, totals: Totals, options: PackOptions) -> bytes:
    """Return metadata.json, which TFDS shows as `builder.info.metadata`."""
    value: dict[str, object] = {
        "format": FORMAT,
        "fingerprint": report.fingerprint,
        "class_counts": {split.name: split.class_counts for split in report.splits},
    }
    if compression := options.shard_compression:
        value |= {
            "compression": compression,
            "uncompressed_bytes": totals.plain_bytes,
            "readers": "imgrec.load, imgrec.open_dataset, "
            f'tf.data.TFRecordDataset(..., compression_type="{compression.upper()}"); TFDS has no '
            "option for compressed shards and cannot read them",
        }
    if options.also:
        value["also"] = {also: totals.twin_bytes(also) for also in options.also}
    if plan.submission:
        value["submission"] = json_files.encode_submission(plan.submission)
    return json.dumps({"imgrec": value}, sort_keys=True).encode() + b"\n"
