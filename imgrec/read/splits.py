"""Split specs, such as `train[:10%]+val` or `all`, and the records that they select.

The grammar and the rounding are those of TFDS. Records are numbered through all splits.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import normalize

from imgrec.errors import UnknownName, UsageError
from imgrec.model import FOLD, TRAIN
from imgrec.outcome import SplitInfo
from imgrec.spelling import same_name
from imgrec.text import suggestion

ALL = "all"
_SYNONYMS = (("train", "training"), ("val", "validation", "valid", "dev"), ("test", "testing"))
_PART = re.compile(r"(?P<split>[\w-]+)(?:\[(?P<slice>[\w%:.-]+)\])?")
_BOUND = re.compile(r"(?:(?P<number>-?[\d_.]+)(?P<unit>%|shard)?)?")
_PLUS = re.compile(r"\s*\+\s*")
_NOT = re.compile(r"\s*not\s+(?P<fold>[\w-]+)\s*")


def record_ranges(spec: str, splits: Sequence[SplitInfo]) -> list[range]:
    """Return the records that a spec selects.

    `validation`, `valid` and `dev` mean `val`, `training` means `train` and `testing` means `test`,
    and the reverse, unless there is a split of that name. `not fold_0` means all other folds.
    Raises UnknownName for a split that does not exist, and UsageError for what TFDS refuses.

    >>> train = SplitInfo(name="train", shard_lengths=(6, 4), num_bytes=0)
    >>> val = SplitInfo(name="val", shard_lengths=(3,), num_bytes=0)
    >>> record_ranges("train[:50%]+val", [train, val])
    [range(0, 5), range(10, 13)]
    """
    if not isinstance(spec, str):  # as in open_dataset("flowers")[0]
        raise _malformed(spec)
    parts = _other_folds(spec, splits) or _PLUS.split(spec)
    return [records for part in parts for records in _part_ranges(part, splits)]


def _other_folds(spec: str, splits: Sequence[SplitInfo]) -> list[str]:
    """Name the folds that `not fold_0` means; none if the spec is of another form.

    Other splits are left out: nobody wants to train on `test` because it is not fold_0.
    """
    match = _NOT.fullmatch(spec)
    if match is None:
        return []
    folds = fold_names(splits)
    if match["fold"] not in folds:
        hint = suggestion([f"not {fold}" for fold in folds], spec) if folds else "name its splits"
        raise UnknownName(f"there is no fold {match['fold']!r}", hint=hint)
    return [fold for fold in folds if fold != match["fold"]]


def fold_names(splits: Sequence[SplitInfo]) -> list[str]:
    """Name the splits that are folds."""
    return [split.name for split in splits if split.name.startswith(FOLD)]


def _part_ranges(part: str, splits: Sequence[SplitInfo]) -> list[range]:
    match = _PART.fullmatch(normalize("NFC", part))
    if match is None or (match["split"] == ALL and match["slice"]):
        raise _malformed(part)
    name = existing_name(match["split"], [split.name for split in splits])
    start, ranges = 0, []
    for split in splits:
        if name in (ALL, split.name):
            first, last = _bounds(match["slice"], split) if match["slice"] else (0, split.examples)
            ranges.append(range(start + first, start + max(first, last)))
        start += split.examples
    if not ranges and match["split"] != ALL:
        hint = suggestion([split.name for split in splits], match["split"])
        if name == TRAIN and (folds := fold_names(splits)):
            hint = f"it was packed in {len(folds)} folds: write 'not {folds[0]}' for all but one"
        raise UnknownName(f"there is no split {match['split']!r}", hint=hint)
    return ranges


def existing_name(name: str, existing: Sequence[str]) -> str:
    """Return the one split that a name means if there is none of that name, else the name.

    >>> existing_name("validation", ["train", "val"]), existing_name("fold_0", ["train", "val"])
    ('val', 'fold_0')
    """
    meant = [one for words in _SYNONYMS if name in words for one in words if one in existing]
    if name not in existing and len(meant) == 1:
        return meant[0]
    return same_name(name, existing)


def _bounds(text: str, split: SplitInfo) -> tuple[int, int]:
    """Return the first record of a slice, and the one after its last."""
    parts = [_BOUND.fullmatch(part) for part in text.split(":")]
    bounds = [part for part in parts if part]
    unit = next((part["unit"] for part in bounds if part["unit"]), "")
    is_one_shard = len(parts) == 1 and unit == "shard"
    is_slice = len(parts) == 2 and any(part["number"] for part in bounds)
    if None in parts or not (is_one_shard or is_slice):
        raise _malformed(f"{split.name}[{text}]")
    parse = float if unit == "%" else int
    try:
        numbers = [None if part["number"] is None else parse(part["number"]) for part in bounds]
    except ValueError as error:
        raise _malformed(f"{split.name}[{text}]") from error
    first, last = (numbers[0], (numbers[0] or 0) + 1) if is_one_shard else numbers
    count = split.examples
    if unit == "shard":
        lengths = split.shard_lengths
        start = sum(lengths[: int(first or 0)])
        # The shard after -1 is 0, which TFDS takes as the end.
        end = len(lengths) if last is None else int(last) + (len(lengths) if last <= 0 else 0)
        stop = sum(lengths[:end])
    else:
        start, stop = (
            default if number is None else round(number * count / 100.0 if unit else number)
            for number, default in ((first, 0), (last, count))
        )
    is_beyond_100 = unit == "%" and max(abs(first or 0), abs(last or 0)) > 100
    if is_beyond_100 or max(abs(start), abs(stop)) > count:
        raise UsageError(
            f"{split.name}[{text}] is out of range",
            hint=f"{split.name} has {count} records in {len(split.shard_lengths)} shards",
        )
    return start + count * (start < 0), stop + count * (stop < 0)


def _malformed(spec: object) -> UsageError:
    return UsageError(
        f"{spec!r} is not a split",
        hint="write train, train[:10%], train[100:200], train[2shard], train+val, all or "
        "'not fold_0'",
    )


class Piece(NamedTuple):
    """Consecutive records of one shard."""

    shard: int
    """Counted through the shards of all splits."""
    skip: int
    take: int


def part_of(ranges: Sequence[range], index: int, count: int) -> list[range]:
    """Return part `index` of `count` of the records in `ranges`; sizes differ by one at most.

    >>> part_of([range(0, 5), range(10, 13)], 1, 2)
    [range(4, 5), range(10, 13)]
    """
    total = sum(map(len, ranges))
    return between(ranges, total * index // count, total * (index + 1) // count)


def between(ranges: Iterable[range], start: int, stop: int) -> list[range]:
    """Return the records in `ranges` from place `start` to place `stop`.

    >>> between([range(0, 5), range(10, 13)], 4, 6)
    [range(4, 5), range(10, 11)]
    """
    parts = []
    for records in ranges:
        parts.append(records[max(start, 0) : max(stop, 0)])
        start, stop = start - len(records), stop - len(records)
    return [part for part in parts if part]


def cut(ranges: Iterable[range], shard_lengths: Sequence[int]) -> Iterator[Piece]:
    """Yield the pieces of shards that hold the records in `ranges`, in order.

    >>> list(cut([range(1, 5)], [3, 3]))
    [Piece(shard=0, skip=1, take=2), Piece(shard=1, skip=0, take=2)]
    """
    starts = list(accumulate(shard_lengths, initial=0))
    for records in ranges:
        for shard, length in enumerate(shard_lengths):
            first = max(records.start, starts[shard])
            last = min(records.stop, starts[shard] + length)
            if first < last:
                yield Piece(shard, first - starts[shard], last - first)


def joined(ranges: Iterable[range]) -> Sequence[int]:
    """Return the numbers in ranges one after another, as one range if they are consecutive."""
    filled = [part for part in ranges if part]
    if all(a.stop == b.start for a, b in pairwise(filled)):
        return range(filled[0].start, filled[-1].stop) if filled else range(0)
    numbers = array("Q")
    for part in filled:
        numbers.extend(part)
    return numbers
