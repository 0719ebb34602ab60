"""The public functions that open a packed dataset for a framework."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from imgrec.extras import needed
from imgrec.options.loading import Crop, LoadOptions
from imgrec.options.parsing import parse_text
from imgrec.read.locate import find_dataset
from imgrec.storage.paths import is_remote, refuse_remote

if TYPE_CHECKING:
    from imgrec.loaders.grain import GrainSource
    from imgrec.loaders.torch import TorchDataset, Transform
    from imgrec.read.dataset import Dataset

TfDataset: TypeAlias = Any
"""A tf.data.Dataset; TensorFlow has no types."""


def load(
    dataset: str | os.PathLike[str],
    split: str = "train",
    *,
    image_size: int | Sequence[int] | None = None,
    batch_size: int | None = None,
    shuffle: bool | int = False,
    repeat: bool | int = False,
    scale: Sequence[float] | None = None,
    dtype: str = "",
    seed: int | None = None,
    crop: str | None = None,
    channels: int | None = None,
    exact: bool = False,
    orient: bool = False,
    balance: bool = False,
    cache: bool = False,
    drop_remainder: bool = False,
    shard: Sequence[int] | None = None,
    as_dict: bool = False,
    data_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> TfDataset:
    """Open a split as a tf.data.Dataset of `(images, labels)`, ready for `model.fit`.

    Images are uint8, of `image_size` (height, width) if that is given, and come in the order of
    the records unless they are shuffled. What each argument does is said in `LoadOptions`.
    A dataset on an object store is copied to `cache_dir` once, and checked; or else streamed.

    Example: `imgrec.load("flowers", image_size=224, batch_size=32, shuffle=True)`.
    """
    from imgrec.loaders.tf.load import load_folder

    options = LoadOptions(
        image_size=cast("tuple[int, int]", image_size),
        batch_size=batch_size,
        shuffle=shuffle,
        repeat=repeat,
        scale=cast("tuple[float, float]", scale),
        dtype=dtype,
        seed=seed,
        crop=cast("Crop", Crop.NONE if crop is None else crop),
        channels=channels,
        exact=exact,
        orient=orient,
        balance=balance,
        cache=cache,
        drop_remainder=drop_remainder,
        shard=cast("tuple[int, int]", shard),
        as_dict=as_dict,
    )
    refuse_remote(parse_text("cache_dir", cache_dir), "cache_dir")
    folder = find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    if cache_dir and is_remote(folder):
        from imgrec.storage.remote.transfer import cached

        folder = cached(folder, parse_text("cache_dir", cache_dir))
    return load_folder(folder, split, options)


def class_weights(
    dataset: str | os.PathLike[str],
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] = "",
) -> dict[int, float]:
    """Return how much each label must count in training, so that all classes count alike.

    Example: `model.fit(train, class_weight=imgrec.class_weights("flowers"))`.
    """
    from imgrec.loaders.weights import weights_of

    return weights_of(
        find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir)), split
    )


def torch_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    split: str = "train",
    *,
    transform: Transform | None = None,
    target_transform: Transform | None = None,
    image_size: int | Sequence[int] | None = None,
    decode_size: int | Sequence[int] | None = None,
    channels: int = 3,
    exact: bool = False,
    orient: bool = False,
    tensors: bool = False,
    data_dir: str | os.PathLike[str] = "",
) -> TorchDataset:
    """Open a split as PyTorch's map-style dataset of images and labels.

    A transform gets a picture of Pillow's, or a tensor if `tensors` is true; without one an image
    is a uint8 tensor, channels first. With `image_size`, height and width, all are resized to it
    before that, and JPEGs decoded at the smallest scale that covers it unless `exact` is true.
    `decode_size` only decodes smaller, to no less than that, for a transform that resizes itself.

    Example: `DataLoader(imgrec.torch_dataset("flowers", image_size=224), batch_size=32)`.
    """
    needed("torch", extra="torch", what="torch_dataset")
    from imgrec.codec.decode import Decoding, parse_size
    from imgrec.loaders.decoded import DecodedSplit
    from imgrec.loaders.torch import TorchDataset

    decoding = Decoding(
        image_size=parse_size(image_size, "image_size"),
        decode_size=parse_size(decode_size, "decode_size"),
        channels=channels,
        exact=exact,
        orient=orient,
    )
    part = DecodedSplit(_opened(dataset, parse_text("data_dir", data_dir)), split, decoding)
    return TorchDataset(
        part, transform=transform, target_transform=target_transform, tensors=tensors
    )


def grain_source(
    dataset: str | os.PathLike[str] | Dataset,
    split: str = "train",
    *,
    image_size: int | Sequence[int] | None = None,
    channels: int = 3,
    exact: bool = False,
    orient: bool = False,
    data_dir: str | os.PathLike[str] = "",
) -> GrainSource:
    """Open a split as a random-access data source of Grain: `image` and `label` by number.

    Example: `grain.MapDataset.source(imgrec.grain_source("flowers", image_size=224)).batch(32)`.
    """
    from imgrec.codec.decode import Decoding, parse_size
    from imgrec.loaders.decoded import DecodedSplit
    from imgrec.loaders.grain import GrainSource

    size = parse_size(image_size, "image_size")
    decoding = Decoding(image_size=size, channels=channels, exact=exact, orient=orient)
    return GrainSource(
        DecodedSplit(_opened(dataset, parse_text("data_dir", data_dir)), split, decoding)
    )


def _opened(dataset: str | os.PathLike[str] | Dataset, data_dir: str) -> Dataset:
    from imgrec.read.dataset import Dataset

    return (
        dataset
        if isinstance(dataset, Dataset)
        else Dataset(find_dataset(parse_text("dataset", dataset), data_dir))
    )
