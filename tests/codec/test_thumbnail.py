"""Small versions of pictures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from pictures import encode
from PIL import Image, ImageOps

from imgrec.codec.decode import encode_thumbnail, rough_thumbnail, thumbnail
from imgrec.errors import BadImage
from imgrec.model import Pixels

if TYPE_CHECKING:
    from PIL.Image import Exif


def wide() -> Image.Image:
    """Red left, blue right, and brighter further down."""
    level = Image.linear_gradient("L").resize((160, 160)).point(lambda value: value * 5 // 8)
    black = Image.new("L", level.size)
    picture = Image.new("RGB", (320, 160))
    picture.paste(Image.merge("RGB", (level, black, black)), (0, 0))
    picture.paste(Image.merge("RGB", (black, black, level)), (160, 0))
    return picture


def exif(orientation: int) -> Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def mean_difference(one: Image.Image, other: Image.Image) -> float:
    assert (one.mode, one.size) == (other.mode, other.size)
    pairs = zip(one.tobytes(), other.tobytes(), strict=True)
    return sum(abs(a - b) for a, b in pairs) / len(one.tobytes())


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
def test_a_thumbnail_is_the_picture_made_smaller(image_format: str) -> None:
    small = thumbnail(encode(wide(), image_format), "a", 64)
    assert mean_difference(small, wide().resize((64, 32), Image.Resampling.LANCZOS)) < 4


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_thumbnail_is_upright(orientation: int, image_format: str) -> None:
    data = encode(wide(), image_format, exif=exif(orientation))
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    shown.thumbnail((64, 64))
    assert mean_difference(thumbnail(data, "a", 64), shown) < 4


def test_small_transparent_deep_and_bare_pictures_have_one_too() -> None:
    assert thumbnail(encode(wide(), "PNG"), "a", 1000).size == (320, 160)
    clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    assert thumbnail(encode(clear, "PNG"), "a", 8).getpixel((0, 0)) == (255, 255, 255)
    grey = Image.new("I;16", (8, 8), 0x8040)
    assert thumbnail(encode(grey, "PNG"), "a", 8).getpixel((0, 0)) == (128, 128, 128)
    blob = Pixels("digits", 0, 2, 2, 1, is_planar=False)
    assert thumbnail(bytes([9] * 4), "a", 8, blob).getpixel((1, 1)) == (9, 9, 9)


@pytest.mark.parametrize("data", [b"", b"text", encode(wide(), "PNG")[:200], b"\xff\xd8\xff"])
def test_a_file_that_is_not_a_picture_has_none(data: bytes) -> None:
    with pytest.raises(BadImage):
        thumbnail(data, "a", 64)


def test_a_thumbnail_of_any_picture_is_a_small_jpeg() -> None:
    data = encode_thumbnail(thumbnail(encode(wide(), "PNG"), "a", 96))
    assert Image.open(io.BytesIO(data)).size == (96, 48)
    assert len(data) < 3000


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("side", [20, 64, 100, 160, 1000])
def test_a_rough_thumbnail_is_the_picture_of_about_that_size(
    side: int, orientation: int, image_format: str
) -> None:
    data = encode(wide(), image_format, exif=exif(orientation))
    small = Image.open(io.BytesIO(rough_thumbnail(data, "a", side))).convert("RGB")
    assert min(side, 320) <= max(small.size) <= 2 * side
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert mean_difference(small, shown.resize(small.size, Image.Resampling.LANCZOS)) < 5
