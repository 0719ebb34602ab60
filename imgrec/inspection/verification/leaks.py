"""Images in more than one split: a fault of the pack, or a note about its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.inspection.verification.cross import Looked, called
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.options import OnLeak
from imgrec.text import printable

Hashes = Mapping[str, Sequence[bytes]]


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


def check_leaks(inquiry: Inquiry, hashes: Hashes, trusted: Hashes) -> None:
    """Find images that are in more than one split.

    `hashes` are those of the images as they were in the source, by shard, where they are known, and
    `trusted` those of them that can be true: of two files with other bytes, re-encoding may have
    made the same PNG.
    """
    looked = inquiry.looked
    if not _have_common(looked, hashes):
        return
    source = _source_leaks(inquiry.claims)
    homes: dict[bytes, tuple[int, int]] = {}

    def source_hash(shard: int, place: int) -> bytes:
        return b"".join(trusted.get(looked[shard][1].filename, ())[place : place + 1])

    def copy(shard: int, place: int) -> _Copy:
        claim, seen = looked[shard]
        return _Copy(claim.split, seen.filenames[place])

    for number, (claim, seen) in enumerate(looked):
        known = hashes.get(seen.filename, ())
        for place in range(seen.records):
            if place in seen.unsound:
                continue
            for digest in filter(None, {seen.digest(place), *known[place : place + 1]}):
                shard, other = homes.setdefault(digest, (number, place))
                if looked[shard][0].split == claim.split:
                    continue
                ours, theirs = source_hash(number, place), source_hash(shard, other)
                if ours and theirs and ours != theirs:
                    continue
                is_of_source = source.explain(copy(number, place), copy(shard, other))
                (inquiry.desk.notes if is_of_source else inquiry.faults).add(
                    seen.filename,
                    f"{called(seen, place)} in {claim.split} is the same image as "
                    f"{called(looked[shard][1], other)} in {looked[shard][0].split}",
                    seen.offsets[place],
                )
                break


def _have_common(looked: Looked, hashes: Hashes) -> bool:
    """Tell whether a hash is in more than one split: almost always there is none."""
    splits: dict[str, set[bytes]] = {}
    for claim, seen in looked:
        found = splits.setdefault(claim.split, set())
        found.update(map(seen.digest, range(seen.records)))
        found.update(hashes.get(seen.filename, ()))
    return sum(map(len, splits.values())) > len(set().union(*splits.values()))
