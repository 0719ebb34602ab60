"""Random access to decoded images and labels, for Grain (JAX) and as the base of `torch`.

Grain only calls `len`, `[]` and `repr`, so it is not imported.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from imgrec import layout
from imgrec.codec import decode
from imgrec.codec.decode import Decoding
from imgrec.errors import BadImage, DatasetError
from imgrec.options.loading import Labels
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.storage.paths import to_path

Element = dict[str, int | NDArray[np.uint8] | NDArray[np.float32]]


class DecodedSplit:
    """The pixels and labels of a split's records, by number.

    Like its dataset, threads may share it, it survives a fork, and can be pickled.
    """

    def __init__(self, dataset: Dataset, split: str, decoding: Decoding, labels: Labels) -> None:
        info = dataset.info
        if info.compression:
            raise DatasetError(
                f"the shards of {info.name} are compressed, so they can only be read in order",
                hint="use imgrec.load, or pack without --compression",
                path=info.path,
            )
        self.records = dataset[split]
        """The records themselves: file names, columns and bytes."""
        self._decoding = decoding
        self._is_multilabel = (to_path(info.path) / layout.SEQUENCE_LABELS).is_file()
        self._gives_vectors = self._is_multilabel or labels is Labels.ONEHOT

    def __len__(self) -> int:
        return len(self.records)

    def _record(self, place: SupportsIndex) -> Record:
        return self.records[operator.index(place)]  # frameworks have integer types of their own

    def _pixels(self, record: Record) -> NDArray[np.uint8]:
        """Decode a record, large enough to be resized; raise BadImage, which names it."""
        try:
            return decode.decode_covering(record.image, self._decoding)
        except BadImage as error:
            raise BadImage(
                f"{record.filename}: {error.message}",
                hint="pack with --check decode, which leaves out images that do not decode",
                path=record.filename,
            ) from error

    def _target(self, record: Record) -> int | NDArray[np.float32]:
        """Return the label; or a 0 or 1 for each class, on request or if there may be several."""
        if not self._gives_vectors:
            return record.label
        target = np.zeros(len(record.classes), np.float32)
        target[list(record.labels)] = 1
        return target


class GrainSource(DecodedSplit):
    """Images and labels of a split, as a random-access data source of Grain."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels."""
        return self.records.dataset.classes

    def __getitem__(self, place: SupportsIndex) -> Element:
        """Return `image`, uint8 and channels last, and its `label` or `labels`."""
        record = self._record(place)
        image = self._pixels(record)
        if size := self._decoding.image_size:
            image = decode.resize(image, size)
        return {
            "image": image,
            "labels" if self._is_multilabel else "label": self._target(record),
        }

    def __repr__(self) -> str:
        # Equal for equal data on any machine: Grain compares it when it resumes a checkpoint.
        info = self.records.dataset.info
        data = f"{info.name}:{info.version} {self.records.name} {info.fingerprint}"
        return f"GrainSource({data} {self._decoding})"
