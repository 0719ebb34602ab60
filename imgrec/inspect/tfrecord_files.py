"""Describe TFRecord files, whoever wrote them, and print the code that reads them.

Nothing here raises because of what a file holds.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from imgrec.codec import example, pillow
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.codec.tfrecord import compression_of
from imgrec.errors import BadImage, CorruptRecord
from imgrec.faults import Code
from imgrec.read.files import RegularFile, os_fault, present_files, read_start
from imgrec.read.shards import shard_frames
from imgrec.storage.paths import to_path

MOST_BYTES = 1 << 30
"""How much to read of the records: more would take long and show little."""
_LOOKED_AT = 200
"""Records of each file whose features are described."""
_IMAGES = 20
_TEXT = 40
_TF_TYPES = {"bytes": "tf.string", "int64": "tf.int64", "float": "tf.float32"}
_GLOBS = (
    "*.tfrecord", "*.tfrecords", "*.tfrec", "*.tfrecord-*-of-?????", "*-of-?????", "*.tfrecord*",
)  # fmt: skip
_MOST_LISTED = 3


def list_names(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    return sorted(present_files(to_path(folder)))


@dataclass(slots=True)
class _Range:
    """The smallest and the largest of some numbers."""

    least: float = math.inf
    most: float = -math.inf

    def add(self, number: float) -> None:
        self.least, self.most = min(self.least, number), max(self.most, number)

    def __str__(self) -> str:
        if self.least > self.most:
            return ""
        is_one = self.least == self.most
        return f"{self.least:,}" if is_one else f"{self.least:,} to {self.most:,}"


@dataclass(slots=True)
class FeatureFacts:
    """What records hold under one name."""

    name: str
    records: int = 0
    """How many of the records that were looked at have it."""
    counts: _Range = field(default_factory=_Range)
    """How many values it has."""
    _kinds: set[str] = field(default_factory=set)
    _sizes: _Range = field(default_factory=_Range)
    _numbers: _Range = field(default_factory=_Range)
    _formats: Counter[str] = field(default_factory=Counter)
    _text: str = ""

    def add(self, values: example.Feature) -> None:
        """Add the values of one record."""
        self.records += 1
        self.counts.add(len(values))
        for value in values:
            if isinstance(value, bytes):
                self._kinds.add("bytes")
                self._sizes.add(len(value))
                self._formats[sniff(value[:HEAD_BYTES])] += 1
                text = value[:_TEXT].decode("utf-8", "ignore")
                self._text = self._text or (text if text.isprintable() else "")
            else:
                self._kinds.add("int64" if isinstance(value, int) else "float")
                self._numbers.add(value)

    @property
    def kind(self) -> str:
        """Return bytes, int64 or float; "mixed" if records differ, "" if none has a value."""
        return next(iter(self._kinds), "") if len(self._kinds) < 2 else "mixed"

    @property
    def shown(self) -> str:
        """Describe the values."""
        if not str(self._sizes):
            return str(self._numbers)
        formats = [f"{count:,} {name}" for name, count in self._formats.most_common() if name]
        what = ", ".join(formats) or (f"such as {self._text!r}" if self._text else "")
        return "; ".join(filter(None, (what, f"{self._sizes} bytes")))


@dataclass(slots=True)
class Contents:
    """What is inside TFRecord files, whoever wrote them."""

    files: tuple[str, ...]
    """Their paths."""
    size: int = 0
    records: int = 0
    is_all: bool = True
    """Whether all records were counted."""
    looked_at: int = 0
    images: int = 0
    """How many images were decoded, or could not be."""
    bad_images: int = 0
    fault: str = ""
    """Why a file was not read to its end, or is not made of `tf.train.Example`s."""
    _features: dict[str, FeatureFacts] = field(default_factory=dict)
    _compressions: Counter[str] = field(default_factory=Counter)
    _left: int = MOST_BYTES

    @property
    def features(self) -> list[FeatureFacts]:
        """Return what the records hold, by name."""
        return [feature for _, feature in sorted(self._features.items())]

    @property
    def compression(self) -> str:
        """Return how most of the files are compressed; "" if they are not."""
        return max(self._compressions, key=lambda one: self._compressions[one], default="")

    def read(self, path: str) -> None:
        """Add a file."""
        try:
            head, size = read_start(path, HEAD_BYTES)
            self.size += size
            compression = compression_of(head)
            if compression is None:
                self._set_fault(path, Code.NOT_TFRECORD.value)
                return
            self._compressions[compression] += 1
            with RegularFile(path) as file:
                for number, frame in enumerate(shard_frames(file, compression, path)):
                    if self._left <= 0:
                        self.is_all = False
                        return
                    self._left -= len(frame.payload)
                    self.records += bool(frame.length)
                    if frame.fault:
                        self._set_fault(path, f"byte {frame.offset:,}: {frame.fault.what}")
                    elif number < _LOOKED_AT:
                        self._add(path, frame.payload)
        except OSError as error:
            self._set_fault(path, os_fault(error, path).what)

    def _set_fault(self, path: str, what: str) -> None:
        self.fault = self.fault or f"{os.path.basename(path)}: {what}"

    def _add(self, path: str, payload: bytes) -> None:
        try:
            features = example.decode_bounded(payload)
        except CorruptRecord as error:
            image_format = sniff(payload[:HEAD_BYTES])
            what = f"records are bare {image_format} files" if image_format else str(error)
            self._set_fault(path, what)
            return
        self.looked_at += 1
        for name, values in features.items():
            self._features.setdefault(name, FeatureFacts(name)).add(values)
            value = values[0] if values and self.images < _IMAGES else b""
            if isinstance(value, bytes) and sniff(value[:HEAD_BYTES]):
                self.images += 1
                try:
                    pillow.to_pil(value).load()
                except (BadImage, OSError):
                    self.bad_images += 1

    @property
    def code(self) -> str:
        """Return Python code that reads the files without TFDS; "" if they have no features."""
        known = [feature for feature in self.features if feature.kind in _TF_TYPES]
        if not known:
            return ""
        how = f', compression_type="{self.compression.upper()}"' if self.compression else ""
        return "\n".join(
            [
                "import tensorflow as tf",
                f"files = {_files_code(self.files)}",
                "spec = {",
                *(f"    {one.name!r}: {self._spec(one)}," for one in known),
                "}",
                f"data = tf.data.TFRecordDataset(files{how})",
                "data = data.map(lambda record: tf.io.parse_single_example(record, spec))",
            ]
        )

    def _spec(self, feature: FeatureFacts) -> str:
        kind, most = _TF_TYPES[feature.kind], feature.counts.most
        if feature.records < self.looked_at or not feature.counts.least == most > 0:
            return f"tf.io.FixedLenSequenceFeature([], {kind}, allow_missing=True)"
        return f"tf.io.FixedLenFeature([{'' if most == 1 else most}], {kind})"


def _files_code(paths: Sequence[str]) -> str:
    """Return code that lists files: with a pattern if they are many, and it matches no others."""
    folder = os.path.dirname(paths[0])
    names = sorted(os.path.basename(path) for path in paths)
    if len(names) > _MOST_LISTED and not set(folder) & set("*?[]\\"):
        there = list_names(folder)
        for pattern in _GLOBS:
            if [name for name in there if fnmatch(name, pattern)] == names:
                return f"sorted(tf.io.gfile.glob({os.path.join(folder, pattern)!r}))"
    return repr(list(paths))


def read_contents(paths: Sequence[str]) -> Contents:
    """Describe files of records. Anything wrong with them is a fault in the result."""
    contents = Contents(tuple(paths))
    for path in paths:
        contents.read(path)
    return contents
