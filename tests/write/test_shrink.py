"""Images that are packed smaller than they are."""

from __future__ import annotations

import io
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Cli
from hypothesis import example, given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image, ImageCms, JpegImagePlugin, UnidentifiedImageError
from sampling import examples
from xxhash import xxh3_128_hexdigest

from imgrec import open_dataset
from imgrec.codec.idx import encode_header
from imgrec.codec.image import Packable, decode_smaller, pack_pixels, prepare, smaller_size
from imgrec.codec.jpeg import read_header
from imgrec.errors import BadImage, UsageError
from imgrec.model import Pixels, Samples, ShardTask
from imgrec.notes import Note, NoteKind
from imgrec.options import Check, PackOptions, ShrinkOptions
from imgrec.write.shard import ShardWriter

BIG = 96, 64
SHORT_16 = ShrinkOptions(short_side=16)
LANCZOS = Image.Resampling.LANCZOS


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


def shrunk(
    data: bytes, options: ShrinkOptions = SHORT_16, check: Check = Check.DECODE, name: str = "a.tga"
) -> Packable:
    return prepare(data, name, check, options)


def opened(image: Packable) -> Image.Image:
    found = Image.open(io.BytesIO(image.data))
    found.load()
    return found


def difference(first: Image.Image, second: Image.Image) -> float:
    """Mean absolute difference of two pictures of one size."""
    arrays = [np.asarray(each.convert("RGB")).astype(int) for each in (first, second)]
    return float(np.abs(arrays[0] - arrays[1]).mean())


def smooth(mode: str = "RGB", size: tuple[int, int] = BIG) -> Image.Image:
    """A picture that no rotation leaves as it is, and whose colours a JPEG keeps well."""
    across = Image.linear_gradient("L").rotate(90).resize(size)
    down = Image.linear_gradient("L").resize(size)
    return Image.merge("RGB", [across, down, Image.new("L", size, 99)]).convert(mode)


# The size


sides = st.integers(1, 5000)
options = st.builds(ShrinkOptions, short_side=sides) | st.builds(ShrinkOptions, max_side=sides)


@given(sides, sides, options)
@example(1, 5000, ShrinkOptions(max_side=10))
def test_a_smaller_size_has_the_side_that_is_asked_for_and_the_same_aspect(
    height: int, width: int, asked: ShrinkOptions
) -> None:
    measure, wanted = (min, asked.short_side) if asked.short_side else (max, asked.max_side)
    assert wanted
    size, turned = smaller_size(height, width, asked), smaller_size(width, height, asked)
    assert turned == (size and size[::-1])
    assert (size is None) == (measure(height, width) <= wanted)
    if size is None:
        return
    assert measure(size) == wanted
    factor = wanted / measure(height, width)
    for before, after in zip((height, width), size, strict=True):
        assert after == 1 or abs(after - before * factor) <= 0.5 + 1e-9
        assert 1 <= after <= before


@examples(60)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from(["JPEG", "PNG", "BMP", "WEBP"]),
    st.builds(ShrinkOptions, short_side=st.integers(1, 90))
    | st.builds(ShrinkOptions, max_side=st.integers(1, 90)),
)
def test_what_is_packed_has_the_size_asked_for_or_the_bytes_it_had(
    width: int, height: int, image_format: str, asked: ShrinkOptions
) -> None:
    data = encode(picture(1, size=(width, height)), image_format)
    image = shrunk(data, asked)
    size = smaller_size(height, width, asked)
    assert opened(image).size == (image.shape[1], image.shape[0])
    if size is None:
        assert image[:6] == prepare(data, "a", Check.DECODE)[:6]
        assert image.data == data or image_format == "WEBP"
    else:
        assert image.shape[:2] == size
        assert image.resized == f"{width}x{height} to {size[1]}x{size[0]}"


# The pixels


KINDS = {
    **{f"{mode} JPEG": encode(smooth(mode), "JPEG") for mode in ("RGB", "L", "CMYK")},
    "progressive JPEG": encode(smooth(), "JPEG", progressive=True),
    **{f"{m} PNG": png(1, BIG, m) for m in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")},
    "P PNG with transparency": png(1, BIG, "P", transparency=0),
    "L PNG with transparency": png(1, BIG, "L", transparency=3),
    "RGB PNG with transparency": png(1, BIG, "RGB", transparency=(1, 2, 3)),
    "RGB BMP": encode(smooth(), "BMP"),
    "grey BMP": encode(smooth("L"), "BMP"),
    "P BMP": encode(smooth("P"), "BMP"),
    "GIF": encode(smooth("P"), "GIF"),
    "animated GIF": encode(smooth(), "GIF", save_all=True, append_images=[picture(2, size=BIG)]),
    "WebP": encode(smooth(), "WEBP"),
    "RGBA WebP": encode(picture(1, "RGBA", BIG), "WEBP"),
    "AVIF": encode(smooth(), "AVIF"),
    "JPEG 2000": encode(smooth(), "JPEG2000"),
    "TIFF": encode(smooth(), "TIFF"),
    "CMYK TIFF": encode(smooth("CMYK"), "TIFF"),
    "16-bit TIFF": encode(picture(1, "I;16", BIG), "TIFF"),
    "float TIFF": encode(smooth("F"), "TIFF"),
    "TGA": encode(smooth(), "TGA"),
}
AS_JPEG = {
    "RGB JPEG", "L JPEG", "CMYK JPEG", "progressive JPEG", "WebP", "AVIF", "JPEG 2000",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_photos_become_jpegs_and_everything_else_png(kind: str) -> None:
    image = shrunk(KINDS[kind], check=Check.HEADER)
    assert image == shrunk(KINDS[kind], check=Check.DECODE)
    assert image.format == opened(image).format == ("JPEG" if kind in AS_JPEG else "PNG")
    assert image.resized == "96x64 to 24x16"
    assert "transparency" not in opened(image).info
    if kind != "CMYK JPEG":  # which becomes RGB only if it is shrunk
        assert image.transcoded == prepare(KINDS[kind], "a.tga", Check.DECODE).transcoded


@pytest.mark.parametrize("kind", KINDS)
def test_tensorflow_sees_a_smaller_picture_with_the_channels_it_had(
    tf: ModuleType, kind: str
) -> None:
    full, small = prepare(KINDS[kind], "a.tga", Check.DECODE), shrunk(KINDS[kind])
    before, after = (
        tf.cast(tf.io.decode_image(each.data, expand_animations=False), tf.float32)
        for each in (full, small)
    )
    assert tuple(after.shape) == small.shape == (16, 24, full.shape[2])
    expected = tf.image.resize(before, (16, 24), method="lanczos3", antialias=True)
    expected = tf.clip_by_value(expected, 0, 255)
    # A bitmap is dithered noise, which Pillow clips between its two passes and TensorFlow does not.
    most = 8 if kind == "1 PNG" else 3 if kind in AS_JPEG else 1.5
    assert float(tf.reduce_mean(tf.abs(after - expected))) < most


@pytest.mark.parametrize("scale", [1, 2, 4, 8])
def test_a_jpeg_decoded_at_a_scale_is_as_good_as_one_decoded_in_full(scale: int) -> None:
    width, height = 64 * scale + 3, 48 * scale + 1
    data = jpeg(3, (width, height), quality=95)
    size = height // (2 * scale), width // (2 * scale)
    small, fault = decode_smaller(data, read_header(data), size)
    assert small is not None
    assert (fault, small.size) == ("", size[::-1])
    assert difference(small, Image.open(io.BytesIO(data)).resize(small.size, LANCZOS)) < 0.5


def test_sixteen_bits_keep_what_eight_would_lose() -> None:
    ramp = np.arange(64 * 96, dtype=np.uint16).reshape(64, 96) + 1000
    small = opened(shrunk(encode(Image.fromarray(ramp), "PNG")))
    expected = ramp.reshape(16, 4, 24, 4).mean(axis=(1, 3))
    assert small.mode == "I;16"
    assert np.abs(np.asarray(small)[4:-4, 4:-4] - expected[4:-4, 4:-4]).max() <= 1


def test_colours_of_sixteen_bits_are_said_to_lose_eight(tf: ModuleType) -> None:
    deep = tf.io.encode_png(np.full((64, 96, 3), 0x1234, np.uint16)).numpy()
    image = shrunk(deep)
    assert image.transcoded == "16-bit colours reduced to 8 bits"
    assert opened(image).getpixel((3, 3)) == (0x12, 0x12, 0x12)


def test_a_png_whose_tags_only_pillow_stumbles_over_is_shrunk_without_them() -> None:
    tag = b"zTXtkey\0\x07"  # of a compression that no one knows
    length, crc = (len(tag) - 4).to_bytes(4, "big"), zlib.crc32(tag).to_bytes(4, "big")
    data = png(1, BIG)
    odd = data[:33] + length + tag + crc + data[33:]
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(odd))
    assert shrunk(odd) == shrunk(data)


def test_colours_that_are_not_seen_are_not_made_black() -> None:
    clear = Image.new("RGBA", BIG, (250, 240, 230, 0))
    clear.paste((10, 20, 30, 255), (0, 0, 48, 64))
    small = opened(shrunk(encode(clear, "PNG")))
    assert small.getpixel((20, 8)) == (250, 240, 230, 0)
    assert small.getpixel((3, 8)) == (10, 20, 30, 255)


def test_quality_is_that_of_the_jpegs() -> None:
    data = jpeg(1, BIG)
    tables = [
        opened(shrunk(data, ShrinkOptions(short_side=16, quality=quality))).quantization  # type: ignore[attr-defined]
        for quality in (50, 90)
    ]
    expected = [
        Image.open(io.BytesIO(encode(smooth(), "JPEG", quality=quality))).quantization  # type: ignore[attr-defined]
        for quality in (50, 90)
    ]
    assert tables == expected
    assert shrunk(data) == shrunk(data, ShrinkOptions(short_side=16, quality=90))


def test_more_quality_than_usual_keeps_every_colour() -> None:
    for quality, sampling in ((90, 2), (91, 0)):  # 4:2:0 and 4:4:4
        image = shrunk(KINDS["WebP"], ShrinkOptions(short_side=16, quality=quality))
        assert JpegImagePlugin.get_sampling(opened(image)) == sampling


# Tags


def tagged(orientation: int, image_format: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(smooth(), image_format, exif=exif)


@pytest.mark.parametrize(
    ("orientation", "image_format"),
    [*((turn, "JPEG") for turn in range(1, 9)), (6, "PNG"), (3, "WEBP"), (8, "AVIF"), (6, "TIFF")],
)
def test_a_picture_is_upright_as_viewers_show_it(orientation: int, image_format: str) -> None:
    from PIL import ImageOps

    data = tagged(orientation, image_format)
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    image = shrunk(data)
    small = opened(image)
    assert small.size == ((16, 24) if orientation >= 5 else (24, 16))
    assert difference(small, shown.resize(small.size, LANCZOS)) < 3
    assert 0x0112 not in small.getexif()
    if image_format != "TIFF":  # which Pillow turns while it decodes
        assert image.resized.endswith(", turned upright") == (orientation > 1)


def test_a_small_picture_keeps_its_tag_and_broken_tags_turn_nothing() -> None:
    data = tagged(6)
    assert shrunk(data, ShrinkOptions(short_side=64)).data == data
    at = data.index(b"Exif\0\0") + 10
    assert shrunk(data[:at] + b"\xff" * 4 + data[at + 4 :]).resized == "96x64 to 24x16"


def profile_of(image: Packable) -> object:
    return opened(image).info.get("icc_profile")


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP"])
def test_a_colour_profile_stays_since_the_colours_need_it(image_format: str) -> None:
    assert profile_of(shrunk(encode(smooth(), image_format, icc_profile=SRGB))) == SRGB


def test_a_profile_of_other_colours_than_those_left_is_dropped() -> None:
    inks = SRGB[:16] + b"CMYK" + SRGB[20:]
    assert profile_of(shrunk(encode(smooth("CMYK"), "JPEG", icc_profile=inks))) is None


def test_nothing_else_of_a_file_is_kept() -> None:
    data = encode(smooth(), "JPEG", comment=b"x" * 999, dpi=(300, 300), exif=Image.Exif())
    assert shrunk(data).data == shrunk(encode(smooth(), "JPEG")).data


# What is bad or odd


@pytest.mark.parametrize("check", [Check.DECODE, Check.HEADER])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (jpeg(1, BIG)[:-300], "truncated JPEG"),
        (png(1, BIG)[:-300], "truncated PNG"),
        (jpeg(1, BIG)[:60], "truncated JPEG"),
        (b"GIF89a" + bytes(20), "broken GIF"),
        (b"hello\n", "text, not an image"),
        (encode(smooth(), "BMP")[:-300], "broken BMP: image file is truncated"),
    ],
    ids=["JPEG", "PNG", "JPEG header", "GIF", "text", "BMP"],
)
def test_a_bad_image_is_bad_for_the_same_reason_whatever_the_check(
    data: bytes, reason: str, check: Check
) -> None:
    with pytest.raises(BadImage) as caught:
        shrunk(data, check=check, name="a")
    assert str(caught.value).startswith(reason)
    with pytest.raises(BadImage) as without:
        prepare(data, "a", Check.DECODE)
    assert str(caught.value) == str(without.value)


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    bomb = bytearray(jpeg(1, BIG))
    frame = bomb.index(b"\xff\xc0") + 5
    bomb[frame : frame + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(BadImage, match="65535x65535 pixels: more than the limit"):
        shrunk(bytes(bomb))


def test_a_damaged_jpeg_is_shrunk_and_still_named_as_damaged() -> None:
    data = jpeg(1, BIG)[:-12] + jpeg(1, BIG)[-2:]
    image = shrunk(data)
    assert image.damaged == prepare(data, "a", Check.DECODE).damaged != ""
    assert (image.resized, image.transcoded) == ("96x64 to 24x16", "")


def test_a_jpeg_that_would_be_repaired_is_a_shrunk_jpeg_with_the_reason() -> None:
    data = jpeg(1, BIG)[:-2] + bytes(9)
    image = shrunk(data)
    assert image.transcoded == "JPEG without its end marker"
    assert (image.format, image.resized) == ("JPEG", "96x64 to 24x16")


SEEDS = sorted(KINDS.values())


@pytest.mark.fuzz
@examples(300)
@given(st.data(), st.sampled_from(list(Check)))
def test_any_bytes_are_packed_smaller_or_a_bad_image(data: st.DataObject, check: Check) -> None:
    image = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(image) - 1))
        image[at] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del image[data.draw(st.integers(8, len(image))) :]
    with suppress(BadImage):
        packed = shrunk(bytes(image), check=check)
        assert min(packed.shape[:2]) <= 16
        if packed.resized:
            assert opened(packed).size == (packed.shape[1], packed.shape[0])


# Pixels of tables


@pytest.mark.parametrize("is_planar", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_of_arrays_are_shrunk_too(channels: int, is_planar: bool) -> None:
    blob = Pixels("", 0, 32, 48, channels, is_planar=is_planar)
    image = pack_pixels(bytes([77]) * (32 * 48 * channels), blob, SHORT_16)
    assert (image.shape, image.format) == ((16, 24, channels), "PNG")
    assert (image.resized, image.transcoded) == ("48x32 to 24x16", "")
    assert set(opened(image).tobytes()) == {77}


def test_an_idx_file_is_packed_smaller(cli: Cli, tmp_path: Path) -> None:
    source = write_tree(
        tmp_path / "digits",
        {
            "train-images-idx3-ubyte": encode_header(3, 32, 32) + bytes(range(256)) * 12,
            "train-labels-idx1-ubyte": encode_header(3) + bytes([0, 1, 1]),
        },
    )
    value = json.loads(cli("pack", source, "--max-side", "8", "--json").stdout)
    assert value["resized"] == 3
    assert {record.shape for record in open_dataset(value["path"])["train"]} == {(8, 8, 1)}


# Options


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"short_side": 0}, "short_side must be at least 1"),
        ({"short_side": 9, "quality": 101}, "quality must be at most 100"),
        ({"max_side": True}, "max_side cannot be True"),
        (
            {"short_side": 9, "max_side": 9},
            "short_side and max_side cannot be combined",
        ),
        ({"quality": 90}, "quality needs short_side or max_side"),
    ],
)
def test_wrong_use_is_answered(asked: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        PackOptions(**asked)  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert caught.value.hint


# Packing


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Eight photos of two classes, half of them large, one of those lying on its side."""
    root = class_tree(tmp_path / "photos", {"rose": 2, "tulip": 2})
    large = {f"{name}/big{n}.jpg": jpeg(50 + n, BIG) for name in ("rose", "tulip") for n in (1, 2)}
    return write_tree(root, {**large, "rose/big1.jpg": tagged(6)})


def packed(cli: Cli, *arguments: str | Path) -> dict[str, object]:
    done = cli("pack", *arguments, "--json")
    assert (done.stderr, done.returncode) == ("", 0)
    value: dict[str, object] = json.loads(done.stdout)
    return value


def test_large_images_are_shrunk_and_counted_and_small_ones_keep_their_bytes(
    cli: Cli, photos: Path
) -> None:
    write_tree(photos, {f"tulip/more{n}.jpg": jpeg(80 + n, BIG) for n in range(9)})
    path = Path(str(packed(cli, photos, "--short-side", "16", "--shards", "3")["path"]))
    records = {record.filename: record for record in open_dataset(str(path))["train"]}
    raw = {name for name, record in records.items() if record.image == (photos / name).read_bytes()}
    assert raw == {f"{name}/00{n}.jpg" for name in ("rose", "tulip") for n in (0, 1)}
    shapes = {record.shape for name, record in records.items() if name not in raw}
    assert shapes == {(24, 16, 3), (16, 24, 3)}
    resized = json.loads((path / "report.json").read_bytes())["resized"]
    assert resized["count"] == 13
    assert resized["examples"][:2] == [
        {"file": "rose/big1.jpg", "reason": "96x64 to 16x24, turned upright"},
        {"file": "rose/big2.jpg", "reason": "96x64 to 24x16"},
    ]
    assert len(resized["examples"]) == 5
    rows = pq.read_table(path / "samples.parquet").to_pylist()
    assert {row["filename"]: row["xxh3"] for row in rows} == {
        file.relative_to(photos).as_posix(): xxh3_128_hexdigest(file.read_bytes())
        for file in photos.glob("*/*")
    }
    again = cli("pack", photos, "--short-side", "16", "--shards", "3", "--quiet").stdout
    assert "already packed" in again
    assert "resized     13 files to a short side of 16" in again.splitlines()


def test_a_plan_says_what_is_to_be_resized(cli: Cli, photos: Path) -> None:
    done = cli("plan", photos, "--max-side", "32", "--quality", "75", "--quiet")
    line = "resize      larger images to a long side of 32, JPEGs of quality 75"
    assert line in done.stdout.splitlines()
    assert "resize" not in json.loads(cli("plan", photos, "--json").stdout)


def test_the_fingerprint_changes_with_what_is_asked_for(cli: Cli, photos: Path) -> None:
    asked = [
        (),
        ("--short-side", "16"),
        ("--max-side", "16"),
        ("--short-side", "17"),
        ("--short-side", "16", "--quality", "80"),
    ]
    prints = [json.loads(cli("plan", photos, *each, "--json").stdout) for each in asked]
    assert len({value["fingerprint"] for value in prints}) == len(asked)
    default = json.loads(
        cli("plan", photos, "--short-side", "16", "--quality", "90", "--json").stdout
    )
    assert default == prints[1]


def test_no_room_is_reserved_for_what_images_were_before(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(1, BIG))
    task = ShardTask(
        split="train", index=0, filename="x.tfrecord-00000-of-00001", expected_bytes=1 << 60,
        samples=Samples(
            blobs=(str(tmp_path / "a.jpg"),), filenames=("a.jpg",), sizes=(len(jpeg(1, BIG)),),
            labels=(0,),
        ),
    )  # fmt: skip
    writer = ShardWriter(folder=str(tmp_path), check=Check.DECODE, shrink_to=SHORT_16)
    result = writer(task)
    assert result.notes == (Note("a.jpg", "96x64 to 24x16", NoteKind.RESIZED),)


def test_tfds_decodes_every_record_to_its_shape(cli: Cli, tf: ModuleType, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    files = {f"rose/{number:02d}.tga": data for number, data in enumerate(KINDS.values())}
    source = write_tree(tmp_path / "kinds", {**files, "tulip/t.jpg": tagged(8)})
    value = packed(cli, source, "--short-side", "16")
    assert (value["skipped"], value["resized"]) == ([], len(KINDS) + 1)
    builder = tfds.builder_from_directory(str(value["path"]))
    shapes = [
        (tuple(record["image"].shape[:2]), tuple(record["shape"][:2].numpy()))
        for record in builder.as_dataset(split="train")
    ]
    assert len(shapes) == len(KINDS) + 1
    assert all(decoded == said for decoded, said in shapes)
    assert {said for _, said in shapes} == {(16, 24), (24, 16)}
