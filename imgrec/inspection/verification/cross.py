"""What only all shards together tell: names used twice, labels of other folders, counts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Container

from xxhash import xxh3_64_intdigest

from imgrec import layout
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.hashes import Hashes
from imgrec.inspection.verification.looked import Looked
from imgrec.inspection.verification.shard import ShardSeen
from imgrec.spelling import spelling_key
from imgrec.text import printable

_CLASS_FOLDERS = re.compile(
    r"(archive of )?(?P<split><split>/)?(?P<classes>(<class>/)+)\*\*/image(, .*)?"
)
"""How a report tells of a source whose folders are its classes."""


def check_names(looked: Looked, faults: Faults) -> None:
    """Find file names that more than one record has; memory is 8 bytes a name."""
    repeated = _repeated_names(looked)
    if not repeated:
        return
    first: dict[str, tuple[int, str]] = {}
    for _, seen in looked:
        for offset, filename in zip(seen.offsets, seen.filenames, strict=True):
            if not filename or _name_hash(filename) not in repeated:
                continue
            home = first.setdefault(filename, (offset, seen.filename))
            if home != (offset, seen.filename):
                faults.add(
                    seen.filename,
                    f"{printable(filename)} is also the name of the record at byte {home[0]} of "
                    f"{home[1]}",
                    offset,
                )


def _repeated_names(looked: Looked) -> set[int]:
    """Return the hashes that more than one name has."""
    hashes = Hashes()
    for _, seen in looked:
        hashes.add(_name_hash(name) for name in seen.filenames if name)
    return hashes.repeated()


def _name_hash(filename: str) -> int:
    return xxh3_64_intdigest(filename.encode("utf-8", "surrogatepass"))


def check_folders(looked: Looked, claims: Claims, faults: Faults) -> None:
    """Find labels that are not those of the class folders which images were in, by their names."""
    if claims.report is None or not (match := _CLASS_FOLDERS.fullmatch(claims.report.layout)):
        return
    options, classes = claims.report.options, claims.classes
    key = spelling_key if options.get("fold_case") else _composed
    told = options.get("map")
    renamed = told if isinstance(told, dict) else {}
    new_names = {key(str(old)): str(new) for old, new in renamed.items()}
    first = 1 if match["split"] else 0
    last = first + match["classes"].count("/")
    for _, seen in looked:
        for place, labels in enumerate(seen.labels):
            parts = seen.filenames[place].split("/")
            label = labels[0] if len(labels) == 1 else -1
            if place in seen.unsound or not 0 <= label < len(classes) or len(parts) <= last:
                continue
            folder = "/".join(parts[first:last])
            if key(new_names.get(key(folder), folder)) != key(classes[label]):
                faults.add(
                    seen.filename,
                    f"{called(seen, place)} has the label of {printable(classes[label])}",
                    seen.offsets[place],
                )


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def called(seen: ShardSeen, place: int) -> str:
    """Return what to call a record: its file, or where it is."""
    name = seen.filenames[place]
    return printable(name) if name else f"the record at byte {seen.offsets[place]}"


def check_counts(looked: Looked, claims: Claims, maimed: Container[str], faults: Faults) -> None:
    """Compare the images of each class with what metadata.json says, but for `maimed` splits."""
    for split, counts in claims.class_counts.items():
        if split in maimed or not all(s.is_whole and s.is_sound for s in looked.facts(split)):
            continue  # then there is a fault already, and the counts cannot be told
        found: Counter[int] = Counter()
        for seen in looked.of_split(split):
            found.update(label for labels in seen.labels for label in labels)
        wanted = tuple(found[label] for label in range(len(counts)))
        if counts != wanted:
            faults.add(layout.METADATA, f"its class_counts of {split} are {counts}, not {wanted}")


def check_sizes(looked: Looked, claims: Claims, maimed: Container[str], faults: Faults) -> None:
    """Compare the bytes of each split with what dataset_info.json says, as imgrec counts them."""
    for split in claims.info.splits if claims.is_ours else ():
        total = sum(shard.size for shard in looked.facts(split.name))
        if split.name not in maimed and total != split.num_bytes:
            faults.add(
                layout.DATASET_INFO,
                f"it has {split.num_bytes:,} bytes for {split.name}, whose shards have {total:,}",
            )
