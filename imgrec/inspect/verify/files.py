"""The files of a dataset: which it should have, their checksums, and copies in other formats."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.errors import DatasetNotFound
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.verify.shard import ShardClaim
from imgrec.inspect.verify.state import State
from imgrec.read.checksums import read_checksums
from imgrec.read.documents import Documents
from imgrec.read.files import HashedFile, RegularFile, os_fault, present_files
from imgrec.read.locate import find_dataset, places
from imgrec.read.shards import shard_frames
from imgrec.text import name_of

_SHARD = re.compile(r"(?P<name>.+)-(?P<split>[\w-]+)\.(?P<format>[\w.]+)-\d{5,}-of-\d{5,}")
_REMAINS = frozenset(
    {layout.DATASET_INFO, layout.FEATURES, layout.METADATA, layout.SAMPLES, layout.CHECKSUMS}
)
_DOCUMENTS = _REMAINS | {
    layout.LABELS, layout.SEQUENCE_LABELS, layout.REPORT, layout.PAGE, layout.SKIPPED,
    layout.SUBMISSION,
}  # fmt: skip
_MOST_NAMED = 1000
"""How many missing shards are named: a document may declare millions."""
_ARRAY_RECORD = "array_record.python.array_record_module"


def find_folder(dataset: str, data_dir: str) -> Path:
    """Return the version folder of a dataset, even if the documents that name it are missing.

    Raises DatasetNotFound.
    """
    try:
        return find_dataset(dataset, data_dir)
    except DatasetNotFound:
        for path in places(dataset, data_dir):
            if _has_remains(path):
                return path
            if below := [child for child in _versions(path) if _has_remains(child)]:
                return below[-1]
        raise


def _has_remains(path: Path) -> bool:
    files = present_files(path)
    return not _REMAINS.isdisjoint(files) or any(map(split_of_shard, files))


def _versions(path: Path) -> list[Path]:
    try:
        children = [child for child in path.iterdir() if layout.parse_version(child.name)]
    except OSError:
        return []
    return sorted(children, key=lambda child: layout.parse_version(child.name) or (0, 0, 0))


def split_of_shard(filename: str) -> str:
    """Return the split of a file with the name of a shard; "" for any other.

    >>> split_of_shard("flowers-train.tfrecord-00000-of-00002")
    'train'
    """
    match = _SHARD.fullmatch(filename)
    is_known = match is not None and match["format"] in layout.FILE_FORMATS.values()
    return match["split"] if match and is_known else ""


def declared_shards(documents: Documents, faults: Faults) -> Iterator[ShardClaim]:
    """Yield all shards that the documents declare, in the order of splits and shards."""
    info = documents.declared
    if info.file_format not in layout.FILE_FORMATS.values():
        return
    named: set[str] = set()
    for split in info.splits:
        for index, records in enumerate(split.shard_lengths):
            filename = info.filename(split, index)
            if not filename or filename in named:
                code = Code.TEMPLATE_REPEATS if filename else Code.BAD_TEMPLATE
                faults.say(code, layout.DATASET_INFO, split=split.name)
                break
            named.add(filename)
            yield ShardClaim(filename, split.name, records)


def present_shards(
    declared: Sequence[ShardClaim], documents: Documents, present: frozenset[str], faults: Faults
) -> list[ShardClaim]:
    """Return all shards that there are, in the order of splits and shards; name the others."""
    missing = [claim.filename for claim in declared if claim.filename not in present]
    for filename in missing[:_MOST_NAMED]:
        faults.say(Code.MISSING, filename)
    if len(missing) > _MOST_NAMED:
        faults.say(Code.MORE_MISSING, layout.DATASET_INFO, count=len(missing) - _MOST_NAMED)
    names = {claim.filename for claim in declared}
    undeclared = [
        ShardClaim(filename, split, None)
        for filename in sorted(present - names)
        if (split := split_of_shard(filename))
    ]
    for claim in undeclared:
        faults.say(Code.NOT_DECLARED, claim.filename)
    needs_index = documents.is_ours and not documents.metadata.compression
    return [
        claim._replace(has_index=needs_index or claim.filename + layout.INDEX_SUFFIX in present)
        for claim in (*declared, *undeclared)
        if claim.filename in present
    ]


def listed_files(state: State) -> dict[str, str]:
    """Return the SHA-256 that each file should have; name files that should be there, or listed."""
    present, is_ours = state.present, state.documents.is_ours
    for filename in (layout.SAMPLES, layout.SKIPPED):
        if filename not in present and is_ours:
            state.faults.say(Code.MISSING, filename)
    if layout.CHECKSUMS not in present and not is_ours:
        state.unchecked.say(Code.ABSENT, layout.CHECKSUMS)
    if layout.SAMPLES not in present and not is_ours:
        state.unchecked.say(Code.ABSENT, layout.SAMPLES)
    if layout.CHECKSUMS not in present and not is_ours:
        return {}
    listed = read_checksums(state.documents.folder, state.faults)
    for filename in sorted(present - listed.keys() - {layout.CHECKSUMS}) if listed else ():
        shard = filename.removesuffix(layout.INDEX_SUFFIX)
        is_known = filename in _DOCUMENTS or split_of_shard(shard)
        (state.faults if is_known else state.unchecked).say(Code.NOT_LISTED, filename)
    return listed


def compare_checksums(found: Mapping[str, str], listed: Mapping[str, str], faults: Faults) -> None:
    """Add a fault for each file whose SHA-256 is not the listed one."""
    names = {digest: name for name, digest in listed.items()}
    for name, digest in found.items():
        if name in listed and digest != listed[name]:
            if other := names.get(digest):
                faults.say(Code.EXCHANGED, name, other=other)
            else:
                faults.say(Code.CHANGED, name)


class _Claim(NamedTuple):
    """A file beside the shards."""

    filename: str
    shard: str = ""
    """The shard whose records it holds too, if they can be compared."""


class _FileFacts(NamedTuple):
    """What is known of such a file."""

    filename: str
    size: int = 0
    sha256: str = ""
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileCheck:
    """A picklable function that checks the files beside the shards of one dataset."""

    folder: str

    def __call__(self, claim: _Claim) -> _FileFacts:
        """Hash a file, and compare its records with those of its shard."""
        path = os.path.join(self.folder, claim.filename)
        try:
            with HashedFile(path) as file:
                sha256, size = file.finish(), file.size
        except OSError as error:
            return _FileFacts(claim.filename, faults=(os_fault(error, claim.filename),))
        faults = Faults()
        if claim.shard:
            faults.extend(_compare_records(path, os.path.join(self.folder, claim.shard)))
        return _FileFacts(claim.filename, size, sha256, faults.listed())


def _compare_records(path: str, shard: str) -> Iterator[Fault]:
    """Yield where the records of an array_record file differ from those of a shard."""
    name, shard_name = os.path.basename(path), os.path.basename(shard)
    try:
        reader = import_module(_ARRAY_RECORD).ArrayRecordReader(name_of(path))
        count = reader.num_records()
    except (RuntimeError, ValueError, IndexError) as error:
        yield Fault(Code.NOT_ARRAY_RECORD, name, facts={"reason": str(error)})
        return
    place = -1
    try:
        with RegularFile(shard) as file:
            for place, frame in enumerate(shard_frames(file, "", shard_name)):
                if place < count and not frame.fault and reader.read() != frame.payload:
                    facts = {"record": place, "shard": shard_name}
                    yield Fault(Code.OTHER_RECORD, name, facts=facts)
    except OSError:
        return  # the check of the shard has said why
    except (RuntimeError, ValueError, IndexError) as error:
        facts = {"record": place, "reason": str(error)}
        yield Fault(Code.UNREADABLE_RECORD, name, facts=facts)
        return
    if count != place + 1:
        facts = {"found": count, "shard": shard_name, "expected": place + 1}
        yield Fault(Code.OTHER_COUNT, name, facts=facts)


def _has_array_record() -> bool:
    try:
        import_module(_ARRAY_RECORD)
    except ImportError:
        return False
    return True


def check_other_files(
    state: State, listed: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the SHA-256 of all files that are listed, or should be, but for those `known`."""
    info = state.documents.declared
    copies = {
        info.filename(split, index, also): info.filename(split, index)
        for also in info.also
        for split in info.splits
        for index in range(len(split.shard_lengths))
    }
    can_compare = not copies or _has_array_record()
    if not can_compare:
        state.unchecked.say(Code.NO_ARRAY_RECORD, "array_record files")
    names = sorted({*listed, *copies} - known.keys() - {""})
    tasks = [_Claim(name, copies.get(name, "") if can_compare else "") for name in names]
    found: dict[str, _FileFacts] = {}
    with closing(state.job.run(_FileCheck(folder=state.folder), tasks)) as running:
        for facts in running:
            found[facts.filename] = facts
            state.faults.extend(facts.faults)
    _check_sizes(state, {name: facts.size for name, facts in found.items()})
    return {facts.filename: facts.sha256 for facts in found.values() if facts.sha256}


def _check_sizes(state: State, sizes: Mapping[str, int]) -> None:
    """Compare the bytes of files in other formats with what metadata.json declares."""
    info, also_bytes = state.documents.declared, state.documents.metadata.also_bytes
    if undeclared := also_bytes.keys() - info.also:
        state.faults.say(Code.UNDECLARED_FORMAT, layout.METADATA, format=min(undeclared))
        return
    for also, declared in also_bytes.items():
        for split in info.splits:
            shards = range(len(split.shard_lengths))
            names = {info.filename(split, index, also) for index in shards}
            total = sum(sizes[name] for name in names & sizes.keys())
            if total != declared.get(split.name):
                state.faults.say(
                    Code.FORMAT_BYTES,
                    layout.METADATA,
                    format=also,
                    split=split.name,
                    declared=declared.get(split.name),
                    found=total,
                )
