"""What every record of a dataset must hold, and whether one does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec import decode, example, image, pixels
from imgrec.codec.sniff import format_of
from imgrec.errors import BadImage, CorruptRecord
from imgrec.inspection.wire import is_excessive
from imgrec.text import printable

_PLAIN = frozenset({"filename", "image", "label", "shape"})
_CHANNELS = {"JPEG": (0, 1, 3), "PNG": (0, 1, 3, 4), "BMP": (0, 3, 4)}
"""What `tf.image.decode_image` decodes to a picture of three axes, and to how many channels.

0 stands for as many as the image has.
"""
_KINDS = {bytes: "bytes", int: "whole numbers", float: "numbers"}


class FeatureRule(NamedTuple):
    """What one feature must be."""

    kind: type
    """bytes, int or float."""
    length: int | None = 1
    """How many values it has; None for any number."""
    classes: int | None = None
    """How many classes there are, where its values are labels."""
    size: tuple[int, int] | None = None
    """Height and width, -1 for any, where its value is an image."""
    channels: int = 0
    """The channels that TFDS asks TensorFlow for, where its value is an image; 0 for any."""

    @property
    def is_image(self) -> bool:
        """Tell whether the values are encoded images."""
        return self.size is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every record of a dataset must be."""

    features: Mapping[str, FeatureRule]
    is_ours: bool
    """Whether imgrec made it: then names are not empty, and shapes are those of the images."""
    decodes: bool
    """Whether images are to be decoded to their end."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the features with one value that came from columns of the source."""
        names = (name for name, rule in self.features.items() if rule.length == 1)
        return tuple(sorted(set(names) - _PLAIN)) if self.is_ours else ()


class Seen(NamedTuple):
    """What there is to know of a record."""

    filename: str = ""
    labels: tuple[int, ...] = ()
    shape: tuple[int, int, int] = (0, 0, 0)
    format: str = ""
    digest: bytes = bytes(16)
    """XXH3 of the image as it is packed."""
    columns: tuple[object, ...] = ()
    """The values of `Rules.columns`."""


class _Parts(NamedTuple):
    """The features of a record that there is more to say of."""

    filename: bytes
    images: Sequence[tuple[str, bytes]]
    labels: Sequence[tuple[str, tuple[int, ...]]]
    """By feature."""
    shape: tuple[object, ...]
    columns: tuple[object, ...] = ()
    """As in `Seen`."""


def look_at(payload: bytes, rules: Rules) -> tuple[Seen, list[str]]:
    """Return what a record holds, and all that is wrong with it; nothing if there are no rules."""
    if not rules.features:
        return Seen(), []
    plain = example.decode_plain(payload, 0, len(payload))
    if plain and rules.features.keys() == _PLAIN:
        filename, data, label, shape = plain
        parts = _Parts(filename, (("image", data),), (("label", (label,)),), shape)
        return _judge(parts, rules)
    if is_excessive(payload):
        return Seen(), ["it has more parts or numbers than any record of an image"]
    try:
        features = example.decode(payload)
    except CorruptRecord as error:
        return Seen(), [str(error)]
    if faults := list(_feature_faults(features, rules)):
        return Seen(), faults
    return _judge(_parts(features, rules), rules)


def _feature_faults(features: Mapping[str, example.Feature], rules: Rules) -> Iterator[str]:
    for name, rule in rules.features.items():
        values = features.get(name)
        shown = printable(name)
        if values is None:
            yield f"the record has no {shown}"
        elif not all(type(value) is rule.kind for value in values):
            yield f"its {shown} is not of {_KINDS[rule.kind]}"
        elif rule.length is not None and len(values) != rule.length:
            yield f"its {shown} has {len(values):,} values instead of {rule.length:,}"


def _parts(features: Mapping[str, example.Feature], rules: Rules) -> _Parts:
    """Return the parts of a record whose features are there and of their kinds."""
    found = rules.features.items()
    return _Parts(
        filename=b"".join(x for x in features.get("filename", ()) if isinstance(x, bytes)),
        images=[(key, x) for key, rule in found if rule.is_image for x in _bytes(features[key])],
        labels=[
            (key, tuple(int(value) for value in features[key]))
            for key, rule in found
            if rule.classes is not None
        ],
        shape=features.get("shape", ()),
        columns=tuple(_readable(*features[name]) for name in rules.columns),
    )


def _readable(value: bytes | float) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bytes(feature: example.Feature) -> Iterator[bytes]:
    return (value for value in feature if isinstance(value, bytes))


def _judge(parts: _Parts, rules: Rules) -> tuple[Seen, list[str]]:
    """Look at the name, the labels and the images of a record."""
    faults: list[str] = []
    if rules.is_ours and not parts.filename:
        faults.append("its filename is empty")
    labels: tuple[int, ...] = ()
    for key, labels in parts.labels:
        faults += _label_faults(labels, rules.features[key], key)
    shape, image_format, digest = (0, 0, 0), "", b""
    for key, data in parts.images:
        image_format, digest = format_of(data, ""), xxh3_128_digest(data)
        try:
            shape = _check_image(data, image_format, rules.features[key], rules)
        except BadImage as error:
            faults.append(f"its {printable(key)}: {error}")
            continue
        if rules.is_ours and parts.shape != shape:
            faults.append(f"its shape is {_shown(parts.shape)}, and the image's {_shown(shape)}")
    name = parts.filename.decode("utf-8", "surrogateescape")
    seen = Seen(name, labels, shape, image_format, digest or bytes(16), parts.columns)
    return seen, faults


def _label_faults(labels: tuple[int, ...], rule: FeatureRule, key: str) -> Iterator[str]:
    lowest = -1 if rule.length == 1 else 0  # the label of an image without a class
    for label in labels:
        if not lowest <= label < (rule.classes or 0):
            yield f"its {printable(key)} is {label}, and there are {rule.classes} classes"


def _check_image(
    data: bytes, image_format: str, rule: FeatureRule, rules: Rules
) -> tuple[int, int, int]:
    """Return the shape of an image; raise BadImage if it cannot be decoded to what it should be."""
    shape = image.shape_of(data, "")
    if fault := format_fault(image_format, rule):
        raise BadImage(fault)
    pixels.refuse_bomb(*shape[:2])
    if rule.size != (-1, -1) and rule.size != shape[:2] and not _fits(shape, rule):
        raise BadImage(f"{_shown(shape)}, where all are to be {_shown(rule.size or ())}")
    if rules.decodes:
        _decode(data, shape)
    return shape


def takes_all_formats(rule: FeatureRule) -> bool:
    """Tell whether TFDS can decode all formats that are packed for a feature."""
    return not any(format_fault(image_format, rule) for image_format in _CHANNELS)


def format_fault(image_format: str, rule: FeatureRule) -> str:
    """Return why TFDS cannot decode images of a format for a feature, or ""."""
    if image_format not in _CHANNELS:
        return f"{image_format}, which TensorFlow does not decode to a picture"
    if rule.channels not in _CHANNELS[image_format]:
        channels = "1 channel" if rule.channels == 1 else f"{rule.channels} channels"
        return f"{image_format}, which TensorFlow does not decode to {channels}"
    return ""


def _fits(shape: tuple[int, ...], rule: FeatureRule) -> bool:
    sides = zip(rule.size or (), shape, strict=False)
    return all(wanted in (-1, found) for wanted, found in sides)


def _decode(data: bytes, shape: tuple[int, int, int]) -> None:
    # What `pack` asks of an image: it finds what lenient decoders fill with grey.
    if fault := image.tensorflow_fault(data):
        raise BadImage(f"TensorFlow does not decode it: {fault}")
    decoded = decode.to_array(data, shape)
    if decoded.shape != shape:
        raise BadImage(f"it decodes to {_shown(decoded.shape)} instead of {_shown(shape)}")


def _shown(shape: tuple[object, ...]) -> str:
    return "x".join(map(str, shape))
