"""Batches of photographs that have several labels each, from a disk and from a store."""

from __future__ import annotations

import io
import random
import re
import sys
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli
from pictures import encode, write_tree
from PIL import Image
from stores import Store

import imgrec
from imgrec.loaders import load
from imgrec.options import PackOptions, SourceOptions

TAGS = ("cat", "cat dog", "", "bird cat dog", "dog", "bird", "", "bird dog", "cat", "dog", "bird")
NAMES = ("bird", "cat", "dog")
SIZES = ((150, 100), (120, 130), (170, 90))


def noise(seed: int, size: tuple[int, int]) -> Image.Image:
    """Make a picture that does not compress, as large in bytes as a photograph is."""
    return Image.frombytes("RGB", size, random.Random(seed).randbytes(3 * size[0] * size[1]))


def write_photos(root: Path, sizes: tuple[tuple[int, int], ...] = SIZES) -> Path:
    kinds = ("JPEG", "PNG")
    files = {
        f"{n:02d}.{kinds[n % 2].lower()}": encode(noise(n, sizes[n % len(sizes)]), kinds[n % 2])
        for n in range(len(TAGS))
    }
    write_tree(root, files)
    rows = [f"{name},{tags},{len(tags)}" for name, tags in zip(files, TAGS, strict=True)]
    path = root / "photos.csv"
    path.write_text("\n".join(["file,tags,length", *rows]) + "\n")
    return path


def options(data_dir: object, **more: Any) -> PackOptions:
    source = SourceOptions(label_sep=" ", column=(imgrec.ColumnOption("length"),))
    return PackOptions(source=source, data_dir=str(data_dir), shards=2, **more)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("photos")
    return imgrec.pack(write_photos(root / "images"), options(root / "data")).info.path


def vector(tags: str) -> list[float]:
    return [float(name in tags.split()) for name in NAMES]


EXPECTED = {f"{n:02d}.{('jpeg', 'png')[n % 2]}": vector(tags) for n, tags in enumerate(TAGS)}


def test_the_photographs_are_read_one_by_one(photos: str) -> None:
    """Smaller records are decoded a batch at a time, in another way."""
    (train,) = imgrec.info(photos).splits
    assert train.num_bytes / train.examples > 16_384


@pytest.mark.parametrize(
    ("cache", "crop"), [(False, ""), (False, "center"), (False, "random"), (True, "")]
)
def test_photographs_with_different_numbers_of_labels_make_batches(
    photos: str, cache: bool, crop: str
) -> None:
    for shuffle, batch_size in ((False, 4), (True, 3), (False, 11), (True, 40)):
        data = load(
            photos, image_size=(20, 30), batch_size=batch_size, shuffle=shuffle, seed=5,
            cache=cache, crop=crop or None, as_dict=True,
        )  # fmt: skip
        found = {}
        for batch in data.as_numpy_iterator():
            assert batch["image"].shape[1:] == (20, 30, 3)
            assert batch["labels"].dtype == np.float32
            found |= dict(
                zip(map(bytes.decode, batch["filename"]), batch["labels"].tolist(), strict=True)
            )
        assert found == EXPECTED


@pytest.mark.parametrize("cache", [False, True])
def test_pairs_of_batches_have_the_labels_too(photos: str, cache: bool) -> None:
    for drop_remainder, repeat in product((False, True), (False, 2)):
        data = load(
            photos, image_size=20, batch_size=4, cache=cache, repeat=repeat,
            drop_remainder=drop_remainder, scale=(0, 1),
        )  # fmt: skip
        count = len(TAGS) * max(repeat, 1)
        labels = [labels for _, labels in data.as_numpy_iterator()]
        assert len(labels) == (count // 4 if drop_remainder else -(-count // 4))
        order = [EXPECTED[record.filename] for record in imgrec.open_dataset(photos)["train"]]
        together = np.concatenate(labels).tolist()
        assert together == (order * 2)[: len(together)]
        assert data.element_spec[1].shape.as_list()[1:] == [3]


def test_jobs_and_parts_of_a_split_have_the_labels_too(photos: str) -> None:
    found = [
        label
        for index in range(3)
        for _, labels in load(
            photos, "train[:10]", image_size=20, batch_size=2, shard=(index, 3)
        ).as_numpy_iterator()
        for label in labels.tolist()
    ]
    records = imgrec.open_dataset(photos)["train[:10]"]
    assert found == [EXPECTED[record.filename] for record in records]


def test_compressed_photographs_make_batches_too(tmp_path: Path) -> None:
    packing = options(tmp_path / "data", compression="gzip")
    path = imgrec.pack(write_photos(tmp_path / "images"), packing).info.path
    batches = load(path, image_size=20, batch_size=4).as_numpy_iterator()
    assert sum(len(labels) for _, labels in batches) == len(TAGS)


# The line that imgrec prints.


def run_line(line: str, then: str) -> str:
    """Run a line with TFDS alone, as whoever copies it does."""
    code = f"import tensorflow as tf\nimport tensorflow_datasets as tfds\ndata = {line}\n{then}"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setitem(sys.modules, "imgrec", None)
        exec(code, {})
    return printed.getvalue()


@pytest.mark.parametrize("sizes", [SIZES, ((150, 100),)], ids=["many sizes", "one size"])
def test_the_printed_line_can_be_batched(
    tmp_path: Path, cli: Cli, sizes: tuple[tuple[int, int], ...]
) -> None:
    source = write_photos(tmp_path / "images", sizes)
    elsewhere = tmp_path / "data"
    packed = cli("pack", source, "--label-sep", " ", "--data-dir", elsewhere)
    (line,) = re.findall("^load +(.*)$", packed.stdout, re.MULTILINE)
    said = [cli(verb, elsewhere / "images").stdout for verb in ("info", "doctor")]
    assert all(line in text for text in said)
    then = "for images, labels in data.batch(4): print(images.shape, labels.numpy().tolist())"
    printed = run_line(line, then)
    size = (224, 224) if len(sizes) > 1 else (100, 150)
    assert printed.count(f"(4, {size[0]}, {size[1]}, 3)") == 2
    records = imgrec.open_dataset(elsewhere / "images")["train"]
    assert eval("+".join(re.findall(r"\[\[.*\]\]", printed))) == [
        EXPECTED[record.filename] for record in records
    ]


def test_the_report_page_has_the_same_step(photos: str) -> None:
    page = Path(photos, "report.html").read_text()
    assert "tf.reduce_sum(tf.one_hot(labels, 3), 0)" in page
    assert "import tensorflow as tf\n" in page


# On a store.


@pytest.mark.stores
def test_labels_of_a_dataset_on_a_store_are_those_of_one_on_a_disk(
    store: Store, photos: str, tmp_path: Path
) -> None:
    source = write_photos(tmp_path / "images")
    path = imgrec.pack(source, options(store / "data")).info.path
    torch, grain = imgrec.torch_dataset(path, image_size=20), imgrec.grain_source(path)
    records = imgrec.open_dataset(path)["train"]
    wanted = [EXPECTED[record.filename] for record in records]
    assert [torch[n][1].tolist() for n in range(len(torch))] == wanted
    assert [grain[n]["labels"].tolist() for n in range(len(grain))] == wanted  # type: ignore[union-attr]
    assert torch.targets == imgrec.torch_dataset(photos).targets
    batches = load(path, image_size=20, batch_size=4).as_numpy_iterator()
    assert [label for _, labels in batches for label in labels.tolist()] == wanted
