"""The records of a pack as a data source of TFDS, read at random and without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from tensorflow_datasets.core.data_sources import base  # type: ignore[import-untyped]

from imgrec.builder.info import PackInfo, open_info
from imgrec.codec import decode
from imgrec.errors import OutOfRange
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_info
from imgrec.read.shards import open_shards, shard_lengths, shard_paths
from imgrec.read.splits import joined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DECODED = tfds.decode.DeserializeMethod.DESERIALIZE_AND_DECODE


class _Records:
    """The serialized records of a split, by their place in it."""

    def __init__(self, pack: DatasetInfo, instructions: Iterable[Any]) -> None:
        self._shards = open_shards(pack)
        names = [os.path.basename(path) for path in shard_paths(pack)]
        starts = dict(zip(names, accumulate(shard_lengths(pack), initial=0), strict=False))
        self._numbers = joined(
            [
                range(first := starts[Path(file.filename).name] + file.skip, first + file.take)
                for file in instructions
            ]
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int) -> bytes:
        try:
            number = self._numbers[place]
        except IndexError as error:
            raise OutOfRange(
                f"record {place} is out of range: there are {len(self)} records",
                hint=f"count from 0 to {len(self) - 1}",
            ) from error
        _, data, start, end = self._shards.read(number)
        return data[start:end]


class _Picture(tfds.decode.Decoder):  # type: ignore[misc]  # of a class without types
    """Decodes an image to the channels that its feature tells of, as TensorFlow does.

    TFDS's own gives as many channels as the file has: 4 of an RGBA among RGB images.
    """

    def decode_example(self, serialized_example: Any) -> Any:
        return self.feature.decode_example(serialized_example)

    def decode_example_np(self, serialized_example: bytes) -> NDArray[np.uint8]:
        height, width, channels = self.feature.shape
        return decode.to_array(serialized_example, (height or 0, width or 0, channels))


@dataclass(repr=False)
class PackDataSource(base.BaseDataSource):  # type: ignore[misc]  # of a class without types
    """The examples of a split, as TFDS gives them: dicts of what their features decode to."""

    dataset_info: PackInfo
    split: Any = None
    decoders: Any = None
    deserialize_method: Any = DECODED

    def __post_init__(self) -> None:
        info, decoders = self.dataset_info, self.decoders
        instructions = base.file_instructions(info, self.split)
        self.data_source = _Records(read_info(Path(info.data_dir)), instructions)
        self._features = info.features
        if isinstance(decoders, tfds.decode.PartialDecoding):
            self._features = decoders.extract_features(info.features)
            decoders = decoders.decoders
        self._decoders = {
            **{
                name: _Picture()
                for name, feature in self._features.items()
                if isinstance(feature, tfds.features.Image)
            },
            **(decoders or {}),
        }

    def _deserialize(self, record: bytes) -> Any:
        if self.deserialize_method is not DECODED:
            return super()._deserialize(record)
        return self._features.deserialize_example_np(record, decoders=self._decoders)

    def __getitems__(self, keys: Iterable[int]) -> list[Any]:
        """Return the examples of some places, in that order."""
        return [self[key] for key in keys]

    def __reduce__(self) -> tuple[Callable[..., PackDataSource], tuple[object, ...]]:
        # Workers of a loader open the pack again: that is smaller than what is known of it.
        state = self.dataset_info.data_dir, self.split, self.decoders, self.deserialize_method
        return _reopen, state


def _reopen(folder: str, split: object, decoders: object, method: object) -> PackDataSource:
    return PackDataSource(open_info(folder), split, decoders, method)


def each(make: Callable[[Any], Any], splits: Any) -> Any:
    """Call `make` on a split, or on each in a list or a dict of them."""
    if isinstance(splits, Mapping):
        return {key: each(make, split) for key, split in splits.items()}
    if isinstance(splits, list | tuple):
        return type(splits)(each(make, split) for split in splits)
    return make(splits)
