"""Looking at the files beside the shards: their hashes, and the records of twins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

from imgrec import layout
from imgrec.inspection.files import HashedFile, RegularFile, why
from imgrec.inspection.frames import shard_frames
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.faults import Fault, Faults
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.verification.listing import claim_twins
from imgrec.text import name_of, printable

_ARRAY_RECORD = "array_record.python.array_record_module"


class FileClaim(NamedTuple):
    """A file beside the shards."""

    filename: str
    shard: str = ""
    """The shard whose records it holds too, if there is one that can be compared."""


class FileSeen(NamedTuple):
    """What there is to know of such a file."""

    filename: str
    size: int = 0
    sha256: str = ""
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInspector:
    """A picklable function that looks at the files beside the shards of one dataset."""

    folder: str

    def __call__(self, claim: FileClaim) -> FileSeen:
        """Look at a file."""
        path = os.path.join(self.folder, claim.filename)
        faults = Faults()
        try:
            with HashedFile(path) as file:
                sha256, size = file.finish(), file.size
        except OSError as error:
            return FileSeen(claim.filename, faults=(Fault(claim.filename, None, why(error)),))
        if claim.shard:
            for what in _compare(path, os.path.join(self.folder, claim.shard)):
                faults.add(claim.filename, what)
        return FileSeen(claim.filename, size, sha256, faults.listed())


def _has_array_record() -> bool:
    """Tell whether the package that reads twins is there."""
    try:
        import_module(_ARRAY_RECORD)
    except ImportError:
        return False
    return True


def _compare(path: str, shard: str) -> Iterator[str]:
    """Yield where the records of an array_record file are not those of a shard."""
    try:
        reader = import_module(_ARRAY_RECORD).ArrayRecordReader(name_of(path))
        count = reader.num_records()
    except (RuntimeError, ValueError, IndexError) as error:
        yield f"it is no array_record file: {error}"
        return
    place = -1
    try:
        with RegularFile(shard) as file:
            for place, frame in enumerate(shard_frames(file, "")):
                if place < count and not frame.fault and reader.read() != frame.payload:
                    yield f"its record {place} is not that of {os.path.basename(shard)}"
    except OSError:
        return  # the look at the shard has said why
    except (RuntimeError, ValueError, IndexError) as error:
        yield f"its record {place} cannot be read: {error}"
        return
    if count != place + 1:
        yield f"it has {count:,} records, and {os.path.basename(shard)} has {place + 1:,}"


def look_beside(
    inquiry: Inquiry, listed: Iterable[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the SHA-256 of all files that are listed, or should be, but for those `known`."""
    desk = inquiry.desk
    twins = claim_twins(inquiry.claims)
    can_compare = not twins or _has_array_record()
    if not can_compare:
        desk.not_checked.append("records of array_record files: that package is not installed")
    names = sorted({*listed, *twins} - known.keys() - {""})
    tasks = [FileClaim(name, twins.get(name, "") if can_compare else "") for name in names]
    found: dict[str, FileSeen] = {}
    with closing(inquiry.job.run(FileInspector(folder=inquiry.folder), tasks)) as running:
        for seen in running:
            found[seen.filename] = seen
            desk.faults.extend(seen.faults)
    _check_sizes(inquiry.claims, found, desk.faults)
    return {seen.filename: seen.sha256 for seen in found.values() if seen.sha256}


def _check_sizes(claims: Claims, found: Mapping[str, FileSeen], faults: Faults) -> None:
    if strange := claims.twin_bytes.keys() - claims.info.also:
        faults.add(
            layout.METADATA,
            f"it tells of {printable(min(strange))} files, and {layout.DATASET_INFO} does not",
        )
    for also, sizes in claims.twin_bytes.items() if not strange else ():
        for split in claims.info.splits:
            shards = range(len(split.shard_lengths))
            names = {claims.info.filename(split, index, also) for index in shards}
            total = sum(found[name].size for name in names & found.keys())
            if total != sizes.get(split.name):
                faults.add(
                    layout.METADATA,
                    f"it has {sizes.get(split.name)} bytes for the {also} files of {split.name}, "
                    f"which have {total}",
                )
