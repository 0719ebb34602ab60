"""Checks that need all shards: repeated names, wrong classes, counts, images in two splits."""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from imgrec import layout
from imgrec.faults import Code
from imgrec.inspect.source_layout import class_depths
from imgrec.inspect.verify.samples import TableFacts
from imgrec.inspect.verify.shard import ShardFacts
from imgrec.inspect.verify.state import Shards, State
from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import OnLeak
from imgrec.read.documents import Documents
from imgrec.spelling import spelling_key
from imgrec.text import printable

_BUCKETS = 256


class Hashes:
    """64-bit hashes in 8 bytes each, in buckets by their first bits: few are compared at once."""

    def __init__(self) -> None:
        self.buckets = tuple(array("Q") for _ in range(_BUCKETS))

    def add(self, values: Iterable[int]) -> None:
        """Add some hashes."""
        buckets = self.buckets
        for value in values:
            buckets[value >> 56].append(value)

    def repeated(self) -> set[int]:
        """Return the hashes that were added more than once."""
        found: set[int] = set()
        for bucket in self.buckets:
            if len(set(bucket)) < len(bucket):
                found.update(value for value, times in Counter(bucket).items() if times > 1)
        return found


def shared(groups: Sequence[Hashes]) -> set[int]:
    """Return the hashes that are in more than one group."""
    found: set[int] = set()
    for buckets in zip(*(group.buckets for group in groups), strict=True):
        seen: set[int] = set()
        for values in map(set, buckets):
            found |= seen & values
            seen |= values
    return found


def check_names(state: State) -> None:
    """Find file names that more than one record has; memory is 8 bytes a name."""
    hashes = Hashes()
    for _, found in state.shards:
        hashes.add(_name_hash(name) for name in found.filenames if name)
    repeated = hashes.repeated()
    if not repeated:
        return
    first: dict[str, tuple[int, str]] = {}
    for _, found in state.shards:
        for offset, filename in zip(found.offsets, found.filenames, strict=True):
            if not filename or _name_hash(filename) not in repeated:
                continue
            at, shard = first.setdefault(filename, (offset, found.filename))
            if (at, shard) != (offset, found.filename):
                facts = {"name": filename, "at": at, "shard": shard}
                state.faults.say(Code.NAME_TWICE, found.filename, offset, **facts)


def _name_hash(filename: str) -> int:
    return xxh3_64_intdigest(filename.encode("utf-8", "surrogatepass"))


def check_folders(state: State) -> None:
    """Find labels that are not those of the class folders in which the images were."""
    report, classes = state.documents.report, state.documents.classes
    depths = class_depths(report)
    if report is None or depths is None:
        return
    key = spelling_key if report.options.get("fold_case") else _composed
    class_map = report.options.get("map")
    renamed = class_map if isinstance(class_map, dict) else {}
    new_names = {key(str(old)): str(new) for old, new in renamed.items()}
    first, last = depths
    for _, found in state.shards:
        for place, labels in enumerate(found.labels):
            parts = found.filenames[place].split("/")
            label = labels[0] if len(labels) == 1 else -1
            if place in found.damaged or not 0 <= label < len(classes) or len(parts) <= last:
                continue
            folder = "/".join(parts[first:last])
            if key(new_names.get(key(folder), folder)) != key(classes[label]):
                facts = {"name": _called(found, place), "class_name": classes[label]}
                state.faults.say(Code.OTHER_CLASS, found.filename, found.offsets[place], **facts)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _called(found: ShardFacts, place: int) -> str:
    """Return what to call a record: its file, or where it is."""
    return found.filenames[place] or f"the record at byte {found.offsets[place]}"


def check_counts(state: State) -> None:
    """Compare the images of each class, and the bytes of each split, with what is declared.

    Splits that have lost a shard are passed over: that fault is named already.
    """
    documents, shards = state.documents, state.shards
    for split, declared in documents.metadata.class_counts.items():
        totals = shards.totals(split)
        is_sound = all(each.is_whole and each.is_sound for each in totals)
        if split in state.incomplete_splits or not is_sound:
            continue
        counts: Counter[int] = Counter()
        for claim in shards.claims:
            if claim.split == split:
                counts.update(label for each in shards[claim.filename].labels for label in each)
        found = tuple(counts[label] for label in range(len(declared)))
        if declared != found:
            facts = {"split": split, "declared": declared, "found": found}
            state.faults.say(Code.CLASS_COUNTS, layout.METADATA, **facts)
    for declared_split in documents.declared.splits if documents.is_ours else ():
        name, size = declared_split.name, declared_split.num_bytes
        total = sum(each.size for each in shards.totals(name))
        if name not in state.incomplete_splits and total != size:
            state.faults.say(
                Code.WRONG_NUM_BYTES, layout.DATASET_INFO, split=name, declared=size, found=total
            )


class _Copy(NamedTuple):
    """One record of an image that may be in several splits."""

    split: str
    filename: str
    called: str
    source_hash: bytes
    """Of the image in the source; b"" if it is not known or cannot be right."""


@dataclass(frozen=True, slots=True)
class _SourceLeaks:
    """The leaks that the source itself has, by the report of the pack."""

    is_foreign: bool
    """Whether imgrec did not make the dataset, and so none of its splits."""
    groups: Mapping[str, int]
    """The number of the leak that each file is in."""
    has_unlisted: bool
    """Whether there are more leaks than the report lists."""
    made: frozenset[str]
    """The splits that imgrec divided train into, with train itself."""

    def explain(self, one: _Copy, other: _Copy) -> bool:
        """Tell whether the source has one image in these two splits."""
        if self.is_foreign:
            return True
        if {one.split, other.split} <= self.made:
            return False
        ours, theirs = (self.groups.get(printable(copy.filename)) for copy in (one, other))
        return self.has_unlisted if ours is None else ours == theirs


def _source_leaks(documents: Documents) -> _SourceLeaks:
    report = documents.report
    if report is None or report.options.get("on_leak") == OnLeak.DROP:
        # Nothing is known of the source, or its leaks were to be dropped.
        return _SourceLeaks(not documents.is_ours, {}, has_unlisted=False, made=frozenset())
    options = report.options
    made = {split for split in (VAL, TEST) if options.get(f"{split}_split")}
    if options.get("folds"):
        made |= {split.name for split in report.splits if split.name.startswith(FOLD)}
    if options.get("split_file"):  # which may itself put copies into different splits
        made = set()
    return _SourceLeaks(
        is_foreign=False,
        groups={name: at for at, leak in enumerate(report.leaks) for name in leak.filenames},
        has_unlisted=bool(report.unlisted_leaks),
        made=frozenset(made | {TRAIN}),
    )


def check_leaks(state: State, table: TableFacts) -> None:
    """Find images that are in more than one split.

    The table has the hashes of images as they were in the source: re-encoding may make the same
    PNG out of two different files. Memory is 8 bytes a record, or 16 where the image was
    re-encoded, and some more for each image in two splits.
    """
    in_several = _in_several_splits(state.shards, table.hashes)
    if not in_several:
        return
    source = _source_leaks(state.documents)
    first: dict[bytes, _Copy] = {}
    for claim, found in state.shards:
        known = table.hashes.get(found.filename, ())
        doubts = table.doubtful.get(found.filename, {})
        for place in range(found.records):
            if place in found.damaged:
                continue
            told = b"".join(known[place : place + 1])
            digests = dict.fromkeys(filter(None, (found.digest(place), told)))
            if in_several.isdisjoint(map(_beginning, digests)):
                continue
            source_hash = b"" if place in doubts else told
            name = found.filenames[place]
            own = _Copy(claim.split, name, _called(found, place), source_hash)
            for digest in digests:
                other = first.setdefault(digest, own)
                if other.split == claim.split:
                    continue
                if source_hash and other.source_hash and source_hash != other.source_hash:
                    continue
                facts = {"name": own.called, "split": own.split}
                facts |= {"other": other.called, "other_split": other.split}
                (state.notes if source.explain(own, other) else state.faults).say(
                    Code.SAME_IMAGE, found.filename, found.offsets[place], **facts
                )
                break


def _in_several_splits(shards: Shards, hashes: Mapping[str, Sequence[bytes]]) -> set[int]:
    """Return the beginnings of hashes that are in several splits; almost always there is none."""
    splits: dict[str, Hashes] = {}
    for claim, found in shards:
        digests = {found.digest(place) for place in range(found.records)}
        digests.update(hashes.get(found.filename, ()))
        splits.setdefault(claim.split, Hashes()).add(map(_beginning, digests))
    return shared(tuple(splits.values()))


def _beginning(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little")
