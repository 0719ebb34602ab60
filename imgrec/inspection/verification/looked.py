"""What was seen in all shards of a dataset, of which only one or two are in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from imgrec.inspection.verification.shard import ShardClaim, ShardSeen


class ShardFacts(NamedTuple):
    """What is known of a shard as a whole."""

    size: int
    records: int
    is_whole: bool
    is_sound: bool
    """Whether something is known of every record."""


def facts_of(seen: ShardSeen) -> ShardFacts:
    """Sum up what was seen in a shard."""
    return ShardFacts(seen.size, seen.records, seen.is_whole, not seen.unsound)


class Looked:
    """All shards, in the order of splits and shards; their records are read when asked for."""

    def __init__(
        self,
        claims: Sequence[ShardClaim],
        seen: Mapping[str, ShardSeen],
        facts: Mapping[str, ShardFacts],
    ) -> None:
        self.claims, self._seen, self._facts = claims, seen, facts

    def __iter__(self) -> Iterator[tuple[ShardClaim, ShardSeen]]:
        return ((claim, self._seen[claim.filename]) for claim in self.claims)

    def __getitem__(self, filename: str) -> ShardSeen:
        return self._seen[filename]

    def of_split(self, split: str) -> Iterator[ShardSeen]:
        """Yield what was seen in the shards of one split."""
        return (self._seen[claim.filename] for claim in self.claims if claim.split == split)

    def facts(self, split: str | None = None) -> list[ShardFacts]:
        """Return what is known of the shards of a split, or of all shards."""
        return [
            self._facts[claim.filename] for claim in self.claims if split in (None, claim.split)
        ]

    @property
    def records(self) -> int:
        """Count all records."""
        return sum(facts.records for facts in self.facts())

    @property
    def bytes(self) -> int:
        """Count the bytes of all shards."""
        return sum(facts.size for facts in self.facts())

    @property
    def are_counted(self) -> bool:
        """Tell whether each whole shard has as many records as the documents say."""
        return all(
            claim.records == facts.records
            for claim, facts in zip(self.claims, self.facts(), strict=True)
            if facts.is_whole
        )
