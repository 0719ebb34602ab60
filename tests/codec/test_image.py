"""Images as they are packed, against what TensorFlow and Pillow make of the same bytes."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import time
import zlib
from contextlib import suppress
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import chunk, encode, jpeg, picture, png
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2
from sampled import ODD_JPEGS
from sampling import examples, some_of

from imgrec.codec.bmp import read_header as read_bmp_header
from imgrec.codec.decode import thumbnail
from imgrec.codec.image import Packable, prepare
from imgrec.codec.look import look
from imgrec.errors import BadImage
from imgrec.options import Check, ShrinkOptions


def rotated() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees
    return exif


def bmp_of(masks: tuple[int, int, int], order: str) -> bytes:
    """A BMP of 32 bits that says by masks where its colours are."""
    flipped = picture().convert("RGBA").transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    pixels = flipped.tobytes("raw", order)
    sizes = (66 + len(pixels), 0, 66, 40, 24, 16, 1, 32, 3, len(pixels), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IIIIiiHHIIiiII3I", *sizes, *masks) + pixels


OS2_BMP = struct.pack("<2sIIIIHHHH", b"BM", 26 + 1152, 0, 26, 12, 24, 16, 1, 24)
OS2_BMP += encode(picture(), "BMP")[54:]
MOTION = encode(picture(1), "GIF", save_all=True, append_images=[picture(2), picture(3)])
FLOATS = Image.fromarray(np.array([[-1.0, 0.0, 0.5, 1.0]], dtype=np.float32))
RAW = {
    **{f"{mode} JPEG": jpeg(mode=mode) for mode in ("RGB", "L", "CMYK")},
    "progressive JPEG": jpeg(progressive=True),
    "subsampled JPEG": jpeg(subsampling=2),
    "JPEG of odd size": jpeg(size=(17, 11)),
    "JPEG with restart markers": jpeg(restart_marker_blocks=1),
    "JPEG with trailing bytes": jpeg() + b"trailing",
    "JPEG with EXIF orientation": jpeg(exif=rotated()),
    **{f"{m} PNG": png(mode=m) for m in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")},
    "P PNG with transparency": png(mode="P", transparency=0),
    "RGB BMP": encode(picture(), "BMP"),
    "BMP with the usual masks": bmp_of((0xFF0000, 0xFF00, 0xFF), "BGRA"),
}
GREY_BMP = "grey BMP, which TensorFlow does not decode to one channel"
TRANSCODED = {
    "grey BMP": (encode(picture(mode="L"), "BMP"), GREY_BMP),
    "P BMP": (encode(picture(mode="P"), "BMP"), "BMP of a kind TensorFlow does not read"),
    "1-bit BMP": (encode(picture(mode="1"), "BMP"), "BMP of a kind TensorFlow does not read"),
    "BMP with other masks": (
        bmp_of((0xFF000000, 0xFF0000, 0xFF00), "ABGR"),
        "BMP of a kind TensorFlow does not read",
    ),
    "OS/2 BMP": (OS2_BMP, "BMP of a kind TensorFlow does not read"),
    "GIF": (encode(picture(mode="P"), "GIF"), "GIF"),
    "animated GIF": (MOTION, "GIF"),
    "WebP": (encode(picture(), "WEBP", lossless=True), "WEBP"),
    "RGBA WebP": (encode(picture(mode="RGBA"), "WEBP", lossless=True), "WEBP"),
    "TIFF": (encode(picture(), "TIFF"), "TIFF"),
    "CMYK TIFF": (encode(picture(mode="CMYK"), "TIFF"), "TIFF, CMYK colours converted to RGB"),
    "float TIFF": (encode(FLOATS, "TIFF"), "TIFF, 32-bit values rescaled to 16 bits"),
    "16-bit TIFF": (encode(picture(mode="I;16"), "TIFF"), "TIFF"),
    "PPM": (encode(picture(), "PPM"), "PPM"),
    "ICO": (encode(picture(size=(16, 16)), "ICO"), "ICO"),
    "TGA": (encode(picture(), "TGA"), "TGA"),  # which only its file's name gives away
    "AVIF": (encode(picture(), "AVIF"), "AVIF"),
    "JPEG 2000": (encode(picture(), "JPEG2000"), "JPEG2000"),
    "HEIC": (b"", "HEIF"),  # made by `image_of`, where its plugin is installed
}
IMAGES = {**RAW, **{kind: data for kind, (data, _) in TRANSCODED.items()}}
SEEDS = sorted(filter(None, IMAGES.values()))


def image_of(kind: str) -> bytes:
    if kind == "HEIC":
        pytest.importorskip("pillow_heif").register_heif_opener()
        return encode(picture(), "HEIF")
    return IMAGES[kind]


def assert_tensorflow_agrees(tf: ModuleType, image: Packable) -> None:
    decoded = tf.io.decode_image(image.data, expand_animations=False)
    assert tuple(decoded.shape) == image.shape
    coloured = tf.io.decode_image(image.data, channels=3, expand_animations=False)
    assert tuple(coloured.shape) == (*image.shape[:2], 3)
    if image.shape[2] == 1:  # where all images are grey, TFDS asks for one channel
        grey = tf.io.decode_image(image.data, channels=1, expand_animations=False)
        assert tuple(grey.shape) == image.shape


def reason(data: bytes, check: Check = Check.DECODE) -> str:
    with pytest.raises(BadImage) as caught:
        prepare(data, "a.jpg", check)
    return str(caught.value)


@pytest.mark.parametrize("kind", RAW)
def test_images_that_tensorflow_reads_are_packed_unchanged(kind: str) -> None:
    for check in Check:
        image = prepare(RAW[kind], "a.img", check)
        assert (image.data, image.transcoded, image.damaged) == (RAW[kind], "", "")


@pytest.mark.parametrize("kind", TRANSCODED)
def test_other_images_become_a_png_that_says_why(kind: str) -> None:
    image = prepare(image_of(kind), "a.tga", Check.DECODE)
    assert (image.format, image.transcoded) == ("PNG", TRANSCODED[kind][1])


DEEP = {"I;16 PNG", "16-bit TIFF", "float TIFF"}


@pytest.mark.parametrize("kind", IMAGES)
def test_tensorflow_sees_the_shape_and_the_pixels_of_the_first_frame(
    tf: ModuleType, kind: str
) -> None:
    image = prepare(image_of(kind), "a.tga", Check.DECODE)
    assert_tensorflow_agrees(tf, image)
    if ("JPEG" in kind and kind in RAW) or kind in DEEP:
        return
    height, width, channels = image.shape
    first = Image.open(io.BytesIO(image_of(kind))).convert(["L", "LA", "RGB", "RGBA"][channels - 1])
    expected = np.asarray(first).reshape(height, width, channels)
    np.testing.assert_array_equal(tf.io.decode_image(image.data).numpy(), expected)


@pytest.mark.parametrize("order", ["<u2", ">u2"], ids=["little-endian", "big-endian"])
def test_a_16_bit_tiff_keeps_every_value(tf: ModuleType, order: str) -> None:
    source = Image.fromarray(np.array([[0, 1, 256, 65535]], dtype=order))
    image = prepare(encode(source, "TIFF"), "a.tif", Check.DECODE)
    values = tf.io.decode_image(image.data, dtype=tf.uint16).numpy()
    assert values.ravel().tolist() == [0, 1, 256, 65535]


def test_a_lab_tiff_becomes_the_same_png_at_any_time() -> None:
    out = io.BytesIO()
    Image.new("LAB", (4, 3), (120, 30, 60)).save(out, "TIFF")
    stored = prepare(out.getvalue(), "a.tif", Check.DECODE).data
    assert b"iCCP" not in stored  # Pillow's own profile holds the time of the conversion


def test_floats_are_rescaled_to_all_of_16_bits() -> None:
    image = prepare(IMAGES["float TIFF"], "a.tif", Check.DECODE)
    values = np.asarray(Image.open(io.BytesIO(image.data)))
    assert values.tolist() == [[0, 32768, 49151, 65535]]


def test_exif_orientation_does_not_turn_the_shape() -> None:
    assert prepare(RAW["JPEG with EXIF orientation"], "a", Check.DECODE).shape == (16, 24, 3)


CUT = {
    **{kind: RAW[kind] for kind in ("RGB JPEG", "progressive JPEG", "JPEG with restart markers")},
    "PNG": png()[: png().index(b"IEND") - 18],
}


@pytest.mark.parametrize("check", [Check.DECODE, Check.STRUCTURE])
@pytest.mark.parametrize("kind", CUT)
def test_an_image_cut_in_its_pixels_is_truncated(kind: str, check: Check) -> None:
    data = CUT[kind]
    reasons = {reason(data[:length], check) for length in some_of(range(8, len(data)), 100)}
    assert reasons == {"truncated PNG" if kind == "PNG" else "truncated JPEG"}
    image = prepare(data[:-20] if kind == "PNG" else data[:-100], "a", Check.HEADER)
    assert (image.shape, image.transcoded) == ((16, 24, 3), "")  # the header is trusted


def test_a_damaged_png_is_repaired_unless_its_pixels_are_wrong() -> None:
    assert prepare(png()[:-12], "a.png", Check.DECODE).transcoded == "truncated PNG"
    data = bytearray(png())
    data[data.index(b"IDAT") + 100] ^= 1
    for check in (Check.DECODE, Check.STRUCTURE):
        assert reason(bytes(data), check) == "PNG with a wrong checksum of its IDAT chunk"


def test_structure_does_not_find_a_flipped_bit_in_coded_data() -> None:
    data = jpeg()
    coded = some_of(range(data.index(b"\xff\xda") + 14, len(data) - 2), 50)
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in coded]
    images = [prepare(image, "a.jpg", Check.STRUCTURE) for image in flipped]
    assert images == [Packable(image, (16, 24, 3), "JPEG", orientation=1) for image in flipped]


def test_a_jpeg_with_missing_coded_data_is_packed_as_damaged() -> None:
    data = jpeg()[:-12] + jpeg()[-2:]
    fault = "Corrupt JPEG data: premature end of data segment"
    packable = Packable(data, (16, 24, 3), "JPEG", damaged=fault, orientation=1)
    assert prepare(data, "a.jpg", Check.DECODE) == packable


def test_a_damaged_jpeg_that_decoders_may_refuse_is_transcoded(tf: ModuleType) -> None:
    data = bytearray(jpeg(restart_marker_blocks=1))
    data[data.rindex(b"\xff\xd0") + 1] = 0xD5  # a restart marker out of order
    image = prepare(bytes(data), "a.jpg", Check.DECODE)
    assert (image.format, image.transcoded[:14]) == ("PNG", "damaged JPEG: ")
    assert_tensorflow_agrees(tf, image)
    small = prepare(bytes(data), "a.jpg", Check.DECODE, ShrinkOptions(short_side=8))
    assert (small.format, small.transcoded[:14]) == ("JPEG", "damaged JPEG: ")


NO_IMAGES = {
    "empty file": b"",
    "text, not an image": b"hello\n",
    "an HTML page, not an image": b"<!DOCTYPE html><html>404</html>",
    "Git LFS pointer, not the image itself: run `git lfs pull`": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\nsize 12345\n"
    ),
}


@pytest.mark.parametrize("why", NO_IMAGES)
def test_a_file_that_is_not_an_image_says_what_it_is(why: str) -> None:
    assert {reason(NO_IMAGES[why], check) for check in Check} == {why}


def test_heic_without_its_plugin_names_the_pip_command() -> None:
    code = r"""import sys; sys.modules["pillow_heif"] = None
from imgrec.codec.image import Check, prepare
prepare(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a.heic", Check.DECODE)"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.endswith("BadImage: HEIC needs a plugin: pip install pillow-heif\n")


def raw_png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def ihdr(width: int, height: int, colour: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))


def test_an_image_that_claims_to_be_huge_is_refused_for_its_size() -> None:
    limit = "pixels: more than the limit of 89,478,485"
    huge = raw_png(ihdr(30_000, 30_000, 0))
    assert {reason(huge, check) for check in Check} == {f"30000x30000 {limit}"}
    assert reason(b"P4 10000 9000\n") == f"10000x9000 {limit}"


PLTE, TRNS = chunk(b"PLTE", bytes(12)), chunk(b"tRNS", bytes(2))
P_HEAD, RGB_HEAD = ihdr(4, 2, 3), ihdr(4, 2, 2)
P_IDAT, RGB_IDAT = (chunk(b"IDAT", zlib.compress(bytes(size))) for size in (10, 26))
ODD_PNGS = {
    "palette of no colour": raw_png(P_HEAD, chunk(b"PLTE", b""), P_IDAT),
    "palette of a broken colour": raw_png(P_HEAD, chunk(b"PLTE", bytes(13)), P_IDAT),
    "two palettes": raw_png(P_HEAD, PLTE, PLTE, P_IDAT),
    "late palette": raw_png(P_HEAD, P_IDAT, PLTE),
    "no palette": raw_png(P_HEAD, P_IDAT),
    "RGB with an empty palette": raw_png(RGB_HEAD, chunk(b"PLTE", b""), RGB_IDAT),
    "two headers": raw_png(P_HEAD, P_HEAD, PLTE, P_IDAT),
    "transparency of no colour": raw_png(P_HEAD, PLTE, chunk(b"tRNS", b""), P_IDAT),
    "more transparency than palette": raw_png(P_HEAD, PLTE, chunk(b"tRNS", bytes(5)), P_IDAT),
    "early transparency": raw_png(P_HEAD, TRNS, PLTE, P_IDAT),
    "bad and good transparency": raw_png(P_HEAD, PLTE, chunk(b"tRNS", bytes(2), 1), TRNS, P_IDAT),
    "no size": raw_png(ihdr(0, 2, 2), RGB_IDAT),
    "no pixels": raw_png(RGB_HEAD),
    "scattered pixels": raw_png(RGB_HEAD, RGB_IDAT, chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", b"")),
    "unknown critical chunk": raw_png(RGB_HEAD, chunk(b"QQQQ", b""), RGB_IDAT),
    "unknown row filter": raw_png(RGB_HEAD, chunk(b"IDAT", zlib.compress(b"\5" + bytes(25)))),
    "too few rows": raw_png(RGB_HEAD, chunk(b"IDAT", zlib.compress(bytes(13)))),
    "wrong sum of pixels": raw_png(RGB_HEAD, chunk(b"IDAT", zlib.compress(bytes(26))[:-1] + b"x")),
    "no end of pixels": raw_png(RGB_HEAD, chunk(b"IDAT", zlib.compress(bytes(26))[:-5])),
    "too tall": raw_png(ihdr(1, 1_000_001, 0), chunk(b"IDAT", zlib.compress(bytes(2_000_002)))),
}


@pytest.mark.parametrize("kind", ODD_PNGS)
def test_an_odd_png_is_bad_or_tensorflow_agrees(tf: ModuleType, kind: str) -> None:
    with suppress(BadImage):
        assert_tensorflow_agrees(tf, prepare(ODD_PNGS[kind], "a.png", Check.DECODE))


def test_a_tiff_whose_colour_profile_is_a_number_is_packed() -> None:
    tags = ImageFileDirectory_v2()
    tags.tagtype[34675] = 3  # InterColorProfile as a short
    tags[34675] = 7
    data = encode(picture(), "TIFF", tiffinfo=tags)
    assert prepare(data, "a.tif", Check.DECODE).shape == (16, 24, 3)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Cut, flip and splice a real image."""
    data, other = draw(st.sampled_from(SEEDS)), draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 3))):
        at, start = draw(st.integers(0, len(data) - 1)), draw(st.integers(0, len(other)))
        flipped = bytes([data[at] ^ 1 << draw(st.integers(0, 7))])
        piece = draw(st.sampled_from([flipped, flipped, b"", other[start:], other[start:][:20]]))
        data = data[:at] + piece + data[at + draw(st.sampled_from([1, 1, 0, 20, 9999])) :] or b"x"
    return data


@examples(400)
@given(data=mutated() | st.binary(max_size=300))
def test_tensorflow_agrees_with_whatever_is_accepted(tf: ModuleType, data: bytes) -> None:
    for check in Check:
        with suppress(BadImage):
            image = prepare(data, "a.tga", check)
            assert min(image.shape) > 0
            if check is Check.DECODE:
                assert_tensorflow_agrees(tf, image)


# Headers and streams that only some decoders accept

SIGNATURE, HEADER, BEHIND = png()[:8], png()[16:29], png()[33:]
ODD_HEADERS = {
    "long header": chunk(b"IHDR", HEADER + b"\0"),
    "unknown compression": chunk(b"IHDR", HEADER[:10] + b"\1" + HEADER[11:]),
    "another chunk first": chunk(b"gAMA", b"\0\0\xb1\x8f") + chunk(b"IHDR", HEADER),
}


@pytest.mark.parametrize("kind", ODD_HEADERS)
def test_a_png_whose_header_pillow_alone_accepts_is_transcoded(tf: ModuleType, kind: str) -> None:
    data = SIGNATURE + ODD_HEADERS[kind] + BEHIND
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(data)
    image = prepare(data, "a.png", Check.DECODE)
    assert image.transcoded == "PNG with a broken header"
    assert np.array_equal(tf.io.decode_image(image.data), np.asarray(picture()))


def windowed_png(chance: random.Random) -> bytes:
    """Make a PNG whose pixels repeat far apart, and that declares a window of any size."""
    width, height = chance.randint(1, 400), chance.randint(1, 60)
    row = 1 + 3 * width
    period = chance.randbytes(chance.randint(1, 9000))
    rows = bytearray((period * (row * height // len(period) + 1))[: row * height])
    rows[::row] = bytes(height)
    stream = bytearray(zlib.compress(rows, chance.randint(1, 9)))
    stream[0] = chance.randint(0, 7) << 4 | 8
    stream[1] = -(stream[0] << 8) % 31
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    size = chance.choice((60, 9000, 1 << 20))
    pieces = [bytes(stream[at : at + size]) for at in range(0, len(stream), size)]
    chunks = (chunk(b"IHDR", head), *(chunk(b"IDAT", piece) for piece in pieces))
    return SIGNATURE + b"".join(chunks) + chunk(b"IEND", b"")


def test_a_png_is_raw_if_the_window_that_it_declares_is_enough_for_tensorflow(
    tf: ModuleType,
) -> None:
    refused, tried = 0, some_of(range(150), 40)
    for seed in tried:
        data = windowed_png(random.Random(seed))
        image = prepare(data, "a.png", Check.DECODE)
        try:
            tf.io.decode_image(data)
            assert image.data == data, seed
        except tf.errors.InvalidArgumentError:
            refused += 1
            assert image.transcoded.startswith("PNG with a window too small"), seed
            assert np.array_equal(
                tf.io.decode_image(image.data), np.asarray(Image.open(io.BytesIO(data)))
            )
    assert len(tried) // 8 < refused < len(tried) * 7 // 8


def test_a_jpeg_with_a_broken_list_of_pictures_is_packed_unchanged(tf: ModuleType) -> None:
    mpo = encode(picture(1), "MPO", save_all=True, append_images=[picture(2)])
    at = mpo.index(b"MPF\0")
    for broken in (mpo, mpo[: at + 12] + b"\xff" * 40 + mpo[at + 52 :]):
        image = prepare(broken, "a.jpg", Check.DECODE)
        assert (image.data, image.shape) == (broken, (16, 24, 3))
        assert_tensorflow_agrees(tf, image)


def test_a_jpeg_that_pillow_cannot_open_is_skipped_with_a_reason() -> None:
    data = jpeg(mode="CMYK")
    assert reason(data[: data.index(b"Adobe") + 5]) == "truncated JPEG"
    of_12_bits = jpeg().replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c")
    assert reason(of_12_bits) == "broken JPEG: cannot handle 12-bit layers"


# Bytes that take long to decode, though they are few or of little use


@pytest.mark.parametrize("filler", [b"\xff", b"\xff\0", b"\xff\1", b"\xff\xe0\0\2"])
def test_junk_before_the_picture_of_a_jpeg_takes_little_time(filler: bytes) -> None:
    data = b"\xff\xd8" + filler * (1_000_000 // len(filler))
    started = time.process_time()
    for end in (b"", jpeg()[2:]):
        with suppress(BadImage):
            prepare(data + end, "a.jpg", Check.DECODE)
        with suppress(BadImage):
            thumbnail(data + end, "a.jpg", 64)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("used", [0, 255, 256])
def test_a_bmp_is_grey_only_if_its_palette_has_all_levels(used: int) -> None:
    grey = encode(picture(mode="L"), "BMP")
    data = grey[:46] + struct.pack("<II", used, 77) + grey[54:]
    assert read_bmp_header(data).is_plain is (used != 255)


@pytest.mark.parametrize("kind", ODD_JPEGS)
def test_a_jpeg_with_rare_sampling_is_packed_shrunk_looked_at_and_shown(kind: str) -> None:
    data = ODD_JPEGS[kind]
    for check in (Check.DECODE, Check.STRUCTURE):
        packable = prepare(data, "a.jpg", check)
        assert (packable.data, packable.damaged, packable.transcoded) == (data, "", "")
    small = prepare(data, "a.jpg", Check.DECODE, ShrinkOptions(short_side=8))
    assert small.shape[:2] == (13, 8)
    look(data, "a.jpg")
    assert thumbnail(data, "a.jpg", 20).size == (12, 20)
