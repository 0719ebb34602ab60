"""All that is known of a dataset once every shard was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from imgrec.inspection.job import Job
from imgrec.inspection.verification.cross import Looked
from imgrec.inspection.verification.documents import Claims, Desk
from imgrec.inspection.verification.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a dataset claims, what its shards hold, and who finds out the rest."""

    desk: Desk
    claims: Claims
    looked: Looked
    job: Job

    @property
    def faults(self) -> Faults:
        """Return where faults are gathered."""
        return self.desk.faults

    @property
    def folder(self) -> str:
        """Return where the dataset is."""
        return str(self.desk.folder)
