"""features.json: what each record holds, as TFDS declares it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from imgrec import layout
from imgrec.faults import Code, Faults
from imgrec.options import ColumnKind

_OWN = frozenset({"filename", "image", "label", "labels", "shape"})
_COLUMN_KINDS = {int: ColumnKind.INT, float: ColumnKind.FLOAT, bytes: ColumnKind.TEXT}
_IMAGE_DTYPES = frozenset({"uint8", "uint16", "float32"})
_DEFAULT_CHANNELS = 3


class Feature(NamedTuple):
    """What one feature must be."""

    kind: type
    """bytes, int or float."""
    length: int | None = 1
    """How many values it has; None for any number."""
    classes: int | None = None
    """How many classes there are, if its values are labels."""
    size: tuple[int, int] | None = None
    """Height and width, -1 for any, if its value is an image."""
    channels: int = 0
    """The channels that TFDS decodes an image to; 0 for as many as it has."""

    @property
    def is_image(self) -> bool:
        """Tell whether the values are encoded images."""
        return self.size is not None


class Features(NamedTuple):
    """What each record of a dataset holds, by the name of the feature."""

    by_name: Mapping[str, Feature]

    @property
    def is_of_imgrec(self) -> bool:
        """Tell whether records hold what imgrec writes: a file, an image, its shape and labels."""
        image = self.by_name.get("image")
        has_image = image is not None and image.is_image
        return has_image and {"filename", "shape"} <= self.by_name.keys() and self.classes >= 0

    @property
    def label_key(self) -> str:
        """Return the name of the feature that holds the label or labels; "" if there is none."""
        found = (name for name, feature in self.by_name.items() if feature.classes is not None)
        return next(found, "")

    @property
    def is_multilabel(self) -> bool:
        """Tell whether an image may have several labels."""
        return "labels" in self.by_name

    @property
    def classes(self) -> int:
        """Count the classes; -1 if images have no labels."""
        label = self.by_name.get("labels" if self.is_multilabel else "label")
        return -1 if label is None or label.classes is None else label.classes

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return the shape to which TFDS decodes images; -1 for a size that differs."""
        image = self.by_name["image"]
        height, width = image.size or (-1, -1)
        return height, width, image.channels or -1

    @property
    def is_one_size(self) -> bool:
        """Tell whether all images have the same height and width."""
        return min(self.image_shape[:2]) > 0

    @property
    def columns(self) -> dict[str, ColumnKind]:
        """Return the columns of the source that are in the records, and their kinds."""
        return {
            name: _COLUMN_KINDS[feature.kind]
            for name, feature in sorted(self.by_name.items())
            if name not in _OWN
        }

    @property
    def single_columns(self) -> tuple[str, ...]:
        """Name the columns with just one value in each record, sorted."""
        return tuple(name for name in self.columns if self.by_name[name].length == 1)


def parse_features(value: Mapping[str, object], faults: Faults, unchecked: Faults) -> Features:
    """Return what records must hold; add what TFDS would not read, and what cannot be checked."""
    match value:
        case {"pythonClassName": str(), "featuresDict": {"features": dict(declared)}}:
            pass
        case _:
            faults.say(Code.NOT_FEATURES, layout.FEATURES)
            return Features({})
    found = {}
    for name, described in declared.items():
        try:
            feature = _feature(described)
        except (KeyError, TypeError, ValueError, OverflowError):
            faults.say(Code.BAD_FEATURE, layout.FEATURES, feature=name)
            continue
        if feature is None:
            unchecked.say(Code.UNKNOWN_KIND, str(name))
        else:
            found[str(name)] = feature
    if not any(feature.is_image for feature in found.values()):
        unchecked.say(Code.NO_IMAGES, "images")
    return Features(found)


def _feature(described: dict[str, object]) -> Feature | None:
    """Parse one feature; return None for a kind that is not known, and raise if it is malformed."""
    kind = str(described["pythonClassName"]).rpartition(".")[2]
    match kind, described:
        case "Image", {"image": dict(image)}:
            sides = _dimensions(image)
            height, width = (*sides, -1, -1)[:2] if len(sides) == 3 else (-1, -1)
            return Feature(bytes, size=(height, width), channels=_channels(image, sides))
        case "ClassLabel", {"classLabel": dict(label)}:
            return Feature(int, classes=_integer(label["numClasses"]))
        case "Text", _:
            return Feature(bytes)
        case (("Tensor" | "Scalar"), {"tensor": dict(tensor)}):
            return _tensor(tensor)
        case "Sequence", {"sequence": {"feature": dict(inner)}}:
            found = _feature(inner)
            is_simple = found is not None and found.length == 1 and not found.is_image
            return found._replace(length=None) if found and is_simple else None
    return None


def _channels(image: dict[str, object], sides: tuple[int, ...]) -> int:
    """Return the channels to which TFDS decodes an image; 0 for as many as it has."""
    channels = sides[2] if len(sides) == 3 else _DEFAULT_CHANNELS if not sides else 0
    dtype = str(image.get("dtype") or "uint8")
    if dtype not in _IMAGE_DTYPES or (dtype == "float32" and channels != 1):
        raise ValueError
    # TFDS stores the four bytes of a float as the four channels of a PNG.
    return 4 if dtype == "float32" else max(channels, 0)


def _tensor(tensor: dict[str, object]) -> Feature:
    dtype, sides = str(tensor["dtype"]), _dimensions(tensor)
    count = math.prod(sides) if -1 not in sides else None
    if str(tensor.get("encoding", "none")) not in ("none", "") or dtype == "string":
        return Feature(bytes, count if dtype == "string" else 1)
    return Feature(float if "float" in dtype else int, count)


def _dimensions(value: dict[str, object]) -> tuple[int, ...]:
    shape = value.get("shape", {})
    found = shape["dimensions"] if isinstance(shape, dict) and shape else []
    if not isinstance(found, list):
        raise TypeError
    return tuple(map(_integer, found))


def _integer(value: object) -> int:
    """Return a 32-bit size; protobuf writes some integers as text."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise TypeError
    number = int(value)
    if not -1 <= number < 1 << 31:
        raise ValueError
    return number
