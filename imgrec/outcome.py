"""What is said of a packed dataset, by itself and by the run that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from imgrec.model import Ignored, SameImage, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInfo:
    """One split of a packed dataset."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    class_counts: tuple[int, ...] | None = None
    """Images per label; None where the dataset does not say."""

    @property
    def examples(self) -> int:
        """Count the records of the split."""
        return sum(self.shard_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What a packed dataset says of itself."""

    name: str
    version: str
    path: str
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    fingerprint: str
    """Empty for a dataset that imgrec did not make."""
    load: str
    """The line of Python that loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of every file of a source; `report.json` in the dataset."""

    name: str
    version: str
    source: str
    layout: str
    fingerprint: str
    options: Mapping[str, object]
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    source_bytes: int
    """Size of the files that were packed, as they are in the source."""
    skipped: tuple[Skipped, ...]
    ignored: tuple[Ignored, ...]
    transcoded: tuple[Skipped, ...]
    damaged: tuple[Skipped, ...]
    duplicates: tuple[SameImage, ...]
    leaks: tuple[SameImage, ...]
    conflicts: tuple[SameImage, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The outcome of a pack."""

    info: DatasetInfo
    report: Report
    seconds: float
    is_new: bool
    """False if the dataset was there already, the same to the byte."""
