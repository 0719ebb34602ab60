"""Records of a split as pixels and targets, for the frameworks that train on them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex

from imgrec import layout
from imgrec.codec import decode
from imgrec.codec.decode import Decoding
from imgrec.errors import BadImage, DatasetError
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.read.splits import joined, record_ranges
from imgrec.storage.paths import to_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DecodedSplit:
    """Pixels and targets of the records that a split's name stands for, by their number.

    It may be shared by threads, kept through a fork, and pickled, as its dataset.
    """

    def __init__(self, dataset: Dataset, split: str, decoding: Decoding) -> None:
        _refuse_compressed(dataset)
        self.split = split
        self.decoding = decoding
        self.records = dataset[split]
        folder = to_path(dataset.info.path)
        self.has_label_sets = (folder / layout.SEQUENCE_LABELS).is_file()
        """Whether an image may have several labels."""

    def __len__(self) -> int:
        return len(self.records)

    def record(self, place: SupportsIndex) -> Record:
        """Return a record; raise OutOfRange if there is none of that number."""
        return self.records[operator.index(place)]  # frameworks count in numbers of their own

    def pixels(self, record: Record) -> NDArray[np.uint8]:
        """Decode a record to what its framework resizes; raise BadImage, which names it."""
        try:
            return decode.decode_covering(record.image, self.decoding)
        except BadImage as error:
            raise BadImage(
                f"{record.filename}: {error.message}",
                hint="pack with --check decode, which leaves out what does not decode",
                path=record.filename,
            ) from error

    def target(self, record: Record) -> int | NDArray[np.float32]:
        """Return a record's label; or a 0 or 1 for each class, if it may have several."""
        if not self.has_label_sets:
            return record.label
        import numpy as np

        target = np.zeros(len(record.classes), np.float32)
        target[list(record.labels)] = 1
        return target

    def labels(self) -> list[int] | list[tuple[int, ...]]:
        """Return the label of each record, or all labels, without reading the images."""
        if not self.has_label_sets:
            return self.records.labels.tolist()
        dataset = self.records.dataset
        numbers = joined(record_ranges(self.split, dataset.info.splits))
        return [tuple(dataset.columns.label_sets[number]) for number in numbers]

    def __repr__(self) -> str:
        # Equal for equal data on any machine: Grain compares it when it goes on from a checkpoint.
        info = self.records.dataset.info
        return f"{info.name}:{info.version} {self.split} {info.fingerprint} {self.decoding}"


def _refuse_compressed(dataset: Dataset) -> None:
    if dataset.info.compression:
        raise DatasetError(
            f"the shards of {dataset.info.name} are compressed, so they are read in order only",
            hint="use imgrec.load, or pack without --compression",
            path=dataset.info.path,
        )
