"""The files that TFDS reads: dataset_info.json, features.json and label.labels.txt.

TFDS could write them itself, but importing it costs more than packing thousands of images, and
what it writes may change from version to version, while equal inputs must give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from imgrec.layout import FILEPATH_TEMPLATE
from imgrec.options import ColumnKind
from imgrec.outcome import Report

_FEATURES = "tensorflow_datasets.core.features."


class Schema(NamedTuple):
    """What the records of a dataset hold, and how they are stored."""

    classes: int
    shape: tuple[int, int, int]
    """Of the images, as TFDS decodes them; -1 is a size that differs."""
    is_multilabel: bool
    columns: tuple[tuple[str, ColumnKind], ...]
    file_format: str
    also: tuple[str, ...]
    """Other file formats in which all records are, too."""

    @property
    def label_key(self) -> str:
        """Return the name of the feature that holds the label or labels."""
        return "labels" if self.is_multilabel else "label"


def dataset_info(report: Report, schema: Schema) -> bytes:
    """Return dataset_info.json: a protobuf of TFDS as JSON, whose integers are strings."""
    images = sum(split.examples for split in report.splits)
    value = {
        "name": report.name,
        "version": report.version,
        "description": f"{images} images in {len(report.classes)} classes, packed by imgrec.",
        **_formats(schema),
        "moduleName": "imgrec",
        "splits": [
            {
                "name": split.name,
                "shardLengths": [str(length) for length in split.shard_lengths],
                "numBytes": str(split.num_bytes),
                "filepathTemplate": FILEPATH_TEMPLATE,
            }
            for split in report.splits
        ],
        "supervisedKeys": {
            "tuple": {"items": [{"featureKey": "image"}, {"featureKey": schema.label_key}]}
        },
    }
    return _json(value)


def _formats(schema: Schema) -> dict[str, object]:
    if not schema.also:
        return {"fileFormat": schema.file_format}
    # TFDS takes TFRecord where nothing is said. Where that is said, tfds.data_source("flowers") is
    # refused: without a data_dir it asks for array_record, whatever alternatives there are.
    return {"alternativeFileFormats": list(schema.also)}


def features(schema: Schema) -> bytes:
    """Return features.json: how TFDS reads a record."""
    class_label = {
        "pythonClassName": f"{_FEATURES}class_label_feature.ClassLabel",
        "classLabel": {"numClasses": str(schema.classes)},
    }
    value = {
        "pythonClassName": f"{_FEATURES}features_dict.FeaturesDict",
        "featuresDict": {
            "features": {
                "filename": _TEXT,
                "image": {
                    "pythonClassName": f"{_FEATURES}image_feature.Image",
                    "image": {"shape": _dimensions(schema.shape), "dtype": "uint8"},
                },
                **(
                    {"labels": _sequence(class_label)}
                    if schema.is_multilabel
                    else {"label": class_label}
                ),
                "shape": _tensor("int64", (3,)),
                **{name: _COLUMNS[kind] for name, kind in schema.columns},
            }
        },
    }
    return _json(value)


def _sequence(feature: Mapping[str, object]) -> dict[str, object]:
    return {
        "pythonClassName": f"{_FEATURES}sequence_feature.Sequence",
        "sequence": {"feature": feature, "length": "-1"},
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


def common_shape(sides: Sequence[Collection[int]]) -> tuple[int, int, int]:
    """Return the shape that all images share as TFDS decodes them, with -1 for a size that differs.

    Grey images decode to one channel if all are grey; otherwise all decode to three.
    """
    heights, widths, channels = sides
    height, width = (min(sizes) if len(sizes) == 1 else -1 for sizes in (heights, widths))
    return height, width, 1 if set(channels) == {1} else 3


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"
