"""Options for loading images from a packed dataset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated, TypeAlias

from imgrec.options.declaration import Bytes, Count, ImageSize, Kind, Positive, option, parsed
from imgrec.options.parsing import (
    OptionError,
    at_least,
    parse_number,
    parse_pair,
    parse_whole,
    refusal,
)

_DTYPES = ("uint8", "float16", "bfloat16", "float32", "float64")


class Crop(StrEnum):
    """Which part of an image is resized to `image_size`."""

    NONE = "none"
    """All of it; its proportions change."""
    CENTER = "center"
    """The largest part in the middle with the proportions of `image_size`."""
    RANDOM = "random"
    """A random part each time: 8 to 100 % of the area, stretched by 3/4 to 4/3 at most."""


class Labels(StrEnum):
    """The form of labels."""

    AUTO = "auto"
    """A number; or a 0 or 1 for each class, if images may have several labels."""
    ONEHOT = "onehot"
    """A 0 or 1 for each class (float32). Without a label, all are 0."""


def _parse_switch(name: str, value: object) -> bool | int:
    """Take True, False or a count."""
    return value if isinstance(value, bool) else int(at_least(0)(name, value))


def _parse_channels(name: str, value: object) -> int:
    channels = parse_whole(name, value)
    if channels not in (1, 3, 4):
        raise refusal(name, channels, "choose 1, 3 or 4")
    return channels


def _parse_scale(name: str, value: object) -> tuple[float, float]:
    hint = "give the new values of 0 and 255, such as (0, 1) or (-1, 1)"
    low, high = parse_pair(parse_number, name, value, hint)
    if low == high or not (isfinite(low) and isfinite(high)):
        raise refusal(name, value, hint)
    return low, high


def _parse_shard(name: str, value: object) -> tuple[int, int]:
    hint = "(i, n) is part i of n, with 0 <= i < n"
    index, count = parse_pair(parse_whole, name, value, hint)
    if not 0 <= index < count:
        raise refusal(name, value, hint)
    return index, count


Switch: TypeAlias = Annotated[bool | int, Kind(_parse_switch)]
Channels: TypeAlias = Annotated[int, Kind(_parse_channels)]
Scale: TypeAlias = Annotated[tuple[float, float], Kind(_parse_scale)]
ShardIndex: TypeAlias = Annotated[tuple[int, int], Kind(_parse_shard)]


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How `imgrec.load` decodes, shuffles and batches the records of a split."""

    image_size: ImageSize | None = option(None, "height and width; None keeps each image's size")
    channels: Channels | None = option(None, "1, 3 or 4; None is 1 if all images are grey, else 3")
    crop: Crop = option(Crop.NONE, "none, center or random: the part to resize to image_size")
    exact: bool = option(False, "decode JPEGs at full size before resizing")
    orient: bool = option(False, "rotate images by their EXIF orientation")
    flip: bool = option(False, "mirror half of the images, others in each epoch")
    labels: Labels = option(Labels.AUTO, "auto or onehot: a number, or a 0 or 1 for each class")
    batch_size: Positive | None = option(None, "None for single images")
    drop_remainder: bool = option(False, "leave out a last batch that is not full")
    shuffle: Switch = option(False, "a number is the size of the shuffle buffer, in records")
    repeat: Switch = option(False, "a number is how many times; True repeats forever")
    balance: bool = option(False, "draw all classes equally often")
    seed: int | None = option(None, "seed of shuffling, random crops and flips")
    scale: Scale | None = option(None, "the new values of 0 and 255, such as (0, 1)")
    dtype: str = option("", "type of the pixels; default: uint8, or float32 with scale")
    shard: ShardIndex | None = option(None, "(i, n) is part i of n, for one of n training jobs")
    as_dict: bool = option(False, "return dicts of all features")
    skip_to: Count = option(0, "batches to leave out at the start, which are not decoded")
    cache: bool = option(False, "decode once, before the first batch, and keep pixels in memory")

    def __post_init__(self) -> None:
        if self.crop is not Crop.NONE and self.image_size is None:
            raise OptionError("{0} needs {1}", "crop", "image_size")
        default = "uint8" if self.scale is None else "float32"
        object.__setattr__(self, "dtype", self.dtype or default)
        if self.dtype not in _DTYPES:
            raise refusal("dtype", self.dtype, f"choose from {', '.join(_DTYPES)}")
        if self.scale is not None and self.dtype == "uint8":
            raise OptionError("scaled images cannot be 'uint8'", hint="choose float32")
        if self.cache and self.crop is Crop.RANDOM:
            raise OptionError(
                "{0} keeps the same pixels for every epoch, and random crops differ",
                "cache",
                hint="choose another crop, or leave out {0}",
            )

        if self.skip_to and self.shuffle and self.seed is None:
            raise OptionError(
                "{0} needs {1} to continue a shuffled order", "skip_to", "seed",
                hint="give {1} from the start: without it, each run has another order",
            )  # fmt: skip

    @property
    def is_random(self) -> bool:
        """Return whether images differ from epoch to epoch."""
        return self.flip or self.crop is Crop.RANDOM

    @property
    def is_float(self) -> bool:
        """Return whether images are floats."""
        return self.dtype != "uint8"


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How `imgrec.torch_stream` orders and divides the records of a split."""

    shuffle: Switch = option(False, "a number is how many records are mixed at least")
    seed: Count = option(0, "seed of shuffling; the same for all ranks")
    batch_size: Positive = option(1, "that of the DataLoader: its workers take turns by batches")
    rank: Count | None = option(None, "default: from torch.distributed, or $RANK")
    world_size: Positive | None = option(None, "default: from torch.distributed, or $WORLD_SIZE")
    cache_dir: str = option("", "keep shards of an object store here, and check them")
    cache_bytes: Bytes | None = option(None, "the most that cache_dir holds; default: no limit")

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world_size is None):
            raise OptionError("{0} and {1} go together", "rank", "world_size")
        if self.cache_bytes is not None and not self.cache_dir:
            raise OptionError("{0} needs {1}", "cache_bytes", "cache_dir")
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise OptionError(
                f"{{0}} {self.rank} does not fit {{1}} {self.world_size}",
                "rank",
                "world_size",
                hint="count ranks from 0",
            )
