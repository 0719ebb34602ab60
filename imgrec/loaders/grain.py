"""Random access to decoded images and labels, for Grain (JAX) and as the base of `torch`.

Grain only calls `len`, `[]` and `repr`, so it is not imported.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

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

Element = dict[str, Any]
"""Arrays, numbers and texts by name; columns may have any name."""


class DecodedSplit:
    """The pixels and labels of a split's records, by number.

    Like its dataset, threads may share it, it survives a fork, and can be pickled.
    """

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        decoding: Decoding,
        labels: Labels,
        *,
        as_dict: bool = False,
    ) -> None:
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
        self._is_dict = as_dict

    def __len__(self) -> int:
        return len(self.records)

    def _record(self, place: SupportsIndex) -> Record:
        return self.records[operator.index(place)]  # frameworks have integer types of their own

    def _batch(self, places: Sequence[SupportsIndex]) -> Iterator[Record]:
        """Yield the records at some places; those on a store are fetched at once."""
        part = self.records[list(map(operator.index, places))]
        return part.dataset.gather(part.numbers)

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

    @property
    def _target_key(self) -> str:
        return "labels" if self._is_multilabel else "label"

    def _facts(self, record: Record) -> Element:
        """Return what `imgrec.load(as_dict=True)` adds, with the same names and types."""
        columns = {
            name: np.float32(value) if isinstance(value, float) else value
            for name, value in record.columns.items()
        }
        return {
            "filename": record.filename,
            "shape": np.array(record.shape, np.int64),
            **columns,
        }


class GrainSource(DecodedSplit):
    """Images and labels of a split, as a random-access data source of Grain."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels."""
        return self.records.dataset.classes

    def __getitem__(self, place: SupportsIndex) -> Element:
        """Return `image`, uint8 and channels last, and its `label` or `labels`."""
        return self._element(self._record(place))

    def __getitems__(self, places: Sequence[SupportsIndex]) -> list[Element]:
        """Return the elements of a batch, whose records are fetched at once."""
        return list(map(self._element, self._batch(places)))

    _getitems = __getitems__  # as Grain calls it

    def _element(self, record: Record) -> Element:
        image = self._pixels(record)
        if size := self._decoding.image_size:
            image = decode.resize(image, size)
        facts = self._facts(record) if self._is_dict else {}
        return {**facts, "image": image, self._target_key: self._target(record)}

    def __repr__(self) -> str:
        # Equal for equal data on any machine: Grain compares it when it resumes a checkpoint.
        info = self.records.dataset.info
        data = f"{info.name}:{info.version} {self.records.name} {info.fingerprint}"
        return f"GrainSource({data} {self._decoding})"
