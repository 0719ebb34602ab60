"""What is inside TFRecord files, whoever wrote them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from imgrec.codec import decode, example, tfrecord
from imgrec.codec.compression import GZIP, ZLIB, beginning
from imgrec.codec.example import Feature
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import BadImage, CorruptRecord
from imgrec.inspection.diagnosis.facts import Contents, FeatureFacts
from imgrec.inspection.files import RegularFile, why
from imgrec.inspection.frames import shard_frames
from imgrec.inspection.wire import is_excessive

_MOST_BYTES = 1 << 30
"""How much is read, before compression: more would take long, and tell no more."""
_LOOKED_AT = 200
"""Records of a file whose features are looked at."""
_IMAGES = 20
_KINDS = {bytes: "bytes", int: "int64", float: "float"}
_TEXT = 40


def compression_of(path: str) -> str | None:
    """Return how a file of records is compressed, "" if it is not; None if it is no such file.

    Raises OSError.
    """
    with RegularFile(path) as file:
        head = file.read(HEAD_BYTES)
    if tfrecord.begins(head):
        return ""
    for compression in (GZIP, ZLIB):
        if tfrecord.begins(beginning(compression, head, tfrecord.OVERHEAD)):
            return compression
    return None


def read_contents(paths: Sequence[str]) -> Contents:
    """Look into files of records; what is wrong with them is told, never raised."""
    looking = _Looking()
    for path in paths:
        try:
            looking.size += os.path.getsize(path)
            compression = compression_of(path)
            if compression is None:
                looking.complain(path, "it is no TFRecord file")
                continue
            looking.compressions[compression] += 1
            looking.read(path, compression)
        except OSError as error:
            looking.complain(path, why(error))
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
    """What was found so far."""

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
            for place, frame in enumerate(shard_frames(file, compression)):
                if self._left <= 0:
                    self.is_all = False
                    return
                self._left -= len(frame.payload)
                if frame.fault:
                    self.complain(path, f"byte {frame.offset:,}: {frame.fault}")
                if frame.length:
                    self.records += 1
                if place < _LOOKED_AT and not frame.fault:
                    self._look(path, frame.payload)

    def _look(self, path: str, payload: bytes) -> None:
        if is_excessive(payload):
            self.complain(path, "records with more parts than any of an image")
            return
        try:
            features = example.decode(payload)
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
