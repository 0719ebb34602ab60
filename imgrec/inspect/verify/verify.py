"""Verifying a dataset: every byte of every file, and whether the files agree with each other."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from imgrec import layout
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.job import Job
from imgrec.inspect.verify.across import check_counts, check_folders, check_leaks, check_names
from imgrec.inspect.verify.files import (
    check_other_files,
    compare_checksums,
    declared_shards,
    listed_files,
    present_shards,
)
from imgrec.inspect.verify.record import Rules
from imgrec.inspect.verify.samples import TableFacts, check_doubtful_hashes, check_table
from imgrec.inspect.verify.shard import ShardCheck
from imgrec.inspect.verify.source import Place, compare_with_source
from imgrec.inspect.verify.state import Shards, Spool, State
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import present_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The outcome of a verification."""

    name: str
    version: str
    path: str
    records: int
    """How many were read, damaged ones too."""
    shards: int
    bytes: int
    """Of the shards, as they are on disk."""
    files: int
    """How many files SHA256SUMS lists."""
    faults: tuple[Fault, ...]
    """By file and offset, but files that are missing or have changed come first."""
    notes: tuple[Fault, ...]
    """Not faults of the pack: images that the source itself has in two splits."""
    not_checked: tuple[str, ...]
    """What could not be checked, since the dataset does not have it."""
    seconds: float


def verify_folder(
    folder: Path, job: Job, *, decodes: bool = False, source: Place | None = None
) -> Verified:
    """Check all of a dataset; whatever is damaged in it is a fault, not an error.

    If `decodes` is true, every image is decoded to its end. Raises SourceError if a source is given
    that cannot be read.
    """
    started_ns = time.time_ns()
    with Spool() as spool:
        state = _open(folder, job, spool)
        _compare_report(state)
        listed = listed_files(state)
        hashes = _check_shards(state, decodes=decodes)
        hashes |= check_other_files(state, listed, hashes)
        compare_checksums(hashes, listed, state.faults)
        table = TableFacts({}, {})
        # A table that was changed may make its parser do anything.
        is_unchanged = listed.get(layout.SAMPLES, "") in ("", hashes.get(layout.SAMPLES, ""))
        if layout.SAMPLES in state.present and is_unchanged:
            table = check_table(state)
        check_doubtful_hashes(state, table)
        check_names(state)
        check_folders(state)
        check_leaks(state, table)
        check_counts(state)
        if source:
            compare_with_source(source, state)
        return Verified(
            name=state.documents.declared.name or folder.parent.name,
            version=state.documents.declared.version or folder.name,
            path=str(folder.absolute()),
            records=state.shards.records,
            shards=len(state.shards.claims),
            bytes=state.shards.bytes,
            files=len(listed),
            faults=state.faults.listed(),
            notes=state.notes.listed(),
            not_checked=tuple(f"{each.path}: {each.what}" for each in state.unchecked.listed()),
            seconds=(time.time_ns() - started_ns) / 1e9,
        )


def _open(folder: Path, job: Job, spool: Spool) -> State:
    """Read the documents, and find the shards."""
    present = present_files(folder)
    documents = read_documents(folder, present, report=True)
    faults, unchecked = Faults(), Faults()
    faults.extend(documents.faults)
    unchecked.extend(documents.unchecked)
    declared = tuple(declared_shards(documents, faults))
    return State(
        documents=documents,
        present=present,
        declared=declared,
        shards=Shards(present_shards(declared, documents, present, faults), spool),
        job=job,
        spool=spool,
        faults=faults,
        unchecked=unchecked,
    )


def _compare_report(state: State) -> None:
    """Compare what the report and the other documents say of the same things."""
    documents: Documents = state.documents
    report, info = documents.report, documents.declared
    if report is None or not info.name:
        return
    classes = documents.classes if documents.features.by_name else report.classes
    said = {
        "name": (report.name, info.name),
        "version": (report.version, info.version),
        "classes": (report.classes, classes),
        "splits": (
            [(split.name, split.shard_lengths, split.num_bytes) for split in report.splits],
            [(split.name, split.shard_lengths, split.num_bytes) for split in info.splits],
        ),
    }
    for what, (one, other) in said.items():
        if one != other:
            state.faults.say(Code.REPORT_DIFFERS, layout.REPORT, what=what)


def _check_shards(state: State, *, decodes: bool) -> dict[str, str]:
    """Check all shards; return the SHA-256 of the files that were read."""
    documents, folder = state.documents, state.documents.folder
    rules = Rules(features=documents.features, is_ours=documents.is_ours, decodes=decodes)
    check = ShardCheck(folder=state.folder, compression=documents.metadata.compression, rules=rules)
    # The largest first, so that no worker is left with one at the end.
    claims = state.shards.claims
    tasks = sorted(claims, key=lambda claim: -_size(folder / claim.filename))
    total = sum(claim.records or 0 for claim in claims)
    hashes: dict[str, str] = {}
    with closing(state.job.run(check, tasks)) as running:
        for found in running:
            state.shards.put(found)
            hashes |= found.hashes
            state.faults.extend(found.faults)
            state.job.tell("verify", found.records, total)
    return hashes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
