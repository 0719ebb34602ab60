"""Which records fit what is asked for, and how many would if it were asked otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from imgrec.inspection.viewing.columns import Columns, Integers, Names
from imgrec.model import UNLABELLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_]"

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""The longest sides that fall in one group of sizes; the last group is of all that are longer."""
_REMEMBERED = 16
"""Answers kept: of a million records, each takes 8 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked for; nothing stands for everything."""

    splits: frozenset[str] = frozenset()
    classes: frozenset[int] = frozenset()
    """By label; -1 stands for images without one."""
    formats: frozenset[str] = frozenset()
    min_side: int = 0
    max_side: int = 0
    """Bounds of an image's longer side, both included; 0 is none."""
    text: str = ""
    """Some of the file's name, in whatever case."""


class Found(NamedTuple):
    """The records that fit a query."""

    numbers: Integers
    """In ascending order."""
    counts: Mapping[str, list[int]]
    """How many there would be by each split, class, format and group of sizes, were that asked.

    Classes begin with the images that have none; what else is asked holds.
    """

    def place_of(self, number: int) -> int | None:
        """Return where a record is among those found; None if it is not."""
        at = int(np.searchsorted(self.numbers, number))
        return at if at < len(self.numbers) and self.numbers[at] == number else None


class Catalogue:
    """All records of a dataset, to be asked for. Threads may share one."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._sides = np.maximum(columns.heights, columns.widths)
        self._sizes = np.searchsorted(np.array(SIZES), self._sides)
        self.find = lru_cache(maxsize=_REMEMBERED)(self._find)

    def _find(self, query: Query) -> Found:
        """Return the records that fit a query."""
        masks = {
            name: mask
            for name, mask in (
                ("split", self._split_mask(query)),
                ("class", self._class_mask(query)),
                ("format", self._format_mask(query)),
                ("size", self._side_mask(query)),
                ("text", self._text_mask(query)),
            )
            if mask is not None
        }
        fitting = _all_of(masks.values())
        counts = {}
        for facet, codes, length in self._facets:
            others = [mask for name, mask in masks.items() if name != facet]
            mask = fitting if facet not in masks else _all_of(others)
            counts[facet] = self._count(facet, codes, length, mask)
        found = np.arange(len(self.columns)) if fitting is None else np.flatnonzero(fitting)
        return Found(found.astype(np.int64, copy=False), counts)

    @cached_property
    def _facets(self) -> Sequence[tuple[str, Integers, int]]:
        columns = self.columns
        return (
            ("split", columns.splits, len(columns.split_names)),
            ("class", columns.labels - UNLABELLED, columns.classes + 1),
            ("format", columns.formats, len(columns.format_names)),
            ("size", self._sizes, len(SIZES) + 1),
        )

    def _count(self, facet: str, codes: Integers, length: int, mask: Mask | None) -> list[int]:
        if mask is not None:
            owners = self.columns.owners if facet == "class" else None
            codes = codes[mask if owners is None else mask[owners]]
        counted: list[int] = np.bincount(codes, minlength=length).tolist()
        return counted

    def _split_mask(self, query: Query) -> Mask | None:
        if not query.splits:
            return None
        return _wanted(self.columns.split_names, query.splits)[self.columns.splits]

    def _format_mask(self, query: Query) -> Mask | None:
        if not query.formats:
            return None
        return _wanted(self.columns.format_names, query.formats)[self.columns.formats]

    def _class_mask(self, query: Query) -> Mask | None:
        if not query.classes:
            return None
        columns = self.columns
        wanted = _wanted(range(UNLABELLED, columns.classes), query.classes)
        fits = wanted[columns.labels - UNLABELLED]
        if columns.owners is None:
            return fits
        mask = np.zeros(len(columns), dtype=np.bool_)
        mask[columns.owners[fits]] = True
        return mask

    def _side_mask(self, query: Query) -> Mask | None:
        if not (query.min_side or query.max_side):
            return None
        mask: Mask = self._sides >= query.min_side
        return mask & (self._sides <= query.max_side) if query.max_side else mask

    def _text_mask(self, query: Query) -> Mask | None:
        if not query.text:
            return None
        wanted = pc.utf8_lower(pa.scalar(query.text)).as_py()
        fits: Names = pc.match_substring(self._lowered, wanted)
        mask: Mask = fits.to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def _lowered(self) -> Names:
        """File names in lower case: ignoring case at each search takes several times as long."""
        return pc.utf8_lower(self.columns.filenames)


def _wanted(names: Sequence[object], wanted: Set[object]) -> Mask:
    return np.array([name in wanted for name in names], dtype=np.bool_)


def _all_of(masks: Iterable[Mask]) -> Mask | None:
    """Return where all masks are true; None stands for everywhere."""
    listed = list(masks)
    return reduce(np.logical_and, listed) if listed else None
