"""Decoding to the size, channels and orientation that a reader asks for."""

from __future__ import annotations

import io
import itertools
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pictures import encode, jpeg, picture, png
from PIL import Image, ImageDraw, ImageOps

from imgrec.codec import exif
from imgrec.codec.decode import Decoding, decode_covering, parse_size, resize
from imgrec.errors import UsageError

Pixels = NDArray[np.uint8]
sides = st.integers(1, 200)


def scene(size: tuple[int, int]) -> Image.Image:
    """Draw what is hard to scale: edges, thin lines and noise over a smooth picture."""
    made = picture(1, "RGB", size)
    draw = ImageDraw.Draw(made)
    chance = random.Random(0)
    for _ in range(60):
        corners = [chance.randrange(size[0]), chance.randrange(size[1])] * 2
        corners[2] += chance.randrange(5, 200)
        corners[3] += chance.randrange(5, 200)
        colour = tuple(chance.randbytes(3))
        chance.choice([draw.rectangle, draw.ellipse, draw.line])(corners, fill=colour)
    noise = Image.effect_noise(size, 40).convert("RGB")
    return Image.blend(made, noise, 0.15)


def decode_for(data: bytes, decoding: Decoding) -> Pixels:
    array = decode_covering(data, decoding)
    return resize(array, decoding.image_size) if decoding.image_size else array


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def with_orientation(orientation: int, image_format: str = "JPEG") -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return encode(picture(3, "RGB", (40, 24)), image_format, exif=tags.tobytes())


# The scale.


@given(sides, sides, st.integers(1, 100), st.integers(1, 100))
@example(1, 1, 1, 1)
def test_a_scaled_jpeg_covers_what_was_asked_for_and_half_of_it_would_not(
    height: int, width: int, least_height: int, least_width: int
) -> None:
    data = jpeg(0, (width, height))
    array = decode_covering(data, Decoding(image_size=(least_height, least_width)))
    scale = next(s for s in (1, 2, 4, 8) if array.shape == (-(-height // s), -(-width // s), 3))
    if scale > 1:
        assert array.shape[0] >= least_height
        assert array.shape[1] >= least_width
    if scale < 8 and min(height, width) > scale:
        half = -(-height // (2 * scale)), -(-width // (2 * scale))
        assert half[0] < least_height or half[1] < least_width


@pytest.mark.parametrize("cover", [(200, 200), (140, 250), (40, 30)])
def test_a_scaled_decode_is_the_mean_of_the_pixels(cover: tuple[int, int]) -> None:
    data = encode(scene((800, 640)), "JPEG", quality=92)
    scaled = decode_covering(data, Decoding(image_size=cover))
    whole = decode_covering(data, Decoding())
    side = whole.shape[0] // scaled.shape[0]
    assert side in (2, 4, 8)
    height, width, _ = scaled.shape
    mean = whole.reshape(height, side, width, side, 3).mean((1, 3))
    assert difference(scaled, mean.round().astype(np.uint8)) < 1.5


@pytest.mark.parametrize("size", [(224, 224), (96, 96), (100, 60), (37, 51)])
def test_shape_aware_pixels_differ_from_exact_ones_by_little(size: tuple[int, int]) -> None:
    data = encode(scene((1000, 750)), "JPEG", quality=92)
    scaled = decode_for(data, Decoding(image_size=size))
    exact = decode_for(data, Decoding(image_size=size, exact=True))
    assert scaled.shape == exact.shape == (*size, 3)
    assert 0 < difference(scaled, exact) < 1.5


def test_exact_is_a_full_decode_and_a_resize_by_pillow() -> None:
    data = encode(scene((500, 375)), "JPEG")
    whole = Image.open(io.BytesIO(data))
    exact = decode_for(data, Decoding(image_size=(48, 64), exact=True))
    assert np.array_equal(exact, np.asarray(whole.resize((64, 48), Image.Resampling.BILINEAR)))
    # A JPEG that would not cover the size at half of its own is decoded in full, too.
    covering = decode_covering(data, Decoding(image_size=(224, 224)))
    assert np.array_equal(covering, np.asarray(whole))


@pytest.mark.parametrize(
    ("data", "decoding", "decoded", "resized"),
    [
        (png(0, (80, 60)), Decoding(image_size=(8, 8)), (60, 80, 3), (8, 8, 3)),
        (jpeg(0, (24, 16)), Decoding(image_size=(64, 64)), (16, 24, 3), (64, 64, 3)),
        (jpeg(0, (800, 600)), Decoding(decode_size=(140, 140)), (150, 200, 3), (150, 200, 3)),
    ],
    ids=["PNG", "enlarged", "proportions stay"],
)
def test_a_picture_is_decoded_no_larger_than_needed_and_then_resized(
    data: bytes, decoding: Decoding, decoded: tuple[int, ...], resized: tuple[int, ...]
) -> None:
    assert decode_covering(data, decoding).shape == decoded
    assert decode_for(data, decoding).shape == resized


def test_transparent_colours_do_not_shine_through_when_resized() -> None:
    array = np.zeros((8, 8, 4), np.uint8)
    array[:, :4] = (255, 0, 0, 0)  # red that is not to be seen
    array[:, 4:] = (0, 0, 255, 255)
    assert resize(array, (3, 3))[:, :, 0].max() == 0


# Channels.


PICTURES = {f"PNG {m}": png(5, mode=m) for m in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")}
PICTURES |= {f"JPEG {m}": jpeg(5, mode=m) for m in ("L", "RGB", "CMYK")}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_of_any_mode_has_the_channels_asked_for(kind: str) -> None:
    for channels, size in itertools.product((1, 3, 4), (None, (4, 6), (5, 7))):
        array = decode_for(PICTURES[kind], Decoding(channels=channels, image_size=size))
        assert (array.shape, array.dtype) == ((*(size or (16, 24)), channels), np.uint8)


def test_sixteen_bits_become_the_upper_eight() -> None:
    data = png(5, mode="I;16")
    upper = np.asarray(Image.open(io.BytesIO(data))) >> 8
    array = decode_for(data, Decoding(channels=3))
    assert all(np.array_equal(array[:, :, channel], upper) for channel in range(3))


def test_alpha_is_dropped_and_not_blended() -> None:
    data = png(5, mode="RGBA")
    expected = np.asarray(Image.open(io.BytesIO(data)))[:, :, :3]
    assert np.array_equal(decode_for(data, Decoding(channels=3)), expected)


# Orientation.


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orient_turns_a_picture_as_pillow_does(orientation: int, image_format: str) -> None:
    data = with_orientation(orientation, image_format)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert np.array_equal(decode_for(data, Decoding(orient=True)), np.asarray(expected))


def test_orient_decides_whether_the_size_is_that_of_the_upright_picture() -> None:
    assert decode_for(with_orientation(6), Decoding()).shape == (24, 40, 3)
    upright = decode_covering(with_orientation(6), Decoding(orient=True, image_size=(20, 12)))
    assert upright.shape == (20, 12, 3)


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_invalid_orientation_is_upright(value: int) -> None:
    assert exif.orientation(with_orientation(value)) == exif.UPRIGHT


# Wrong use.


@pytest.mark.parametrize("value", [0, -1, (224,), (224, 0), (1, 2, 3), "224x224", 10**6, 1.5])
def test_a_size_that_cannot_be_is_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(value, "image_size")  # type: ignore[arg-type]
    assert caught.value.message == f"image_size cannot be {value!r}"
    is_too_large = value == 10**6
    assert caught.value.hint == (
        "no more than 89,478,485 pixels"
        if is_too_large
        else "give one number, or height and width, such as image_size=(192, 256)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 0}, "channels must be 1, 3 or 4, not 0"),
        ({"channels": 2}, "channels must be 1, 3 or 4, not 2"),
        ({"channels": "RGB"}, "channels cannot be 'RGB'"),
        ({"decode_size": 8, "image_size": 8}, "decode_size and image_size exclude each other"),
        ({"decode_size": 8, "exact": True}, "decode_size and exact exclude each other"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Decoding(**options)  # type: ignore[arg-type]
