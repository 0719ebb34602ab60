"""How images come out of a packed dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from imgrec.errors import UsageError
from imgrec.options.choices import choose

_DTYPES = ("uint8", "float16", "bfloat16", "float32", "float64")


class Crop(StrEnum):
    """Which part of an image is resized to the size asked for."""

    NONE = "none"
    """All of it; its proportions change."""
    CENTER = "center"
    """The largest part in the middle that has the proportions asked for."""
    RANDOM = "random"
    """Another part each time: 8 to 100 % of the area, stretched by 3/4 to 4/3 at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What `imgrec.load` makes of the records of a split."""

    image_size: tuple[int, int] | None = None
    """Height and width; None leaves the images as large as they are."""
    channels: int | None = None
    """1, 3 or 4; None is 1 where all images are grey, else 3."""
    crop: Crop = Crop.NONE
    exact: bool = False
    """Decode at full size, then resize, though a smaller decode would do."""
    orient: bool = False
    """Turn images as their EXIF orientation says."""
    batch_size: int | None = None
    drop_remainder: bool = False
    shuffle: bool | int = False
    """A number is how many records the shuffle buffer holds."""
    repeat: bool | int = False
    """A number is how many times; True is for ever."""
    balance: bool = False
    seed: int | None = None
    scale: tuple[float, float] | None = None
    """What 0 and 255 become."""
    dtype: str = ""
    """Of the images: uint8 unless they are scaled, then float32."""
    shard: tuple[int, int] | None = None
    """(i, n) is part i of n, for job i of n that train together."""
    as_dict: bool = False
    cache: bool = False
    """Decode once, before the first batch, and keep the pixels in memory."""

    def __post_init__(self) -> None:
        choose(self, {"crop": Crop})
        if self.image_size is not None:
            object.__setattr__(self, "image_size", _size(self.image_size))
        for name in ("batch_size", "repeat", "shuffle"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 0):
                raise UsageError(f"{name} cannot be {value!r}", hint="give a whole number")
        if self.batch_size == 0 and self.batch_size is not None:
            raise UsageError("batch_size cannot be 0", hint="leave it out for single images")
        if self.channels not in (None, 1, 3, 4):
            raise UsageError(f"channels cannot be {self.channels!r}", hint="choose 1, 3 or 4")
        if self.crop is not Crop.NONE and self.image_size is None:
            raise UsageError(f"crop={self.crop!s} needs a size to crop to", hint="give image_size")
        if self.scale is not None:
            object.__setattr__(self, "scale", _pair(self.scale))
        default = "uint8" if self.scale is None else "float32"
        object.__setattr__(self, "dtype", self.dtype or default)
        if self.dtype not in _DTYPES or (self.scale is not None and self.dtype == "uint8"):
            raise UsageError(
                f"images cannot be {self.dtype!r}{' and scaled' * (self.scale is not None)}",
                hint=f"choose from {', '.join(_DTYPES)}; scaled ones are floats",
            )
        if self.shard is not None:
            _refuse_no_part(self.shard)
        if self.cache and (self.crop is Crop.RANDOM or self.image_size is None):
            raise UsageError(
                "cache keeps images of one size, and the same ones in every epoch",
                hint="give image_size, and no random crop",
            )

    @property
    def is_float(self) -> bool:
        """Tell whether images come out as floats."""
        return self.dtype != "uint8"


def _size(value: object) -> tuple[int, int]:
    """Take 224 or (224, 224)."""
    sides = (value, value) if isinstance(value, int) else value
    if isinstance(sides, Sequence) and len(sides) == 2:
        height, width = sides
        if isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0:
            return height, width
    raise UsageError(
        f"image_size cannot be {value!r}", hint="give height and width, such as (224, 224)"
    )


def _pair(value: object) -> tuple[float, float]:
    if isinstance(value, Sequence) and len(value) == 2:
        low, high = value
        if isinstance(low, int | float) and isinstance(high, int | float) and low != high:
            return float(low), float(high)
    raise UsageError(
        f"scale cannot be {value!r}", hint="say what 0 and 255 become, such as (0, 1) or (-1, 1)"
    )


def _refuse_no_part(shard: object) -> None:
    if isinstance(shard, Sequence) and len(shard) == 2:
        index, count = shard
        if isinstance(index, int) and isinstance(count, int) and 0 <= index < count:
            return
    raise UsageError(f"shard cannot be {shard!r}", hint="(i, n) is part i of n, with 0 <= i < n")
