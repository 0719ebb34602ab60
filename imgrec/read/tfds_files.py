"""dataset_info.json and features.json: splits, shards and records, as TFDS declares them.

dataset_info.json is a protobuf message as JSON: keys in camelCase or snake_case, 64-bit integers
as strings or numbers. TFDS refuses a dataset_info.json with unknown keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec import layout
from imgrec.faults import Code, Faults
from imgrec.options import ColumnKind
from imgrec.options.card import NO_HOMEPAGE, DatasetCard
from imgrec.outcome import SplitInfo

_KEYS = frozenset(
    {
        "name", "description", "version", "releaseNotes", "configName", "configDescription",
        "configTags", "features", "citation", "sizeInBytes", "downloadSize", "location",
        "downloadChecksums", "schema", "splits", "supervisedKeys", "redistributionInfo",
        "moduleName", "disableShuffling", "fileFormat", "alternativeFileFormats",
        "dataSourceAccesses", "isBlocked", "nondeterministicOrder",
    }
)  # fmt: skip
_SPLIT_KEYS = frozenset(
    {"name", "numShards", "shardLengths", "numBytes", "statistics", "filepathTemplate"}
)
_TEXT_KEYS = (
    "name", "description", "citation", "version", "configName", "moduleName", "fileFormat"
)  # fmt: skip
_FORMATS = frozenset({"", "tfrecord", "riegeli", "array_record", "parquet"})
_SPLIT_NAME = re.compile(r"[\w-]+")
_TEMPLATE_VARIABLE = re.compile(r"\{(\w+)\}")
_MAX_BYTES = 1 << 63
_MAX_SHARD_RECORDS = 1 << 40
"""Far more than a shard can hold, and small enough that sums do not overflow 64 bits."""
_MAX_SHARDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoDocument:
    """The contents of dataset_info.json, as far as they can be parsed."""

    name: str = ""
    version: str = ""
    module: str = ""
    config: str = ""
    file_format: str = "tfrecord"
    also: tuple[str, ...] = ()
    """Other formats that hold the same records."""
    about: DatasetCard = field(default_factory=DatasetCard)
    splits: tuple[SplitInfo, ...] = ()
    templates: Mapping[str, str] = field(default_factory=dict)
    """The file name template of each split."""
    supervised: tuple[str, ...] = ()
    """The features that `as_supervised` gives."""

    def filename(self, split: SplitInfo, index: int, file_format: str = "") -> str:
        """Name a shard; "" if the template of its split does not make a file name."""
        count = len(split.shard_lengths)
        width = max(5, len(str(count)))
        values = {
            "DATASET": self.name,
            "SPLIT": split.name,
            "FILEFORMAT": file_format or self.file_format,
            "SHARD_INDEX": f"{index:0{width}d}",
            "NUM_SHARDS": f"{count:0{width}d}",
            "SHARD_X_OF_Y": f"{index:0{width}d}-of-{count:0{width}d}",
        }
        template = self.templates[split.name]
        name = _TEMPLATE_VARIABLE.sub(lambda match: values.get(match[1], "/"), template)
        return "" if "/" in name or "\0" in name else name


def parse_info(
    document: Mapping[str, object], faults: Faults, *, is_compressed: bool
) -> InfoDocument:
    """Parse dataset_info.json; add a fault for everything that TFDS would not read."""
    path = layout.DATASET_INFO
    value = _in_camel_case(document, _KEYS, faults)
    for key in _TEXT_KEYS:
        if not isinstance(value.get(key, ""), str):
            faults.say(Code.NOT_TEXT, path, key=key)
            value[key] = ""
    texts = {key: str(value.get(key, "")) for key in _TEXT_KEYS}
    name, version, file_format = texts["name"], texts["version"], texts["fileFormat"]
    if not name:
        faults.say(Code.NO_NAME, path)
    elif not fits_in_file_names(name):
        faults.say(Code.BAD_NAME, path, name=name)
    if "version" not in value:
        faults.say(Code.NO_VERSION, path)
    elif not layout.parse_version(version):
        faults.say(Code.BAD_VERSION, path, version=version)
    if file_format not in _FORMATS and not is_compressed:
        faults.say(Code.BAD_FILE_FORMAT, path, format=file_format)
    others = [one for one in _list(value.get("alternativeFileFormats")) if isinstance(one, str)]
    also = tuple(dict.fromkeys(one for one in others if one in _FORMATS))
    if len(also) < len(others):
        faults.say(Code.BAD_OTHER_FORMATS, path)
    splits = list(_parse_splits(value.get("splits", []), faults))
    return InfoDocument(
        name=name,
        version=version,
        module=texts["moduleName"],
        config=texts["configName"],
        file_format=file_format or "tfrecord",
        also=also,
        about=DatasetCard(
            description=texts["description"],
            citation=texts["citation"],
            license=_parse_license(value.get("redistributionInfo")),
            homepage=_parse_homepage(value.get("location")),
        ),
        splits=tuple(split for split, _ in splits),
        templates={split.name: template for split, template in splits},
        supervised=_parse_supervised(value.get("supervisedKeys"), faults),
    )


def _in_camel_case(
    message: Mapping[str, object], keys: frozenset[str], faults: Faults
) -> dict[str, object]:
    """Return a message with keys in camelCase, and without unknown keys."""
    known = {}
    for key, value in message.items():
        camel = re.sub("_([a-z])", lambda match: match[1].upper(), key)
        if camel in keys:
            known[camel] = value
        else:
            faults.say(Code.UNKNOWN_KEY, layout.DATASET_INFO, key=key)
    return known


def _parse_splits(value: object, faults: Faults) -> Iterator[tuple[SplitInfo, str]]:
    """Yield each split and the template of its file names."""
    path = layout.DATASET_INFO
    if not isinstance(value, list):
        faults.say(Code.BAD_SPLITS, path)
    elif not value:
        faults.say(Code.NO_SPLITS, path)
    names = set()
    for item in _list(value):
        if not isinstance(item, dict):
            faults.say(Code.SPLIT_NOT_AN_OBJECT, path)
            continue
        fields = _in_camel_case(item, _SPLIT_KEYS, faults)
        name = fields.get("name")
        if not isinstance(name, str) or not fits_in_file_names(name):
            faults.say(Code.BAD_NAME, path, name=name)
            continue
        if not _SPLIT_NAME.fullmatch(name) or name == "all":
            faults.say(Code.BAD_SPLIT_NAME, path, name=name)
        if name in names:
            faults.say(Code.SPLIT_TWICE, path, split=name)
        else:
            names.add(name)
            yield _parse_split(name, fields, faults)


def _parse_split(name: str, fields: Mapping[str, object], faults: Faults) -> tuple[SplitInfo, str]:
    path = layout.DATASET_INFO
    value = fields.get("shardLengths", [])
    numbers = [_count(one, _MAX_SHARD_RECORDS) for one in _list(value, default=[None])]
    lengths = tuple(number for number in numbers if number is not None)[:_MAX_SHARDS]
    if len(lengths) < len(numbers):
        faults.say(Code.BAD_SHARD_LENGTHS, path, split=name)
    elif not sum(lengths):
        faults.say(Code.EMPTY_SPLIT, path, split=name)
    num_bytes = _count(fields.get("numBytes", 0), _MAX_BYTES)
    if num_bytes is None:
        faults.say(Code.BAD_NUM_BYTES, path, split=name)
    template = fields.get("filepathTemplate") or layout.FILEPATH_TEMPLATE
    if not isinstance(template, str):
        faults.say(Code.BAD_TEMPLATE, path, split=name)
        template = layout.FILEPATH_TEMPLATE
    return SplitInfo(name=name, shard_lengths=lengths, num_bytes=num_bytes or 0), template


def _parse_supervised(value: object, faults: Faults) -> tuple[str, ...]:
    keys: list[object] = []
    match value:
        case None:
            pass
        case {"tuple": {"items": list(items)}}:
            pairs = [item for item in items if isinstance(item, dict)]
            keys = [item.get("featureKey", item.get("feature_key")) for item in pairs]
        case {"input": first, "output": second}:
            keys = [first, second]
        case _:
            faults.say(Code.BAD_SUPERVISED_KEYS, layout.DATASET_INFO)
    return tuple(key for key in keys if isinstance(key, str))


def _parse_license(value: object) -> str:
    match value:
        case {"license": str(text)}:
            return text
    return ""


def _parse_homepage(value: object) -> str:
    match value:
        case {"urls": [str(url), *_]} if url != NO_HOMEPAGE:
            return url
    return ""


def fits_in_file_names(name: str) -> bool:
    """Return whether a name can be part of a file name."""
    try:
        name.encode()  # half of a surrogate pair cannot be encoded
    except UnicodeEncodeError:
        return False
    return "/" not in name and "\0" not in name


def _list(value: object, default: list[object] | None = None) -> list[object]:
    return value if isinstance(value, list) else default or []


def _count(value: object, limit: int) -> int | None:
    """Return an integer from 0 to `limit`, written as a number or as text; else None."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        value = int(value)
    return value if type(value) is int and 0 <= value <= limit else None


_RECORD_KEYS = frozenset({"filename", "image", "label", "labels", "shape"})
_COLUMN_KINDS = {int: ColumnKind.INT, float: ColumnKind.FLOAT, bytes: ColumnKind.TEXT}
_IMAGE_DTYPES = frozenset({"uint8", "uint16", "float32"})
_DEFAULT_CHANNELS = 3


class Feature(NamedTuple):
    """The type of one feature."""

    kind: type
    """bytes, int or float."""
    length: int | None = 1
    """The number of values; None for any number."""
    classes: int | None = None
    """The number of classes, if the values are labels."""
    size: tuple[int, int] | None = None
    """Height and width, -1 for any, if the value is an image."""
    channels: int = 0
    """The channels to which TFDS decodes an image; 0 keeps those of the file."""

    @property
    def is_image(self) -> bool:
        """Return whether the values are encoded images."""
        return self.size is not None


class Features(NamedTuple):
    """The features of each record, by name."""

    by_name: Mapping[str, Feature]

    @property
    def is_of_imgrec(self) -> bool:
        """Return whether records have the features that imgrec writes."""
        image = self.by_name.get("image")
        has_image = image is not None and image.is_image
        return has_image and {"filename", "shape"} <= self.by_name.keys() and self.classes >= 0

    @property
    def label_key(self) -> str:
        """Name the first feature that holds labels; "" if there is none."""
        labels = (name for name, feature in self.by_name.items() if feature.classes is not None)
        return next(labels, "")

    @property
    def is_multilabel(self) -> bool:
        """Return whether an image may have several labels."""
        return "labels" in self.by_name

    @property
    def classes(self) -> int:
        """Count the classes; -1 if images have no labels."""
        label = self.by_name.get("labels" if self.is_multilabel else "label")
        return -1 if label is None or label.classes is None else label.classes

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return the shape to which TFDS decodes images; -1 where images differ."""
        image = self.by_name["image"]
        height, width = image.size or (-1, -1)
        return height, width, image.channels or -1

    @property
    def channels(self) -> int:
        """Return the channels that suit all images: 1 if all are grey, else 3."""
        image = next((feature for feature in self.by_name.values() if feature.is_image), None)
        return 1 if image is not None and image.channels == 1 else _DEFAULT_CHANNELS

    @property
    def is_one_size(self) -> bool:
        """Return whether all images have the same height and width."""
        return min(self.image_shape[:2]) > 0

    @property
    def columns(self) -> dict[str, ColumnKind]:
        """Return the source's columns in the records, and their kinds."""
        return {
            name: _COLUMN_KINDS[feature.kind]
            for name, feature in sorted(self.by_name.items())
            if name not in _RECORD_KEYS
        }

    @property
    def single_columns(self) -> tuple[str, ...]:
        """Name the columns with exactly one value in each record, sorted."""
        return tuple(name for name in self.columns if self.by_name[name].length == 1)


def parse_features(value: Mapping[str, object], faults: Faults, unchecked: Faults) -> Features:
    """Parse features.json; add what TFDS would not read, and what `verify` cannot check."""
    match value:
        case {"pythonClassName": str(), "featuresDict": {"features": dict(declared)}}:
            pass
        case _:
            faults.say(Code.NOT_FEATURES, layout.FEATURES)
            return Features({})
    features = {}
    for name, described in declared.items():
        try:
            feature = _parse_feature(described)
        except (KeyError, TypeError, ValueError, OverflowError):
            faults.say(Code.BAD_FEATURE, layout.FEATURES, feature=name)
            continue
        if feature is None:
            unchecked.say(Code.UNKNOWN_KIND, str(name))
        else:
            features[str(name)] = feature
    if not any(feature.is_image for feature in features.values()):
        unchecked.say(Code.NO_IMAGES, "images")
    return Features(features)


def _parse_feature(described: dict[str, object]) -> Feature | None:
    """Parse one feature; return None for an unknown kind, and raise if it is malformed."""
    kind = str(described["pythonClassName"]).rpartition(".")[2]
    match kind, described:
        case "Image", {"image": dict(image)}:
            return _parse_image(image)
        case "ClassLabel", {"classLabel": dict(label)}:
            return Feature(int, classes=_side(label["numClasses"]))
        case "Text", _:
            return Feature(bytes)
        case (("Tensor" | "Scalar"), {"tensor": dict(tensor)}):
            return _parse_tensor(tensor)
        case "Sequence", {"sequence": {"feature": dict(inner)}}:
            feature = _parse_feature(inner)
            if feature and feature.length == 1 and not feature.is_image:
                return feature._replace(length=None)
    return None


def _parse_image(image: dict[str, object]) -> Feature:
    sides = _dimensions(image)
    height, width, channels = sides if len(sides) == 3 else (-1, -1, -1)
    if not sides:
        channels = _DEFAULT_CHANNELS
    dtype = str(image.get("dtype") or "uint8")
    if dtype not in _IMAGE_DTYPES or (dtype == "float32" and channels != 1):
        raise ValueError
    # TFDS stores the four bytes of a float as the four channels of a PNG.
    channels = 4 if dtype == "float32" else max(channels, 0)
    return Feature(bytes, size=(height, width), channels=channels)


def _parse_tensor(tensor: dict[str, object]) -> Feature:
    dtype, sides = str(tensor["dtype"]), _dimensions(tensor)
    count = math.prod(sides) if -1 not in sides else None
    if dtype == "string":
        return Feature(bytes, count)
    if str(tensor.get("encoding", "none")) not in ("none", ""):
        return Feature(bytes)
    return Feature(float if "float" in dtype else int, count)


def _dimensions(value: dict[str, object]) -> tuple[int, ...]:
    shape = value.get("shape", {})
    dimensions = shape["dimensions"] if isinstance(shape, dict) and shape else []
    if not isinstance(dimensions, list):
        raise TypeError
    return tuple(map(_side, dimensions))


def _side(value: object) -> int:
    """Return a 32-bit size; protobuf writes some integers as text."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise TypeError
    number = int(value)
    if not -1 <= number < 1 << 31:
        raise ValueError
    return number
