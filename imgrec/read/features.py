"""What the records of a dataset hold, by its features.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.options import ColumnKind
from imgrec.read.documents import read_json

_OWN = frozenset({"filename", "image", "label", "labels", "shape"})
_NUMBERS = {"int64": ColumnKind.INT, "float32": ColumnKind.FLOAT}


class Features(NamedTuple):
    """What each record holds."""

    image_shape: tuple[int, int, int]
    """As TFDS decodes images; -1 is a size that differs."""
    classes: int
    is_multilabel: bool
    columns: Mapping[str, ColumnKind]
    """The columns of the source that travelled into the records."""

    @property
    def is_one_size(self) -> bool:
        """Tell whether all images have the same height and width."""
        return min(self.image_shape[:2]) > 0


def read_features(folder: Path) -> Features:
    """Read features.json; raise DatasetError unless it is one of a dataset that imgrec packed."""
    path = folder / layout.FEATURES
    try:
        features = read_json(path)["featuresDict"]["features"]
        dimensions = features["image"]["image"]["shape"]["dimensions"]
        height, width, channels = map(int, dimensions)
        if not {"filename", "shape"} <= features.keys():
            raise KeyError("shape")
        is_multilabel = "labels" in features
        label = features["labels"]["sequence"]["feature"] if is_multilabel else features["label"]
        return Features(
            image_shape=(height, width, channels),
            classes=int(label["classLabel"].get("numClasses", 0)),
            is_multilabel=is_multilabel,
            columns={
                name: _NUMBERS[feature["tensor"]["dtype"]]
                if "tensor" in feature
                else ColumnKind.TEXT
                for name, feature in sorted(features.items())
                if name not in _OWN
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path} does not tell what the records of an imgrec dataset hold",
            hint="pack it with imgrec, or load it with tfds.load",
            path=str(path),
        ) from error
