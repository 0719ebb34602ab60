"""Which files a dataset should have, and which of them it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from imgrec import layout
from imgrec.inspection.files import MISSING
from imgrec.inspection.verification.checksums import read_checksums
from imgrec.inspection.verification.documents import Claims, Desk
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.find import split_of_shard
from imgrec.inspection.verification.shard import ShardClaim

_LISTED = 1000
"""How many missing shards are named; a document may tell of millions."""
_DOCUMENTS = frozenset(
    {
        layout.DATASET_INFO, layout.FEATURES, layout.LABELS, layout.SEQUENCE_LABELS,
        layout.METADATA, layout.SAMPLES, layout.REPORT, layout.PAGE, layout.SKIPPED,
        layout.SUBMISSION,
    }
)  # fmt: skip


def claim_shards(
    declared: Sequence[ShardClaim], claims: Claims, present: frozenset[str], faults: Faults
) -> list[ShardClaim]:
    """Return all shards that are there, in the order of splits and shards, and miss the others."""
    named = {claim.filename for claim in declared}
    missing = [claim.filename for claim in declared if claim.filename not in present]
    for filename in missing[:_LISTED]:
        faults.add(filename, MISSING)
    if len(missing) > _LISTED:
        faults.add(layout.DATASET_INFO, f"{len(missing) - _LISTED:,} more shards are missing")
    strange = [
        ShardClaim(filename, split, None, has_index=_has_index(filename, claims, present))
        for filename in sorted(present)
        if filename not in named and (split := split_of_shard(filename))
    ]
    for claim in strange:
        faults.add(claim.filename, f"{layout.DATASET_INFO} knows no such shard")
    there = (claim for claim in declared if claim.filename in present)
    checked = (
        claim._replace(has_index=_has_index(claim.filename, claims, present)) for claim in there
    )
    return [*checked, *strange]


def declared_shards(claims: Claims, faults: Faults) -> Iterator[ShardClaim]:
    """Yield all shards that the documents tell of, in the order of splits and shards."""
    info = claims.info
    if info.file_format not in layout.FILE_FORMATS.values():
        return
    named: set[str] = set()
    for split in info.splits:
        for index, records in enumerate(split.shard_lengths):
            filename = info.filename(split, index)
            if not filename or filename in named:
                what = "gives two shards one name" if filename else "names no files"
                faults.add(layout.DATASET_INFO, f"the template of {split.name} {what}")
                break
            named.add(filename)
            yield ShardClaim(filename, split.name, records, has_index=False)


def _has_index(filename: str, claims: Claims, present: frozenset[str]) -> bool:
    is_expected = claims.is_ours and not claims.compression
    return is_expected or filename + layout.INDEX_SUFFIX in present


def claim_twins(claims: Claims) -> dict[str, str]:
    """Return the shard whose records each file of another format holds as well."""
    info = claims.info
    return {
        info.filename(split, index, also): info.filename(split, index)
        for also in info.also
        for split in info.splits
        for index in range(len(split.shard_lengths))
    }


def list_files(desk: Desk, claims: Claims, present: frozenset[str]) -> Mapping[str, str]:
    """Return the SHA-256 that each file should have, and say which files are not listed."""
    if layout.CHECKSUMS not in present and not claims.is_ours:
        desk.not_checked.append(f"checksums: the dataset has no {layout.CHECKSUMS}")
        return {}
    listed = read_checksums(desk.folder, desk.faults)
    for filename in sorted(present - listed.keys() - {layout.CHECKSUMS}) if listed else ():
        shard = filename.removesuffix(layout.INDEX_SUFFIX)
        if filename in _DOCUMENTS or split_of_shard(shard):
            desk.faults.add(filename, f"{layout.CHECKSUMS} does not list it")
        else:
            desk.not_checked.append(f"{filename}: {layout.CHECKSUMS} does not list it")
    return listed


def miss_documents(desk: Desk, claims: Claims, present: frozenset[str]) -> None:
    """Miss what every dataset of imgrec's has; note what others have not."""
    for filename in (layout.SAMPLES, layout.SKIPPED):
        if filename not in present and claims.is_ours:
            desk.faults.add(filename, MISSING)
    if layout.SAMPLES not in present and not claims.is_ours:
        desk.not_checked.append(f"the table of records: the dataset has no {layout.SAMPLES}")
