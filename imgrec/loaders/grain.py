"""A packed dataset as a random-access data source of Grain, for JAX.

Grain asks for `len`, numbers and a `repr`, and so it is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from imgrec.codec import decode
from imgrec.loaders.decoded import DecodedSplit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.read.dataset import Split

Element = dict[str, "int | NDArray[np.uint8] | NDArray[np.float32]"]


class GrainSource:
    """Images and labels of a split, by their number."""

    def __init__(self, split: DecodedSplit) -> None:
        self._split = split

    @property
    def records(self) -> Split:
        """The records behind: file names, columns and bytes."""
        return self._split.records

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels."""
        return self.records.dataset.classes

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, place: SupportsIndex) -> Element:
        """Return `image`, uint8 and channels last, and `label`; `labels` if it may have several."""
        record = self._split.record(place)
        image = self._split.pixels(record)
        if size := self._split.decoding.image_size:
            image = decode.resize(image, size)
        key = "labels" if self._split.has_label_sets else "label"
        return {"image": image, key: self._split.target(record)}

    def __repr__(self) -> str:
        return f"GrainSource({self._split!r})"
