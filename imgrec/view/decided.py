"""What is decided about the images of a dataset at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from imgrec.view.facets import Mask

KEEP = -1
"""The split of an image that stays in its own."""


class Decision(NamedTuple):
    """What is to become of an image. The defaults mean that nothing is decided."""

    is_flagged: bool = False
    is_dropped: bool = False
    labels: tuple[int, ...] = ()
    """Its new labels; empty if it keeps its own."""
    split: int = KEEP
    """Its new split."""


NOTHING = Decision()
KINDS: Mapping[str, Callable[[Decision], bool]] = {
    "decided": lambda one: one.is_dropped or bool(one.labels) or one.split != KEEP,
    "flagged": lambda decision: decision.is_flagged,
    "dropped": lambda decision: decision.is_dropped,
    "relabelled": lambda decision: bool(decision.labels),
    "moved": lambda decision: decision.split != KEEP,
}
UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False, slots=True)
class Decided:
    """All decisions at one moment. No two moments are equal, so searches can be cached by them."""

    decisions: Mapping[int, Decision]
    """By number of the record."""
    masks: Mapping[str, Mask]
    """Which records have a decision of each kind, or none."""

    @classmethod
    def nothing(cls, records: int) -> Decided:
        """Return that nothing is decided about a number of records."""
        masks = {kind: np.zeros(records, dtype=np.bool_) for kind in KINDS}
        return cls({}, {**masks, UNDECIDED: np.ones(records, dtype=np.bool_)})

    def having(self, new: Mapping[int, Decision]) -> Decided:
        """Return these decisions with some new ones instead of the old."""
        merged = {**self.decisions, **new}
        for record in [record for record, decision in new.items() if decision == NOTHING]:
            del merged[record]
        places = np.fromiter(new, np.int64, len(new))
        masks = {kind: self.masks[kind].copy() for kind in KINDS}
        for kind, applies in KINDS.items():
            masks[kind][places] = list(map(applies, new.values()))
        return Decided(merged, {**masks, UNDECIDED: ~masks["decided"]})

    def counts(self) -> dict[str, int]:
        """Count the records by kind."""
        return {kind: int(np.count_nonzero(mask)) for kind, mask in self.masks.items()}
