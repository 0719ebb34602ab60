"""A packed dataset in the real PyTorch."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from imgrec.api import open_dataset, pack
from imgrec.errors import (
    BadImage,
    DatasetError,
    DatasetNotFound,
    OutOfRange,
    UnknownName,
    UsageError,
)
from imgrec.loaders import torch_dataset
from imgrec.options import Check, PackOptions, SourceOptions

HAS_TORCH = find_spec("torch") is not None
if HAS_TORCH:
    import torch
    from torch.utils.data import (
        ConcatDataset,
        DataLoader,
        Dataset,
        DistributedSampler,
        WeightedRandomSampler,
        random_split,
    )

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is missing: pip install 'imgrec[torch]'"),
]

CLASSES = {"ash": 5, "birch": 7, "2": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with `trees`: JPEGs of 24x16 in three classes, unlabelled ones in test."""
    folder = tmp_path_factory.mktemp("torch")
    source = folder / "trees"
    class_tree(source / "train", CLASSES)
    write_tree(source, {f"test/{number}.jpg": jpeg(100 + number) for number in range(3)})
    return packed(source, folder / "data")


def packed(path: Path, data_dir: Path, **options: Any) -> Path:
    pack(path, PackOptions(data_dir=str(data_dir), workers=1, **options))
    return data_dir


@pytest.fixture
def pack_images(tmp_path: Path) -> Callable[..., Path]:
    """Pack images into a dataset `things` of one class; return where it is."""

    def make(*images: bytes, **options: Any) -> Path:
        files = {f"things/{number}": data for number, data in enumerate(images)}
        source = write_tree(tmp_path / "source", files)
        return packed(source, tmp_path / "data", name="things", **options)

    return make


def pillow_to_tensor(image: Image.Image) -> torch.Tensor:
    """Stand for a user's transform; at the top level, so that it pickles."""
    assert isinstance(image, Image.Image)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def keep(value: Any) -> Any:
    return value


def mode_and_size(image: Image.Image) -> tuple[str, tuple[int, int]]:
    return image.mode, image.size


# Images.


def test_without_a_transform_an_image_is_a_uint8_tensor_channels_first(root: Path) -> None:
    data = torch_dataset(root)
    image, _ = data[3]
    assert (image.dtype, image.shape) == (torch.uint8, (3, 16, 24))
    assert image.is_contiguous()
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(data.records[3].pil()))


def test_a_transform_gets_the_picture_that_pillow_decodes(root: Path) -> None:
    data = torch_dataset(root, transform=keep)
    image, _ = data[3]
    assert isinstance(image, Image.Image)
    assert image.mode == "RGB"
    assert image.tobytes() == Image.open(io.BytesIO(data.records[3].image)).tobytes()


def test_with_tensors_a_transform_gets_what_there_is_without_one(root: Path) -> None:
    image, _ = torch_dataset(root, transform=lambda image: image + 1, tensors=True)[3]
    assert torch.equal(image, torch_dataset(root)[3][0] + 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_all_images_have_the_channels_asked_for(
    pack_images: Callable[..., Path], channels: int
) -> None:
    modes = ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"]
    images = [png(seed, mode=mode) for seed, mode in enumerate(modes)]
    images += [jpeg(20, mode="L"), jpeg(21, mode="CMYK"), encode(picture(22), "BMP")]
    where = pack_images(*images)
    shapes = [tuple(image.shape) for image, _ in torch_dataset(where, channels=channels)]
    assert shapes == [(channels, 16, 24)] * len(images)
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    pictures = torch_dataset(where, channels=channels, transform=mode_and_size)
    assert {kind for kind, _ in pictures} == {(mode, (24, 16))}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("image_size", "shape"), [(8, (8, 8)), ((20, 40), (20, 40))])
def test_with_an_image_size_all_images_have_it(
    root: Path, image_size: Any, shape: tuple[int, int], channels: int
) -> None:
    data = torch_dataset(root, image_size=image_size, channels=channels)
    assert {tuple(image.shape) for image, _ in data} == {(channels, *shape)}


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_a_transform_gets_pictures_of_the_image_size(root: Path, channels: int, mode: str) -> None:
    data = torch_dataset(root, image_size=(8, 12), channels=channels, transform=mode_and_size)
    assert {kind for kind, _ in data} == {(mode, (12, 8))}


@pytest.mark.parametrize("size", [(37, 53), (16, 24), (5, 9), (90, 60)])
def test_an_exact_resize_is_that_of_pillow_within_one_level(
    pack_images: Callable[..., Path], size: tuple[int, int]
) -> None:
    where = pack_images(jpeg(0, (120, 90)), png(1, (33, 70)), png(2, (40, 40), mode="RGBA"))
    for image, record in zip(
        torch_dataset(where, image_size=size, exact=True),
        open_dataset(where)["train"],
        strict=True,
    ):
        expected = record.pil().convert("RGB").resize(size[::-1], Image.Resampling.BILINEAR)
        given = image[0].permute(1, 2, 0).numpy().astype(int)
        assert np.abs(given - np.asarray(expected)).max() <= 1


@pytest.fixture
def photo(pack_images: Callable[..., Path]) -> Image.Image:
    """A picture as transforms get it."""
    image: Image.Image = torch_dataset(pack_images(jpeg(3, (120, 90))), transform=keep)[0][0]
    return image


@pytest.mark.parametrize("size", [(224, 224), (30, 17), (120, 90), [64, 48]])
def test_a_transform_that_resizes_gets_the_pixels_of_pillow_within_one_level(
    photo: Image.Image, size: Any
) -> None:
    bilinear = Image.Resampling.BILINEAR
    resized, expected = photo.resize(size, bilinear), photo.copy().resize(size, bilinear)
    assert (resized.mode, resized.size) == (expected.mode, expected.size)
    difference = np.asarray(resized).astype(int) - np.asarray(expected)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize(
    "how",
    [
        {"resample": Image.Resampling.BICUBIC},
        {},
        {"resample": Image.Resampling.BILINEAR, "box": (10, 10, 60, 50)},
        {"resample": Image.Resampling.BILINEAR, "reducing_gap": 2.0},
        {"resample": Image.Resampling.NEAREST},
    ],
)
def test_any_other_resize_is_exactly_pillows(photo: Image.Image, how: dict[str, Any]) -> None:
    assert photo.resize((33, 21), **how).tobytes() == photo.copy().resize((33, 21), **how).tobytes()


def test_a_picture_that_was_drawn_on_is_resized_as_it_is_now(root: Path) -> None:
    image, _ = torch_dataset(root, transform=keep)[0]
    image.paste((255, 0, 0), (0, 0, 24, 16))
    assert image.resize((5, 5), Image.Resampling.BILINEAR).getpixel((2, 2)) == (255, 0, 0)
    assert torch_dataset(root)[0][0][0].min() < 255


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    "use",
    [
        lambda image: np.asarray(image).tobytes(),
        lambda image: image.tobytes(),
        lambda image: image.getpixel((5, 5)),
        lambda image: image.convert("CMYK").tobytes(),
        lambda image: image.crop((1, 2, 9, 8)).resize((5, 5), 2).tobytes(),
        lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).tobytes(),
        lambda image: image.rotate(30, fillcolor=0).tobytes(),
        lambda image: ImageEnhance.Brightness(image).enhance(0.5).tobytes(),
        lambda image: image.filter(ImageFilter.GaussianBlur(2)).tobytes(),
        lambda image: [band.tobytes() for band in image.split()],
        lambda image: (image.width, image.height, image.mode, image.getbands(), image.getbbox()),
        lambda image: image.histogram(),
        lambda image: image.thumbnail((7, 7)) or image.tobytes(),
        lambda image: image.putpixel((1, 1), image.getpixel((9, 9))) or image.tobytes(),
        lambda image: ImageDraw.Draw(image).line((0, 0, 9, 9), width=2) or image.tobytes(),
        lambda image: encode(image, "PNG"),
        lambda image: copy.deepcopy(image).tobytes(),
        lambda image: pickle.loads(pickle.dumps(image)).tobytes(),
    ],
)
def test_whatever_a_transform_does_it_does_with_a_picture_of_pillows(
    root: Path, channels: int, use: Callable[[Image.Image], object]
) -> None:
    data = torch_dataset(root, transform=keep, channels=channels)
    pixels = torch_dataset(root, channels=channels)[0][0].permute(1, 2, 0).numpy()
    plain = Image.fromarray(pixels.squeeze().copy())
    assert use(data[0][0]) == use(plain)


def test_a_size_that_no_picture_has_is_refused_as_pillow_does(photo: Image.Image) -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        photo.resize((0, 5), Image.Resampling.BILINEAR)


def test_a_picture_travels_between_processes(photo: Image.Image) -> None:
    again = pickle.loads(pickle.dumps(photo))
    assert again.tobytes() == photo.tobytes()
    assert again.resize((9, 9), 2).tobytes() == photo.resize((9, 9), 2).tobytes()


def test_a_picture_and_a_tensor_of_one_size_have_the_same_pixels(root: Path) -> None:
    picture_of = torch_dataset(root, image_size=11, transform=np.array)[2][0]
    assert np.array_equal(picture_of, torch_dataset(root, image_size=11)[2][0].permute(1, 2, 0))


def test_decode_size_hands_a_transform_a_smaller_picture_that_still_covers(
    pack_images: Callable[..., Path],
) -> None:
    where = pack_images(jpeg(0, (400, 300)))
    data = torch_dataset(where, decode_size=64, transform=mode_and_size)
    assert data[0][0] == ("RGB", (100, 75))


def test_orient_turns_pictures_upright(pack_images: Callable[..., Path]) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    where = pack_images(jpeg(0, (40, 24), exif=tags.tobytes()))
    assert torch_dataset(where)[0][0].shape == (3, 24, 40)
    assert torch_dataset(where, orient=True)[0][0].shape == (3, 40, 24)


# Targets.


def test_an_image_comes_with_its_label(root: Path) -> None:
    data = torch_dataset(root)
    assert [label for _, label in data] == [record.label for record in data.records]
    assert type(data[0][1]) is int


def test_classes_and_targets_are_those_of_an_image_folder(root: Path) -> None:
    data = torch_dataset(root)
    assert data.classes == ["2", "ash", "birch"]
    assert data.class_to_idx == {"2": 0, "ash": 1, "birch": 2}
    assert data.targets == [label for _, label in data]
    assert [data.targets.count(label) for label in range(3)] == [4, 5, 7]


def test_a_target_transform_gets_the_label(root: Path) -> None:
    data = torch_dataset(root, target_transform=lambda label: label * 10)
    assert [label for _, label in data] == [record.label * 10 for record in data.records]


def test_an_image_without_a_label_has_minus_one(root: Path) -> None:
    data = torch_dataset(root, "test")
    assert [label for _, label in data] == data.targets == [-1, -1, -1]


def test_several_labels_are_a_zero_or_one_for_each_class(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {f"{number}.jpg": jpeg(number) for number in range(4)})
    rows = ["image,tags", "0.jpg,cat dog", "1.jpg,", "2.jpg,dog", "3.jpg,eel cat"]
    (tmp_path / "in" / "tags.csv").write_text("\n".join(rows))
    data_dir = packed(
        tmp_path / "in" / "tags.csv", tmp_path / "data", name="tagged",
        source=SourceOptions(label_sep=" "),
    )  # fmt: skip
    data = torch_dataset(data_dir)
    found = {
        record.filename: target for record, (_, target) in zip(data.records, data, strict=True)
    }
    assert data.classes == ["cat", "dog", "eel"]
    assert {name: target.tolist() for name, target in found.items()} == {
        "0.jpg": [1, 1, 0], "1.jpg": [0, 0, 0], "2.jpg": [0, 1, 0], "3.jpg": [1, 0, 1],
    }  # fmt: skip
    _, targets = next(iter(DataLoader(data, batch_size=4)))
    assert (targets.dtype, targets.shape) == (torch.float32, (4, 3))
    assert {frozenset(labels) for labels in data.targets} == {
        frozenset({0, 1}), frozenset(), frozenset({1}), frozenset({0, 2})
    }  # fmt: skip


# Which records.


def test_a_split_may_be_given_in_the_words_of_tfds(root: Path) -> None:
    data = torch_dataset(root, "train[:25%]+test")
    assert len(data) == 4 + 3
    assert data.targets == [label for _, label in data]


@pytest.mark.parametrize("level", ["", "trees", "trees/1.0.0"])
def test_a_dataset_is_found_by_a_path_at_any_level(root: Path, level: str) -> None:
    assert len(torch_dataset(root / level)) == 16


def test_a_dataset_is_found_by_its_name(root: Path) -> None:
    assert len(torch_dataset("trees", data_dir=root)) == 16


def test_an_opened_dataset_may_be_given(root: Path) -> None:
    opened = open_dataset(root)
    data = torch_dataset(opened, "test")
    assert data.records.dataset is opened
    assert len(data) == 3


def test_numbers_of_torch_and_numpy_count_as_numbers(root: Path) -> None:
    data = torch_dataset(root)
    for number in (5, torch.tensor(5), np.int64(5), -11):
        assert torch.equal(data[number][0], data[5][0])


@pytest.mark.parametrize("place", [slice(2), [1, 2], "ash", 1.0])
def test_only_numbers_count_as_numbers(root: Path, place: Any) -> None:
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        torch_dataset(root)[place]


def test_a_number_out_of_range_ends_iteration_and_says_what_there_is(root: Path) -> None:
    data = torch_dataset(root)
    assert len(list(data)) == 16
    with pytest.raises(OutOfRange, match="train has 16 records; 16 is out of range"):
        data[16]


def test_a_batch_is_its_images_one_by_one(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    batch = data.__getitems__([7, 0, 7])
    assert [label for _, label in batch] == [data[7][1], data[0][1], data[7][1]]
    assert torch.equal(batch[2][0], data[7][0])


# In PyTorch.


@pytest.mark.parametrize(
    ("workers", "context"),
    [
        (0, None),
        (2, "fork"),
        pytest.param(1, "spawn", marks=pytest.mark.slow),
        pytest.param(1, "forkserver", marks=pytest.mark.slow),
    ],
)
def test_a_loader_gives_all_images_in_order(root: Path, workers: int, context: str | None) -> None:
    data = torch_dataset(root, transform=pillow_to_tensor)
    expected = [pillow_to_tensor(record.pil()) for record in data.records]
    loader = DataLoader(
        data, batch_size=5, num_workers=workers, multiprocessing_context=context,
        timeout=120 if workers else 0,
    )  # fmt: skip
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [5, 5, 5, 1]
    assert torch.equal(torch.cat([images for images, _ in batches]), torch.stack(expected))
    assert torch.cat([labels for _, labels in batches]).tolist() == data.targets


def test_workers_forked_after_the_parent_has_read_and_resized_read_right(root: Path) -> None:
    data = torch_dataset(root, image_size=9)
    before = torch.stack([image for image, _ in data])
    for _ in range(2):
        loader = DataLoader(
            data, batch_size=3, num_workers=2, multiprocessing_context="fork", timeout=120
        )
        assert torch.equal(torch.cat([images for images, _ in loader]), before)


def test_persistent_workers_give_every_epoch_whole(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    loader = DataLoader(
        data, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True, timeout=120
    )
    for _ in range(3):
        labels = torch.cat([labels for _, labels in loader])
        assert sorted(labels.tolist()) == sorted(data.targets)


def test_a_shuffle_is_the_same_for_any_number_of_workers(root: Path) -> None:
    data = torch_dataset(root, image_size=8)

    def epoch(workers: int) -> torch.Tensor:
        chance = torch.Generator().manual_seed(7)
        loader = DataLoader(data, batch_size=4, shuffle=True, generator=chance, num_workers=workers)
        return torch.cat([images for images, _ in loader])

    assert torch.equal(epoch(0), epoch(2))


def test_distributed_jobs_together_see_every_image_once(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    seen: list[int] = []
    for rank in range(2):
        sampler: Any = DistributedSampler(data, num_replicas=2, rank=rank, shuffle=True)
        images = torch.cat([images for images, _ in DataLoader(data, 4, sampler=sampler)])
        assert len(images) == 8
        seen += list(sampler)
    assert sorted(seen) == list(range(16))


def test_what_takes_a_dataset_of_torch_takes_ours(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    assert isinstance(data, Dataset)
    both = data + torch_dataset(root, "test", image_size=8)
    assert isinstance(both, ConcatDataset)
    assert len(both) == 19
    some, rest = random_split(data, [0.25, 0.75])
    assert len(list(DataLoader(some, 4))) + len(list(DataLoader(rest, 4))) == 1 + 3
    weights = [1 / data.targets.count(label) for label in data.targets]
    sampler = WeightedRandomSampler(weights, 30)
    assert sum(len(labels) for _, labels in DataLoader(data, 8, sampler=sampler)) == 30


def test_a_pickle_is_small_though_all_labels_were_asked_for(root: Path) -> None:
    data = torch_dataset(root, transform=pillow_to_tensor)
    before = len(pickle.dumps(data))
    assert data.targets
    assert data.records.find("train/ash/000.jpg")
    assert len(pickle.dumps(data)) == before < 3000


def test_a_pickled_dataset_reads_the_same(root: Path) -> None:
    data = torch_dataset(root, "train[:50%]", image_size=8)
    again = pickle.loads(pickle.dumps(data))
    assert torch.equal(again[3][0], data[3][0])
    assert again.targets == data.targets


# Wrong use.


def test_an_unknown_split_is_answered_with_what_there_is(root: Path) -> None:
    with pytest.raises(UnknownName, match="there is no split 'val'") as caught:
        torch_dataset(root, "val")
    assert caught.value.hint == "there is train, test"


def test_an_unknown_dataset_is_not_found(root: Path) -> None:
    with pytest.raises(DatasetNotFound):
        torch_dataset("bushes", data_dir=root)


def test_options_that_contradict_each_other_are_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="decode_size and image_size exclude each other"):
        torch_dataset(root, image_size=8, decode_size=8)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_does_not_decode_is_named(
    pack_images: Callable[..., Path], workers: int
) -> None:
    broken = bytearray(png(1))
    broken[60:70] = bytes(10)
    where = pack_images(png(0), bytes(broken), check=Check.HEADER)
    with pytest.raises(BadImage, match="things/1: broken PNG"):
        list(DataLoader(torch_dataset(where), num_workers=workers))


def test_compressed_shards_are_refused_at_once(pack_images: Callable[..., Path]) -> None:
    where = pack_images(jpeg(0), jpeg(1), compression="gzip")
    with pytest.raises(DatasetError, match="the shards of things are compressed") as caught:
        torch_dataset(where)
    assert caught.value.hint == "use imgrec.load, or pack without --compression"


# Without PyTorch.


def run(code: str, root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_torch_is_answered_with_the_pip_command(root: Path) -> None:
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from imgrec.errors import MissingExtra
from imgrec.loaders import torch_dataset
try:
    torch_dataset(sys.argv[1])
except MissingExtra as error:
    print(error.message, error.hint, sep="; ")
"""
    expected = "torch_dataset needs torch, which is not installed; pip install 'imgrec[torch]'\n"
    assert run(code, root) == expected


def test_reading_without_torch_never_imports_it(root: Path) -> None:
    code = """
import sys
import imgrec
from imgrec.api import open_dataset
from imgrec.loaders import grain_source
open_dataset(sys.argv[1])["train"][0].numpy()
grain_source(sys.argv[1], image_size=8)[0]
print([name for name in ("torch", "grain", "tensorflow") if name in sys.modules])
"""
    assert run(code, root) == "[]\n"
