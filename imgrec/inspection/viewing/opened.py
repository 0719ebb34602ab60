"""A dataset that is being looked at, with all that is known of its records by now."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from imgrec.errors import DatasetError
from imgrec.inspection.possible import refuse_impossible
from imgrec.inspection.viewing import columns
from imgrec.inspection.viewing.catalogue import Catalogue
from imgrec.inspection.viewing.columns import Row
from imgrec.outcome import DatasetInfo
from imgrec.read.dataset import Dataset


class Opened:
    """A dataset and the catalogue of its records.

    A thread reads the indexes of all shards before someone waits for them. Where the dataset has no
    table of its records, as those that TFDS writes, it reads all of these once; until it is done,
    the catalogue knows their splits only.
    """

    def __init__(self, folder: Path) -> None:
        self.dataset = Dataset(folder)
        info = self.dataset.info
        _refuse_compressed(info)
        self.gathered: int | None = None
        """How many records have been read for the catalogue; None once it is complete."""
        self._is_closed = False
        if columns.has_table(folder):
            self.catalogue = Catalogue(columns.read(folder, info))
            work = self._warm_up
        else:
            refuse_impossible(info)
            self.catalogue = Catalogue(columns.bare(info))
            self.gathered = 0
            work = self._gather
        threading.Thread(target=work, daemon=True, name="imgrec-opened").start()

    def close(self) -> None:
        """Stop reading."""
        self._is_closed = True

    def __len__(self) -> int:
        return len(self.catalogue.columns)

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return what the grid shows of some records."""
        known = self.catalogue.columns
        if known.is_complete:
            return known.rows(numbers)
        return [columns.look(self.dataset, number) for number in numbers]

    def _warm_up(self) -> None:
        start = 0
        splits = self.dataset.info.splits
        for length in [length for split in splits for length in split.shard_lengths]:
            if length and not self._is_closed:
                columns.look(self.dataset, start)
            start += length

    def _gather(self) -> None:
        found = columns.gather(self.dataset, self._go_on)
        if found is not None:
            self.catalogue = Catalogue(found)
            self.gathered = None

    def _go_on(self, gathered: int) -> bool:
        self.gathered = gathered
        return not self._is_closed


def _refuse_compressed(info: DatasetInfo) -> None:
    if info.compression:
        raise DatasetError(
            f"{info.name} is {info.compression}-compressed, so that its records cannot be read "
            "by number, and not be paged through",
            hint="pack it without --compression to view it",
            path=info.path,
        )
