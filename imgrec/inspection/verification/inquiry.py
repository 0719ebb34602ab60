"""All that is known of a dataset once every shard was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imgrec.inspection.job import Job
from imgrec.inspection.verification.documents import Claims, Desk
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.looked import Looked
from imgrec.inspection.verification.shard import ShardClaim
from imgrec.inspection.verification.spool import Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a dataset claims, what its shards hold, and who finds out the rest."""

    desk: Desk
    claims: Claims
    declared: Sequence[ShardClaim]
    """All shards that the documents tell of, be they there or not."""
    looked: Looked
    job: Job
    spool: Spool

    @property
    def faults(self) -> Faults:
        """Return where faults are gathered."""
        return self.desk.faults

    @property
    def maimed(self) -> frozenset[str]:
        """Name the splits that have lost a shard, of which only a part can be counted."""
        there = {claim.filename for claim in self.looked.claims}
        return frozenset(claim.split for claim in self.declared if claim.filename not in there)

    @property
    def folder(self) -> str:
        """Return where the dataset is."""
        return str(self.desk.folder)
