"""Which of the records just written look alike."""

from __future__ import annotations

from collections.abc import Sequence

from imgrec.model import known_label
from imgrec.near.duplicates import Images, NearDuplicates, Run, find_alike
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
        names += records.samples.filenames
        splits |= dict.fromkeys(records.samples.filenames, result.split)
        found = records.samples.label_sets or records.samples.labels
        known = [known_label(label, result.split) for label in found]
        labels |= zip(records.samples.filenames, known, strict=True)
    contents = [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]
    signatures = b"".join([result.records.signatures for result in signed])
    alike = find_alike(Images(names, contents, signatures), DISTANCE, run)
    return alike.found().sum_up(splits, labels)
