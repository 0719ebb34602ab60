"""Which records a split's name stands for: `train`, `train[:10%]`, `train+val`, `all`.

The grammar and the rounding are those of TFDS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from imgrec.errors import UnknownName, UsageError
from imgrec.outcome import SplitInfo

ALL = "all"
_PART = re.compile(r"\s*(?P<split>[\w-]+)(?:\[(?P<slice>[^\]]+)\])?\s*")
_BOUND = re.compile(r"(?:(-?[\d_]*\.?\d+)(%|shard)?)?")


def record_ranges(spec: str, splits: Sequence[SplitInfo]) -> list[range]:
    """Return the records that a spec stands for, counted through all splits one after another.

    Raises UnknownName for a split that is not there and UsageError for what TFDS would refuse.

    >>> train = SplitInfo(name="train", shard_lengths=(6, 4), num_bytes=0)
    >>> val = SplitInfo(name="val", shard_lengths=(3,), num_bytes=0)
    >>> record_ranges("train[:50%]+val", [train, val])
    [range(0, 5), range(10, 13)]
    """
    return [found for part in spec.split("+") for found in _part_ranges(part, splits)]


def _part_ranges(part: str, splits: Sequence[SplitInfo]) -> list[range]:
    starts = list(accumulate((split.examples for split in splits), initial=0))
    match = _PART.fullmatch(part)
    if match is None or (match["split"] == ALL and match["slice"]):
        raise _not_understood(part)
    if match["split"] == ALL:
        return [
            range(start, start + split.examples)
            for start, split in zip(starts, splits, strict=False)
        ]
    for start, split in zip(starts, splits, strict=False):
        if split.name == match["split"]:
            first, last = _bounds(match["slice"], split) if match["slice"] else (0, split.examples)
            return [range(start + first, start + last)]
    names = ", ".join(split.name for split in splits)
    raise UnknownName(f"there is no split {match['split']!r}", hint=f"there is {names}")


def _bounds(text: str, split: SplitInfo) -> tuple[int, int]:
    """Return the first record of a slice, and the one after its last."""
    parts = [_BOUND.fullmatch(part.strip()) for part in text.split(":")]
    numbers = [part[1] for part in parts if part]
    unit = next((part[2] for part in parts if part and part[2]), "")
    is_one_shard = len(parts) == 1 and unit == "shard"
    if None in parts or not any(numbers) or not (len(parts) == 2 or is_one_shard):
        raise _not_understood(f"{split.name}[{text}]")
    try:
        if is_one_shard:
            shard = int(numbers[0])
            first = _place(shard, split, unit)
            last = _place(shard + 1, split, unit) if shard != -1 else split.examples
        else:
            kind = float if unit == "%" else int
            first = _place(kind(numbers[0]), split, unit) if numbers[0] else 0
            last = _place(kind(numbers[1]), split, unit) if numbers[1] else split.examples
    except ValueError as error:
        raise _not_understood(f"{split.name}[{text}]") from error
    if not (0 <= first <= split.examples and 0 <= last <= split.examples):
        raise UsageError(
            f"{split.name}[{text}] is more than there is",
            hint=f"{split.name} has {split.examples} records in {len(split.shard_lengths)} shards",
        )
    return first, max(first, last)


def _place(number: float, split: SplitInfo, unit: str) -> int:
    if unit == "shard":
        count = len(split.shard_lengths)
        shard = int(number) + (count if number < 0 else 0)
        return sum(split.shard_lengths[:shard]) if 0 <= shard <= count else -1
    place = round(number * split.examples / 100) if unit == "%" else int(number)
    return place + split.examples if number < 0 else place


def _not_understood(spec: str) -> UsageError:
    return UsageError(
        f"{spec!r} does not name records",
        hint="write train, train[:10%], train[100:200], train[2shard], train+val or all",
    )
