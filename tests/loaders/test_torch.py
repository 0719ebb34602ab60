"""`imgrec.torch_dataset` in the real PyTorch."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from inline import pack
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter
from stores import Store

import imgrec
from imgrec.api import open_dataset
from imgrec.errors import (
    BadImage,
    DatasetError,
    DatasetNotFound,
    OutOfRange,
    UnknownName,
    UsageError,
)
from imgrec.loaders import torch_dataset
from imgrec.options import Check, SourceOptions

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

BILINEAR = Image.Resampling.BILINEAR


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with `trees`: JPEGs of 24x16 in three classes, unlabelled ones in test."""
    folder = tmp_path_factory.mktemp("torch")
    class_tree(folder / "trees/train", {"ash": 5, "birch": 7, "2": 4})
    write_tree(folder / "trees", {f"test/{number}.jpg": jpeg(100 + number) for number in range(3)})
    pack(folder / "trees", folder / "data")
    return folder / "data"


@pytest.fixture
def pack_images(tmp_path: Path) -> Callable[..., Path]:
    """Pack images into a dataset `things` of one class; return its data directory."""

    def make(*images: bytes, **options: Any) -> Path:
        files = {f"things/{number}": data for number, data in enumerate(images)}
        source = write_tree(tmp_path / "source", files)
        return pack(source, tmp_path / "data", name="things", **options)

    return make


def pillow_to_tensor(image: Image.Image) -> torch.Tensor:
    """Stand for a user's transform; at the top level, so that it can be pickled."""
    assert isinstance(image, Image.Image)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def keep(value: Any) -> Any:
    return value


def mode_and_size(image: Image.Image) -> tuple[str, tuple[int, int]]:
    return image.mode, image.size


# Images


def test_an_image_is_a_tensor_and_a_transform_gets_a_pillow_image(root: Path) -> None:
    data = torch_dataset(root)
    image, _ = data[3]
    assert (image.dtype, image.shape) == (torch.uint8, (3, 16, 24))
    assert image.is_contiguous()
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(data.records[3].pil()))
    plain, _ = torch_dataset(root, transform=keep)[3]
    assert (isinstance(plain, Image.Image), plain.mode) == (True, "RGB")
    assert plain.tobytes() == Image.open(io.BytesIO(data.records[3].image)).tobytes()
    changed, _ = torch_dataset(root, transform=lambda image: image + 1, tensors=True)[3]
    assert torch.equal(changed, image + 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_all_images_have_the_requested_channels_and_size(
    pack_images: Callable[..., Path], channels: int, mode: str
) -> None:
    modes = ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"]
    images = [png(seed, mode=mode) for seed, mode in enumerate(modes)]
    images += [jpeg(20, mode="L"), jpeg(21, mode="CMYK"), encode(picture(22), "BMP")]
    where = pack_images(*images)
    for size, shape in ((None, (16, 24)), (8, (8, 8)), ((20, 40), (20, 40))):
        options: Any = {"channels": channels, "image_size": size}
        shapes = [tuple(image.shape) for image, _ in torch_dataset(where, **options)]
        assert shapes == [(channels, *shape)] * len(images)
        pictures = torch_dataset(where, transform=mode_and_size, **options)
        assert {kind for kind, _ in pictures} == {(mode, shape[::-1])}


@pytest.mark.parametrize("size", [(37, 53), (5, 9), (90, 60)])
def test_an_exact_resize_is_that_of_pillow_within_one_level(
    pack_images: Callable[..., Path], size: tuple[int, int]
) -> None:
    where = pack_images(jpeg(0, (120, 90)), png(1, (33, 70)), png(2, (40, 40), mode="RGBA"))
    data = torch_dataset(where, image_size=size, exact=True)
    for (image, _), record in zip(data, data.records, strict=True):
        expected = record.pil().convert("RGB").resize(size[::-1], BILINEAR)
        difference = image.permute(1, 2, 0).numpy().astype(int) - np.asarray(expected)
        assert np.abs(difference).max() <= 1
    same = torch_dataset(where, image_size=size, exact=True, transform=np.array)[1][0]
    assert np.array_equal(same, data[1][0].permute(1, 2, 0))


@pytest.fixture
def photo(pack_images: Callable[..., Path]) -> Image.Image:
    """A picture as transforms get it."""
    image: Image.Image = torch_dataset(pack_images(jpeg(3, (120, 90))), transform=keep)[0][0]
    return image


def test_a_bilinear_resize_is_that_of_pillow_within_one_level(photo: Image.Image) -> None:
    for size in ((224, 224), (30, 17), (120, 90), [64, 48]):
        resized, expected = photo.resize(size, BILINEAR), photo.copy().resize(size, BILINEAR)  # type: ignore[arg-type]
        assert mode_and_size(resized) == mode_and_size(expected)
        difference = np.asarray(resized).astype(int) - np.asarray(expected)
        assert np.abs(difference).max() <= 1
    with pytest.raises(ValueError, match="must be > 0"):
        photo.resize((0, 5), BILINEAR)


@pytest.mark.parametrize(
    "how",
    [
        {"resample": Image.Resampling.BICUBIC},
        {},
        {"resample": BILINEAR, "box": (10, 10, 60, 50)},
        {"resample": BILINEAR, "reducing_gap": 2.0},
    ],
)
def test_any_other_resize_is_exactly_pillows(photo: Image.Image, how: dict[str, Any]) -> None:
    assert photo.resize((33, 21), **how).tobytes() == photo.copy().resize((33, 21), **how).tobytes()


def test_a_picture_that_was_changed_is_resized_with_its_changes(root: Path) -> None:
    image, _ = torch_dataset(root, transform=keep)[0]
    image.paste((255, 0, 0), (0, 0, 24, 16))
    assert image.resize((5, 5), BILINEAR).getpixel((2, 2)) == (255, 0, 0)
    assert torch_dataset(root)[0][0][0].min() < 255


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize(
    "use",
    [
        lambda image: np.asarray(image).tobytes(),
        lambda image: image.getpixel((5, 5)),
        lambda image: image.convert("CMYK").tobytes(),
        lambda image: image.crop((1, 2, 9, 8)).resize((5, 5), 2).tobytes(),
        lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).tobytes(),
        lambda image: image.rotate(30, fillcolor=0).tobytes(),
        lambda image: ImageEnhance.Brightness(image).enhance(0.5).tobytes(),
        lambda image: image.filter(ImageFilter.GaussianBlur(2)).tobytes(),
        lambda image: [band.tobytes() for band in image.split()],
        lambda image: (image.width, image.height, image.mode, image.getbands(), image.getbbox()),
        lambda image: image.thumbnail((7, 7)) or image.tobytes(),
        lambda image: image.putpixel((1, 1), image.getpixel((9, 9))) or image.tobytes(),
        lambda image: ImageDraw.Draw(image).line((0, 0, 9, 9), width=2) or image.tobytes(),
        lambda image: encode(image, "PNG"),
        lambda image: copy.deepcopy(image).tobytes(),
        lambda image: pickle.loads(pickle.dumps(image)).resize((9, 9)).tobytes(),
    ],
)
def test_a_transform_can_do_everything_that_pillow_does(
    root: Path, channels: int, use: Callable[[Image.Image], object]
) -> None:
    data = torch_dataset(root, transform=keep, channels=channels)
    pixels = torch_dataset(root, channels=channels)[0][0].permute(1, 2, 0).numpy()
    assert use(data[0][0]) == use(Image.fromarray(pixels.squeeze().copy()))


def test_decode_size_gives_a_smaller_picture_that_still_covers(
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


# Labels and records


def test_classes_and_targets_are_those_of_an_image_folder(root: Path) -> None:
    data = torch_dataset(root, target_transform=str)
    assert data.classes == ["2", "ash", "birch"]
    assert data.class_to_idx == {"2": 0, "ash": 1, "birch": 2}
    assert data.targets == [record.label for record in data.records]
    assert [label for _, label in data] == [str(label) for label in data.targets]
    assert [data.targets.count(label) for label in range(3)] == [4, 5, 7]
    unlabelled = torch_dataset(root, "test")
    assert [label for _, label in unlabelled] == unlabelled.targets == [-1, -1, -1]
    assert type(unlabelled[0][1]) is int


def test_several_labels_are_a_zero_or_one_for_each_class(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {f"{number}.jpg": jpeg(number) for number in range(4)})
    rows = ["image,tags", "0.jpg,cat dog", "1.jpg,", "2.jpg,dog", "3.jpg,eel cat"]
    (tmp_path / "in" / "tags.csv").write_text("\n".join(rows))
    options = SourceOptions(label_sep=" ")
    data = torch_dataset(pack(tmp_path / "in/tags.csv", tmp_path / "data", source=options))
    found = {record.filename: data[at][1].tolist() for at, record in enumerate(data.records)}
    assert data.classes == ["cat", "dog", "eel"]
    expected = {"0.jpg": [1, 1, 0], "1.jpg": [0, 0, 0], "2.jpg": [0, 1, 0], "3.jpg": [1, 0, 1]}
    assert found == expected
    _, targets = next(iter(DataLoader(data, batch_size=4)))
    assert (targets.dtype, targets.shape) == (torch.float32, (4, 3))
    assert sorted(map(sorted, data.targets)) == [[], [0, 1], [0, 2], [1]]  # type: ignore[arg-type]


def test_a_target_can_be_a_zero_or_one_for_each_class(root: Path) -> None:
    data = torch_dataset(root, "train+test", image_size=8, labels="onehot")
    _, targets = next(iter(DataLoader(data, batch_size=len(data))))
    assert targets.dtype == torch.float32
    expected = [[float(label == one) for one in range(3)] for label in data.targets]
    assert targets.tolist() == expected
    assert -1 in data.targets


@pytest.mark.parametrize("level", ["", "trees", "trees/1.0.0"])
def test_a_dataset_is_found_by_path_name_or_given_open(root: Path, level: str) -> None:
    assert len(torch_dataset(root / level)) == 16
    assert len(torch_dataset("trees", data_dir=root)) == 16
    opened = open_dataset(root)
    data = torch_dataset(opened, "train[:25%]+test")
    assert data.records.dataset is opened
    assert len(data) == 4 + 3
    with pytest.raises(DatasetNotFound):
        torch_dataset("bushes", data_dir=root)


def test_a_slice_is_refused_with_what_to_use(root: Path) -> None:
    data = torch_dataset(root, "train")
    with pytest.raises(UsageError, match="takes one number, not a slice") as caught:
        data[:3]  # type: ignore[index]
    assert "torch.utils.data.Subset" in caught.value.hint


def test_images_are_read_by_number(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    for number in (5, torch.tensor(5), np.int64(5), -11):
        assert torch.equal(data[number][0], data[5][0])
    batch = data.__getitems__([7, 0, 7])
    assert [label for _, label in batch] == [data[7][1], data[0][1], data[7][1]]
    assert torch.equal(batch[2][0], data[7][0])
    for place in ([1, 2], "ash", 1.0):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            data[place]  # type: ignore[index]
    with pytest.raises(OutOfRange, match="train has 16 records; 16 is out of range"):
        data[16]


def test_samples_and_find_use_the_paths_in_the_source(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    filename, label = data.samples[5]
    assert (filename, label) == (data.records[5].filename, data[5][1])
    assert [target for _, target in data.samples] == data.targets
    for name in (filename, filename.encode()):
        assert torch.equal(data.find(name)[0], data[5][0])
    with pytest.raises(UnknownName, match="train has no file 5"):
        data.find("5")


# In PyTorch


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
    expected = [pillow_to_tensor(record.pil()) for record in data.records]  # read before a fork
    loader = DataLoader(
        data, batch_size=5, num_workers=workers, multiprocessing_context=context,
        timeout=120 if workers else 0, persistent_workers=workers > 0,
    )  # fmt: skip
    for _ in range(2):
        batches = list(loader)
        assert [len(labels) for _, labels in batches] == [5, 5, 5, 1]
        assert torch.equal(torch.cat([images for images, _ in batches]), torch.stack(expected))
        assert torch.cat([labels for _, labels in batches]).tolist() == data.targets


def test_a_shuffle_is_the_same_for_any_number_of_workers(root: Path) -> None:
    data = torch_dataset(root, image_size=8)

    def epoch(workers: int) -> torch.Tensor:
        chance = torch.Generator().manual_seed(7)
        loader = DataLoader(data, batch_size=4, shuffle=True, generator=chance, num_workers=workers)
        return torch.cat([images for images, _ in loader])

    assert torch.equal(epoch(0), epoch(2))


def test_everything_in_torch_takes_our_datasets(root: Path) -> None:
    data = torch_dataset(root, image_size=8)
    assert isinstance(data, Dataset)
    both = data + torch_dataset(root, "test", image_size=8)
    assert (isinstance(both, ConcatDataset), len(both)) == (True, 19)
    some, rest = random_split(data, [0.25, 0.75])
    assert len(list(DataLoader(some, 4))) + len(list(DataLoader(rest, 4))) == 1 + 3
    weights = [1 / data.targets.count(label) for label in data.targets]
    sampler: Any = WeightedRandomSampler(weights, 30)
    assert sum(len(labels) for _, labels in DataLoader(data, 8, sampler=sampler)) == 30
    seen: list[int] = []
    for rank in range(2):
        sampler = DistributedSampler(data, num_replicas=2, rank=rank, shuffle=True)
        assert sum(len(labels) for _, labels in DataLoader(data, 4, sampler=sampler)) == 8
        seen += list(sampler)
    assert sorted(seen) == list(range(16))


def test_a_pickle_is_small_and_reads_the_same(root: Path) -> None:
    data = torch_dataset(root, "train[:50%]", transform=pillow_to_tensor)
    before = len(pickle.dumps(data))
    assert data.samples
    assert data.records.find(data.records[0].filename)
    assert len(pickle.dumps(data)) == before < 3000
    again = pickle.loads(pickle.dumps(data))
    assert torch.equal(again[3][0], data[3][0])
    assert again.targets == data.targets


# Wrong use


def test_wrong_arguments_are_errors(root: Path) -> None:
    with pytest.raises(UnknownName, match="there is no split 'val'") as caught:
        torch_dataset(root, "val")
    assert caught.value.hint == "there is train, test"
    with pytest.raises(UsageError, match="decode_size and image_size exclude each other"):
        torch_dataset(root, image_size=8, decode_size=8)
    for name in ("transform", "target_transform"):
        with pytest.raises(UsageError, match=f"{name}.*3"):
            torch_dataset(root, **{name: 3})


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_image_that_does_not_decode_is_named(
    pack_images: Callable[..., Path], workers: int
) -> None:
    broken = bytearray(png(1))
    broken[60:70] = bytes(10)
    where = pack_images(png(0), bytes(broken), check=Check.HEADER)
    with pytest.raises(BadImage, match="things/1: broken PNG"):
        list(DataLoader(torch_dataset(where), num_workers=workers))


def test_compressed_shards_are_refused(pack_images: Callable[..., Path]) -> None:
    where = pack_images(jpeg(0), jpeg(1), compression="gzip")
    with pytest.raises(DatasetError, match="the shards of things are compressed") as caught:
        torch_dataset(where)
    assert caught.value.hint == "use imgrec.load, or pack without --compression"


def test_torch_is_imported_only_if_needed_and_its_absence_is_named(root: Path) -> None:
    code = """
import sys
from imgrec.api import open_dataset
from imgrec.errors import MissingExtra
from imgrec.loaders import grain_source, torch_dataset
open_dataset(sys.argv[1])["train"][0].numpy()
grain_source(sys.argv[1], image_size=8)[0]
print([name for name in ("torch", "grain", "tensorflow") if name in sys.modules])
sys.modules["torch"] = None  # as if it were not installed
try:
    torch_dataset(sys.argv[1])
except MissingExtra as error:
    print(error.message, error.hint, sep="; ")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, timeout=120,
    )  # fmt: skip
    expected = "torch_dataset needs torch, which is not installed; pip install 'imgrec[torch]'\n"
    assert done.stdout == f"[]\n{expected}", done.stderr


# Dicts, and batches from stores


def test_dicts_have_the_names_and_types_of_the_other_loaders(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {f"{seed}.jpg": jpeg(seed) for seed in range(4)})
    rows = "".join(f"{seed}.jpg,ab,{seed},{seed / 4},site {seed}\n" for seed in range(4))
    (tmp_path / "in" / "labels.csv").write_text(f"image,label,age,score,place\n{rows}")
    source = SourceOptions(column=("age:int", "score:float", "place"))
    where = pack(tmp_path / "in/labels.csv", tmp_path / "data", source=source)
    data = torch_dataset(where, as_dict=True)
    batch = next(iter(DataLoader(data, batch_size=4)))
    assert sorted(batch) == ["age", "filename", "image", "label", "place", "score", "shape"]
    assert [batch[name].dtype for name in ("image", "label", "shape", "age", "score")] == [
        torch.uint8, torch.int64, torch.int64, torch.int64, torch.float32
    ]  # fmt: skip
    records = list(data.records)
    assert batch["filename"] == [record.filename for record in records]
    assert batch["place"] == [record.columns["place"] for record in records]
    assert batch["score"].tolist() == [record.columns["score"] for record in records]
    assert batch["shape"].tolist() == [[16, 24, 3]] * 4
    element = imgrec.grain_source(where, as_dict=True)[1]
    assert sorted(element) == sorted(batch)
    assert (element["shape"].dtype, element["score"].dtype) == (np.int64, np.float32)
    stream = imgrec.torch_stream(where, as_dict=True)
    assert [one["filename"] for one in stream] == batch["filename"]
    with pytest.raises(UsageError, match="as_dict cannot be 'yes'"):
        torch_dataset(where, as_dict="yes")  # type: ignore[arg-type]


@pytest.mark.stores
def test_the_records_of_a_batch_are_requested_at_once(store: Store, tmp_path: Path) -> None:
    class_tree(tmp_path / "trees", {"ash": 5, "birch": 7})
    folder = pack(tmp_path / "trees", tmp_path / "data", shards=3)
    store.put_tree(folder, "data/trees/1.0.0")
    near, far = torch_dataset(folder), torch_dataset(store / "data/trees")
    places = [0, 11, 1, 6]
    assert len(far.__getitems__(places)) == 4  # which reads the indices
    store.proxy.seen.clear()
    together = threading.Barrier(3, timeout=20)

    def wait(method: str, path: str) -> str:
        together.wait()  # until three requests are under way
        return ""

    store.proxy.fault = wait
    labels = [label for _, label in far.__getitems__(places)]
    assert labels == [near[place][1] for place in places]
    assert store.proxy.methods() == ["GET"] * 3  # neighbours share one
