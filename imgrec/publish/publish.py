"""Completing a dataset: everything beside the shards, checksums last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.model import FORMAT, Plan
from imgrec.options import PackOptions
from imgrec.outcome import Report, ShardResult
from imgrec.publish import tfds_files
from imgrec.publish.gathering import Written
from imgrec.publish.report import make_report, refuse_bad_source, refuse_losses, skipped_csv
from imgrec.storage.files import Seal, remove, write_file


def complete(
    folder: Path,
    plan: Plan,
    written: Written,
    options: PackOptions,
    draw_page: Callable[[Report], bytes],
) -> Report:
    """Write all that goes beside the shards in `folder`, and return the report.

    `draw_page` makes report.html. Raises, and the folder is worth nothing, if the results are not
    what was planned or if too much of the source is bad.
    """
    results = written.results
    refuse_losses(plan, results)
    refuse_bad_source(plan, results, options)
    report = make_report(plan, results)
    seals = list(_keep_filled(folder, report, results))
    for filename, data in _documents(plan, report, written, options):
        seals.append(write_file(str(folder / filename), data))
    seals.append(write_file(str(folder / layout.PAGE), draw_page(report)))
    lines = (f"{seal.sha256}  {seal.filename}\n" for seal in sorted(seals))
    write_file(str(folder / layout.CHECKSUMS), "".join(lines).encode())
    return report


def _keep_filled(folder: Path, report: Report, results: Sequence[ShardResult]) -> Iterator[Seal]:
    """Yield the seals of all shards; remove those of splits in which every image was bad."""
    splits = {split.name for split in report.splits}
    for result in results:
        files = [Seal(result.filename, result.size, result.sha256), *map(Seal._make, result.beside)]
        if result.split in splits:
            yield from files
        else:
            remove(*(str(folder / file.filename) for file in files))


def _documents(
    plan: Plan, report: Report, written: Written, options: PackOptions
) -> Iterator[tuple[str, bytes]]:
    results, columns = written.results, plan.tasks[0].columns
    schema = tfds_files.Schema(
        classes=len(report.classes),
        shape=tfds_files.common_shape(results),
        is_multilabel=bool(plan.tasks[0].label_sets),
        columns=tuple((column.name, column.kind) for column in columns),
        file_format=layout.FILE_FORMATS[options.shard_compression],
        also=options.also,
    )
    labels = layout.SEQUENCE_LABELS if schema.is_multilabel else layout.LABELS
    yield labels, tfds_files.label_lines(report.classes)
    yield layout.SAMPLES, written.samples
    yield layout.REPORT, report_codec.encode(report)
    yield layout.SKIPPED, skipped_csv(report)
    yield layout.METADATA, _metadata(report, results, options)
    yield layout.FEATURES, tfds_files.features(schema)
    yield layout.DATASET_INFO, tfds_files.dataset_info(report, schema)


def _metadata(report: Report, results: Sequence[ShardResult], options: PackOptions) -> bytes:
    """Return metadata.json, which TFDS shows as `builder.info.metadata`."""
    value: dict[str, dict[str, object]] = {
        "imgrec": {
            "format": FORMAT,
            "fingerprint": report.fingerprint,
            "class_counts": {split.name: split.class_counts for split in report.splits},
        }
    }
    if options.shard_compression:
        value["imgrec"] |= _compression(options.shard_compression, results)
    if options.also:
        value["imgrec"]["also"] = {
            also: {split.name: _twin_bytes(split.name, also, results) for split in report.splits}
            for also in options.also
        }
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _compression(compression: str, results: Sequence[ShardResult]) -> dict[str, object]:
    return {
        "compression": compression,
        "uncompressed_bytes": sum(result.plain_size for result in results),
        "readers": "imgrec.load, imgrec.open_dataset, "
        f'tf.data.TFRecordDataset(..., compression_type="{compression.upper()}"); TFDS has no '
        "option for compressed shards and cannot read them",
    }


def _twin_bytes(split: str, also: str, results: Sequence[ShardResult]) -> int:
    shards = [result for result in results if result.split == split]
    twins = {layout.twin_filename(shard.filename, also) for shard in shards}
    return sum(size for shard in shards for filename, size, _ in shard.beside if filename in twins)
