"""One record: what it must hold, and whether it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec import decode, example, image, pixels
from imgrec.codec.sniff import format_of
from imgrec.codec.tfrecord import Frame
from imgrec.errors import BadImage, CorruptRecord
from imgrec.faults import Code, Faults
from imgrec.read.features import Feature, Features

_PLAIN = frozenset({"filename", "image", "label", "shape"})
_CHANNELS = {"JPEG": (0, 1, 3), "PNG": (0, 1, 3, 4), "BMP": (0, 3, 4)}
"""The formats that `tf.image.decode_image` decodes to three axes, and to how many channels.

0 stands for as many as the image has.
"""
_KINDS = {bytes: "bytes", int: "whole numbers", float: "numbers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every record of a dataset must be."""

    features: Features
    is_ours: bool
    """Whether imgrec made it: then names are not empty, and shapes are those of the images."""
    decodes: bool
    """Whether images are decoded to their end."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the features with one value that came from columns of the source."""
        return self.features.single_columns if self.is_ours else ()


class RecordFacts(NamedTuple):
    """What is known of a record; nothing if it is damaged."""

    filename: str = ""
    labels: tuple[int, ...] = ()
    shape: tuple[int, int, int] = (0, 0, 0)
    format: str = ""
    digest: bytes = bytes(16)
    """XXH3 of the image as it is packed."""
    columns: tuple[object, ...] = ()
    """The values of `Rules.columns`."""


class _Parts(NamedTuple):
    """The features of a record that are checked further."""

    filename: bytes
    images: Sequence[tuple[str, bytes]]
    labels: Sequence[tuple[str, tuple[int, ...]]]
    """By feature."""
    shape: tuple[object, ...]
    columns: tuple[object, ...] = ()


def check_record(frame: Frame, rules: Rules, shard: str) -> tuple[RecordFacts, Faults]:
    """Return what a record holds, and all that is wrong with it; nothing if there are no rules."""
    faults, declared, payload = Faults(), rules.features.by_name, frame.payload
    if not declared:
        return RecordFacts(), faults
    plain = example.decode_plain(payload, 0, len(payload))
    if plain and declared.keys() == _PLAIN:
        filename, data, label, shape = plain
        parts = _Parts(filename, (("image", data),), (("label", (label,)),), shape)
        return _check_parts(parts, rules, faults, (shard, frame.offset)), faults
    try:
        features = example.decode_bounded(payload)
    except CorruptRecord as error:
        faults.say(Code.NOT_AN_EXAMPLE, shard, frame.offset, reason=error.message)
        return RecordFacts(), faults
    for name, feature in declared.items():
        values = features.get(name)
        if values is None:
            faults.say(Code.NO_FEATURE, shard, frame.offset, feature=name)
        elif not all(type(value) is feature.kind for value in values):
            kind = _KINDS[feature.kind]
            faults.say(Code.FEATURE_KIND, shard, frame.offset, feature=name, kind=kind)
        elif feature.length not in (None, len(values)):
            facts = {"feature": name, "found": len(values), "expected": feature.length}
            faults.say(Code.FEATURE_LENGTH, shard, frame.offset, **facts)
    if faults.count(shard):
        return RecordFacts(), faults
    return _check_parts(_parts(features, rules), rules, faults, (shard, frame.offset)), faults


def _parts(features: Mapping[str, example.Feature], rules: Rules) -> _Parts:
    """Return the parts of a record whose features have the right kinds."""
    declared = rules.features.by_name.items()
    return _Parts(
        filename=b"".join(_bytes(features.get("filename", ()))),
        images=[
            (key, one) for key, is_ in declared if is_.is_image for one in _bytes(features[key])
        ],
        labels=[
            (key, tuple(int(value) for value in features[key]))
            for key, feature in declared
            if feature.classes is not None
        ],
        shape=features.get("shape", ()),
        columns=tuple(_readable(*features[name]) for name in rules.columns),
    )


def _readable(value: bytes | float) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bytes(feature: example.Feature) -> Iterator[bytes]:
    return (value for value in feature if isinstance(value, bytes))


def _check_parts(
    parts: _Parts, rules: Rules, faults: Faults, where: tuple[str, int]
) -> RecordFacts:
    """Check the name, the labels and the images of a record."""
    if rules.is_ours and not parts.filename:
        faults.say(Code.NO_FILENAME, *where)
    labels: tuple[int, ...] = ()
    for key, labels in parts.labels:
        feature = rules.features.by_name[key]
        lowest = -1 if feature.length == 1 else 0  # -1 is the label of an image without a class
        for label in labels:
            if not lowest <= label < (feature.classes or 0):
                facts = {"feature": key, "label": label, "classes": feature.classes}
                faults.say(Code.BAD_LABEL, *where, **facts)
    shape, image_format, digest = (0, 0, 0), "", bytes(16)
    for key, data in parts.images:
        image_format, digest = format_of(data, ""), xxh3_128_digest(data)
        try:
            shape = _check_image(data, image_format, rules.features.by_name[key], rules)
        except BadImage as error:
            faults.say(Code.BAD_IMAGE, *where, feature=key, reason=str(error))
            continue
        if rules.is_ours and parts.shape != shape:
            faults.say(Code.WRONG_SHAPE, *where, declared=_by(parts.shape), found=_by(shape))
    name = parts.filename.decode("utf-8", "surrogateescape")
    return RecordFacts(name, labels, shape, image_format, digest, parts.columns)


def _check_image(
    data: bytes, image_format: str, feature: Feature, rules: Rules
) -> tuple[int, int, int]:
    """Return the shape of an image; raise BadImage unless TFDS decodes it to what is declared."""
    shape = image.shape_of(data, "")
    if reason := format_fault(image_format, feature):
        raise BadImage(reason)
    pixels.refuse_bomb(*shape[:2])
    wanted = feature.size or (-1, -1)
    if any(side not in (-1, found) for side, found in zip(wanted, shape, strict=False)):
        raise BadImage(f"{_by(shape)}, where all are to be {_by(wanted)}")
    if rules.decodes:
        # What `pack` asks of an image: it finds what lenient decoders fill with grey.
        if reason := image.tensorflow_fault(data):
            raise BadImage(f"TensorFlow does not decode it: {reason}")
        decoded = decode.to_array(data, shape)
        if decoded.shape != shape:
            raise BadImage(f"it decodes to {_by(decoded.shape)} instead of {_by(shape)}")
    return shape


def takes_all_formats(feature: Feature) -> bool:
    """Tell whether TFDS can decode all formats that are packed for a feature."""
    return not any(format_fault(image_format, feature) for image_format in _CHANNELS)


def format_fault(image_format: str, feature: Feature) -> str:
    """Return why TFDS cannot decode images of a format for a feature, or ""."""
    if image_format not in _CHANNELS:
        return f"{image_format}, which TensorFlow does not decode to a picture"
    if feature.channels not in _CHANNELS[image_format]:
        channels = "1 channel" if feature.channels == 1 else f"{feature.channels} channels"
        return f"{image_format}, which TensorFlow does not decode to {channels}"
    return ""


def _by(shape: tuple[object, ...]) -> str:
    return "x".join(map(str, shape))
