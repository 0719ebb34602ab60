"""Which of the records just written look alike."""

from __future__ import annotations

from collections.abc import Sequence

from imgrec.near.alike import Images, Run, find_alike
from imgrec.near.found import NearDuplicates
from imgrec.near.search import DISTANCE
from imgrec.outcome import ShardResult

_HASH_BYTES = 16


def near_duplicates(results: Sequence[ShardResult], run: Run) -> NearDuplicates | None:
    """Sum up the near-duplicates among the records that have a signature; None if none has."""
    signed = [result for result in results if result.records.signatures]
    if not signed:
        return None
    names: list[str] = []
    hashes = b"".join([result.records.hashes for result in signed])
    splits: dict[str, str] = {}
    labels: dict[str, object] = {}
    for result in signed:
        records = result.records
        names += records.filenames
        splits |= dict.fromkeys(records.filenames, result.split)
        labels |= zip(records.filenames, records.label_sets or records.labels, strict=True)
    contents = [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]
    signatures = b"".join([result.records.signatures for result in signed])
    alike = find_alike(Images(names, contents, signatures), DISTANCE, run)
    return alike.found().sum_up(splits, labels)
