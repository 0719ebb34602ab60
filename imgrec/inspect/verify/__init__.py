"""Verify a dataset: check every byte of every file, and that the files agree with each other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from imgrec import layout
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.subject import Job
from imgrec.inspect.verify.samples import check_samples
from imgrec.inspect.verify.shard import Rules, check_shard
from imgrec.inspect.verify.source import compare_with_source
from imgrec.inspect.verify.state import (
    REMAINS,
    State,
    check_counts,
    check_folders,
    check_leaks,
    check_names,
    split_of_shard,
)
from imgrec.read.files import HashedFile, RegularFile, os_fault, read_checksums
from imgrec.read.shards import shard_frames
from imgrec.text import name_of, number

_DOCUMENTS = REMAINS | {
    layout.LABELS, layout.SEQUENCE_LABELS, layout.REPORT, layout.PAGE, layout.SKIPPED,
    layout.SUBMISSION, layout.EDITS,
}  # fmt: skip
_ARRAY_RECORD = "array_record.python.array_record_module"


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
    """The size of all shards on disk."""
    files: int
    """How many files SHA256SUMS lists."""
    faults: tuple[Fault, ...]
    """By file and offset; missing and changed files come first."""
    notes: tuple[Fault, ...]
    """Not faults of the pack: images that the source itself has in two splits."""
    not_checked: tuple[str, ...]
    """What could not be checked, because the dataset does not have it."""
    seconds: float

    def __repr__(self) -> str:
        found, read = number(len(self.faults), "fault"), number(self.records, "record")
        return f"<Verified {self.name} {self.version}: {found}, {read}, {self.path}>"


def verify_folder(
    folder: Path, job: Job, *, decodes: bool = False, source: str = "", spool: str = ""
) -> Verified:
    """Check all of a dataset. Damage of any kind is a fault in the result, not an error.

    If `decodes` is true, every image is decoded to its end. Archives of a `source` are unpacked to
    the folder `spool`. Raises SourceError if the source cannot be read.
    """
    started = time.monotonic()
    with State(folder, job) as state:
        _compare_report(state)
        listed = _listed_files(state)
        hashes = _check_shards(state, decodes=decodes)
        hashes |= _check_other_files(state, {*listed} - hashes.keys())
        _compare_checksums(state, hashes, listed)
        # A table that was changed could make its parser do anything.
        is_unchanged = listed.get(layout.SAMPLES, "") in ("", hashes.get(layout.SAMPLES, ""))
        if layout.SAMPLES in state.present and is_unchanged:
            check_samples(state)
        check_names(state)
        check_folders(state)
        check_leaks(state)
        check_counts(state)
        if source:
            compare_with_source(source, spool, state)
        return Verified(
            name=state.documents.declared.name or folder.parent.name,
            version=state.documents.declared.version or folder.name,
            path=str(folder.absolute()),
            records=state.records,
            shards=len(state.shards),
            bytes=state.bytes,
            files=len(listed),
            faults=state.faults.listed(),
            notes=state.notes.listed(),
            not_checked=tuple(f"{each.path}: {each.what}" for each in state.unchecked.listed()),
            seconds=time.monotonic() - started,
        )


def _compare_report(state: State) -> None:
    """Compare report.json with the other documents."""
    documents, report, info = state.documents, state.documents.report, state.documents.declared
    if report is None or not info.name:
        return
    classes = documents.classes if documents.features.by_name else report.classes
    pairs = {
        "name": (report.name, info.name),
        "version": (report.version, info.version),
        "classes": (report.classes, classes),
        "splits": (
            [(split.name, split.shard_lengths, split.num_bytes) for split in report.splits],
            [(split.name, split.shard_lengths, split.num_bytes) for split in info.splits],
        ),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            state.faults.say(Code.REPORT_DIFFERS, layout.REPORT, what=what)


def _check_shards(state: State, *, decodes: bool) -> dict[str, str]:
    """Check all shards; return the SHA-256 of each file that was read."""
    documents = state.documents
    check = partial(
        check_shard,
        folder=str(state.folder),
        compression=documents.metadata.compression,
        rules=Rules(documents.features, documents.is_ours, decodes),
    )
    # The largest first, so that no worker gets a large one at the end.
    tasks = sorted(state.shards, key=lambda claim: -_size(state.folder / claim.filename))
    total = sum(claim.records or 0 for claim in tasks)
    hashes: dict[str, str] = {}
    with closing(state.job.run(check, tasks)) as running:
        for found in running:
            hashes |= found.hashes
            state.put(found)
            state.job.progress("verify", len(found.records), total)
    return hashes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _listed_files(state: State) -> dict[str, str]:
    """Return the SHA-256 that each file should have; report files that are missing or unlisted."""
    present, is_ours = state.present, state.documents.is_ours
    if is_ours:
        for filename in {layout.SAMPLES, layout.SKIPPED} - present:
            state.faults.say(Code.MISSING, filename)
    else:
        for filename in {layout.SAMPLES, layout.CHECKSUMS} - present:
            state.unchecked.say(Code.ABSENT, filename)
        if layout.CHECKSUMS not in present:
            return {}
    listed = read_checksums(state.folder, state.faults)
    for filename in present - listed.keys() - {layout.CHECKSUMS} if listed else ():
        shard = filename.removesuffix(layout.INDEX_SUFFIX)
        is_known = filename in _DOCUMENTS or split_of_shard(shard)
        (state.faults if is_known else state.unchecked).say(Code.NOT_LISTED, filename)
    return listed


def _compare_checksums(state: State, hashes: Mapping[str, str], listed: Mapping[str, str]) -> None:
    names = {digest: name for name, digest in listed.items()}
    for name, digest in hashes.items():
        if name in listed and digest != listed[name]:
            if other := names.get(digest):
                state.faults.say(Code.EXCHANGED, name, other=other)
            else:
                state.faults.say(Code.CHANGED, name)


def _check_other_files(state: State, names: set[str]) -> dict[str, str]:
    """Hash the files that are not shards, and compare copies of shards in other formats."""
    info = state.documents.declared
    copies = {
        info.filename(split, index, also): info.filename(split, index)
        for also in info.also
        for split in info.splits
        for index in range(len(split.shard_lengths))
    }
    can_compare = not copies or find_spec(_ARRAY_RECORD.partition(".")[0]) is not None
    if not can_compare:
        state.unchecked.say(Code.NO_ARRAY_RECORD, "array_record files")
    tasks = [
        (name, copies.get(name, "") if can_compare else "")
        for name in sorted((names | copies.keys()) - state.totals.keys() - {""})
    ]
    hashes: dict[str, str] = {}
    sizes: dict[str, int] = {}
    with closing(state.job.run(partial(_check_file, folder=str(state.folder)), tasks)) as running:
        for name, sha256, size, faults in running:
            state.faults.extend(faults)
            if sha256:
                hashes[name], sizes[name] = sha256, size
    _check_copy_sizes(state, sizes)
    return hashes


def _check_file(task: tuple[str, str], folder: str) -> tuple[str, str, int, tuple[Fault, ...]]:
    """Compare a file with the shard that it is a copy of, if any; return name, SHA-256 and size."""
    name, shard = task
    path = os.path.join(folder, name)
    try:
        with HashedFile(path) as file:
            sha256, size = file.finish(), file.size
    except OSError as error:
        return name, "", 0, (os_fault(error, name),)
    faults = Faults(_compare_records(path, os.path.join(folder, shard)) if shard else ())
    return name, sha256, size, faults.listed()


def _compare_records(path: str, shard: str) -> Iterator[Fault]:
    """Compare the records of an array_record file with those of a shard."""
    name, shard_name = os.path.basename(path), os.path.basename(shard)
    try:
        reader = import_module(_ARRAY_RECORD).ArrayRecordReader(name_of(path))
        count = reader.num_records()
    except (RuntimeError, ValueError, IndexError) as error:
        yield Fault(Code.NOT_ARRAY_RECORD, name, facts={"reason": str(error)})
        return
    number = -1
    try:
        with RegularFile(shard) as file:
            for number, frame in enumerate(shard_frames(file, "", shard_name)):
                if number < count and not frame.fault and reader.read() != frame.payload:
                    facts = {"record": number, "shard": shard_name}
                    yield Fault(Code.OTHER_RECORD, name, facts=facts)
    except OSError:
        return  # checking the shard reports this
    except (RuntimeError, ValueError, IndexError) as error:
        facts = {"record": number, "reason": str(error)}
        yield Fault(Code.UNREADABLE_RECORD, name, facts=facts)
        return
    if count != number + 1:
        facts = {"found": count, "shard": shard_name, "expected": number + 1}
        yield Fault(Code.OTHER_COUNT, name, facts=facts)


def _check_copy_sizes(state: State, sizes: Mapping[str, int]) -> None:
    """Compare the sizes of files in other formats with those in metadata.json."""
    info, also_bytes = state.documents.declared, state.documents.metadata.also_bytes
    if undeclared := also_bytes.keys() - info.also:
        state.faults.say(Code.UNDECLARED_FORMAT, layout.METADATA, format=min(undeclared))
        return
    for also, declared in also_bytes.items():
        for split in info.splits:
            names = {info.filename(split, at, also) for at in range(len(split.shard_lengths))}
            total = sum(sizes.get(name, 0) for name in names)
            if total != declared.get(split.name):
                facts = {"format": also, "split": split.name, "declared": declared.get(split.name)}
                state.faults.say(Code.FORMAT_BYTES, layout.METADATA, **facts, found=total)
