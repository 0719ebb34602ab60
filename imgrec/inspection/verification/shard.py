"""Looking at every byte of one shard and of its index, in a worker."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from typing import NamedTuple

from imgrec import layout
from imgrec.inspection.files import HashedFile, read_whole, why
from imgrec.inspection.frames import Frame, shard_frames
from imgrec.inspection.verification.faults import Fault, Faults
from imgrec.inspection.verification.rules import Rules, Seen, look_at

_ENOUGH = 50_000
"""How many faults of a shard are looked for."""
_LEAST_BYTES = 8
"""What any record takes, even compressed: no checksum of it is like another."""
_LINE_BYTES = 42
"""The longest line of an index: two numbers of up to 20 digits."""


class ShardClaim(NamedTuple):
    """One shard, as the documents have it."""

    filename: str
    split: str
    records: int | None
    """How many it is said to hold; None if nothing is said."""
    has_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSeen:
    """What there is to know of one shard, by column; row i is record i."""

    filename: str
    size: int
    hashes: dict[str, str]
    """SHA-256 by file: of the shard and of its index."""
    faults: tuple[Fault, ...]
    unsound: frozenset[int]
    """The records of which nothing is known."""
    is_whole: bool
    """Whether all of it could be read, so that there are no more records than are known."""
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
        """Count the records that there are, sound or not."""
        return len(self.offsets)

    def digest(self, place: int) -> bytes:
        """Return the hash of one image."""
        return self.digests[16 * place : 16 * place + 16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInspector:
    """A picklable function that looks at shards of one dataset."""

    folder: str
    compression: str
    rules: Rules

    def __call__(self, claim: ShardClaim) -> ShardSeen:
        """Look at a shard and its index."""
        gathered = _Gathered(claim.filename)
        path = os.path.join(self.folder, claim.filename)
        try:
            with HashedFile(path) as file:
                index = _Index(path, file.size, gathered) if claim.has_index else None
                told = index.told() if index else ()
                for frame in shard_frames(file, self.compression, told):
                    if gathered.records > file.size // _LEAST_BYTES:
                        gathered.fail("it has more records than a file of its size can hold")
                    if not gathered.is_whole or not gathered.add(frame, self.rules):
                        break
                gathered.hashes[claim.filename] = file.finish()
                gathered.size = file.size
        except OSError as error:
            gathered.fail(why(error))
            index = None
        if index:
            index.compare()
        if claim.records is not None and gathered.is_whole:
            gathered.count(claim.records)
        return gathered.seen()


class _Gathered:
    """What is known of a shard while it is read."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.size = 0
        self.hashes: dict[str, str] = {}
        self.faults = Faults()
        self.is_whole = True
        self.offsets, self.lengths = array("Q"), array("Q")
        self._unsound: set[int] = set()
        self._seen: list[Seen] = []

    @property
    def records(self) -> int:
        return len(self.offsets)

    def fail(self, what: str) -> None:
        self.is_whole = False
        self.faults.add(self.filename, what)

    def add(self, frame: Frame, rules: Rules) -> bool:
        """Look at a record; return whether to go on."""
        if not frame.length:
            self.is_whole = False
            self.faults.add(self.filename, frame.fault, frame.offset)
            return False
        seen, faults = (Seen(), [frame.fault]) if frame.fault else look_at(frame.payload, rules)
        if faults or not rules.features:
            self._unsound.add(len(self.offsets))
            self.faults.extend(Fault(self.filename, frame.offset, what) for what in faults)
        self.offsets.append(frame.offset)
        self.lengths.append(frame.length)
        self._seen.append(seen)
        if self.faults.count(self.filename) >= _ENOUGH:
            self.fail(f"more than {_ENOUGH:,} faults: what follows is not looked at")
        return self.is_whole

    def count(self, records: int) -> None:
        if len(self.offsets) != records:
            self.faults.add(
                self.filename,
                f"it has {len(self.offsets):,} records, and {layout.DATASET_INFO} tells of "
                f"{records:,}",
            )

    def seen(self) -> ShardSeen:
        columns = list(zip(*self._seen, strict=True)) or [()] * len(Seen._fields)
        filenames, labels, shapes, formats, digests, extras = columns
        return ShardSeen(
            filename=self.filename,
            size=self.size,
            hashes=self.hashes,
            faults=self.faults.listed(),
            unsound=frozenset(self._unsound),
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


class _Index:
    """The index of a shard: a line "offset length" for each record."""

    def __init__(self, shard_path: str, shard_size: int, gathered: _Gathered) -> None:
        self._gathered = gathered
        self._filename = gathered.filename + layout.INDEX_SUFFIX
        self._data: bytes | None = None
        try:
            # No record takes less than 16 bytes; what is longer than that allows is no index.
            most = _LINE_BYTES * (shard_size // 16 + 1)
            self._data, digest = read_whole(shard_path + layout.INDEX_SUFFIX, most)
        except OSError as error:
            gathered.faults.add(self._filename, why(error))
            return
        gathered.hashes[self._filename] = digest
        if self._data is None:
            gathered.faults.add(self._filename, "it is longer than any index of this shard", most)

    def told(self) -> list[tuple[int, int]]:
        """Return what it says, if it says anything."""
        try:
            numbers = list(map(int, (self._data or b"").split()))
        except ValueError:
            return []
        return list(zip(numbers[0::2], numbers[1::2], strict=False))

    def compare(self) -> None:
        """Compare it, byte by byte, with what it should be."""
        if self._data is None:
            return
        gathered = self._gathered
        spans = zip(gathered.offsets, gathered.lengths, strict=True)
        wanted = [f"{offset} {length}" for offset, length in spans]
        if self._data == "\n".join([*wanted, ""]).encode():
            return
        position = 0
        lines = self._data.split(b"\n")
        for place, right in enumerate(wanted):
            line = lines[place] if place < len(lines) - 1 else b""
            if line != right.encode():
                self._say(f"{_shown(line)} for record {place}, which is at {right}", position)
            position += len(line) + 1
        rest = b"\n".join(lines[len(wanted) :])
        if gathered.is_whole and rest:
            self._say(f"{_shown(rest)} behind the last record's line", position)

    def _say(self, what: str, offset: int) -> None:
        self._gathered.faults.add(self._filename, what, min(offset, len(self._data or b"")))


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("ascii", "backslashreplace")) if line else "nothing"
