"""Signatures and tones of pictures: what changes them, and what does not."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import encode, picture, png_of
from PIL import Image, ImageOps
from sampling import some_of

from imgrec.codec import descriptor, jpeg
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.near.search import DISTANCE, Search, find_pairs

GOLDEN = (
    "91c1e6e825d82a9081c0fcefd11fe2aa9c1527fc2af3e1c5f43b422217142fde"
    "fa4be8c4dacdd9ece827c8c22535350af425cc504ce5cf16da12d33bc3b0ea8080"
)
FLOWERS = [
    path
    for path in sorted((ROOT / "sample_data" / "flowers").glob("*/*"))
    if path.name not in (".DS_Store", "half_downloaded.jpg")
]


def signature(data: bytes) -> bytes:
    return descriptor.encode([descriptor.sketch(data, "")])


def distance(one: bytes, other: bytes) -> tuple[float, bool] | None:
    """How far two images are apart, and whether one is mirrored; None if they are not alike."""
    pairs = find_pairs(Search(signature(one), others=signature(other)))
    return (pairs[0].distance, pairs[0].is_mirrored) if pairs else None


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def resized(image: Image.Image, scale: float) -> Image.Image:
    size = round(image.width * scale), round(image.height * scale)
    return image.resize(size, Image.Resampling.LANCZOS)


def drawn(width: int = 96, height: int = 80) -> Image.Image:
    """A picture with details of many sizes."""
    return picture(3, size=(12, 10)).resize((width, height), Image.Resampling.BICUBIC)


def test_the_signature_of_given_pixels_is_always_the_same() -> None:
    pixels = bytes((x * x + 3 * y * y + x * y * 5) % 251 for y in range(12) for x in range(16))
    blob = Pixels("", 0, 12, 16, 1, is_planar=False)
    assert descriptor.encode([descriptor.sketch_pixels(pixels, blob)]).hex() == GOLDEN


def test_all_flowers_can_be_told_apart_but_for_the_copy() -> None:
    found = find_pairs(Search(b"".join(signature(path.read_bytes()) for path in FLOWERS)))
    pairs = [(FLOWERS[pair.first].name, FLOWERS[pair.second].name) for pair in found]
    assert pairs == [("rose_01 (copy).jpg", "rose_01.jpg")]


CHANGES: dict[str, Callable[[Image.Image], bytes]] = {
    "quality 95": lambda image: encode(image, "JPEG", quality=95),
    "quality 75": lambda image: encode(image, "JPEG", quality=75),
    "quality 50": lambda image: encode(image, "JPEG", quality=50),
    "PNG": lambda image: encode(image, "PNG"),
    "GIF": lambda image: encode(image, "GIF"),
    "a quarter": lambda image: encode(resized(image, 0.25), "PNG"),
    "a half": lambda image: encode(resized(image, 0.5), "PNG"),
    "three quarters": lambda image: encode(resized(image, 0.75), "JPEG", quality=85),
    "twice": lambda image: encode(resized(image, 2), "PNG"),
    "a square": lambda image: encode(image.resize((224, 224)), "JPEG", quality=85),
    "grey": lambda image: encode(image.convert("L"), "PNG"),
    "darker": lambda image: encode(image.point(lambda level: level * 0.7), "PNG"),
    "mirrored": lambda image: encode(ImageOps.mirror(image), "PNG"),
    "mirrored, a half": lambda image: encode(
        ImageOps.mirror(resized(image, 0.5)), "JPEG", quality=75
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_flower_is_like_itself_in_another_form(change: str) -> None:
    flowers = some_of([path for path in FLOWERS if path.name != "rose_01.jpg"], 15)
    originals = b"".join(signature(path.read_bytes()) for path in flowers)
    changed = b"".join(signature(CHANGES[change](opened(path))) for path in flowers)
    found = find_pairs(Search(changed, others=originals))
    assert [pair.first for pair in found if pair.first == pair.second] == [*range(len(flowers))]
    assert max(pair.distance for pair in found) <= DISTANCE


@given(seed=st.integers(0, 99), width=st.integers(16, 60), height=st.integers(16, 60))
def test_a_mirrored_picture_is_at_distance_zero(seed: int, width: int, height: int) -> None:
    image = picture(seed, size=(width, height))
    mirrored = ImageOps.mirror(image)
    if signature(encode(image, "PNG")) != descriptor.FLAT:
        assert distance(encode(image, "PNG"), encode(mirrored, "PNG")) == (0, True)


@given(seed=st.integers(0, 99))
def test_different_pictures_are_not_alike(seed: int) -> None:
    assert distance(encode(picture(seed), "PNG"), encode(picture(seed + 1), "PNG")) is None


def test_a_large_jpeg_is_like_its_png() -> None:
    image = drawn(700, 500)
    assert distance(encode(image, "JPEG", quality=90), encode(image, "PNG")) is not None


@pytest.mark.parametrize("size", [(600, 801), (257, 263), (1031, 259), (129, 64), (40, 33)])
def test_sizes_that_no_scale_divides_make_no_difference(size: tuple[int, int]) -> None:
    found = distance(encode(drawn(*size), "JPEG", quality=92), encode(drawn(960, 720), "PNG"))
    assert found is not None
    assert found[0] < 2


def test_the_output_of_a_check_makes_the_same_signature_unless_it_is_too_small() -> None:
    data = encode(drawn(403, 301), "JPEG", quality=90)
    grey, fault = jpeg.strict_decode(data)
    assert not fault
    checked = descriptor.encode([descriptor.sketch_checked(grey, data, (301, 403, 3))])
    found = find_pairs(Search(checked, others=signature(data)))
    assert [pair.distance for pair in found] == pytest.approx([0], abs=0.1)
    data = encode(drawn(403, 255), "JPEG")
    assert descriptor.sketch_checked(jpeg.strict_decode(data)[0], data, (255, 403, 3)) is None


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_every_kind_of_pixels_is_like_its_rgb(mode: str) -> None:
    image = drawn()
    if mode == "I;16":
        other = image.convert("L").convert("I").point(lambda level: level * 257).convert("I;16")
    else:
        other = image.convert("RGBA").convert(mode) if mode == "LA" else image.convert(mode)
    data = encode(other, "TIFF" if mode == "CMYK" else "PNG")
    found = distance(encode(image, "PNG"), data)
    assert found is not None
    assert found[0] < 1


@pytest.mark.parametrize("turn", [2, 3, 4, 5, 6, 7, 8])
def test_a_picture_turned_by_a_tag_is_like_the_upright_one(turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    data = encode(drawn(320, 270), "JPEG", quality=92, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    found = distance(data, encode(upright, "PNG"))
    assert found is not None
    assert found[1] is False


def gradient(width: int = 64, height: int = 48) -> Image.Image:
    return Image.linear_gradient("L").resize((width, height))


@pytest.mark.parametrize(
    "image",
    [
        Image.new("RGB", (64, 48), "white"),
        Image.new("L", (300, 300), 7),
        gradient(),
        gradient(200, 300).rotate(90),
        Image.radial_gradient("L").resize((64, 48)),
        Image.new("L", (1, 1)),
    ],
    ids=["white", "grey", "gradient", "turned gradient", "spot of light", "one pixel"],
)
def test_a_picture_with_hardly_anything_in_it_is_flat(image: Image.Image) -> None:
    assert signature(encode(image, "PNG")) == descriptor.FLAT
    assert find_pairs(Search(3 * descriptor.FLAT)) == []


def test_a_picture_in_other_colours_is_not_alike() -> None:
    red, green, blue = drawn().split()
    other = Image.merge("RGB", (blue.point(lambda level: 0), red, green))
    grey = drawn().convert("L")
    tinted = Image.merge("RGB", (grey, grey.point(lambda level: level // 3), grey))
    assert distance(encode(grey, "PNG"), encode(tinted, "PNG")) is not None  # grey is any colour
    assert distance(encode(drawn(), "PNG"), encode(other, "PNG")) is None
    orange = Image.merge(
        "RGB", (grey, grey.point(lambda level: level // 2), Image.new("L", grey.size))
    )
    assert distance(encode(orange, "PNG"), encode(tinted, "PNG")) is None


def test_pixels_of_an_array_are_like_the_png_they_become() -> None:
    image = drawn(32, 32)
    planes = b"".join(band.tobytes() for band in image.split())
    blob = Pixels("", 0, 32, 32, 3, is_planar=True)
    raw = descriptor.encode([descriptor.sketch_pixels(planes, blob)])
    assert raw == signature(encode(image, "PNG"))


def test_sketches_are_encoded_one_after_another_and_a_missing_one_is_flat() -> None:
    one, other = (
        descriptor.sketch(encode(drawn(*size), "PNG"), "") for size in ((90, 70), (70, 90))
    )
    assert descriptor.encode([one, None, other]) == (
        descriptor.encode([one]) + descriptor.FLAT + descriptor.encode([other])
    )
    assert descriptor.encode([]) == b""


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_tone_is_the_mean_and_twice_the_deviation_of_all_levels(mode: str) -> None:
    levels = np.asarray(picture(1, mode))
    expected = round(float(levels.mean())), round(2 * float(levels.std()))
    assert tuple(descriptor.tone(levels)) == expected
    assert descriptor.tone(None) == descriptor.UNKNOWN_TONE
    assert descriptor.join_tones([descriptor.UNKNOWN_TONE] * 2) == b""
    assert len(descriptor.join_tones([descriptor.tone(levels), descriptor.tone(None)])) == 4
    half = np.array([0, 255] * 8, np.uint8)
    assert tuple(descriptor.tone(half)) == (128, 254)  # 255 stands for an unknown tone


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"no image at all", b"\xff\xd8\xff\xd9", png_of(60_000, 60_000, b"")),
        *(encode(drawn(), kind)[:-400] for kind in ("JPEG", "PNG")),
    ],
    ids=["nothing", "text", "empty JPEG", "bomb", "cut JPEG", "cut PNG"],
)
def test_what_cannot_be_decoded_is_a_bad_image(data: bytes) -> None:
    with pytest.raises(BadImage):
        descriptor.sketch(data, "a.jpg")
