"""Uncompressed pixels become PNGs of the same pixels."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sampling import examples

from imgrec.codec.image import pack_pixels
from imgrec.model import Pixels

sides = st.integers(1, 40)


@pytest.mark.parametrize(("channels", "is_planar"), [(1, False), (3, False), (3, True)])
@examples(60)
@given(sides, sides, st.randoms(use_true_random=False))
def test_pixels_come_back_unchanged(
    channels: int, is_planar: bool, height: int, width: int, noise: random.Random
) -> None:
    data = noise.randbytes(height * width * channels)
    packed = pack_pixels(data, Pixels("", 0, height, width, channels, is_planar))
    image = Image.open(io.BytesIO(packed.data))
    assert (image.format, image.mode) == ("PNG", "L" if channels == 1 else "RGB")
    assert image.size == (width, height)
    planes = b"".join(band.tobytes() for band in image.split())
    assert (planes if is_planar else image.tobytes()) == data
    assert (packed.shape, packed.format) == ((height, width, channels), "PNG")
    assert (packed.transcoded, packed.damaged) == ("", "")


def test_the_first_plane_is_red_and_rows_come_first() -> None:
    planes = bytes([1, 2, 3, 4, 5, 6]) + bytes([11, 12, 13, 14, 15, 16]) + bytes(range(21, 27))
    packed = pack_pixels(planes, Pixels("", 0, 2, 3, 3, is_planar=True))
    image = Image.open(io.BytesIO(packed.data))
    assert (image.getpixel((1, 0)), image.getpixel((0, 1))) == ((2, 12, 22), (4, 14, 24))
