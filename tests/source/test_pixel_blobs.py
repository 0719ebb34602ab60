"""Uncompressed pixels become PNGs of the same pixels."""

from __future__ import annotations

import io
import random

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imgrec.codec.image import pack_pixels
from imgrec.model import Pixels

sides = st.integers(1, 40)


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    assert image.format == "PNG"
    return image


@given(sides, sides, st.randoms(use_true_random=False))
def test_grey_pixels_come_back_as_they_were(height: int, width: int, noise: random.Random) -> None:
    data = noise.randbytes(height * width)
    packed = pack_pixels(data, Pixels("", 0, height, width, 1, is_planar=False))
    image = opened(packed.data)
    assert (image.mode, image.size, image.tobytes()) == ("L", (width, height), data)
    assert (packed.shape, packed.format) == ((height, width, 1), "PNG")


@given(sides, sides, st.randoms(use_true_random=False))
def test_colours_pixel_by_pixel_come_back_as_they_were(
    height: int, width: int, noise: random.Random
) -> None:
    data = noise.randbytes(height * width * 3)
    packed = pack_pixels(data, Pixels("", 0, height, width, 3, is_planar=False))
    image = opened(packed.data)
    assert (image.mode, image.size, image.tobytes()) == ("RGB", (width, height), data)
    assert (packed.shape, packed.format) == ((height, width, 3), "PNG")


@given(sides, sides, st.randoms(use_true_random=False))
def test_colours_plane_by_plane_come_back_as_they_were(
    height: int, width: int, noise: random.Random
) -> None:
    planes = [noise.randbytes(height * width) for _ in range(3)]
    packed = pack_pixels(b"".join(planes), Pixels("", 0, height, width, 3, is_planar=True))
    image = opened(packed.data)
    assert (image.mode, image.size) == ("RGB", (width, height))
    assert [band.tobytes() for band in image.split()] == planes
    assert packed.shape == (height, width, 3)


def test_the_first_plane_is_red_and_rows_come_first() -> None:
    planes = bytes([1, 2, 3, 4, 5, 6]) + bytes([11, 12, 13, 14, 15, 16]) + bytes(range(21, 27))
    packed = pack_pixels(planes, Pixels("", 0, 2, 3, 3, is_planar=True))
    assert opened(packed.data).getpixel((1, 0)) == (2, 12, 22)
    assert opened(packed.data).getpixel((0, 1)) == (4, 14, 24)


def test_a_packed_image_is_not_called_re_encoded() -> None:
    packed = pack_pixels(bytes(6), Pixels("", 0, 2, 3, 1, is_planar=False))
    assert (packed.transcoded, packed.damaged) == ("", "")
