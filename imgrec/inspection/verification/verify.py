"""Verifying a dataset: every byte of every file, and all that files say of each other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from imgrec import layout
from imgrec.background import Background
from imgrec.inspection.job import Job
from imgrec.inspection.verification import checksums
from imgrec.inspection.verification.compare import Place, compare_with_source
from imgrec.inspection.verification.cross import (
    check_counts,
    check_folders,
    check_names,
    check_sizes,
)
from imgrec.inspection.verification.documents import Claims, Desk, read_claims
from imgrec.inspection.verification.faults import Faults, Verified
from imgrec.inspection.verification.find import present_files
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.verification.leaks import check_leaks
from imgrec.inspection.verification.listing import (
    claim_shards,
    declared_shards,
    list_files,
    miss_documents,
)
from imgrec.inspection.verification.looked import Looked, ShardFacts, facts_of
from imgrec.inspection.verification.other_files import look_beside
from imgrec.inspection.verification.second_look import explain
from imgrec.inspection.verification.shard import ShardClaim, ShardInspector, ShardSeen
from imgrec.inspection.verification.spool import Shelf, Spool
from imgrec.inspection.verification.table import TableSeen, check_table


def verify_folder(
    folder: Path, job: Job, *, decodes: bool = False, source: Place | None = None
) -> Verified:
    """Look at all of a dataset; whatever is damaged in it is a fault, not an error.

    If `decodes` is true, every image is decoded to its end. Raises SourceError if a source is given
    that cannot be read.
    """
    with Spool() as spool:
        return _verify(folder, job, spool, decodes=decodes, source=source)


def _verify(
    folder: Path, job: Job, spool: Spool, *, decodes: bool, source: Place | None
) -> Verified:
    started_ns = time.time_ns()
    table_reader = Background("pyarrow.parquet")
    table_reader.start()  # while the workers work
    desk = Desk(folder, Faults(), Faults(), [])
    faults, present = desk.faults, present_files(folder)
    claims = read_claims(desk, present, decodes=decodes)
    listed = list_files(desk, claims, present)
    miss_documents(desk, claims, present)
    declared = tuple(declared_shards(claims, faults))
    shards = claim_shards(declared, claims, present, faults)
    looked, hashes = _look(desk, claims, shards, job, Shelf(spool))
    inquiry = Inquiry(
        desk=desk, claims=claims, declared=declared, looked=looked, job=job, spool=spool
    )
    hashes |= look_beside(inquiry, listed, hashes)
    checksums.compare(hashes, listed, faults)
    table_reader.wait()
    is_readable = layout.SAMPLES in present and _agrees(layout.SAMPLES, hashes, listed)
    table = check_table(inquiry) if is_readable else TableSeen({}, {})
    explain(table.doubtful, inquiry)
    check_names(looked, faults)
    check_folders(looked, claims, faults)
    check_leaks(inquiry, table)
    check_counts(looked, claims, inquiry.maimed, faults)
    check_sizes(looked, claims, inquiry.maimed, faults)
    if source:
        compare_with_source(source, inquiry)
    return Verified(
        name=claims.info.name or folder.parent.name,
        version=claims.info.version or folder.name,
        path=str(folder.absolute()),
        records=looked.records,
        shards=len(looked.claims),
        bytes=looked.bytes,
        files=len(listed),
        faults=faults.listed(),
        notes=desk.notes.listed(),
        not_checked=tuple(desk.not_checked),
        seconds=(time.time_ns() - started_ns) / 1e9,
    )


def _agrees(filename: str, hashes: Mapping[str, str], listed: Mapping[str, str]) -> bool:
    """Tell whether a file is as it was; one that is not may make its parser do anything."""
    return listed.get(filename, "") in ("", hashes.get(filename, ""))


def _look(
    desk: Desk,
    claims: Claims,
    shards: Sequence[ShardClaim],
    job: Job,
    shelf: Shelf[ShardSeen],
) -> tuple[Looked, dict[str, str]]:
    """Look at all shards, the largest first so that no worker is left with one at the end.

    Returns what was seen, and the hashes of all files that were read.
    """
    folder = desk.folder
    look = ShardInspector(folder=str(folder), compression=claims.compression, rules=claims.rules)
    sizes = {claim.filename: _size(folder / claim.filename) for claim in shards}
    tasks = sorted(shards, key=lambda claim: -sizes[claim.filename])
    total = sum(claim.records or 0 for claim in shards)
    hashes: dict[str, str] = {}
    facts: dict[str, ShardFacts] = {}
    with closing(job.run(look, tasks)) as running:
        for seen in running:
            shelf.put(seen.filename, replace(seen, faults=()))
            facts[seen.filename] = facts_of(seen)
            hashes |= seen.hashes
            desk.faults.extend(seen.faults)
            job.tell("verify", seen.records, total)
    return Looked(shards, shelf, facts), hashes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
