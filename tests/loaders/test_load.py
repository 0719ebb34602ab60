"""`imgrec.load`, compared with TensorFlow, TFDS and Pillow on the same records."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from inline import pack
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image, ImageOps

import imgrec
from imgrec.errors import (
    CorruptRecord,
    DatasetError,
    MissingExtra,
    UnknownName,
    UsageError,
    import_extra,
)
from imgrec.loaders import load
from imgrec.options import PackOptions

SIZES = ((40, 30), (65, 48), (130, 97), (300, 211), (24, 16))
KINDS = {
    "grey.jpg": jpeg(100, mode="L"),
    "cmyk.jpg": jpeg(101, mode="CMYK"),
    "alpha.png": png(102, mode="RGBA"),
    "grey_alpha.png": png(103, mode="LA"),
    "palette.png": png(104, mode="P"),
    "deep.png": png(105, mode="I;16"),
    "colour.bmp": encode(picture(106), "BMP"),
    "grey.bmp": encode(picture(107, "L"), "BMP"),
}


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("load")


def packed(root: Path, source: str, **options: Any) -> str:
    """Pack `root/source`; return the path of the dataset."""
    settings = {"data_dir": str(root / "data"), "check": "header", **options}
    return imgrec.pack(root / source, PackOptions(**settings)).info.path


@pytest.fixture(scope="module")
def photos(folder: Path) -> str:
    """JPEGs of several sizes: 29 in train, 6 in val."""
    for seed in range(35):
        data = jpeg(seed, SIZES[seed % len(SIZES)], quality=95)
        write_tree(folder / "photos", {f"{'abc'[seed % 3]}/{seed}.jpg": data})
    return packed(folder, "photos", shards=3, val_split=0.2)


@pytest.fixture(scope="module")
def tiny(folder: Path) -> str:
    """300 images of one size, small enough to be decoded a batch at a time."""
    class_tree(folder / "tiny", {"a": 150, "b": 150})
    return packed(folder, "tiny", shards=4)


@pytest.fixture(scope="module")
def kinds(folder: Path) -> str:
    write_tree(folder / "kinds", {f"x/{name}": data for name, data in KINDS.items()})
    return packed(folder, "kinds")


def rows(data: Any) -> list[Any]:
    return list(data.as_numpy_iterator())


def names(data: Any) -> list[str]:
    return [row["filename"].decode() for row in rows(data)]


def by_name(path: str, **options: Any) -> dict[str, Any]:
    loaded = rows(load(path, as_dict=True, **options))
    return {row["filename"].decode().removeprefix("x/"): row["image"] for row in loaded}


def all_images(data: Any) -> Any:
    return np.concatenate([images for images, _ in rows(data)])


# Elements and batches


def test_images_and_labels_are_those_of_the_records_in_order(photos: str) -> None:
    records = imgrec.open_dataset(photos)["train"]
    for (image, label), record in zip(rows(load(photos)), records, strict=True):
        assert (label, image.dtype, image.shape) == (record.label, np.uint8, record.shape)
        assert np.abs(image.astype(int) - record.numpy()).max() <= 1


def test_images_are_resized_as_tensorflow_does(tf: ModuleType, photos: str) -> None:
    options = {"image_size": (20, 25), "exact": True, "batch_size": 8}
    floats = all_images(load(photos, dtype="float32", **options))
    record = imgrec.open_dataset(photos)["train"][0]
    expected = tf.image.resize(tf.io.decode_jpeg(record.image, channels=3), (20, 25))
    np.testing.assert_allclose(floats[0], expected, atol=1e-3)
    images = all_images(load(photos, **options))
    assert (images.dtype, images.shape[1:]) == (np.uint8, (20, 25, 3))
    assert np.abs(images - floats).max() <= 0.501


@pytest.mark.parametrize("batch_size", [7, 29, 40])
def test_no_image_is_lost_for_any_batch_size(photos: str, batch_size: int) -> None:
    data = load(photos, image_size=8, batch_size=batch_size)
    sizes = [len(labels) for _, labels in rows(data)]
    assert (sum(sizes), len(sizes)) == (29, int(data.cardinality()))
    assert set(sizes[:-1]) <= {batch_size}


@pytest.mark.parametrize("batch_size", [1, 128, 150, 299, 400])
def test_small_images_decoded_together_are_the_same(tiny: str, batch_size: int) -> None:
    data, single = load(tiny, batch_size=batch_size), rows(load(tiny))
    together = rows(data)
    assert int(data.cardinality()) == len(together) == -(-300 // batch_size)
    assert np.array_equal(all_images(data), [image for image, _ in single])
    assert np.concatenate([labels for _, labels in together]).tolist() == [n for _, n in single]


@pytest.mark.parametrize("batch_size", [7, 200])
def test_the_remainder_is_dropped_on_request(tiny: str, batch_size: int) -> None:
    data = load(tiny, batch_size=batch_size, drop_remainder=True)
    assert [len(labels) for _, labels in rows(data)] == [batch_size] * (300 // batch_size)
    assert data.element_spec[0].shape.as_list() == [batch_size, 16, 24, 3]
    assert int(data.cardinality()) == 300 // batch_size


def test_even_batches_have_a_static_size(tiny: str) -> None:
    assert load(tiny, batch_size=100).element_spec[0].shape[0] == 100
    assert load(tiny, batch_size=101).element_spec[0].shape[0] is None
    assert load(tiny, batch_size=101, repeat=True).element_spec[0].shape[0] == 101


def test_keras_trains_on_it(tf: ModuleType, tiny: str) -> None:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(2)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(load(tiny, batch_size=50, shuffle=True), verbose=0)
    assert np.isfinite(history.history["loss"][0])


# Pixels


def test_a_global_seed_of_zero_gives_one_order_too(tf: ModuleType, tmp_path: Path) -> None:
    root = pack(class_tree(tmp_path / "trees", {"ash": 9, "oak": 9}), tmp_path / "out", shards=3)

    def order() -> list[bytes]:
        tf.random.set_seed(0)
        data = load(root, image_size=8, shuffle=True, seed=5, as_dict=True)
        return [one["filename"].numpy() for one in data]

    try:
        first = order()
        assert first == order()
        assert len(set(first)) == 18
    finally:
        tf.random.set_seed(None)


def test_scale_and_dtype_set_the_values(tiny: str) -> None:
    plain = all_images(load(tiny, batch_size=50))
    for low, high in ((0, 1), (-1, 1)):
        floats = all_images(load(tiny, batch_size=50, scale=(low, high)))
        assert floats.dtype == np.float32
        np.testing.assert_allclose(floats, plain / 255 * (high - low) + low, atol=1e-4)
    for dtype in ("float16", "bfloat16", "float64"):
        images = all_images(load(tiny, batch_size=50, dtype=dtype))
        assert str(images.dtype) == dtype
        assert np.array_equal(images.astype(float), plain.astype(float))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [None, (9, 11)])
def test_every_kind_has_the_requested_channels(
    kinds: str, channels: int, size: tuple[int, int] | None
) -> None:
    images = by_name(kinds, channels=channels, image_size=size)
    assert images.keys() == KINDS.keys()
    assert {image.shape for image in images.values()} == {(*(size or (16, 24)), channels)}
    for name, image in images.items():
        picture = Image.open(io.BytesIO(KINDS[name]))
        if size is None and channels == 3 and picture.mode not in ("I;16", "CMYK"):
            shown = picture.convert("RGBA").convert("RGB")
            assert np.abs(image.astype(int) - np.asarray(shown)).mean() < 2
    if channels == 4:
        assert {images[name][..., 3].min() for name in ("cmyk.jpg", "colour.bmp")} == {255}
        assert images["alpha.png"][..., 3].min() < 20


def test_grey_images_alone_have_one_channel(folder: Path) -> None:
    write_tree(folder / "greys", {f"x/{seed}.jpg": jpeg(seed, mode="L") for seed in range(4)})
    path = packed(folder, "greys")
    assert load(path).element_spec[0].shape.as_list() == [16, 24, 1]
    assert load(path, channels=3).element_spec[0].shape.as_list() == [16, 24, 3]


@pytest.mark.parametrize(("size", "crop"), [(16, None), (50, "center")])
def test_decoding_at_a_smaller_scale_hardly_changes_pixels(
    photos: str, size: int, crop: str | None
) -> None:
    near = all_images(load(photos, image_size=size, batch_size=4, crop=crop)).astype(float)
    exact = all_images(load(photos, image_size=size, batch_size=4, crop=crop, exact=True))
    assert 0 < np.abs(near - exact).mean() < 3


def test_a_smaller_scale_is_closer_to_an_antialiased_resize(tf: ModuleType, folder: Path) -> None:
    noise = np.random.default_rng(1).normal(128, 40, (4, 240, 320, 3)).clip(0, 255)
    for place, pixels in enumerate(noise):
        data = encode(Image.fromarray(pixels.astype(np.uint8)), "JPEG", quality=95)
        write_tree(folder / "noise", {f"x/{place}.jpg": data})
    path = packed(folder, "noise")
    records = imgrec.open_dataset(path)["train"]
    smooth = [tf.image.resize(record.numpy(), (50, 50), antialias=True) for record in records]
    near = all_images(load(path, image_size=50, batch_size=4))
    exact = all_images(load(path, image_size=50, batch_size=4, exact=True))
    assert np.abs(near - smooth).mean() < np.abs(exact - smooth).mean() / 2


@pytest.mark.parametrize("size", [(10, 10), (4, 40)])
def test_a_centre_crop_keeps_proportions(photos: str, size: tuple[int, int]) -> None:
    images = rows(load(photos, image_size=size, crop="center", exact=True))
    for (image, _), record in zip(images, imgrec.open_dataset(photos)["train"], strict=True):
        whole = Image.fromarray(record.numpy())
        fitted = ImageOps.fit(whole, size[::-1], Image.Resampling.BILINEAR)
        assert np.abs(image.astype(int) - np.asarray(fitted)).mean() < 8


def test_random_crops_differ_and_depend_on_the_seed(photos: str) -> None:
    data, again = (
        load(photos, image_size=12, batch_size=8, crop="random", seed=5) for _ in range(2)
    )
    (first, labels), (second, _) = next(iter(data)), next(iter(data))
    assert first.shape == (8, 12, 12, 3)
    assert not np.array_equal(first, second)
    (same, same_labels), *_ = rows(again)
    assert np.array_equal(first, same)
    assert np.array_equal(labels, same_labels)


def turned(order: str, orientation: int) -> bytes:
    """A JPEG with an EXIF orientation, in either byte order."""
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F] = "A camera"
    exif[0x0112] = orientation
    return jpeg(1, (48, 32), exif=exif, quality=95)


def test_orientation_is_applied_on_request(folder: Path) -> None:
    photos = {f"{order}{turn}.jpg": turned(order, turn) for order in "<>" for turn in range(1, 9)}
    files = {**photos, "plain.png": png(2, (48, 32))}
    write_tree(folder / "turned", {f"x/{name}": data for name, data in files.items()})
    path = packed(folder, "turned")
    assert {image.shape for image in by_name(path).values()} == {(32, 48, 3)}
    assert by_name(path, orient=True)["plain.png"].shape == (32, 48, 3)
    for options in ({}, {"image_size": (10, 20)}, {"image_size": (10, 20), "crop": "center"}):
        images = by_name(path, orient=True, **options)
        for name, data in photos.items():
            expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            if options:
                resize = ImageOps.fit if "crop" in options else Image.Image.resize
                expected = resize(expected, (20, 10), Image.Resampling.BILINEAR)
            difference = images[name].astype(int) - np.asarray(expected)
            assert np.abs(difference).mean() < (8 if options else 4), name


# Which records, and in what order


@pytest.mark.parametrize("spec", ["train[:50%]", "train[1shard]", "all"])
def test_a_split_is_that_of_tfds(photos: str, spec: str) -> None:
    import tensorflow_datasets as tfds

    theirs = tfds.builder_from_directory(photos).as_dataset(split=spec)
    ours = names(load(photos, spec, as_dict=True))
    assert sorted(ours) == sorted(names(theirs))
    assert ours == [record.filename for record in imgrec.open_dataset(photos)[spec]]


@pytest.mark.parametrize(("count", "shuffle"), [(3, False), (5, True)])
def test_jobs_share_the_records(photos: str, count: int, shuffle: bool) -> None:
    parts = [
        names(load(photos, as_dict=True, shard=(index, count), shuffle=shuffle))
        for index in range(count)
    ]
    everything = [record.filename for record in imgrec.open_dataset(photos)["train"]]
    assert sorted(chain.from_iterable(parts)) == sorted(everything)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("cache", [False, True])
def test_shuffling_depends_on_seed_and_epoch(tiny: str, cache: bool) -> None:
    options = {"as_dict": True, "shuffle": True, "image_size": (16, 24), "cache": cache}
    data, again, other = (load(tiny, seed=seed, **options) for seed in (3, 3, None))
    first, second = names(data), names(data)
    assert [first, second] == [names(again), names(again)]
    assert first != second
    assert sorted(first) == sorted(names(other)) == sorted(names(load(tiny, as_dict=True)))
    assert int(data.cardinality()) == 300


def test_a_number_is_the_size_of_the_shuffle_buffer(tiny: str) -> None:
    options = {"as_dict": True, "split": "train[0shard]"}
    assert names(load(tiny, shuffle=1, seed=1, **options)) == names(load(tiny, **options))


def test_epochs_are_repeated(tf: ModuleType, tiny: str) -> None:
    for repeat, count in ((2, 600), (1, 300), (0, 300)):
        data = load(tiny, batch_size=64, repeat=repeat)
        assert sum(len(labels) for _, labels in rows(data)) == count
    for batch_size in (64, 200):
        data = load(tiny, batch_size=batch_size, repeat=True, shuffle=True)
        assert int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
        assert sum(len(labels) for _, labels in rows(data.take(9))) == 9 * batch_size


def test_a_cached_split_has_the_same_images(tiny: str) -> None:
    options = {"image_size": (16, 24), "batch_size": 90, "scale": (0, 1)}
    cached, read = rows(load(tiny, cache=True, **options)), rows(load(tiny, **options))
    for (images, labels), (others, same) in zip(cached, read, strict=True):
        assert np.array_equal(labels, same)
        np.testing.assert_allclose(images, others)


def test_a_cache_of_images_of_one_size_needs_no_size(tiny: str) -> None:
    assert np.array_equal(
        all_images(load(tiny, cache=True, batch_size=90)), all_images(load(tiny, batch_size=90))
    )


@pytest.mark.parametrize("options", [{}, {"cache": True}, {"batch_size": 400, "shuffle": True}])
def test_flips_mirror_half_of_the_images_and_depend_on_seed_and_epoch(
    tiny: str, options: dict[str, Any]
) -> None:
    options = {"batch_size": 64, "as_dict": True, "image_size": (16, 24), **options}
    plain = {}
    for row in rows(load(tiny, **options)):
        plain |= zip(row["filename"], row["image"], strict=True)

    def flipped(data: Any) -> dict[bytes, bool]:
        found = {}
        for row in rows(data):
            for name, image in zip(row["filename"], row["image"], strict=True):
                is_mirrored = np.array_equal(image, plain[name][:, ::-1])
                assert is_mirrored or np.array_equal(image, plain[name])
                found[name] = is_mirrored
        return found

    data = load(tiny, flip=True, seed=7, **options)
    first, second = flipped(data), flipped(data)
    assert 90 < sum(first.values()) < 210
    assert first != second
    assert flipped(load(tiny, flip=True, seed=7, **options)) == first
    assert flipped(load(tiny, flip=True, seed=8, **options)) != first


def test_crops_and_flips_are_independent(photos: str) -> None:
    options = {"image_size": 8, "batch_size": 29, "crop": "random", "seed": 3}
    (cropped,), (both,) = (
        [images for images, _ in rows(load(photos, flip=flip, **options))] for flip in (False, True)
    )
    mirrored = [np.array_equal(a[:, ::-1], b) for a, b in zip(cropped, both, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(cropped, both, strict=True)]
    assert sum(mirrored) + sum(same) == 29
    assert min(sum(mirrored), sum(same)) > 3


@pytest.mark.parametrize("options", [{}, {"batch_size": 64}, {"batch_size": 64, "cache": True}])
def test_labels_can_be_a_zero_or_one_for_each_class(tiny: str, options: dict[str, Any]) -> None:
    labels = [labels for _, labels in rows(load(tiny, **options))]
    vectors = [labels for _, labels in rows(load(tiny, labels="onehot", **options))]
    for numbers, rows_of in zip(labels, vectors, strict=True):
        assert rows_of.dtype == np.float32
        assert np.array_equal(rows_of, np.eye(2)[numbers])


def test_images_without_a_label_have_minus_one(folder: Path) -> None:
    files = {"train/a/1.jpg": jpeg(1), "train/b/2.jpg": jpeg(2), "test/3.jpg": jpeg(3)}
    write_tree(folder / "unlabelled", files)
    path = packed(folder, "unlabelled")
    assert [label for _, label in rows(load(path, "test", balance=True))] == [-1]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_shards_are_read(folder: Path, tiny: str, compression: str) -> None:
    path = packed(folder, "tiny", compression=compression, name=f"tiny_{compression}", shards=4)
    assert names(load(path, as_dict=True)) == names(load(tiny, as_dict=True))


# Wrong use


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": (0, 3)}, "image_size cannot be"),
        ({"image_size": "big"}, "image_size cannot be 'big'"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"shuffle": -1}, "shuffle must be at least 0"),
        ({"channels": 2}, "channels cannot be 2"),
        ({"crop": "centre", "image_size": 8}, "crop cannot be 'centre'"),
        ({"crop": "center"}, "crop needs image_size"),
        ({"dtype": "int8"}, "dtype cannot be 'int8'"),
        ({"dtype": "uint8", "scale": (0, 1)}, "scaled images cannot be 'uint8'"),
        ({"scale": 2}, "scale cannot be 2"),
        ({"shard": (2, 2)}, r"shard cannot be \(2, 2\)"),
        ({"cache": True}, "images of different sizes cannot be cached"),
        ({"cache": True, "image_size": 8, "crop": "random"}, "cache keeps the same pixels"),
        ({"labels": "one_hot"}, "labels cannot be 'one_hot'"),
        ({"flip": 1}, "flip cannot be 1"),
        ({"batch_size": 8}, "images of different sizes cannot be batched"),
        ({"split": "train[:0]"}, "is empty"),
        ({"split": "train[7]"}, "is not a split"),
    ],
)
def test_wrong_options_are_usage_errors(photos: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(photos, **options)


def test_an_unknown_split_is_refused_before_tensorflow_is_imported(photos: str) -> None:
    with pytest.raises(UnknownName, match="no split 'vla'") as caught:
        load(photos, "vla")
    assert "train, val" in caught.value.hint
    code = (
        "import sys, imgrec\n"
        "try:\n    imgrec.load(sys.argv[1], 'vla')\nexcept KeyError:\n"
        "    assert 'tensorflow' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, photos], check=True, env=environment)


def test_a_missing_shard_is_named(folder: Path) -> None:
    class_tree(folder / "holes", {"a": 5})
    path = Path(packed(folder, "holes"))
    (path / "holes-train.tfrecord-00000-of-00001").unlink()
    with pytest.raises(DatasetError, match=r"holes-train\.tfrecord-00000-of-00001"):
        load(path)


@pytest.mark.parametrize("cache", [False, True])
def test_a_truncated_shard_is_refused_before_training(folder: Path, cache: bool) -> None:
    class_tree(folder / "cut", {"a": 5})
    path = Path(packed(folder, "cut", overwrite=True))
    shard = path / "cut-train.tfrecord-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CorruptRecord, match=r"shards of train have \d+ bytes; expected") as found:
        load(path, image_size=8, cache=cache)
    assert found.value.hint.startswith(f"run imgrec verify {path}")


def test_a_damaged_record_is_an_error_of_imgrec_if_all_are_decoded_first(folder: Path) -> None:
    class_tree(folder / "flipped", {"a": 5})
    path = Path(packed(folder, "flipped"))
    shard = path / "flipped-train.tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptRecord, match=r"a record in .*/flipped/1\.0\.0 is damaged"):
        load(path, image_size=8, cache=True)


def test_a_missing_package_is_named_with_the_command() -> None:
    with pytest.raises(MissingExtra, match=r"imgrec\.load needs no_such_package") as caught:
        import_extra("no_such_package", extra="tfds", what="imgrec.load")
    assert caught.value.hint == "pip install 'imgrec[tfds]'"


# Continuing


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of 50 images in 10 shards."""
    folder = tmp_path_factory.mktemp("sharded")
    class_tree(folder / "trees", {"ash": 26, "fir": 24})
    return str(pack(folder / "trees", folder / "data", shards=10))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"shuffle": 10, "flip": True},
        {"shuffle": 7, "shard": (1, 2), "drop_remainder": True},
        {"shard": (1, 2), "drop_remainder": True, "batch_size": None},
        {"balance": True, "shuffle": True, "flip": True},
        {"cache": True, "shuffle": True, "flip": True},
        {"shuffle": 10, "crop": "random", "repeat": True},
        {"shuffle": 10, "repeat": False},
    ],
)
def test_skip_to_is_the_rest_of_the_same_batches(sharded: str, options: dict[str, Any]) -> None:
    options = {"batch_size": 6, "repeat": 3, **options, "seed": 4, "image_size": 8}
    batches = [images.numpy().tobytes() for images, _ in load(sharded, **options).take(40)]
    rest = load(sharded, skip_to=7, **options)
    found = [images.numpy().tobytes() for images, _ in rest.take(40 - 7)]
    assert found == batches[7:]
    assert options["batch_size"] is None or int(rest.cardinality()) in (len(found), -1)


def test_what_is_skipped_is_not_decoded_and_skipped_shards_are_not_read(
    sharded: str, tmp_path: Path, tf: ModuleType
) -> None:
    copy = Path(shutil.copytree(sharded, tmp_path / "trees" / "1.0.0"))
    options: dict[str, Any] = {"batch_size": 5, "image_size": 8, "repeat": True, "seed": 1}
    for shuffle in (False, 5):
        wanted = [
            images.numpy().tobytes()
            for images, _ in load(copy, shuffle=shuffle, **options).skip(8).take(1)
        ]
        unused = []
        for shard in sorted(copy.glob("*of-00010")):
            whole = shard.read_bytes()
            shard.write_bytes(bytes(len(whole)))
            try:
                data = load(copy, shuffle=shuffle, skip_to=8, **options).take(1)
                assert [images.numpy().tobytes() for images, _ in data] == wanted
                unused.append(shard)
            except tf.errors.DataLossError:
                pass
            shard.write_bytes(whole)
        assert len(unused) >= 4


def test_skipping_everything_or_in_an_unknown_order_is_refused(sharded: str) -> None:
    with pytest.raises(UsageError, match="skip_to=5 leaves nothing of 5 batches"):
        load(sharded, batch_size=10, image_size=8, skip_to=5)
    with pytest.raises(UsageError, match="skip_to needs seed to continue a shuffled order"):
        load(sharded, shuffle=True, skip_to=5)
