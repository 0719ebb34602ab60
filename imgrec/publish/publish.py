"""Complete a dataset: write every file beside the shards, checksums last.

TFDS could write its files itself. But importing it takes longer than packing thousands of images,
and its output may change between versions, while equal inputs must give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from imgrec import layout
from imgrec.codec import json_files
from imgrec.model import FORMAT, Plan
from imgrec.notes import NoteKind
from imgrec.options import ColumnKind, PackOptions
from imgrec.options.card import NO_HOMEPAGE
from imgrec.outcome import Report
from imgrec.publish.report import Totals, make_report, refuse_bad_source, skipped_csv
from imgrec.storage.files import Seal, remove, write_file

_FEATURES = "tensorflow_datasets.core.features."


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
    labels = layout.SEQUENCE_LABELS if totals.planned.is_multilabel else layout.LABELS
    yield labels, "".join(f"{name}\n" for name in report.classes).encode()
    yield layout.REPORT, json_files.encode_report(report)
    yield layout.SKIPPED, skipped_csv(report)
    if plan.submission and plan.submission.sample:
        yield layout.SUBMISSION, plan.submission.sample
    if plan.edits:
        yield layout.EDITS, plan.edits
    yield layout.METADATA, _metadata(plan, report, totals, options)
    yield layout.FEATURES, _json(_features(len(report.classes), totals))
    yield layout.DATASET_INFO, _json(_dataset_info(report, totals, options))


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


def _dataset_info(report: Report, totals: Totals, options: PackOptions) -> dict[str, object]:
    """Return dataset_info.json: a protobuf of TFDS as JSON, in which integers are strings."""
    images = sum(split.examples for split in report.splits)
    label_key = "labels" if totals.planned.is_multilabel else "label"
    # TFDS assumes TFRecord if no format is given. If one is, it refuses
    # tfds.data_source("flowers"): without a data_dir, that asks for array_record, whatever
    # alternatives there are.
    formats: dict[str, object] = (
        {"alternativeFileFormats": list(options.also)}
        if options.also
        else {"fileFormat": layout.FILE_FORMATS[options.shard_compression]}
    )
    about = options.about
    return {
        "name": report.name,
        "version": report.version,
        "description": about.description or layout.description(images, len(report.classes)),
        **({"citation": about.citation} if about.citation else {}),
        **({"redistributionInfo": {"license": about.license}} if about.license else {}),
        "location": {"urls": [about.homepage or NO_HOMEPAGE]},
        **formats,
        "moduleName": "imgrec",
        "splits": [
            {
                "name": split.name,
                "shardLengths": [str(length) for length in split.shard_lengths],
                "numBytes": str(split.num_bytes),
                "filepathTemplate": layout.FILEPATH_TEMPLATE,
            }
            for split in report.splits
        ],
        "supervisedKeys": {
            "tuple": {"items": [{"featureKey": "image"}, {"featureKey": label_key}]}
        },
    }


def _features(classes: int, totals: Totals) -> dict[str, object]:
    """Return features.json: how TFDS reads a record."""
    label: dict[str, object] = {
        "pythonClassName": f"{_FEATURES}class_label_feature.ClassLabel",
        "classLabel": {"numClasses": str(classes)},
    }
    if totals.planned.is_multilabel:
        label = {
            "pythonClassName": f"{_FEATURES}sequence_feature.Sequence",
            "sequence": {"feature": label, "length": "-1"},
        }
    return {
        "pythonClassName": f"{_FEATURES}features_dict.FeaturesDict",
        "featuresDict": {
            "features": {
                "filename": _TEXT,
                "image": {
                    "pythonClassName": f"{_FEATURES}image_feature.Image",
                    "image": {"shape": _dimensions(_common_shape(totals.sides)), "dtype": "uint8"},
                },
                "labels" if totals.planned.is_multilabel else "label": label,
                "shape": _tensor("int64", (3,)),
                **{name: _COLUMNS[kind] for name, kind in totals.planned.columns},
            }
        },
    }


def _tensor(dtype: str, shape: Sequence[int]) -> dict[str, object]:
    return {
        "pythonClassName": f"{_FEATURES}tensor_feature.Tensor",
        "tensor": {"shape": _dimensions(shape), "dtype": dtype, "encoding": "none"},
    }


def _dimensions(shape: Sequence[int]) -> dict[str, list[str]]:
    return {"dimensions": [str(size) for size in shape]} if shape else {}


_TEXT = {"pythonClassName": f"{_FEATURES}text_feature.Text", "text": {}}
_COLUMNS = {
    ColumnKind.INT: _tensor("int64", ()),
    ColumnKind.FLOAT: _tensor("float32", ()),
    ColumnKind.TEXT: _TEXT,
}


def _common_shape(sides: Sequence[Collection[int]]) -> tuple[int, int, int]:
    """Return the shape of all images as TFDS decodes them, with -1 for a size that differs.

    Grey images decode to one channel if all are grey; otherwise all decode to three.
    """
    heights, widths, channels = sides
    height, width = (min(sizes) if len(sizes) == 1 else -1 for sizes in (heights, widths))
    return height, width, 1 if set(channels) == {1} else 3


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"
