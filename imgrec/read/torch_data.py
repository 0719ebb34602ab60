"""A packed dataset as PyTorch's map-style dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch
from torch.utils.data import Dataset as MapStyle

from imgrec.read import torch_pixels
from imgrec.read.decoded import DecodedSplit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.read.dataset import Split

Transform = Callable[[Any], Any]  # whatever a user's function takes and makes


class TorchDataset(MapStyle):  # type: ignore[misc]  # torch may be missing, and is Any to mypy
    """Images and labels of a split, as torchvision's `ImageFolder` gives them."""

    def __init__(
        self,
        split: DecodedSplit,
        *,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        tensors: bool = False,
    ) -> None:
        self._split = split
        self.transform = transform
        self.target_transform = target_transform
        self._gives_tensors = tensors or transform is None

    @property
    def records(self) -> Split:
        """The records behind: file names, columns and bytes."""
        return self._split.records

    @property
    def classes(self) -> list[str]:
        """Name all classes, in the order of their labels."""
        return list(self.records.dataset.classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Return the label of each class, by its name."""
        return {name: label for label, name in enumerate(self.classes)}

    @cached_property
    def targets(self) -> list[int] | list[tuple[int, ...]]:
        """The label of each image, -1 for none; or a tuple of all, if it may have several."""
        return self._split.labels()

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, place: SupportsIndex) -> tuple[Any, Any]:  # what the transforms make
        split = self._split
        record = split.record(place)
        image = self._image(split.pixels(record))
        target: Any = split.target(record)
        if split.has_label_sets:
            target = torch.from_numpy(target)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __getitems__(self, places: Sequence[SupportsIndex]) -> list[tuple[Any, Any]]:
        """Return the images and targets of a batch, as DataLoader asks for them."""
        return [self[place] for place in places]

    def _image(self, pixels: NDArray[np.uint8]) -> Any:  # a tensor, or a picture of Pillow's
        make = torch_pixels.tensor if self._gives_tensors else torch_pixels.picture
        return make(pixels, self._split.decoding.image_size)

    def __getstate__(self) -> dict[str, object]:
        # Workers that are not forked get a pickle, which need not carry a million labels.
        return {key: value for key, value in vars(self).items() if key != "targets"}

    def __repr__(self) -> str:
        name = self.records.dataset.info.name
        return f"<TorchDataset {self._split.split} of {name}: {len(self)} images>"
