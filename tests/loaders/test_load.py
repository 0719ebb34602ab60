"""`imgrec.load`, against what the real TensorFlow, TFDS and Pillow make of the same records."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image, ImageOps

import imgrec
from imgrec.errors import DatasetError, MissingExtra, UnknownName, UsageError
from imgrec.extras import import_extra
from imgrec.loaders import class_weights, load
from imgrec.options import PackOptions
from imgrec.options.loading import LoadOptions
from imgrec.read.splits import Piece, cut, part_of

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
    """Pack `root/source`; return where it is."""
    settings = {"data_dir": str(root / "data"), "check": "header", **options}
    return imgrec.pack(root / source, PackOptions(**settings)).info.path


@pytest.fixture(scope="module")
def photos(folder: Path) -> str:
    """JPEGs of several sizes, three classes of 20, 10 and 5."""
    seed = 0
    for name, count in {"a": 20, "b": 10, "c": 5}.items():
        for number in range(count):
            size = SIZES[seed % len(SIZES)]
            write_tree(folder / "photos", {f"{name}/{number}.jpg": jpeg(seed, size, quality=95)})
            seed += 1
    return packed(folder, "photos", shards=3, val_split=0.2)


@pytest.fixture(scope="module")
def tiny(folder: Path) -> str:
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


def all_images(data: Any) -> Any:
    return np.concatenate([images for images, _ in rows(data)])


# What comes out


def test_images_and_labels_are_those_of_the_records_in_their_order(photos: str) -> None:
    records = list(imgrec.open_dataset(photos)["train"])
    pairs = rows(load(photos))
    assert [label for _, label in pairs] == [record.label for record in records]
    for (image, _), record in zip(pairs, records, strict=True):
        assert image.dtype == np.uint8
        assert image.shape == record.shape
        assert np.abs(image.astype(int) - record.numpy()).max() <= 1


def test_a_size_gives_what_tensorflow_resizes_to(tf: ModuleType, photos: str) -> None:
    (image, _), *_ = rows(load(photos, image_size=(20, 25), exact=True, dtype="float32"))
    record = imgrec.open_dataset(photos)["train"][0]
    expected = tf.image.resize(tf.io.decode_jpeg(record.image, channels=3), (20, 25))
    np.testing.assert_allclose(image, expected, atol=1e-3)


def test_a_batch_is_uint8_and_rounded(tf: ModuleType, photos: str) -> None:
    images = all_images(load(photos, image_size=20, batch_size=8, exact=True))
    floats = all_images(load(photos, image_size=20, batch_size=8, exact=True, dtype="float32"))
    assert (images.dtype, images.shape[1:]) == (np.uint8, (20, 20, 3))
    assert np.abs(images - floats).max() <= 0.501


@pytest.mark.parametrize("batch_size", [1, 7, 28, 29, 100])
def test_no_image_is_lost_whatever_the_batch(photos: str, batch_size: int) -> None:
    data = load(photos, image_size=8, batch_size=batch_size)
    sizes = [len(labels) for _, labels in rows(data)]
    assert sum(sizes) == len(imgrec.open_dataset(photos)["train"])
    assert set(sizes[:-1]) <= {batch_size}
    assert int(data.cardinality()) == len(sizes)


@pytest.mark.parametrize("batch_size", [1, 7, 128, 150, 299, 300, 400])
def test_small_images_decoded_together_are_the_same(tiny: str, batch_size: int) -> None:
    data = load(tiny, batch_size=batch_size)
    single = rows(load(tiny))
    together = [pair for images, labels in rows(data) for pair in zip(images, labels, strict=True)]
    assert int(data.cardinality()) == -(-300 // batch_size)
    assert len(together) == len(single) == 300
    for (image, label), (other, same) in zip(together, single, strict=True):
        assert label == same
        assert np.array_equal(image, other)


@pytest.mark.parametrize("batch_size", [7, 128, 200])
def test_the_remainder_is_dropped_on_request(tiny: str, batch_size: int) -> None:
    data = load(tiny, batch_size=batch_size, drop_remainder=True)
    assert [len(labels) for _, labels in rows(data)] == [batch_size] * (300 // batch_size)
    assert data.element_spec[0].shape.as_list() == [batch_size, 16, 24, 3]
    assert int(data.cardinality()) == 300 // batch_size


def test_batches_that_come_out_even_have_a_static_size(tiny: str) -> None:
    assert load(tiny, batch_size=100).element_spec[0].shape[0] == 100
    assert load(tiny, batch_size=101).element_spec[0].shape[0] is None
    assert load(tiny, batch_size=101, repeat=True).element_spec[0].shape[0] == 101


def test_keras_trains_on_what_comes_out(tf: ModuleType, tiny: str) -> None:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    history = model.fit(load(tiny, batch_size=50, shuffle=True), verbose=0)
    assert np.isfinite(history.history["loss"][0])


# Pixels


@pytest.mark.parametrize(
    ("scale", "low", "high"), [((0, 1), 0.0, 1.0), ((-1, 1), -1.0, 1.0), ((0, 255), 0.0, 255.0)]
)
def test_a_scale_says_what_0_and_255_become(
    tiny: str, scale: tuple[int, int], low: float, high: float
) -> None:
    floats = all_images(load(tiny, batch_size=50, scale=scale))
    plain = all_images(load(tiny, batch_size=50))
    assert floats.dtype == np.float32
    np.testing.assert_allclose(floats, plain / 255 * (high - low) + low, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_dtype_without_a_scale_keeps_the_values(tiny: str, dtype: str) -> None:
    images = all_images(load(tiny, batch_size=50, dtype=dtype))
    assert str(images.dtype) == dtype
    assert np.array_equal(images.astype(float), all_images(load(tiny, batch_size=50)).astype(float))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [None, (9, 11)])
def test_every_kind_comes_out_with_the_channels_asked_for(
    kinds: str, channels: int, size: tuple[int, int] | None
) -> None:
    records = rows(load(kinds, as_dict=True, channels=channels, image_size=size))
    assert len(records) == len(KINDS)
    for record in records:
        assert record["image"].shape == (*(size or (16, 24)), channels)
        picture = Image.open(io.BytesIO(KINDS[record["filename"].decode().removeprefix("x/")]))
        if size is None and channels == 3 and picture.mode not in ("I;16", "CMYK"):
            shown = picture.convert("RGBA").convert("RGB")
            assert np.abs(record["image"].astype(int) - np.asarray(shown)).mean() < 2


def test_grey_images_alone_have_one_channel(folder: Path) -> None:
    files = {f"x/{seed}.jpg": jpeg(seed, mode="L") for seed in range(4)}
    write_tree(folder / "greys", files)
    path = packed(folder, "greys")
    assert load(path).element_spec[0].shape.as_list() == [16, 24, 1]
    assert load(path, channels=3).element_spec[0].shape.as_list() == [16, 24, 3]


def test_an_opaque_image_gets_full_alpha(kinds: str) -> None:
    by_name = {row["filename"]: row["image"] for row in rows(load(kinds, as_dict=True, channels=4))}
    assert (by_name[b"x/cmyk.jpg"][..., 3] == 255).all()
    assert (by_name[b"x/colour.bmp"][..., 3] == 255).all()
    assert by_name[b"x/alpha.png"][..., 3].min() < 20


@pytest.mark.parametrize("size", [16, 30, 50])
@pytest.mark.parametrize("crop", [None, "center"])
def test_decoding_smaller_hardly_changes_the_pixels(
    photos: str, size: int, crop: str | None
) -> None:
    near = all_images(load(photos, image_size=size, batch_size=4, crop=crop)).astype(float)
    exact = all_images(load(photos, image_size=size, batch_size=4, crop=crop, exact=True))
    assert np.abs(near - exact).mean() < 3


def test_decoding_smaller_is_closer_to_an_antialiased_resize(tf: ModuleType, folder: Path) -> None:
    noise = np.random.default_rng(1).normal(128, 40, (4, 240, 320, 3)).clip(0, 255)
    files = {
        f"x/{place}.jpg": encode(Image.fromarray(pixels.astype(np.uint8)), "JPEG", quality=95)
        for place, pixels in enumerate(noise)
    }
    write_tree(folder / "noise", files)
    path = packed(folder, "noise")
    smooth = np.stack(
        [
            tf.image.resize(record.numpy(), (50, 50), antialias=True)
            for record in imgrec.open_dataset(path)["train"]
        ]
    )
    near = all_images(load(path, image_size=50, batch_size=4))
    exact = all_images(load(path, image_size=50, batch_size=4, exact=True))
    assert np.abs(near - smooth).mean() < np.abs(exact - smooth).mean() / 2


def test_decoding_smaller_is_what_happens(photos: str) -> None:
    near = all_images(load(photos, image_size=8, batch_size=4))
    exact = all_images(load(photos, image_size=8, batch_size=4, exact=True))
    assert not np.array_equal(near, exact)


@pytest.mark.parametrize("size", [(10, 10), (20, 5), (4, 40)])
def test_a_centre_crop_keeps_proportions(photos: str, size: tuple[int, int]) -> None:
    images = rows(load(photos, image_size=size, crop="center", exact=True))
    for (image, _), record in zip(images, imgrec.open_dataset(photos)["train"], strict=True):
        upright = Image.fromarray(record.numpy())
        fitted = ImageOps.fit(upright, size[::-1], Image.Resampling.BILINEAR)
        assert np.abs(image.astype(int) - np.asarray(fitted)).mean() < 8


def test_a_random_crop_shows_parts_of_the_image_and_others_next_time(photos: str) -> None:
    data = load(photos, image_size=12, batch_size=28, crop="random", seed=5)
    (first, labels), (second, _) = next(iter(data)), next(iter(data))
    assert first.shape == (28, 12, 12, 3)
    assert not np.array_equal(first, second)
    (again, same), *_ = rows(load(photos, image_size=12, batch_size=28, crop="random", seed=5))
    assert np.array_equal(first, again)
    assert np.array_equal(labels, same)


ORIENTATIONS = tuple((order, turn) for order in "<>" for turn in range(1, 9))


def turned(order: str, orientation: int) -> bytes:
    """A JPEG that its Exif data, in either byte order, say to turn."""
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F] = "A camera"
    exif[0x0112] = orientation
    return jpeg(1, (48, 32), exif=exif, quality=95)


@pytest.fixture(scope="module")
def turned_photos(folder: Path) -> str:
    photos = {f"x/{number}.jpg": turned(*each) for number, each in enumerate(ORIENTATIONS)}
    write_tree(folder / "turned", {**photos, "x/plain.png": png(2, (48, 32))})
    return packed(folder, "turned")


def by_name(path: str, **options: Any) -> dict[str, Any]:
    """Load the images of a dataset, and return them by their file names."""
    loaded = rows(load(path, as_dict=True, **options))
    return {row["filename"].decode(): row["image"] for row in loaded}


@pytest.mark.parametrize(
    "wanted", [{}, {"image_size": (10, 20)}, {"image_size": (10, 20), "crop": "center"}]
)
def test_orientation_is_applied_on_request(turned_photos: str, wanted: dict[str, Any]) -> None:
    images = by_name(turned_photos, orient=True, **wanted)
    assert wanted or images["x/plain.png"].shape == (32, 48, 3)
    for number, each in enumerate(ORIENTATIONS):
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(turned(*each))))
        if wanted:
            fitted = ImageOps.fit if "crop" in wanted else Image.Image.resize
            expected = fitted(expected, (20, 10), Image.Resampling.BILINEAR)
        difference = images[f"x/{number}.jpg"].astype(int) - np.asarray(expected)
        assert np.abs(difference).mean() < (8 if wanted else 4), each


def test_orientation_is_left_alone_otherwise(turned_photos: str) -> None:
    assert {image.shape for image in by_name(turned_photos).values()} == {(32, 48, 3)}


# Which records, and in what order


@pytest.mark.parametrize("spec", ["train[:50%]", "train[3:9]", "train[1shard]", "train+val", "all"])
def test_a_part_of_a_split_is_the_one_tfds_reads(photos: str, spec: str) -> None:
    import tensorflow_datasets as tfds

    theirs = tfds.builder_from_directory(photos).as_dataset(split=spec)
    ours = names(load(photos, spec, as_dict=True))
    assert sorted(ours) == sorted(row["filename"].decode() for row in rows(theirs))
    assert ours == [record.filename for record in imgrec.open_dataset(photos)[spec]]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 28])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_parts_of_a_job_have_each_record_once(photos: str, count: int, shuffle: bool) -> None:
    parts = [
        names(load(photos, as_dict=True, shard=(index, count), shuffle=shuffle))
        for index in range(count)
    ]
    everything = [record.filename for record in imgrec.open_dataset(photos)["train"]]
    assert sorted(chain.from_iterable(parts)) == sorted(everything)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_shuffling_loses_nothing_and_differs_from_epoch_to_epoch(tiny: str) -> None:
    data = load(tiny, as_dict=True, shuffle=True)
    first, second = names(data), names(data)
    assert sorted(first) == sorted(second) == sorted(names(load(tiny, as_dict=True)))
    assert first != second
    assert int(data.cardinality()) == 300


@pytest.mark.parametrize("cache", [False, True])
def test_a_seed_gives_the_same_epochs_again(tiny: str, cache: bool) -> None:
    def epochs() -> list[list[str]]:
        options = {"as_dict": True, "shuffle": True, "seed": 3, "image_size": (16, 24)}
        data = load(tiny, cache=cache, **options)
        return [names(data), names(data)]

    first = epochs()
    assert first == epochs()
    assert first[0] != first[1]


def test_a_number_says_how_far_records_are_shuffled(tiny: str) -> None:
    names_ = names(load(tiny, as_dict=True, shuffle=1, seed=1, split="train[0shard]"))
    assert names_ == names(load(tiny, as_dict=True, split="train[0shard]"))


@pytest.mark.parametrize(("repeat", "count"), [(2, 600), (1, 300), (0, 300), (False, 300)])
def test_epochs_are_repeated(tiny: str, repeat: int, count: int) -> None:
    data = load(tiny, batch_size=64, repeat=repeat)
    assert sum(len(labels) for _, labels in rows(data)) == count


def test_repeating_for_ever_is_infinite(tf: ModuleType, tiny: str) -> None:
    for batch_size in (64, 200):
        data = load(tiny, batch_size=batch_size, repeat=True, shuffle=True)
        assert int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
        assert sum(len(labels) for _, labels in rows(data.take(9))) == 9 * batch_size


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_balance_shows_all_classes_as_often_as_the_largest(
    photos: str, cache: bool, shuffle: bool
) -> None:
    data = load(photos, balance=True, shuffle=shuffle, cache=cache, image_size=8, as_dict=True)
    records = rows(data)
    counts = Counter(int(record["label"]) for record in records)
    assert counts == {0: 16, 1: 16, 2: 16}
    assert int(data.cardinality()) == 48
    everything = {record.filename for record in imgrec.open_dataset(photos)["train"]}
    assert {record["filename"].decode() for record in records} == everything


def test_what_is_in_memory_is_the_same(tiny: str) -> None:
    options = {"image_size": (16, 24), "batch_size": 90, "scale": (0, 1)}
    kept, read = rows(load(tiny, cache=True, **options)), rows(load(tiny, **options))
    for (images, labels), (others, same) in zip(kept, read, strict=True):
        assert np.array_equal(labels, same)
        np.testing.assert_allclose(images, others)


# What else a record holds


@pytest.fixture(scope="module")
def tagged(folder: Path) -> str:
    root = write_tree(folder / "tagged", {f"{seed}.jpg": jpeg(seed) for seed in range(6)})
    tags = ["cat", "cat dog", "dog", "", "bird cat dog", "bird"]
    with open(root / "tags.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "tags", "age", "weight", "clinic"])
        writer.writerows([f"{n}.jpg", tags[n], n, n / 2, f"clinic {n}"] for n in range(6))
    columns = (("age", "int"), ("weight", "float"), ("clinic", "text"))
    source = imgrec.SourceOptions(
        label_sep=" ",
        column=tuple(imgrec.ColumnOption(name, imgrec.ColumnKind(kind)) for name, kind in columns),
    )
    options = PackOptions(source=source, data_dir=str(folder / "data"), max_bad=0.5)
    return imgrec.pack(root / "tags.csv", options).info.path


@pytest.mark.parametrize("batch_size", [None, 3])
def test_several_labels_are_a_one_for_each_class(tagged: str, batch_size: int | None) -> None:
    found = rows(load(tagged, as_dict=True, batch_size=batch_size))
    if batch_size:
        found = [
            dict(zip(b, row, strict=True)) for b in found for row in zip(*b.values(), strict=True)
        ]
    by_name = {row["filename"].decode(): row for row in found}
    assert by_name["1.jpg"]["labels"].tolist() == [0, 1, 1]
    assert by_name["5.jpg"]["labels"].tolist() == [1, 0, 0]
    assert by_name["1.jpg"]["labels"].dtype == np.float32
    assert by_name["4.jpg"]["age"] == 4
    assert by_name["5.jpg"]["weight"] == 2.5
    assert by_name["2.jpg"]["clinic"] == b"clinic 2"
    assert by_name["2.jpg"]["shape"].tolist() == [16, 24, 3]


def test_images_with_several_labels_cannot_be_balanced(tagged: str) -> None:
    with pytest.raises(UsageError, match="several labels cannot be balanced"):
        load(tagged, balance=True)


def test_images_without_a_label_have_minus_one(folder: Path) -> None:
    files = {"train/a/1.jpg": jpeg(1), "train/b/2.jpg": jpeg(2), "test/3.jpg": jpeg(3)}
    write_tree(folder / "unlabelled", files)
    path = packed(folder, "unlabelled")
    assert [label for _, label in rows(load(path, "test", balance=True))] == [-1]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_shards_are_read_too(folder: Path, tiny: str, compression: str) -> None:
    path = packed(folder, "tiny", compression=compression, name=f"tiny_{compression}", shards=4)
    assert names(load(path, as_dict=True)) == names(load(tiny, as_dict=True))


# Weights


def test_weights_make_all_classes_count_alike(photos: str) -> None:
    weights = class_weights(photos)
    counts = Counter(imgrec.open_dataset(photos)["train"].labels)
    assert {label: weights[label] * counts[label] for label in counts} == pytest.approx(
        dict.fromkeys(counts, 28 / 3)
    )


def test_weights_of_a_part_have_all_classes(photos: str) -> None:
    assert set(class_weights(photos, "train[:10%]")) == {0, 1, 2}


def test_weights_of_several_labels_an_image_are_refused(tagged: str) -> None:
    with pytest.raises(imgrec.UsageError, match="Keras weighs each image by one"):
        class_weights(tagged)


# Wrong use


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": (0, 3)}, "image_size cannot be"),
        ({"image_size": "big"}, "image_size cannot be 'big'"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": -1}, "batch_size must be at least 1"),
        ({"shuffle": -1}, "shuffle must be at least 0"),
        ({"channels": 2}, "channels cannot be 2"),
        ({"crop": "centre", "image_size": 8}, "crop cannot be 'centre'"),
        ({"crop": "center"}, "crop needs image_size"),
        ({"dtype": "int8"}, "dtype cannot be 'int8'"),
        ({"dtype": "uint8", "scale": (0, 1)}, "scaled images cannot be 'uint8'"),
        ({"scale": 2}, "scale cannot be 2"),
        ({"shard": (2, 2)}, r"shard cannot be \(2, 2\)"),
        ({"shard": 1}, "shard cannot be 1"),
        ({"cache": True}, "cache keeps the same images of one size"),
        (
            {"cache": True, "image_size": 8, "crop": "random"},
            "cache keeps the same images of one size",
        ),
        ({"batch_size": 8}, "images of different sizes cannot be batched"),
        ({"split": "train[:0]"}, "is empty"),
        ({"split": "train[7]"}, "is not a split"),
    ],
)
def test_wrong_use_is_answered(photos: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(photos, **options)


def test_an_unknown_split_lists_what_there_is(photos: str) -> None:
    with pytest.raises(UnknownName, match="no split 'valid'") as caught:
        load(photos, "valid")
    assert "train, val" in caught.value.hint


def test_a_missing_shard_is_named(folder: Path) -> None:
    class_tree(folder / "holes", {"a": 5})
    path = Path(packed(folder, "holes"))
    shard = path / "holes-train.tfrecord-00000-of-00001"
    shard.unlink()
    with pytest.raises(DatasetError, match=r"holes-train\.tfrecord-00000-of-00001"):
        load(path)


def test_a_missing_package_is_named_with_the_command() -> None:
    with pytest.raises(MissingExtra, match=r"imgrec\.load needs no_such_package") as caught:
        import_extra("no_such_package", extra="tfds", what="imgrec.load")
    assert caught.value.hint == "pip install 'imgrec[tfds]'"


def test_wrong_options_are_found_before_tensorflow_is_imported(photos: str) -> None:
    code = (
        "import sys, imgrec\n"
        "try:\n    imgrec.load(sys.argv[1], 'valid')\nexcept KeyError:\n"
        "    assert 'tensorflow' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, photos], check=True, env=environment)


# The pure parts


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 5))
def test_parts_are_disjoint_even_and_together_everything(lengths: list[int], count: int) -> None:
    ranges, start = [], 0
    for length in lengths:
        ranges.append(range(start, start + length))
        start += length + 3
    parts = [part_of(ranges, index, count) for index in range(count)]
    numbers = [[n for records in part for n in records] for part in parts]
    assert list(chain.from_iterable(numbers)) == [n for records in ranges for n in records]
    assert max(map(len, numbers)) - min(map(len, numbers)) <= 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_pieces_hold_just_the_records_of_a_range(lengths: list[int], data: st.DataObject) -> None:
    total = sum(lengths)
    start = data.draw(st.integers(0, total))
    records = range(start, data.draw(st.integers(start, total)))
    starts = [sum(lengths[:shard]) for shard in range(len(lengths))]
    pieces = list(cut([records], lengths))
    numbers = [
        starts[piece.shard] + piece.skip + place for piece in pieces for place in range(piece.take)
    ]
    assert numbers == list(records)
    assert all(piece == Piece(*piece) and piece.take > 0 for piece in pieces)


def test_options_take_a_number_for_both_sides() -> None:
    assert LoadOptions(image_size=224).image_size == (224, 224)  # type: ignore[arg-type]
