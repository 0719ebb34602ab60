"""What is inside TFRecord files, whoever wrote them, and lines of Python that load it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from imgrec import layout
from imgrec.codec import decode, example
from imgrec.codec.compression import compression_of
from imgrec.codec.example import Feature
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import BadImage, CorruptRecord
from imgrec.faults import Code
from imgrec.inspect.doctor.facts import (
    TFDS_DOCUMENTS,
    Contents,
    FeatureFacts,
    Site,
    snake_case,
)
from imgrec.read.files import RegularFile, os_fault
from imgrec.read.shards import shard_frames
from imgrec.text import literal

_MOST_BYTES = 1 << 30
"""How much is read, before compression: more would take long, and show no more."""
_LOOKED_AT = 200
"""Records of a file whose features are looked at."""
_IMAGES = 20
_KINDS = {bytes: "bytes", int: "int64", float: "float"}
_TEXT = 40
_TYPES = {"bytes": "tf.string", "int64": "tf.int64", "float": "tf.float32"}
_GLOBS = (
    "*.tfrecord",
    "*.tfrecords",
    "*.tfrec",
    "*.tfrecord-*-of-?????",
    "*-of-?????",
    "*.tfrecord*",
)
_LISTED = 3
_CONFIG = re.compile(r"[\w+.-]*", re.ASCII)
"""What TFDS takes for the name of a config, or of none."""


def compression_of_file(path: str) -> str | None:
    """Return how a file of records is compressed, "" if it is not; None if it has no records.

    Raises OSError.
    """
    with RegularFile(path) as file:
        return compression_of(file.read(HEAD_BYTES))


def read_contents(paths: Sequence[str]) -> Contents:
    """Look into files of records; what is wrong with them is reported, never raised."""
    looking = _Looking()
    for path in paths:
        try:
            looking.size += os.path.getsize(path)
            compression = compression_of_file(path)
            if compression is None:
                looking.complain(path, Code.NOT_TFRECORD.value)
                continue
            looking.compressions[compression] += 1
            looking.read(path, compression)
        except OSError as error:
            looking.complain(path, os_fault(error, path).what)
    (compression, _), *_ = looking.compressions.most_common(1) or [("", 0)]
    return Contents(
        files=tuple(paths),
        bytes=looking.size,
        compression=compression,
        records=looking.records,
        is_all=looking.is_all,
        looked_at=looking.looked_at,
        features=tuple(looking.facts()),
        images=looking.images,
        bad_images=looking.bad_images,
        fault=looking.fault,
    )


@dataclass(slots=True)
class _Seen:
    """What was seen of one feature."""

    kinds: Counter[str] = field(default_factory=Counter)
    records: int = 0
    counts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    text: str = ""

    def add(self, values: Feature) -> None:
        self.records += 1
        self.counts = _ends([*self.counts, len(values)])
        if not values:
            return
        self.kinds[_KINDS[type(values[0])]] += 1
        for value in values:
            if isinstance(value, bytes):
                self.sizes = _ends([*self.sizes, len(value)])
                self.formats[sniff(value[:HEAD_BYTES])] += 1
                self.text = self.text or _text(value)
        if not isinstance(values[0], bytes):
            self.numbers = _ends([*self.numbers, *values])

    def facts(self, name: str) -> FeatureFacts:
        kind = next(iter(self.kinds), "") if len(self.kinds) < 2 else "mixed"
        return FeatureFacts(
            name, kind, self.records, self.counts[0], self.counts[-1], self._shown()
        )

    def _shown(self) -> str:
        if self.sizes:
            formats = [f"{count:,} {name}" for name, count in self.formats.most_common() if name]
            what = ", ".join(formats) or (f"such as {self.text!r}" if self.text else "")
            return "; ".join(filter(None, (what, f"{_span(self.sizes)} bytes")))
        return _span(self.numbers) if self.numbers else ""


class _Looking:
    """What has been found so far."""

    def __init__(self) -> None:
        self.size = self.records = self.looked_at = self.images = self.bad_images = 0
        self.is_all = True
        self.fault = ""
        self.compressions: Counter[str] = Counter()
        self._left = _MOST_BYTES
        self._seen: dict[str, _Seen] = {}

    def complain(self, path: str, what: str) -> None:
        self.fault = self.fault or f"{os.path.basename(path)}: {what}"

    def read(self, path: str, compression: str) -> None:
        with RegularFile(path) as file:
            for place, frame in enumerate(shard_frames(file, compression, path)):
                if self._left <= 0:
                    self.is_all = False
                    return
                self._left -= len(frame.payload)
                if frame.fault:
                    self.complain(path, f"byte {frame.offset:,}: {frame.fault.what}")
                if frame.length:
                    self.records += 1
                if place < _LOOKED_AT and not frame.fault:
                    self._look(path, frame.payload)

    def _look(self, path: str, payload: bytes) -> None:
        try:
            features = example.decode_bounded(payload)
        except CorruptRecord as error:
            form = sniff(payload[:HEAD_BYTES])
            self.complain(path, f"records are {form} files, bare" if form else str(error))
            return
        self.looked_at += 1
        for name, values in features.items():
            self._seen.setdefault(name, _Seen()).add(values)
            if self.images < _IMAGES:
                self._decode(values)

    def _decode(self, values: Feature) -> None:
        for value in values[:1]:
            if isinstance(value, bytes) and sniff(value[:HEAD_BYTES]):
                self.images += 1
                try:
                    decode.to_pil(value).load()
                except (BadImage, OSError):
                    self.bad_images += 1

    def facts(self) -> Iterator[FeatureFacts]:
        return (seen.facts(name) for name, seen in sorted(self._seen.items()))


def _ends(numbers: list) -> list:  # type: ignore[type-arg]  # of whatever can be compared
    return [min(numbers), max(numbers)]


def _span(numbers: Sequence[float]) -> str:
    least, most = numbers[0], numbers[-1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _text(value: bytes) -> str:
    try:
        text = value[:_TEXT].decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return ""
    return text if text and text.isprintable() else ""


def load_line(site: Site) -> str:
    """Return the line that loads a dataset, with TFDS if that can; "" if none does."""
    if site.compression:
        return layout.load_line(
            Path(site.data_dir), site.name, site.version, _split(site), site.compression
        )
    is_wrong = site.record_fault or any(fault.path in TFDS_DOCUMENTS for fault in site.faults)
    if site.missing or is_wrong or not site.whole_splits:
        return ""
    supervised = ", as_supervised=True" if site.info.supervised else ""
    step = site.documents.batching_step if supervised else ""
    if not is_loadable(site):
        arguments = f"split={literal(_split(site))}{supervised}"
        return f"tfds.builder_from_directory({site.folder!r}).as_dataset({arguments}){step}"
    target = f"{site.name}/{site.config}" if site.config else site.name
    line = layout.load_line(Path(site.data_dir), site.name, site.version, _split(site), step=step)
    line = line.replace(f'("{site.name}', f'("{target}', 1)
    return line if supervised else line.replace(", as_supervised=True", "")


def is_loadable(site: Site) -> bool:
    """Tell whether `tfds.load` can find a dataset by its name at all."""
    is_named = site.name.isidentifier() and site.name[0].isascii() and site.name[0] != "_"
    is_configured = _CONFIG.fullmatch(site.config)
    return bool(
        site.is_versioned and is_named and site.name == snake_case(site.name) and is_configured
    )


def _split(site: Site) -> str:
    splits = site.whole_splits or tuple(split.name for split in site.info.splits)
    return "train" if "train" in splits else next(iter(splits), "train")


def read_code(contents: Contents) -> str:
    """Return the code that reads TFRecords without TFDS; "" if nothing is known of them."""
    known = [feature for feature in contents.features if feature.kind in _TYPES]
    if not known:
        return ""
    compression = (
        f', compression_type="{contents.compression.upper()}"' if contents.compression else ""
    )
    return "\n".join(
        [
            "import tensorflow as tf",
            f"files = {_files(contents.files)}",
            "spec = {",
            *(f"    {feature.name!r}: {_spec(feature, contents)}," for feature in known),
            "}",
            f"data = tf.data.TFRecordDataset(files{compression})",
            "data = data.map(lambda record: tf.io.parse_single_example(record, spec))",
        ]
    )


def _spec(feature: FeatureFacts, contents: Contents) -> str:
    kind = _TYPES[feature.kind]
    is_fixed = feature.records == contents.looked_at and feature.least == feature.most > 0
    if not is_fixed:
        return f"tf.io.FixedLenSequenceFeature([], {kind}, allow_missing=True)"
    return f"tf.io.FixedLenFeature([{'' if feature.most == 1 else feature.most}], {kind})"


def _files(paths: Sequence[str]) -> str:
    folder = os.path.dirname(paths[0])
    names = [os.path.basename(path) for path in paths]
    for pattern in _patterns(folder, names):
        return f"sorted(tf.io.gfile.glob({os.path.join(folder, pattern)!r}))"
    return repr(list(paths))


def _patterns(folder: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the patterns that name just these files of a folder."""
    if len(names) <= _LISTED or set(folder) & set("*?[]\\"):
        return
    there = sorted(os.listdir(folder))
    yield from (glob for glob in _GLOBS if [n for n in there if fnmatch(n, glob)] == sorted(names))
