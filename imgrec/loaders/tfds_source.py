"""The examples of a pack as TFDS reads them, at random and without TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from numpy.typing import NDArray
from tensorflow_datasets.core.data_sources import base  # type: ignore[import-untyped]

from imgrec import layout
from imgrec.codec import decode
from imgrec.errors import DatasetError, OutOfRange
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import read_documents, read_info
from imgrec.read.files import fault_error
from imgrec.read.shards import shard_lengths, shard_paths
from imgrec.read.splits import joined
from imgrec.read.store_shards import open_shards

DECODED = tfds.decode.DeserializeMethod.DESERIALIZE_AND_DECODE


class PackInfo(tfds.core.DatasetInfo):  # type: ignore[misc]  # a class without types
    """The facts about a pack that TFDS needs; almost none before it is packed."""

    def initialize_from_bucket(self) -> None:
        """Do nothing: the bucket of TFDS's catalogue does not have local packs."""

    def read_from_directory(self, dataset_info_dir: str | PathLike[str]) -> None:
        """Read a pack; raise DatasetError if TFDS cannot read it, or its labels are wrong."""
        documents = read_documents(Path(dataset_info_dir))
        _refuse_unreadable(documents.info())
        # Forget an earlier pack that this one replaced.
        tfds.core.DatasetInfo.__init__(self, builder=self._identity)
        super().read_from_directory(dataset_info_dir)
        # TFDS loads labels in a thread and ignores its errors, so it would accept any.
        for fault in documents.faults:
            if fault.path in (layout.LABELS, layout.SEQUENCE_LABELS):
                hint = "it was changed since it was packed: restore it, or pack again and overwrite"
                raise fault_error(documents.folder, fault, hint)

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels; none before it is packed."""
        if not self.features:
            return ()
        is_multilabel = "labels" in self.features
        return tuple(
            (self.features["labels"].feature if is_multilabel else self.features["label"]).names
        )


def _refuse_unreadable(pack: DatasetInfo) -> None:
    """Raise DatasetError if TFDS cannot read a dataset, or imgrec did not make it."""
    if not pack.fingerprint:
        raise DatasetError(
            f"{pack.path} was not packed by imgrec",
            hint="open it with tfds.builder_from_directory",
            path=pack.path,
        )
    if pack.compression:
        raise DatasetError(
            f"the shards of {pack.path} are compressed ({pack.compression}); TFDS cannot read them",
            hint=f"load it with {pack.load}, or pack it without --compression",
            path=pack.path,
        )


class _Records:
    """The serialized records of a split, by their place in it."""

    def __init__(self, pack: DatasetInfo, instructions: Iterable[Any]) -> None:
        self._shards = open_shards(pack)
        names = [os.path.basename(path) for path in shard_paths(pack)]
        starts = dict(zip(names, accumulate(shard_lengths(pack), initial=0), strict=False))
        self._numbers = joined(
            range(first := starts[Path(file.filename).name] + file.skip, first + file.take)
            for file in instructions
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


class _ImageDecoder(tfds.decode.Decoder):  # type: ignore[misc]  # a class without types
    """Decodes an image to the channels of its feature, as TensorFlow does.

    TFDS's own decoder keeps the channels of the file: 4 for an RGBA image among RGB images.
    """

    def decode_example(self, serialized_example: Any) -> Any:
        return self.feature.decode_example(serialized_example)

    def decode_example_np(self, serialized_example: bytes) -> NDArray[np.uint8]:
        height, width, channels = self.feature.shape
        return decode.to_array(serialized_example, (height or 0, width or 0, channels))


@dataclass(repr=False)
class PackDataSource(base.BaseDataSource):  # type: ignore[misc]  # a class without types
    """The examples of a split, read at random and without TensorFlow."""

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
            name: _ImageDecoder()
            for name, feature in self._features.items()
            if isinstance(feature, tfds.features.Image)
        }
        self._decoders.update(decoders or {})

    def _deserialize(self, record: bytes) -> Any:
        if self.deserialize_method is not DECODED:
            return super()._deserialize(record)
        return self._features.deserialize_example_np(record, decoders=self._decoders)

    def __getitems__(self, keys: Iterable[int]) -> list[Any]:
        """Return the examples at some places, in that order."""
        return [self[key] for key in keys]

    def __reduce__(self) -> tuple[Callable[..., PackDataSource], tuple[object, ...]]:
        # Workers of a loader open the pack again: a path is smaller than its information.
        state = self.dataset_info.data_dir, self.split, self.decoders, self.deserialize_method
        return _reopen, state


def _reopen(folder: str, split: object, decoders: object, method: object) -> PackDataSource:
    pack = read_info(Path(folder))
    identity = tfds.core.DatasetIdentity(
        name=pack.name,
        version=tfds.core.Version(pack.version),
        data_dir=pack.path,
        module_name="imgrec",
    )
    info = PackInfo(builder=identity)
    info.read_from_directory(pack.path)
    return PackDataSource(info, split, decoders, method)


def map_splits(make: Callable[[Any], Any], splits: Any) -> Any:
    """Call `make` with a split, or with each split in a list or a dict."""
    if isinstance(splits, Mapping):
        return {key: map_splits(make, split) for key, split in splits.items()}
    if isinstance(splits, list | tuple):
        return type(splits)(map_splits(make, split) for split in splits)
    return make(splits)
