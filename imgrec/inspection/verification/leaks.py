"""Images in more than one split: a fault of the pack, or a note about its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.inspection.verification.cross import called
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.hashes import Hashes, shared
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.verification.looked import Looked
from imgrec.inspection.verification.table import TableSeen
from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import OnLeak
from imgrec.text import printable


class _Copy(NamedTuple):
    """One of two records of the same image."""

    split: str
    filename: str


@dataclass(frozen=True, slots=True)
class _SourceLeaks:
    """Which leaks the source is to blame for, by what the pack recorded."""

    is_foreign: bool
    """Whether imgrec did not make the dataset, and so none of its splits."""
    groups: Mapping[str, int]
    """The number of the leak that each file is in, as the report lists them."""
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


def _source_leaks(claims: Claims) -> _SourceLeaks:
    report = claims.report
    if report is None or report.options.get("on_leak") == OnLeak.DROP:
        # Nothing is known of the source, or no leak of it was to be packed.
        return _SourceLeaks(not claims.is_ours, {}, has_unlisted=False, made=frozenset())
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


def check_leaks(inquiry: Inquiry, table: TableSeen) -> None:
    """Find images that are in more than one split.

    The table has the hashes of images as they were in the source. Of two files with other bytes,
    re-encoding may have made the same PNG. Memory is 8 bytes a record, or 16 where the image was
    re-encoded, and some more for each image that is in two splits.
    """
    looked = inquiry.looked
    if not (in_several := _in_several_splits(looked, table.hashes)):
        return
    source = _source_leaks(inquiry.claims)
    homes: dict[bytes, _Home] = {}
    for claim, seen in looked:
        known, doubts = table.hashes.get(seen.filename, ()), table.doubts_about(seen.filename)
        for place in range(seen.records):
            if place in seen.unsound:
                continue
            told = b"".join(known[place : place + 1])
            found = dict.fromkeys((seen.digest(place), told) if told else (seen.digest(place),))
            if in_several.isdisjoint(map(_beginning, found)):
                continue
            for digest in found:
                copy = _Copy(claim.split, seen.filenames[place])
                own = _Home(copy, called(seen, place), b"" if place in doubts else told)
                other = homes.setdefault(digest, own)
                if other.copy.split == claim.split:
                    continue
                if own.source_hash and other.source_hash and own.source_hash != other.source_hash:
                    continue
                is_of_source = source.explain(copy, other.copy)
                (inquiry.desk.notes if is_of_source else inquiry.faults).add(
                    seen.filename,
                    f"{own.called} in {claim.split} is the same image as "
                    f"{other.called} in {other.copy.split}",
                    seen.offsets[place],
                )
                break


class _Home(NamedTuple):
    """The first record of an image."""

    copy: _Copy
    called: str
    source_hash: bytes
    """Of the image in the source, if that is known and can be true."""


def _in_several_splits(looked: Looked, hashes: Mapping[str, Sequence[bytes]]) -> set[int]:
    """Return the beginnings of hashes that are in several splits: almost always there is none."""
    splits: dict[str, Hashes] = {}
    for claim, seen in looked:
        found = splits.setdefault(claim.split, Hashes())
        digests = {seen.digest(place) for place in range(seen.records)}
        digests.update(hashes.get(seen.filename, ()))
        found.add(map(_beginning, digests))
    return shared(tuple(splits.values()))


def _beginning(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little")
