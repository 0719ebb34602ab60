"""What a verification knows so far, most of it in a temporary file.

The facts of all records of a dataset may be larger than memory. Those of one or two shards are
kept in memory at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from tempfile import SpooledTemporaryFile
from typing import IO, Generic, NamedTuple, Self, TypeVar

from imgrec.errors import ExecutionError
from imgrec.faults import Faults
from imgrec.inspect.job import Job
from imgrec.inspect.verify.shard import ShardClaim, ShardFacts
from imgrec.read.documents import Documents

T = TypeVar("T")

_MEMORY_BYTES = 64 << 20
"""Up to this much is kept in memory after all."""
_IN_MEMORY = 2
"""How many values of a shelf stay in memory, for whoever compares two of them."""


class Spool:
    """A temporary file, in memory as long as it is small, deleted when this is closed."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(  # noqa: SIM115  # closed by __exit__
            _MEMORY_BYTES, prefix="imgrec-"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        """Append bytes; return where they begin."""
        try:
            start = self._file.seek(0, 2)
            self._file.write(data)
        except OSError as error:
            raise ExecutionError(
                f"cannot write to the temporary folder: {error.strerror}",
                hint="set TMPDIR to a folder with room for about 200 bytes a record",
            ) from error
        return start

    def read(self, start: int, size: int) -> bytes:
        """Return bytes that were written."""
        self._file.seek(start)
        return self._file.read(size)


class Shelf(Mapping[str, T], Generic[T]):
    """Picklable values by name, each read from a spool when it is asked for."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._spans: dict[str, tuple[int, int]] = {}
        self._last: dict[str, T] = {}

    def put(self, name: str, value: T) -> None:
        """Store a value."""
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self._spans[name] = self._spool.write(data), len(data)

    def __getitem__(self, name: str) -> T:
        span = self._spans[name]
        if name not in self._last:
            while len(self._last) >= _IN_MEMORY:
                del self._last[next(iter(self._last))]
            self._last[name] = pickle.loads(self._spool.read(*span))  # which is our own
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


class _Totals(NamedTuple):
    """What is known of a shard as a whole."""

    size: int
    records: int
    is_whole: bool
    is_sound: bool
    """Whether no record is damaged."""


class Shards:
    """The shards that were checked, in the order of splits; records are read when asked for."""

    def __init__(self, claims: Sequence[ShardClaim], spool: Spool) -> None:
        self.claims = claims
        self._facts: Shelf[ShardFacts] = Shelf(spool)
        self._totals: dict[str, _Totals] = {}

    def put(self, found: ShardFacts) -> None:
        """Store what is known of a shard, but for its faults."""
        self._facts.put(found.filename, replace(found, faults=()))
        is_sound = not found.damaged
        self._totals[found.filename] = _Totals(found.size, found.records, found.is_whole, is_sound)

    def __iter__(self) -> Iterator[tuple[ShardClaim, ShardFacts]]:
        return ((claim, self._facts[claim.filename]) for claim in self.claims)

    def __getitem__(self, filename: str) -> ShardFacts:
        return self._facts[filename]

    def totals(self, split: str | None = None) -> list[_Totals]:
        """Return what is known of the shards of a split, or of all, without their records."""
        return [
            self._totals[claim.filename] for claim in self.claims if split in (None, claim.split)
        ]

    @property
    def records(self) -> int:
        """Count all records."""
        return sum(total.records for total in self.totals())

    @property
    def bytes(self) -> int:
        """Count the bytes of all shards."""
        return sum(total.size for total in self.totals())

    @property
    def are_as_declared(self) -> bool:
        """Tell whether each whole shard has as many records as the documents declare."""
        return all(
            claim.records == total.records
            for claim, total in zip(self.claims, self.totals(), strict=True)
            if total.is_whole
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the documents declare, what the shards hold, and what is wrong."""

    documents: Documents
    present: frozenset[str]
    """The names of all files of the dataset."""
    declared: tuple[ShardClaim, ...]
    """All shards that the documents declare, missing ones too."""
    shards: Shards
    job: Job
    spool: Spool
    faults: Faults
    notes: Faults = field(default_factory=Faults)
    """Not faults of the pack: images that the source itself has in two splits."""
    unchecked: Faults = field(default_factory=Faults)
    """What could not be checked, and why."""

    @property
    def folder(self) -> str:
        """Return the path of the dataset."""
        return str(self.documents.folder)

    @property
    def incomplete_splits(self) -> frozenset[str]:
        """Name the splits that have lost a shard, so that their records cannot be counted."""
        there = {claim.filename for claim in self.shards.claims}
        return frozenset(claim.split for claim in self.declared if claim.filename not in there)
