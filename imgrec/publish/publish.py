"""Completing a dataset: everything beside the shards, checksums last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.model import FORMAT, Plan, ShardResult
from imgrec.options import PackOptions
from imgrec.outcome import Report
from imgrec.publish import tfds_files
from imgrec.publish.report import make_report, refuse_bad_source, refuse_losses, skipped_csv
from imgrec.publish.samples import samples_table
from imgrec.storage.files import Seal, remove, write_file


def complete(
    folder: Path, plan: Plan, results: Sequence[ShardResult], options: PackOptions
) -> Report:
    """Write all that goes beside the shards in `folder`, and return the report.

    `results` come in the order of the plan. Raises, and the folder is worth nothing, if they are
    not what was planned or if too much of the source is bad.
    """
    refuse_losses(plan, results)
    refuse_bad_source(plan, results, options)
    report = make_report(plan, results)
    seals = list(_keep_filled(folder, report, results))
    for filename, data in _documents(plan, report, results):
        seals.append(write_file(str(folder / filename), data))
    lines = (f"{seal.sha256}  {seal.filename}\n" for seal in sorted(seals))
    write_file(str(folder / layout.CHECKSUMS), "".join(lines).encode())
    return report


def _keep_filled(folder: Path, report: Report, results: Sequence[ShardResult]) -> Iterator[Seal]:
    """Yield the seals of all shards; remove those of splits in which every image was bad."""
    splits = {split.name for split in report.splits}
    for result in results:
        index = result.filename + layout.INDEX_SUFFIX
        if result.split in splits:
            yield Seal(result.filename, result.size, result.sha256)
            yield Seal(index, 0, result.index_sha256)
        else:
            remove(str(folder / result.filename), str(folder / index))


def _documents(
    plan: Plan, report: Report, results: Sequence[ShardResult]
) -> Iterator[tuple[str, bytes]]:
    columns = plan.tasks[0].columns
    schema = tfds_files.Schema(
        classes=len(report.classes),
        shape=tfds_files.common_shape(results),
        is_multilabel=bool(plan.tasks[0].label_sets),
        columns=tuple((column.name, column.kind) for column in columns),
    )
    labels = layout.SEQUENCE_LABELS if schema.is_multilabel else layout.LABELS
    yield labels, tfds_files.label_lines(report.classes)
    yield layout.SAMPLES, samples_table(results)
    yield layout.REPORT, report_codec.encode(report)
    yield layout.SKIPPED, skipped_csv(report)
    yield layout.METADATA, _metadata(report)
    yield layout.FEATURES, tfds_files.features(schema)
    yield layout.DATASET_INFO, tfds_files.dataset_info(report, schema)


def _metadata(report: Report) -> bytes:
    """Return metadata.json, which TFDS shows as `builder.info.metadata`."""
    value = {
        "imgrec": {
            "format": FORMAT,
            "fingerprint": report.fingerprint,
            "class_counts": {split.name: split.class_counts for split in report.splits},
        }
    }
    return json.dumps(value, sort_keys=True).encode() + b"\n"
