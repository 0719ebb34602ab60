"""Check one shard and its index, byte by byte, in a worker."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.codec import decode, example, image, pillow
from imgrec.codec.sniff import format_of
from imgrec.codec.tfrecord import Frame
from imgrec.errors import BadImage, CorruptRecord
from imgrec.faults import Code, Fault, Faults
from imgrec.read.files import HashedFile, RegularFile, os_fault
from imgrec.read.shards import (
    MAX_INDEX_LINE_BYTES,
    MIN_RECORD_BYTES,
    parse_index,
    shard_frames,
)
from imgrec.read.tfds_files import Feature, Features

_ENOUGH_FAULTS = 50_000
"""A shard with this many faults is not checked to its end."""
_CHANNELS = {"JPEG": (0, 1, 3), "PNG": (0, 1, 3, 4), "BMP": (0, 3, 4)}
"""The formats that `tf.image.decode_image` decodes to three axes, and the channels it can produce.

0 stands for as many as the image has.
"""
KINDS = {bytes: "bytes", int: "whole numbers", float: "numbers"}
"""What people call the values of features, by their type."""


class ShardClaim(NamedTuple):
    """One shard, as the documents declare it."""

    filename: str
    split: str
    records: int | None
    """None if dataset_info.json does not name the shard."""
    has_index: bool = False


class Rules(NamedTuple):
    """What every record of a dataset must be."""

    features: Features
    is_ours: bool
    """Records of imgrec also have a name, and the shape of their image."""
    decodes: bool
    """Whether to decode every image to its end."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the features with one value that came from columns of the source."""
        return self.features.single_columns if self.is_ours else ()


class RecordFacts(NamedTuple):
    """What one record holds. A damaged record has its place only."""

    offset: int
    length: int
    is_damaged: bool = True
    filename: str = ""
    labels: tuple[int, ...] = ()
    shape: tuple[int, int, int] = (0, 0, 0)
    format: str = ""
    digest: bytes = bytes(16)
    """XXH3 of the packed image."""
    columns: tuple[object, ...] = ()
    """The values of `Rules.columns`."""

    @property
    def title(self) -> str:
        """Return the filename, or the place of a record without one."""
        return self.filename or f"the record at byte {self.offset}"


@dataclass(slots=True)
class ShardFacts:
    """What one shard holds."""

    filename: str
    size: int = 0
    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the shard and of its index, by file."""
    faults: Sequence[Fault] = ()
    is_whole: bool = True
    """Whether the shard could be read to its end, so that `records` lists all of them."""
    records: list[RecordFacts] = field(default_factory=list)
    source_hashes: Sequence[bytes] = ()
    """The hash of each image in the source, from samples.parquet; b"" where it cannot be trusted.
    Empty before the table is checked."""
    doubtful: Mapping[int, bytes] = field(default_factory=dict)
    """The source hashes that should be those of the packed images but are not, by record."""


def check_shard(claim: ShardClaim, folder: str, compression: str, rules: Rules) -> ShardFacts:
    """Check a shard and its index. Damage is a fault in the result, never an error."""
    return _ShardCheck(claim, rules).run(os.path.join(folder, claim.filename), compression)


class _ShardCheck:
    def __init__(self, claim: ShardClaim, rules: Rules) -> None:
        self._claim, self._rules = claim, rules
        self._name, self._index_name = claim.filename, claim.filename + layout.INDEX_SUFFIX
        self._faults = Faults()
        self._found = ShardFacts(claim.filename)
        # Looked up once here, since it is needed for every record.
        self._declared, self._columns = rules.features.by_name, rules.columns
        self._labels = [(k, one) for k, one in self._declared.items() if one.classes is not None]
        self._images = [(key, one) for key, one in self._declared.items() if one.is_image]

    def run(self, path: str, compression: str) -> ShardFacts:
        found, records, expected = self._found, self._found.records, self._claim.records
        index: bytes | None = None
        try:
            with HashedFile(path) as file:
                if self._claim.has_index:
                    index = self._read_index(path, file.size)
                for frame in shard_frames(file, compression, self._name, _spans(index)):
                    if len(records) > file.size // MIN_RECORD_BYTES:
                        self._stop(Fault(Code.TOO_MANY_RECORDS, self._name))
                    else:
                        self._add(frame)
                    if not found.is_whole:
                        break
                found.hashes[self._name] = file.finish()
                found.size = file.size
        except OSError as error:
            self._stop(os_fault(error, self._name))
            index = None
        if index is not None:
            self._compare_index(index)
        if found.is_whole and expected not in (None, len(records)):
            facts = {"expected": expected, "found": len(records)}
            self._faults.say(Code.RECORD_COUNT, self._name, **facts)
        found.faults = self._faults.listed()
        return found

    def _stop(self, fault: Fault) -> None:
        """Give up on the rest of the shard."""
        self._found.is_whole = False
        self._faults.add(fault)

    def _add(self, frame: Frame) -> None:
        if frame.fault and not frame.length:
            self._stop(frame.fault)
            if frame.fault.code is not Code.RECORD_CUT:
                self._faults.say(Code.REST_LOST, self._name, frame.offset)
            return
        record = RecordFacts(frame.offset, frame.length)
        if frame.fault:
            self._faults.add(frame.fault)
        elif self._declared:
            record = self._check_record(frame)
        self._found.records.append(record)
        if self._faults.count(self._name) >= _ENOUGH_FAULTS:
            self._stop(Fault(Code.GAVE_UP, self._name, facts={"limit": _ENOUGH_FAULTS}))

    def _check_record(self, frame: Frame) -> RecordFacts:
        """Compare a record with the declared features."""
        where, before = (self._name, frame.offset), self._faults.count(self._name)
        try:
            features = _decode(frame.payload)
        except CorruptRecord as error:
            self._faults.say(Code.NOT_AN_EXAMPLE, *where, reason=error.message)
            return RecordFacts(frame.offset, frame.length)
        for name, feature in self._declared.items():
            values = features.get(name)
            if values is None:
                self._faults.say(Code.NO_FEATURE, *where, feature=name)
            elif [value for value in values if type(value) is not feature.kind]:
                kind = KINDS[feature.kind]
                self._faults.say(Code.FEATURE_KIND, *where, feature=name, kind=kind)
            elif feature.length not in (None, len(values)):
                facts = {"feature": name, "found": len(values), "expected": feature.length}
                self._faults.say(Code.FEATURE_LENGTH, *where, **facts)
        if self._faults.count(self._name) > before:
            return RecordFacts(frame.offset, frame.length)
        filename = b"".join(_bytes(features.get("filename", ())))
        if self._rules.is_ours and not filename:
            self._faults.say(Code.NO_FILENAME, *where)
        labels = self._check_labels(features, where)
        shape, image_format, digest = self._check_images(features, where)
        return RecordFacts(
            offset=frame.offset,
            length=frame.length,
            is_damaged=self._faults.count(self._name) > before,
            filename=filename.decode("utf-8", "surrogateescape"),
            labels=labels,
            shape=shape,
            format=image_format,
            digest=digest,
            columns=tuple([_text(features[name][0]) for name in self._columns]),
        )

    def _check_labels(
        self, features: Mapping[str, example.Feature], where: tuple[str, int]
    ) -> tuple[int, ...]:
        labels: tuple[int, ...] = ()
        for key, feature in self._labels:
            labels = cast("tuple[int, ...]", features[key])
            lowest = -1 if feature.length == 1 else 0  # -1 labels an image without a class
            for label in labels:
                if not lowest <= label < (feature.classes or 0):
                    facts = {"feature": key, "label": label, "classes": feature.classes}
                    self._faults.say(Code.BAD_LABEL, *where, **facts)
        return labels

    def _check_images(
        self, features: Mapping[str, example.Feature], where: tuple[str, int]
    ) -> tuple[tuple[int, int, int], str, bytes]:
        """Return shape, format and hash of the image, of the last one if there are several."""
        shape, image_format, digest = (0, 0, 0), "", bytes(16)
        for key, feature in self._images:
            for data in _bytes(features[key]):
                image_format, digest = format_of(data, ""), xxh3_128_digest(data)
                try:
                    shape = _check_image(data, image_format, feature, decodes=self._rules.decodes)
                except BadImage as error:
                    self._faults.say(Code.BAD_IMAGE, *where, feature=key, reason=str(error))
                    continue
                declared = features.get("shape", ())
                if self._rules.is_ours and declared != shape:
                    facts = {"declared": _by(declared), "found": _by(shape)}
                    self._faults.say(Code.WRONG_SHAPE, *where, **facts)
        return shape, image_format, digest

    def _read_index(self, path: str, shard_size: int) -> bytes | None:
        """Return the index; None, with a fault, if it cannot be read or is too long."""
        limit = MAX_INDEX_LINE_BYTES * (shard_size // 16 + 1)  # a record takes 16 bytes or more
        try:
            with HashedFile(path + layout.INDEX_SUFFIX) as file:
                data = file.read(limit + 1)
                self._found.hashes[self._index_name] = file.finish()
        except OSError as error:
            self._faults.add(os_fault(error, self._index_name))
            return None
        if len(data) > limit:
            self._faults.say(Code.INDEX_TOO_LONG, self._index_name, limit)
            return None
        return data

    def _compare_index(self, index: bytes) -> None:
        """Compare an index with the places of the records, line by line."""
        spans = [f"{record.offset} {record.length}" for record in self._found.records]
        if index == "\n".join([*spans, ""]).encode():
            return
        lines = index.split(b"\n")
        position = 0
        for number, span in enumerate(spans):
            line = lines[number] if number < len(lines) - 1 else b""
            if line != span.encode():
                facts = {"line": _shown(line), "record": number, "span": span}
                place = min(position, len(index))
                self._faults.say(Code.INDEX_LINE, self._index_name, place, **facts)
            position += len(line) + 1
        rest = b"\n".join(lines[len(spans) :])
        if self._found.is_whole and rest:
            place = min(position, len(index))
            self._faults.say(Code.INDEX_REST, self._index_name, place, line=_shown(rest))


def _decode(payload: bytes) -> Mapping[str, example.Feature]:
    plain = example.decode_plain(payload, 0, len(payload))
    if plain is None:
        return example.decode_bounded(payload)
    filename, data, label, shape = plain
    return {"filename": (filename,), "image": (data,), "label": (label,), "shape": shape}


def _text(value: bytes | float) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bytes(feature: example.Feature) -> Iterator[bytes]:
    return (value for value in feature if isinstance(value, bytes))


def _check_image(
    data: bytes, image_format: str, feature: Feature, *, decodes: bool
) -> tuple[int, int, int]:
    """Return the shape of an image; raise BadImage unless TFDS decodes it as declared."""
    shape = image.shape_of(data, "")
    if reason := format_fault(image_format, feature):
        raise BadImage(reason)
    pillow.refuse_bomb(*shape[:2])
    declared = feature.size or (-1, -1)
    if any(side not in (-1, found) for side, found in zip(declared, shape, strict=False)):
        raise BadImage(f"{_by(shape)}, but features.json declares {_by(declared)}")
    if decodes:
        # As strict as `pack`: lenient decoders fill missing data with grey.
        if reason := image.tensorflow_fault(data):
            raise BadImage(f"TensorFlow does not decode it: {reason}")
        decoded = decode.to_array(data, shape)
        if decoded.shape != shape:
            raise BadImage(f"it decodes to {_by(decoded.shape)} instead of {_by(shape)}")
    return shape


def takes_all_formats(feature: Feature) -> bool:
    """Return whether TFDS can decode every format that imgrec packs for a feature."""
    return not any(format_fault(image_format, feature) for image_format in _CHANNELS)


def format_fault(image_format: str, feature: Feature) -> str:
    """Return why TFDS cannot decode images of a format for a feature, or ""."""
    if image_format not in _CHANNELS:
        return f"{image_format}, which TensorFlow does not decode to a picture"
    if feature.channels not in _CHANNELS[image_format]:
        channels = "1 channel" if feature.channels == 1 else f"{feature.channels} channels"
        return f"{image_format}, which TensorFlow does not decode to {channels}"
    return ""


def _by(shape: Sequence[object]) -> str:
    return "x".join(map(str, shape))


def _spans(index: bytes | None) -> list[tuple[int, int]]:
    """Parse an index, to find the next record after a damaged length; [] if it is malformed."""
    try:
        return parse_index(index or b"")
    except ValueError:
        return []


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("ascii", "backslashreplace")) if line else "nothing"


def images_of(path: str, compression: str, numbers: Container[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the images of some records of a shard, by number; skip damaged ones."""
    with RegularFile(path) as file:
        for number, frame in enumerate(shard_frames(file, compression, path)):
            if number not in numbers or frame.fault:
                continue
            try:
                data = b"".join(_bytes(_decode(frame.payload).get("image", ())))
            except CorruptRecord:
                continue
            if data:
                yield number, data
