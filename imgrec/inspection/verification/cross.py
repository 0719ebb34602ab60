"""What only all shards together tell: names used twice, labels of other folders, counts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Sequence

from imgrec import layout
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.shard import ShardClaim, ShardSeen
from imgrec.spelling import spelling_key
from imgrec.text import printable

Looked = Sequence[tuple[ShardClaim, ShardSeen]]
"""All shards, in the order of splits and shards."""
_CLASS_FOLDERS = re.compile(
    r"(archive of )?(?P<split><split>/)?(?P<classes>(<class>/)+)\*\*/image(, .*)?"
)
"""How a report tells of a source whose folders are its classes."""


def check_names(looked: Looked, faults: Faults) -> None:
    """Find file names that more than one record has."""
    names = [filename for _, seen in looked for filename in seen.filenames if filename]
    if len(set(names)) == len(names):
        return
    first: dict[str, tuple[int, int]] = {}
    for number, (_, seen) in enumerate(looked):
        for place, filename in enumerate(seen.filenames):
            if not filename:
                continue
            home = first.setdefault(filename, (number, place))
            if home != (number, place):
                other = looked[home[0]][1]
                faults.add(
                    seen.filename,
                    f"{printable(filename)} is also the name of the record at byte "
                    f"{other.offsets[home[1]]} of {other.filename}",
                    seen.offsets[place],
                )


def check_folders(looked: Looked, claims: Claims, faults: Faults) -> None:
    """Find labels that are not those of the class folders which images were in, by their names."""
    if claims.report is None or not (match := _CLASS_FOLDERS.fullmatch(claims.report.layout)):
        return
    is_folded = bool(claims.report.options.get("fold_case"))
    classes = claims.classes
    first = 1 if match["split"] else 0
    last = first + match["classes"].count("/")
    for _, seen in looked:
        for place, labels in enumerate(seen.labels):
            parts = seen.filenames[place].split("/")
            label = labels[0] if len(labels) == 1 else -1
            if place in seen.unsound or not 0 <= label < len(classes) or len(parts) <= last:
                continue
            folder = "/".join(parts[first:last])
            is_same = unicodedata.normalize("NFC", folder) == classes[label] or (
                is_folded and spelling_key(folder) == spelling_key(classes[label])
            )
            if not is_same:
                faults.add(
                    seen.filename,
                    f"{called(seen, place)} has the label of {printable(classes[label])}",
                    seen.offsets[place],
                )


def called(seen: ShardSeen, place: int) -> str:
    """Return what to call a record: its file, or where it is."""
    name = seen.filenames[place]
    return printable(name) if name else f"the record at byte {seen.offsets[place]}"


def check_counts(looked: Looked, claims: Claims, maimed: Container[str], faults: Faults) -> None:
    """Compare the images of each class with what metadata.json says, but for `maimed` splits."""
    for split, counts in claims.class_counts.items():
        shards = [seen for claim, seen in looked if claim.split == split]
        if split in maimed or not all(seen.is_whole and not seen.unsound for seen in shards):
            continue  # then there is a fault already, and the counts cannot be told
        found = Counter(label for seen in shards for labels in seen.labels for label in labels)
        wanted = tuple(found[label] for label in range(len(counts)))
        if counts != wanted:
            faults.add(layout.METADATA, f"its class_counts of {split} are {counts}, not {wanted}")


def check_sizes(looked: Looked, claims: Claims, maimed: Container[str], faults: Faults) -> None:
    """Compare the bytes of each split with what dataset_info.json says, as imgrec counts them."""
    for split in claims.info.splits if claims.is_ours else ():
        total = sum(seen.size for claim, seen in looked if claim.split == split.name)
        if split.name not in maimed and total != split.num_bytes:
            faults.add(
                layout.DATASET_INFO,
                f"it has {split.num_bytes:,} bytes for {split.name}, whose shards have {total:,}",
            )
