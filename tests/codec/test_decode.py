"""The pixels that records give, against TensorFlow's own."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import chunk, encode, jpeg, picture, png
from sampled import ODD_JPEGS

from imgrec.codec.decode import to_array
from imgrec.codec.image import prepare, shape_of, tensorflow_fault
from imgrec.codec.pillow import to_pil
from imgrec.errors import BadImage, CorruptRecord
from imgrec.options import Check
from imgrec.read.record import Record

SIZE = (24, 16)


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]


def raw_png(colour: int, depth: int, *extras: bytes, is_interlaced: bool = False) -> bytes:
    """Make a PNG of any colour type and depth, of noise; `extras` go before its pixels."""
    width, height = SIZE
    bits = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] * depth
    noise = np.random.default_rng(depth)
    pixels = b"".join(
        b"\0" + noise.bytes(-(-len(range(x, width, dx)) * bits // 8))
        for x, y, dx, dy in (ADAM7 if is_interlaced else [(0, 0, 1, 1)])
        for _ in range(y, height, dy)
    )
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, is_interlaced)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            *extras,
            chunk(b"IDAT", zlib.compress(pixels)),
            chunk(b"IEND", b""),
        )
    )


def raw_bmp(bits: int, *, is_top_down: bool = False, width: int = 23) -> bytes:
    """Make a BMP of noise."""
    height = 5
    row_bytes = (bits * width + 31) // 32 * 4
    pixels = np.random.default_rng(bits).bytes(row_bytes * height)
    palette = b"".join(bytes((n, n, n, 0)) for n in range(256)) if bits == 8 else b""
    start = 54 + len(palette)
    head = struct.pack(
        "<2sIIIIiiHHIIiiII",
        *(b"BM", start + len(pixels), 0, start, 40, width, -height if is_top_down else height),
        *(1, bits, 0, len(pixels), 0, 0, 256 if palette else 0, 0),
    )
    return head + palette + pixels


def adobe_behind(data: bytes) -> bytes:
    found = ADOBE.search(data)
    assert found is not None
    return data.replace(found[0], b"") + found[0]


def bmp_with(at: int, value: bytes) -> bytes:
    """Make a BMP with another value in a field of its header that TensorFlow does not look at."""
    data = raw_bmp(24)
    return data[:at] + value + data[at + len(value) :]


FRAME = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 9, 5, 3, 2, 1, 1, 0, 0))
ADOBE = re.compile(rb"(\xff\xee\0\x0eAdobe.{6})\0", re.S)
PALETTE = chunk(b"PLTE", bytes(range(48)))
GREY_TRNS = chunk(b"tRNS", b"\0\x03")
RGB_TRNS = chunk(b"tRNS", b"\0\x01\0\x02\0\x03")
FAULTY = chunk(b"iCCP", b"no profile")
APNG = chunk(b"acTL", bytes(8)) + chunk(b"fdAT", b"\0\0\0\x09 nonsense")

KINDS: dict[str, Callable[[], bytes]] = {
    "grey JPEG": lambda: jpeg(1, mode="L"),
    "JPEG 4:4:4": lambda: jpeg(2, subsampling=0),
    "JPEG 4:2:2": lambda: jpeg(3, subsampling=1),
    "JPEG 4:2:0": lambda: jpeg(4, (31, 17), subsampling=2),
    "progressive JPEG": lambda: jpeg(5, progressive=True),
    "JPEG with restarts": lambda: jpeg(6, restart_marker_rows=1),
    "RGB JPEG": lambda: jpeg(7, keep_rgb=True),
    "CMYK JPEG": lambda: jpeg(8, mode="CMYK"),
    "CMYK JPEG without Adobe's marker": lambda: ADOBE.sub(b"", jpeg(8, mode="CMYK")),
    "YCCK JPEG": lambda: ADOBE.sub(b"\\1\x02", jpeg(8, mode="CMYK")),
    "CMYK JPEG with Adobe's marker after its end": lambda: adobe_behind(jpeg(8, mode="CMYK")),
    "CMYK JPEG with a short marker of Adobe's": lambda: ADOBE.sub(
        b"\xff\xee\0\x09Adobe\0\0", jpeg(8, mode="CMYK")
    ),
    "CMYK JPEG with an unknown transform": lambda: ADOBE.sub(b"\\1\x4c", jpeg(8, mode="CMYK")),
    "JPEG with junk in its header": lambda: jpeg(6)[:2] + b"\xff\0junk" + jpeg(6)[2:],
    "JPEG with much junk in its header": lambda: jpeg(6)[:2] + b"\xff" * 99_999 + jpeg(6)[2:],
    "JPEG of JFIF 2": lambda: jpeg(6).replace(b"JFIF\0\x01", b"JFIF\0\x02"),
    **{
        f"JPEG {factors}": lambda factors=factors: ODD_JPEGS[factors]
        for factors in ODD_JPEGS
        if factors != "2x2, 2x1, 1x2"
    },
    "large JPEG of low quality": lambda: jpeg(9, (300, 201), quality=20),
    "PNG L": lambda: png(10, mode="L"),
    "PNG LA": lambda: png(11, mode="LA"),
    "PNG P": lambda: png(12, mode="P"),
    "PNG P with transparency": lambda: png(13, mode="P", transparency=bytes(range(200))),
    "PNG RGB": lambda: png(14),
    "PNG RGB with a transparent colour": lambda: raw_png(2, 8, RGB_TRNS),
    "PNG RGBA": lambda: png(15, mode="RGBA"),
    "PNG of 1 bit": lambda: png(16, mode="1"),
    **{f"grey PNG of {bits} bits": lambda bits=bits: raw_png(0, bits) for bits in (1, 2, 4, 8, 16)},
    **{
        f"grey PNG of {bits} bits with a transparent level": lambda bits=bits: raw_png(
            0, bits, GREY_TRNS
        )
        for bits in (2, 4, 8, 16)
    },
    "palette PNG of 4 bits": lambda: raw_png(3, 4, PALETTE),
    "palette PNG of 4 bits, some transparent": lambda: raw_png(
        3, 4, PALETTE, chunk(b"tRNS", b"\x80\0")
    ),
    "RGB PNG of 16 bits": lambda: raw_png(2, 16),
    "RGB PNG of 16 bits with a transparent colour": lambda: raw_png(2, 16, RGB_TRNS),
    "LA PNG of 16 bits": lambda: raw_png(4, 16),
    "RGBA PNG of 16 bits": lambda: raw_png(6, 16),
    "PNG with a gamma": lambda: raw_png(2, 8, chunk(b"gAMA", struct.pack(">I", 100_000))),
    "PNG with a faulty profile": lambda: raw_png(2, 8, FAULTY),
    "PNG with faulty frames": lambda: raw_png(6, 8, APNG),
    "RGB PNG with a transparent colour of one byte": lambda: raw_png(2, 8, chunk(b"tRNS", b"\1")),
    "grey PNG with a transparent level of one byte": lambda: raw_png(0, 8, chunk(b"tRNS", b"\1")),
    "PNG with a frame but no animation": lambda: raw_png(2, 8, FRAME),
    "interlaced PNG": lambda: raw_png(2, 8, is_interlaced=True),
    "interlaced PNG of 16 bits": lambda: raw_png(4, 16, is_interlaced=True),
    "BMP of 8 bits": lambda: raw_bmp(8),
    "BMP of 24 bits": lambda: raw_bmp(24),
    "BMP of 32 bits": lambda: raw_bmp(32),
    "BMP of 24 bits from its top": lambda: raw_bmp(24, is_top_down=True),
    "BMP of 32 bits from its top": lambda: raw_bmp(32, is_top_down=True),
    "BMP of odd header size": lambda: bmp_with(14, struct.pack("<I", 16)),
    "BMP of no planes": lambda: bmp_with(26, bytes(2)),
    "BMP of many colours": lambda: bmp_with(46, b"\xff\xff\xff\x7f"),
    "BMP that Pillow wrote": lambda: encode(picture(17), "BMP"),
}


def by_tensorflow(tf: ModuleType, data: bytes) -> np.ndarray:
    return tf.io.decode_image(data, expand_animations=False).numpy()  # type: ignore[no-any-return]


def record(data: bytes, shape: tuple[int, int, int]) -> Record:
    return Record(data, 0, shape, "rose/1.jpg", (0,), {}, ("rose",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_decodes_to_the_pixels_that_tensorflow_sees(tf: ModuleType, kind: str) -> None:
    data = KINDS[kind]()
    assert tensorflow_fault(data) == ""
    decoded = record(data, shape_of(data, "")).numpy()
    seen = by_tensorflow(tf, data)
    assert (decoded.shape, decoded.dtype) == (seen.shape, np.uint8)
    assert np.array_equal(decoded, seen)


@pytest.mark.parametrize("kind", ["2x2, 2x1, 1x2", "progressive, cut"])
def test_pixels_of_a_jpeg_of_a_rare_kind_are_nearly_those_of_tensorflow(
    tf: ModuleType, kind: str
) -> None:
    whole = jpeg(5, (64, 48), progressive=True)
    cut = whole[: whole.rindex(b"\xff\xda")] + b"\xff\xd9"
    data = ODD_JPEGS.get(kind, cut)
    assert tensorflow_fault(data) == ""
    decoded = record(data, shape_of(data, "")).numpy()
    assert np.abs(decoded.astype(int) - by_tensorflow(tf, data)).max() <= 5


@pytest.mark.parametrize("kind", ["PNG RGB", "grey PNG of 16 bits", "JPEG 4:4:4", "BMP of 32 bits"])
def test_the_array_may_be_written_to(kind: str) -> None:
    packed = prepare(KINDS[kind](), "a", Check.DECODE)
    decoded = to_array(packed.data, packed.shape)
    decoded[0, 0, 0] = 1
    assert decoded.flags.c_contiguous


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (jpeg(mode="L"), "L"),
        (jpeg(mode="CMYK"), "CMYK"),
        (png(mode="P"), "P"),
        (png(mode="RGBA"), "RGBA"),
        (png(mode="I;16"), "I;16"),
        (raw_png(2, 8, FAULTY), "RGB"),
    ],
)
def test_pil_gives_the_picture_in_the_mode_that_it_has(data: bytes, mode: str) -> None:
    decoded = record(data, (16, 24, 1)).pil()
    assert (decoded.mode, decoded.size) == (mode, SIZE)


def test_a_faulty_chunk_beside_the_pixels_does_not_change_them() -> None:
    assert to_pil(raw_png(6, 8, APNG)).tobytes() == to_pil(raw_png(6, 8)).tobytes()


@pytest.mark.parametrize("data", [b"", b"no image", jpeg()[:200], png()[:60], raw_bmp(32)[:40]])
@pytest.mark.parametrize("method", ["pil", "numpy"])
def test_what_does_not_decode_is_a_corrupt_record_that_names_its_file(
    data: bytes, method: str
) -> None:
    with pytest.raises(CorruptRecord, match=r"^rose/1\.jpg: ") as caught:
        getattr(record(data, (16, 24, 4)), method)()
    assert caught.value.path == "rose/1.jpg"


def test_a_shape_that_is_not_the_image_s_is_a_corrupt_record() -> None:
    with pytest.raises(CorruptRecord) as caught:
        record(png(), (24, 16, 3)).numpy()
    assert str(caught.value) == (
        "rose/1.jpg: the image has shape (16, 24, 3), and its record (24, 16, 3)"
    )


@pytest.mark.parametrize("channels", [-1, 0, 5, 1 << 40])
def test_an_impossible_number_of_channels_is_a_corrupt_record(channels: int) -> None:
    with pytest.raises(CorruptRecord, match=f"no image has {channels} channels"):
        record(png(), (16, 24, channels)).numpy()


SEEDS = [make() for make in KINDS.values()]


@pytest.mark.fuzz
@given(st.data())
def test_any_bytes_decode_to_their_shape_or_are_a_bad_image(data: st.DataObject) -> None:
    image = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    channels = data.draw(st.integers(1, 4))
    try:
        decoded = to_array(bytes(image), (1, 1, channels))
    except BadImage:
        return
    assert (decoded.ndim, decoded.shape[2], decoded.dtype) == (3, channels, np.uint8)
