"""The public functions that open a packed dataset for a framework."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from imgrec.errors import UsageError, import_extra
from imgrec.options.declaration import listing_of, with_known_keywords
from imgrec.options.loading import Crop, Labels, LoadOptions, StreamOptions
from imgrec.options.parsing import parse_flag, parse_text, parse_word, refusal
from imgrec.read.files import find_dataset
from imgrec.storage.paths import is_remote, refuse_remote

if TYPE_CHECKING:
    from imgrec.loaders.grain import GrainSource
    from imgrec.loaders.torch import TorchDataset, Transform
    from imgrec.loaders.torch_streaming import TorchStream
    from imgrec.read.dataset import Dataset

TfDataset: TypeAlias = Any
"""A tf.data.Dataset; TensorFlow has no types."""


@with_known_keywords
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
    crop: Crop | str | None = None,
    channels: int | None = None,
    exact: bool = False,
    orient: bool = False,
    flip: bool = False,
    labels: Labels | str = "auto",
    balance: bool = False,
    cache: bool = False,
    drop_remainder: bool = False,
    shard: Sequence[int] | None = None,
    skip_to: int = 0,
    as_dict: bool = False,
    data_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> TfDataset:
    """Open a split as a tf.data.Dataset of `(images, labels)`, ready for `model.fit`.

    `split` is as for TFDS, or `not fold_0` for all folds but one. Images are uint8, in the order of
    the records unless they are shuffled. They are resized as `tf.image.resize` does; PyTorch's
    loader has an antialiased filter. With `cache_dir`, the shards that a job needs are copied there
    from an object store, once, and checked; without, they are streamed.

    Example: `imgrec.load("flowers", image_size=224, batch_size=32, shuffle=True)`.
    """
    from imgrec.loaders.selection import select_records
    from imgrec.read.samples import read_image_range

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
        flip=flip,
        labels=cast("Labels", labels),
        balance=balance,
        cache=cache,
        drop_remainder=drop_remainder,
        shard=cast("tuple[int, int]", shard),
        skip_to=skip_to,
        as_dict=as_dict,
    )
    copies = parse_text("cache_dir", cache_dir)
    refuse_remote(copies, "cache_dir")
    folder = find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    selection, images = select_records(folder, split, options), read_image_range(folder)
    # Importing TensorFlow takes seconds, so wrong arguments are refused before.
    import_extra("tensorflow", extra="tfds", what="imgrec.load")
    from imgrec.loaders.tf_decode import Decoder
    from imgrec.loaders.tf_pipeline import Pipeline

    if copies and is_remote(folder):
        from imgrec.storage.remote.cache import Cache

        selection = selection.copied(Cache(str(folder), copies))
    shape = selection.features.image_shape
    decoder = Decoder(
        options=options, channels=options.channels or shape[2], shape=shape, images=images
    )
    return Pipeline(selection=selection, decoder=decoder, options=options).build()


@with_known_keywords
def class_weights(
    dataset: str | os.PathLike[str],
    split: str = "",
    *,
    data_dir: str | os.PathLike[str] = "",
) -> dict[int, float]:
    """Return the weight of each label in training, so that all classes count the same.

    `split` defaults to `train`, or to all folds if there is no `train`.

    Example: `model.fit(train, class_weight=imgrec.class_weights("flowers"))`.
    """
    from imgrec.loaders.selection import weigh_classes

    folder = find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    return weigh_classes(folder, split)


@with_known_keywords
def torch_dataset(
    dataset: str | os.PathLike[str] | Dataset,
    split: str = "train",
    *,
    transform: Transform | None = None,
    target_transform: Transform | None = None,
    image_size: int | Sequence[int] | None = None,
    decode_size: int | Sequence[int] | None = None,
    channels: int | None = None,
    exact: bool = False,
    orient: bool = False,
    labels: Labels | str = "auto",
    tensors: bool = False,
    as_dict: bool = False,
    data_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> TorchDataset:
    """Open a split as PyTorch's map-style dataset of images and labels.

    A transform gets a Pillow image, or a tensor if `tensors` is true. Without a transform, an image
    is a uint8 tensor, channels first. With `image_size` (height, width), images are resized first
    with an antialiased bilinear filter (`load` has that of `tf.image.resize`), and JPEGs are
    decoded at the smallest scale that covers it unless `exact` is true. `decode_size` only decodes
    at a smaller scale, for a transform that resizes itself. `channels` is 1, 3 or 4; by default, 1
    if all images are grey, else 3. `orient` rotates images by their EXIF orientation. With
    `labels="onehot"`, a target is a 0 or 1 for each class. With `as_dict`, samples are dicts of all
    features, as those of `load`.

    Example: `DataLoader(imgrec.torch_dataset("flowers", image_size=224), batch_size=32)`.
    """
    for name, function in (("transform", transform), ("target_transform", target_transform)):
        if function is not None and not callable(function):
            raise refusal(name, function, "give a function")
    import_extra("torch", extra="torch", what="torch_dataset")
    from imgrec.codec.decode import Decoding, parse_size
    from imgrec.loaders.torch import TorchDataset

    opened = _open(dataset, data_dir, cache_dir)
    decoding = Decoding(
        image_size=parse_size(image_size, "image_size"),
        decode_size=parse_size(decode_size, "decode_size"),
        channels=opened.info.channels if channels is None else channels,
        exact=exact,
        orient=orient,
    )
    return TorchDataset(
        opened,
        split,
        decoding,
        parse_word(Labels, "labels", labels),
        transform=transform,
        target_transform=target_transform,
        tensors=tensors,
        as_dict=parse_flag("as_dict", as_dict),
    )


@with_known_keywords
def torch_stream(
    dataset: str | os.PathLike[str] | Dataset,
    split: str = "train",
    *,
    shuffle: bool | int = False,
    seed: int = 0,
    batch_size: int = 1,
    rank: int | None = None,
    world_size: int | None = None,
    cache_dir: str | os.PathLike[str] = "",
    cache_bytes: int | str | None = None,
    transform: Transform | None = None,
    target_transform: Transform | None = None,
    image_size: int | Sequence[int] | None = None,
    decode_size: int | Sequence[int] | None = None,
    channels: int | None = None,
    exact: bool = False,
    orient: bool = False,
    labels: Labels | str = "auto",
    tensors: bool = False,
    as_dict: bool = False,
    data_dir: str | os.PathLike[str] = "",
) -> TorchStream:
    """Open a split as PyTorch's iterable dataset, which reads shards in large ranges.

    The order depends on seed, epoch and position alone. Ranks and workers share it: over all of
    them, each sample comes once in an epoch. All ranks have equally many samples, so up to
    `world_size - 1` samples from the start of the epoch come once more at its end. Call `set_epoch`
    before each epoch. The other arguments are those of `torch_dataset`.

    Example: `DataLoader(imgrec.torch_stream("flowers", image_size=224, shuffle=True,
    batch_size=32), batch_size=32, num_workers=2)`.
    """
    options = StreamOptions(
        shuffle=shuffle,
        seed=seed,
        batch_size=batch_size,
        rank=rank,
        world_size=world_size,
        cache_dir=parse_text("cache_dir", cache_dir),
        cache_bytes=cast("int", cache_bytes),
    )
    import_extra("torch", extra="torch", what="torch_stream")
    from imgrec.loaders.torch_streaming import TorchStream

    images = torch_dataset(
        _open(dataset, data_dir, options.cache_dir, options.cache_bytes),
        split,
        transform=transform,
        target_transform=target_transform,
        image_size=image_size,
        decode_size=decode_size,
        channels=channels,
        exact=exact,
        orient=orient,
        labels=labels,
        tensors=tensors,
        as_dict=as_dict,
    )
    return TorchStream(images, split, options)


@with_known_keywords
def grain_source(
    dataset: str | os.PathLike[str] | Dataset,
    split: str = "train",
    *,
    image_size: int | Sequence[int] | None = None,
    channels: int | None = None,
    exact: bool = False,
    orient: bool = False,
    labels: Labels | str = "auto",
    as_dict: bool = False,
    data_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> GrainSource:
    """Open a split as a random-access data source of Grain: `image` and `label` by number.

    The arguments are those of `torch_dataset`. Images are resized with Pillow's antialiased
    bilinear filter.

    Example: `grain.MapDataset.source(imgrec.grain_source("flowers", image_size=224)).batch(32)`.
    """
    from imgrec.codec.decode import Decoding, parse_size
    from imgrec.loaders.grain import GrainSource

    opened = _open(dataset, data_dir, cache_dir)
    decoding = Decoding(
        image_size=parse_size(image_size, "image_size"),
        channels=opened.info.channels if channels is None else channels,
        exact=exact,
        orient=orient,
    )
    kind = parse_word(Labels, "labels", labels)
    return GrainSource(opened, split, decoding, kind, as_dict=parse_flag("as_dict", as_dict))


def _open(
    dataset: str | os.PathLike[str] | Dataset,
    data_dir: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    cache_bytes: int | None = None,
) -> Dataset:
    from imgrec.read.dataset import Dataset, open_cached

    if isinstance(dataset, Dataset):
        if cache_dir:
            hint = "pass cache_dir to open_dataset instead"
            raise UsageError("cache_dir has no effect on a dataset that is open", hint=hint)
        return dataset
    folder = find_dataset(parse_text("dataset", dataset), parse_text("data_dir", data_dir))
    return open_cached(folder, parse_text("cache_dir", cache_dir), cache_bytes)


load.__doc__ = f"{load.__doc__}\n\n{listing_of(LoadOptions)}"
torch_stream.__doc__ = f"{torch_stream.__doc__}\n\n{listing_of(StreamOptions)}"
