"""One shard and its index, checked byte by byte in a worker."""

from __future__ import annotations

import os
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import example
from imgrec.codec.tfrecord import Frame
from imgrec.errors import CorruptRecord
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.verify.record import RecordFacts, Rules, check_record
from imgrec.read.files import HashedFile, RegularFile, os_fault
from imgrec.read.shards import (
    LEAST_RECORD_BYTES,
    MOST_INDEX_LINE_BYTES,
    parse_index,
    shard_frames,
)

_ENOUGH_FAULTS = 50_000
"""How many faults of a shard are looked for."""


class ShardClaim(NamedTuple):
    """One shard, as the documents declare it."""

    filename: str
    split: str
    records: int | None
    """How many it should hold; None if that is not known."""
    has_index: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """What is known of one shard, by column; row i is record i."""

    filename: str
    size: int
    hashes: dict[str, str]
    """SHA-256 by file: of the shard and of its index."""
    faults: tuple[Fault, ...]
    damaged: frozenset[int]
    """The records of which nothing is known."""
    is_whole: bool
    """Whether all of it could be read, so that it has no more records than are known."""
    offsets: array[int]
    lengths: array[int]
    filenames: tuple[str, ...]
    labels: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, int, int], ...]
    formats: tuple[str, ...]
    digests: bytes
    """16 bytes a record: the XXH3 of the image as it is packed."""
    columns: tuple[tuple[object, ...], ...]
    """A record each: the values of `Rules.columns`."""

    @property
    def records(self) -> int:
        """Count the records, damaged ones too."""
        return len(self.offsets)

    def digest(self, place: int) -> bytes:
        """Return the hash of one image."""
        return self.digests[16 * place : 16 * place + 16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCheck:
    """A picklable function that checks shards of one dataset."""

    folder: str
    compression: str
    rules: Rules

    def __call__(self, claim: ShardClaim) -> ShardFacts:
        """Check a shard and its index."""
        found = _Found(claim.filename)
        path = os.path.join(self.folder, claim.filename)
        index: bytes | None = None
        try:
            with HashedFile(path) as file:
                if claim.has_index:
                    index = found.read_index(path, file.size)
                spans = _spans(index)
                for frame in shard_frames(file, self.compression, claim.filename, spans):
                    if found.records > file.size // LEAST_RECORD_BYTES:
                        found.fail(Fault(Code.TOO_MANY_RECORDS, claim.filename))
                    if not found.is_whole or not found.add(frame, self.rules):
                        break
                found.hashes[claim.filename] = file.finish()
                found.size = file.size
        except OSError as error:
            found.fail(os_fault(error, claim.filename))
            index = None
        if index is not None:
            found.faults.extend(found.index_faults(index))
        if found.is_whole and claim.records not in (None, found.records):
            facts = {"expected": claim.records, "found": found.records}
            found.faults.say(Code.RECORD_COUNT, claim.filename, **facts)
        return found.facts()


class _Found:
    """What is known of a shard while it is read."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.index_name = filename + layout.INDEX_SUFFIX
        self.size = 0
        self.hashes: dict[str, str] = {}
        self.faults = Faults()
        self.is_whole = True
        self.offsets, self.lengths = array("Q"), array("Q")
        self._damaged: set[int] = set()
        self._records: list[RecordFacts] = []

    @property
    def records(self) -> int:
        return len(self.offsets)

    def fail(self, fault: Fault) -> None:
        """Note that the rest of the shard cannot be read."""
        self.is_whole = False
        self.faults.add(fault)

    def add(self, frame: Frame, rules: Rules) -> bool:
        """Check a record; return whether to go on."""
        if frame.fault and not frame.length:
            self.fail(frame.fault)
            if frame.fault.code is not Code.RECORD_CUT:
                self.faults.say(Code.REST_LOST, self.filename, frame.offset)
            return False
        record = RecordFacts()
        faults: tuple[Fault, ...] = (frame.fault,) if frame.fault else ()
        if not frame.fault:
            record, found = check_record(frame, rules, self.filename)
            faults = found.listed() if found.count(self.filename) else ()
        if faults or not rules.features.by_name:
            self._damaged.add(self.records)
            self.faults.extend(faults)
        self.offsets.append(frame.offset)
        self.lengths.append(frame.length)
        self._records.append(record)
        if self.faults.count(self.filename) >= _ENOUGH_FAULTS:
            self.fail(Fault(Code.GAVE_UP, self.filename, facts={"limit": _ENOUGH_FAULTS}))
        return self.is_whole

    def read_index(self, shard_path: str, shard_size: int) -> bytes | None:
        """Return the index; None, with a fault, if it cannot be read or is too long."""
        # A record takes 16 bytes or more.
        limit = MOST_INDEX_LINE_BYTES * (shard_size // 16 + 1)
        try:
            with HashedFile(shard_path + layout.INDEX_SUFFIX) as file:
                data = file.read(limit + 1)
                self.hashes[self.index_name] = file.finish()
        except OSError as error:
            self.faults.add(os_fault(error, self.index_name))
            return None
        if len(data) > limit:
            self.faults.say(Code.INDEX_TOO_LONG, self.index_name, limit)
            return None
        return data

    def index_faults(self, index: bytes) -> Iterator[Fault]:
        """Compare the index, byte by byte, with what it should be."""
        spans = [f"{at} {length}" for at, length in zip(self.offsets, self.lengths, strict=True)]
        if index == "\n".join([*spans, ""]).encode():
            return
        position = 0
        lines = index.split(b"\n")
        for place, span in enumerate(spans):
            line = lines[place] if place < len(lines) - 1 else b""
            if line != span.encode():
                facts = {"line": _shown(line), "record": place, "span": span}
                yield Fault(Code.INDEX_LINE, self.index_name, min(position, len(index)), facts)
            position += len(line) + 1
        rest = b"\n".join(lines[len(spans) :])
        if self.is_whole and rest:
            facts = {"line": _shown(rest)}
            yield Fault(Code.INDEX_REST, self.index_name, min(position, len(index)), facts)

    def facts(self) -> ShardFacts:
        columns = list(zip(*self._records, strict=True)) or [()] * len(RecordFacts._fields)
        filenames, labels, shapes, formats, digests, extras = columns
        return ShardFacts(
            filename=self.filename,
            size=self.size,
            hashes=self.hashes,
            faults=self.faults.listed(),
            damaged=frozenset(self._damaged),
            is_whole=self.is_whole,
            offsets=self.offsets,
            lengths=self.lengths,
            filenames=filenames,
            labels=labels,
            shapes=shapes,
            formats=formats,
            digests=b"".join(digests),
            columns=extras,
        )


def _spans(index: bytes | None) -> list[tuple[int, int]]:
    """Return what an index says, to help past damaged lengths; nothing if it is malformed."""
    try:
        return parse_index(index or b"")
    except ValueError:
        return []


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("ascii", "backslashreplace")) if line else "nothing"


def images_of(path: str, compression: str, places: Container[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the images of some records of a shard, by their numbers, unless they are damaged."""
    with RegularFile(path) as file:
        for place, frame in enumerate(shard_frames(file, compression, path)):
            if place not in places or frame.fault:
                continue
            if image := _image(frame.payload):
                yield place, image


def _image(payload: bytes) -> bytes:
    if plain := example.decode_plain(payload, 0, len(payload)):
        return plain.image
    try:
        values = example.decode_bounded(payload).get("image", ())
    except CorruptRecord:
        return b""
    return b"".join(value for value in values if isinstance(value, bytes))
