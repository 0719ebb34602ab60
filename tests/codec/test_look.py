"""Looks and tones of pictures: what changes them, and what does not."""

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
from PIL import Image, ImageDraw, ImageOps
from sampling import some_of

from imgrec.codec import jpeg, tone
from imgrec.codec.look import (
    Look,
    look,
    look_at_checked,
    look_at_pixels,
)
from imgrec.errors import BadImage
from imgrec.model import Pixels
from imgrec.near.clusters import ALIKE, LEAST_ALIKE
from imgrec.near.descriptor import CLOSE_BYTES, DESCRIPTOR_BYTES, FLAT, describe
from imgrec.near.duplicates import Images, Pair, Sight, confirmed, find_among
from imgrec.near.search import Candidates

GOLDEN_LOOK = "000419316490e10110245179c4010f234f76c0a7"
GOLDEN = "dadae0f801d6e602fb03ebec04feff00070eff080f19100601"
FLOWERS = [
    path
    for path in sorted((ROOT / "sample_data" / "flowers").glob("*/*"))
    if path.name not in (".DS_Store", "half_downloaded.jpg", "rose_01 (copy).jpg")
]


def sight(images: list[bytes]) -> Sight:
    return Sight(
        lambda places: b"".join([look(images[place], "").close for place in places]),
        lambda places: b"".join([look(images[place], "").grey for place in places]),
    )


def alike(one: bytes, other: bytes, *, is_mirrored: bool = False, wanted: int = LEAST_ALIKE) -> int:
    """How much two images are alike, in per cent; 0 below what is wanted."""
    columns = (np.array([value], np.int32) for value in (0, 1, 0, is_mirrored))
    own = sight([one, other]), None
    pairs = confirmed(Candidates(*columns), wanted, map, own)  # type: ignore[arg-type]
    return pairs[0].alike if pairs else 0


def found_among(some: list[bytes], others: list[bytes]) -> list[Pair]:
    """The near-duplicates of some images among others."""
    one, two = (
        Images([""] * len(files), files, describe([look(data, "").grey for data in files]))
        for files in (some, others)
    )
    return find_among(one, two, ALIKE, map, (sight(some), sight(others)))  # type: ignore[arg-type]


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def drawn(width: int = 96, height: int = 80) -> Image.Image:
    """A picture with details of many sizes."""
    return picture(3, size=(12, 10)).resize((width, height), Image.Resampling.BICUBIC)


def test_the_descriptor_of_given_pixels_is_always_the_same() -> None:
    pixels = bytes((x * x + 3 * y * y + x * y * 5) % 251 for y in range(12) for x in range(16))
    seen = look_at_pixels(pixels, Pixels("", 0, 12, 16, 1, is_planar=False))
    assert seen.grey[:96:5].hex() == GOLDEN_LOOK
    assert describe([seen.grey])[::8].hex() == GOLDEN


def resized(image: Image.Image, scale: float) -> Image.Image:
    size = round(image.width * scale), round(image.height * scale)
    return image.resize(size, Image.Resampling.LANCZOS)


def framed(image: Image.Image) -> Image.Image:
    return ImageOps.expand(image, 10, "white")


CHANGES: dict[str, Callable[[Image.Image], bytes]] = {
    "quality 50": lambda image: encode(image, "JPEG", quality=50),
    "GIF": lambda image: encode(image, "GIF"),
    "a half": lambda image: encode(resized(image, 0.5), "PNG"),
    "twice": lambda image: encode(resized(image, 2), "PNG"),
    "a wide one": lambda image: encode(image.resize((224, 150)), "JPEG", quality=85),
    "grey": lambda image: encode(image.convert("L"), "PNG"),
    "darker": lambda image: encode(image.point(lambda level: level * 0.6), "PNG"),
    "a negative": lambda image: encode(ImageOps.invert(image), "PNG"),
    "mirrored": lambda image: encode(ImageOps.mirror(image), "JPEG", quality=75),
    "framed": lambda image: encode(framed(image), "PNG"),
    "cut": lambda image: encode(image.crop((4, 2, 96, 96)), "PNG"),
    "turned": lambda image: encode(image.rotate(2, Image.Resampling.BICUBIC), "PNG"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_flowers_are_found_in_another_form(change: str) -> None:
    flowers = some_of(FLOWERS, 20)
    changed = [CHANGES[change](opened(path)) for path in flowers]
    found = found_among(changed, [path.read_bytes() for path in FLOWERS])
    right = {pair.first for pair in found if FLOWERS[pair.second] == flowers[pair.first]}
    assert len(right) >= (0.65 if change == "cut" else 0.9) * len(flowers)
    assert len({pair.first for pair in found} - right) <= 1


@given(seed=st.integers(0, 99), width=st.integers(16, 60), height=st.integers(16, 60))
def test_a_mirrored_picture_is_alike_by_100_percent(seed: int, width: int, height: int) -> None:
    image = picture(seed, size=(width, height))
    mirrored = encode(ImageOps.mirror(image), "PNG")
    assert alike(encode(image, "PNG"), mirrored, is_mirrored=True) == 100
    assert alike(encode(image, "PNG"), mirrored, is_mirrored=True, wanted=100) == 100


@given(seed=st.integers(0, 99))
def test_different_pictures_are_not_alike(seed: int) -> None:
    one, other = (encode(picture(number, size=(40, 40)), "PNG") for number in (seed, seed + 1))
    assert alike(one, other) < ALIKE


@pytest.mark.parametrize("size", [(600, 801), (257, 263), (1031, 259), (129, 64), (40, 33)])
def test_sizes_that_no_scale_divides_make_no_difference(size: tuple[int, int]) -> None:
    one, other = encode(drawn(*size), "JPEG", quality=92), encode(drawn(960, 720), "PNG")
    assert alike(one, other) >= 97


def test_a_close_look_keeps_what_turning_the_hue_keeps() -> None:
    image = drawn(320, 256)
    red, green, blue = image.split()
    turned = Image.merge("RGB", (green, blue, red))  # by 120 degrees
    one, other = (look(encode(each, "PNG"), "").close for each in (image, turned))
    assert len(one) == len(other) == CLOSE_BYTES
    assert one[: CLOSE_BYTES // 2] != other[: CLOSE_BYTES // 2]
    assert one[CLOSE_BYTES // 2 :] == other[CLOSE_BYTES // 2 :]
    grey = look(encode(image.convert("L"), "PNG"), "").close
    assert grey[: CLOSE_BYTES // 2] == grey[CLOSE_BYTES // 2 :]


def test_the_output_of_a_check_makes_nearly_the_same_look_unless_it_is_too_small() -> None:
    data = encode(drawn(403, 301), "JPEG", quality=90)
    grey, fault = jpeg.strict_decode(data)
    assert not fault
    checked = look_at_checked(grey, (301, 403, 3), 1)
    assert checked
    levels = (np.frombuffer(each, np.uint8).astype(int) for each in (checked, look(data, "").grey))
    assert np.abs(np.subtract(*levels)).max() <= 4
    data = encode(drawn(403, 255), "JPEG")
    assert look_at_checked(jpeg.strict_decode(data)[0], (255, 403, 3), 1) is None


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_every_kind_of_pixels_is_like_its_rgb(mode: str) -> None:
    image = drawn()
    if mode == "I;16":
        other = image.convert("L").convert("I").point(lambda level: level * 257).convert("I;16")
    else:
        other = image.convert("RGBA").convert(mode) if mode == "LA" else image.convert(mode)
    data = encode(other, "TIFF" if mode == "CMYK" else "PNG")
    assert alike(encode(image, "PNG"), data) >= 95


@pytest.mark.parametrize("turn", [2, 3, 4, 5, 6, 7, 8])
def test_a_picture_turned_by_a_tag_is_like_the_upright_one(turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    data = encode(drawn(320, 270), "JPEG", quality=92, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert alike(data, encode(upright, "PNG")) >= 97


def test_a_border_is_cut_off_but_not_the_sky() -> None:
    image = drawn(96, 96).convert("L")
    bordered = look(encode(ImageOps.expand(image, 12, 0), "PNG"), "").grey
    plain = look(encode(image, "PNG"), "").grey
    assert (
        np.abs(
            np.frombuffer(bordered, np.uint8) - np.frombuffer(plain, np.uint8).astype(int)
        ).mean()
        < 12
    )
    ImageDraw.Draw(image).rectangle((0, 0, 96, 20), 255)  # a roof in front of a plain sky
    ImageDraw.Draw(image).rectangle((0, 21, 70, 30), 255)
    sky = np.frombuffer(look(encode(image, "PNG"), "").grey, np.uint8).reshape(32, 32)
    assert (sky[:6] == 255).all()


FLAT_PICTURES = {
    "white": Image.new("RGB", (64, 48), "white"),
    "grey": Image.new("L", (300, 300), 7),
    "one pixel": Image.new("L", (1, 1)),
}
PLAIN_PICTURES = {
    "gradient": Image.linear_gradient("L").resize((64, 48)),
    "turned gradient": Image.linear_gradient("L").resize((200, 300)).rotate(90),
}


@pytest.mark.parametrize("name", FLAT_PICTURES)
def test_a_picture_without_edges_is_flat(name: str) -> None:
    data = encode(FLAT_PICTURES[name], "PNG")
    assert describe([look(data, "").grey]) == FLAT
    assert found_among([data], [data]) == []


@pytest.mark.parametrize("name", PLAIN_PICTURES)
def test_a_picture_with_too_little_in_it_is_like_no_other(name: str) -> None:
    data = encode(PLAIN_PICTURES[name], "PNG")
    assert found_among([data], [data]) == []


def test_pixels_of_an_array_look_like_the_png_they_become() -> None:
    image = drawn(32, 32)
    planes = b"".join(band.tobytes() for band in image.split())
    blob = Pixels("", 0, 32, 32, 3, is_planar=True)
    pixels, png = look_at_pixels(planes, blob), look(encode(image, "PNG"), "")
    assert pixels.grey == png.grey
    assert pixels.close == png.close


def test_looks_are_described_one_after_another() -> None:
    one, other = (look(encode(drawn(*size), "PNG"), "").grey for size in ((90, 70), (70, 90)))
    assert describe([one, other]) == describe([one]) + describe([other])
    assert len(describe([one])) == DESCRIPTOR_BYTES
    assert describe([]) == b""


def test_the_areas_of_endless_pictures_are_not_kept_in_memory() -> None:
    from imgrec.codec.look import _cached_areas

    _cached_areas.cache_clear()
    seen = look(encode(picture(size=(50_000, 40)), "PNG"), "x.png")
    assert isinstance(seen, Look)
    assert seen.pixels == 2_000_000
    assert _cached_areas.cache_info().currsize == 1


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_tone_is_the_mean_and_twice_the_deviation_of_all_levels(mode: str) -> None:
    levels = np.asarray(picture(1, mode))
    expected = round(float(levels.mean())), round(2 * float(levels.std()))
    assert tuple(tone.tone(levels)) == expected
    assert tone.tone(None) == tone.UNKNOWN_TONE
    assert tone.join_tones([tone.UNKNOWN_TONE] * 2) == b""
    assert len(tone.join_tones([tone.tone(levels), tone.tone(None)])) == 4
    half = np.array([0, 255] * 8, np.uint8)
    assert tuple(tone.tone(half)) == (128, 254)  # 255 stands for an unknown tone


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
        look(data, "a.jpg")
