"""How images come out of a packed dataset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Annotated

from imgrec.errors import UsageError
from imgrec.options.parsing import (
    parse_number,
    parse_pair,
    parse_size,
    parse_whole,
    parsed,
    refusal,
)

_DTYPES = ("uint8", "float16", "bfloat16", "float32", "float64")


class Crop(StrEnum):
    """Which part of an image is resized to the size asked for."""

    NONE = "none"
    """All of it; its proportions change."""
    CENTER = "center"
    """The largest part in the middle that has the proportions asked for."""
    RANDOM = "random"
    """Another part each time: 8 to 100 % of the area, stretched by 3/4 to 4/3 at most."""


def _parse_switch(name: str, value: object) -> bool | int:
    """Take True, False or how much."""
    return value if isinstance(value, bool) else parse_whole(name, value)


def _parse_scale(name: str, value: object) -> tuple[float, float] | None:
    hint = "say what 0 and 255 become, such as (0, 1) or (-1, 1)"
    if value is None:
        return None
    low, high = parse_pair(parse_number, name, value, hint)
    if low == high or not (isfinite(low) and isfinite(high)):
        raise refusal(name, value, hint)
    return low, high


def _parse_shard(name: str, value: object) -> tuple[int, int] | None:
    hint = "(i, n) is part i of n, with 0 <= i < n"
    if value is None:
        return None
    index, count = parse_pair(parse_whole, name, value, hint)
    if not 0 <= index < count:
        raise refusal(name, value, hint)
    return index, count


@parsed
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What `imgrec.load` makes of the records of a split."""

    image_size: Annotated[tuple[int, int] | None, parse_size] = None
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
    shuffle: Annotated[bool | int, _parse_switch] = False
    """A number is how many records the shuffle buffer holds."""
    repeat: Annotated[bool | int, _parse_switch] = False
    """A number is how many times; True is for ever."""
    balance: bool = False
    seed: int | None = None
    scale: Annotated[tuple[float, float] | None, _parse_scale] = None
    """What 0 and 255 become."""
    dtype: str = ""
    """Of the images: uint8 unless they are scaled, then float32."""
    shard: Annotated[tuple[int, int] | None, _parse_shard] = None
    """(i, n) is part i of n, for job i of n that train together."""
    as_dict: bool = False
    cache: bool = False
    """Decode once, before the first batch, and keep the pixels in memory."""

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("repeat", 0), ("shuffle", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                hint = "leave it out for single images" if least else "give a whole number"
                raise refusal(name, value, hint)
        if self.channels not in (None, 1, 3, 4):
            raise UsageError(f"channels cannot be {self.channels!r}", hint="choose 1, 3 or 4")
        if self.crop is not Crop.NONE and self.image_size is None:
            raise UsageError(f"crop={self.crop!s} needs a size to crop to", hint="give image_size")
        default = "uint8" if self.scale is None else "float32"
        object.__setattr__(self, "dtype", self.dtype or default)
        if self.dtype not in _DTYPES or (self.scale is not None and self.dtype == "uint8"):
            raise UsageError(
                f"images cannot be {self.dtype!r}{' and scaled' * (self.scale is not None)}",
                hint=f"choose from {', '.join(_DTYPES)}; scaled ones are floats",
            )
        if self.cache and (self.crop is Crop.RANDOM or self.image_size is None):
            raise UsageError(
                "cache keeps images of one size, and the same ones in every epoch",
                hint="give image_size, and no random crop",
            )

    @property
    def is_float(self) -> bool:
        """Tell whether images come out as floats."""
        return self.dtype != "uint8"
