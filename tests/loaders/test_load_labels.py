"""`imgrec.load` of images with several labels and columns, from a disk and from a store."""

from __future__ import annotations

import io
import random
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli
from pictures import encode, write_tree
from PIL import Image
from stores import Store

import imgrec
from imgrec.errors import UsageError
from imgrec.loaders import load
from imgrec.options import ColumnKind, ColumnOption, PackOptions, SourceOptions

TAGS = ("cat", "cat dog", "", "bird cat dog", "dog", "bird", "", "bird dog", "cat", "dog", "bird")
SIZES = ((150, 100), (120, 130), (170, 90))
COLUMNS = {"length": ColumnKind.INT, "half": ColumnKind.FLOAT, "clinic": ColumnKind.TEXT}
EXPECTED = {
    f"{n:02d}.{('jpeg', 'png')[n % 2]}": [
        float(name in tags.split()) for name in ("bird", "cat", "dog")
    ]
    for n, tags in enumerate(TAGS)
}
"""By file: a 0 or 1 for each class."""


def write_photos(root: Path, sizes: tuple[tuple[int, int], ...] = SIZES) -> Path:
    """Write pictures of noise, as large in bytes as photographs, and their table."""
    files = {}
    for n, name in enumerate(EXPECTED):
        size = sizes[n % len(sizes)]
        noise = Image.frombytes("RGB", size, random.Random(n).randbytes(3 * size[0] * size[1]))
        files[name] = encode(noise, name.rpartition(".")[2].upper())
    write_tree(root, files)
    rows = [
        f"{name},{tags},{len(tags)},{len(tags) / 2},clinic {len(tags)}"
        for name, tags in zip(files, TAGS, strict=True)
    ]
    path = root / "photos.csv"
    path.write_text("\n".join(["file,tags,length,half,clinic", *rows]) + "\n")
    return path


def options(data_dir: object, **more: Any) -> PackOptions:
    columns = tuple(ColumnOption(name, kind) for name, kind in COLUMNS.items())
    source = SourceOptions(label_sep=" ", column=columns)
    return PackOptions(source=source, data_dir=str(data_dir), shards=2, **more)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("photos")
    info = imgrec.pack(write_photos(root / "images"), options(root / "data")).info
    assert info.splits[0].num_bytes / len(TAGS) > 16_384  # smaller records are decoded together
    return info.path


def order(path: object, split: str = "train") -> list[list[float]]:
    return [EXPECTED[record.filename] for record in imgrec.open_dataset(path)[split]]


@pytest.mark.parametrize(
    ("cache", "crop", "shuffle", "batch_size"),
    [(False, None, False, 4), (False, "random", True, 3), (True, None, True, 40)],
)
def test_different_numbers_of_labels_are_batched(
    photos: str, cache: bool, crop: str | None, shuffle: bool, batch_size: int
) -> None:
    data = load(
        photos, image_size=(20, 30), batch_size=batch_size, shuffle=shuffle, seed=5,
        cache=cache, crop=crop, as_dict=True,
    )  # fmt: skip
    found = {}
    for batch in data.as_numpy_iterator():
        assert batch["image"].shape[1:] == (20, 30, 3)
        assert batch["labels"].dtype == np.float32
        assert batch["clinic"].tolist() == [b"clinic %d" % n for n in batch["length"]]
        assert batch["half"].tolist() == [n / 2 for n in batch["length"]]
        names = map(bytes.decode, batch["filename"])
        found |= dict(zip(names, batch["labels"].tolist(), strict=True))
    assert found == EXPECTED


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(("drop_remainder", "repeat"), [(False, False), (True, 2)])
def test_pairs_have_the_labels_too(
    photos: str, cache: bool, drop_remainder: bool, repeat: int
) -> None:
    data = load(
        photos, image_size=20, batch_size=4, cache=cache, repeat=repeat,
        drop_remainder=drop_remainder, scale=(0, 1),
    )  # fmt: skip
    count = len(TAGS) * max(repeat, 1)
    labels = [labels for _, labels in data.as_numpy_iterator()]
    assert len(labels) == (count // 4 if drop_remainder else -(-count // 4))
    together = np.concatenate(labels).tolist()
    assert together == (order(photos) * 2)[: len(together)]
    assert data.element_spec[1].shape.as_list()[1:] == [3]


def test_jobs_and_parts_of_a_split_have_the_labels_too(photos: str) -> None:
    found = []
    for index in range(3):
        data = load(photos, "train[:10]", image_size=20, batch_size=2, shard=(index, 3))
        found += [label for _, labels in data.as_numpy_iterator() for label in labels.tolist()]
    assert found == order(photos, "train[:10]")


def test_small_and_compressed_records_have_the_labels_too(tmp_path: Path) -> None:
    source = write_photos(tmp_path / "images", ((20, 20),))
    path = imgrec.pack(source, options(tmp_path / "data", compression="gzip")).info.path
    batches = load(path, batch_size=4).as_numpy_iterator()
    assert [label for _, labels in batches for label in labels.tolist()] == order(path)


def test_several_labels_cannot_be_balanced_or_weighed(photos: str) -> None:
    with pytest.raises(UsageError, match="several labels cannot be balanced"):
        load(photos, balance=True)
    with pytest.raises(UsageError, match="Keras weighs each image by one"):
        imgrec.class_weights(photos)


@pytest.mark.parametrize("sizes", [SIZES, ((150, 100),)], ids=["many sizes", "one size"])
def test_the_printed_line_can_be_batched(
    tmp_path: Path, cli: Cli, sizes: tuple[tuple[int, int], ...]
) -> None:
    data_dir = tmp_path / "data"
    source = write_photos(tmp_path / "images", sizes)
    packed = cli("pack", source, "--label-sep", " ", "--data-dir", data_dir)
    (line,) = re.findall("^load +(.*)$", packed.stdout, re.MULTILINE)
    for command in (["info"], ["doctor", "--quick"]):
        assert line in cli(*command, data_dir / "images").stdout
    code = (
        f"import tensorflow as tf\nimport tensorflow_datasets as tfds\ndata = {line}\n"
        "for images, labels in data.batch(4): print(images.shape, labels.numpy().tolist())"
    )
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setitem(sys.modules, "imgrec", None)  # with TFDS alone
        exec(code, {})
    size = (224, 224) if len(sizes) > 1 else (100, 150)
    assert printed.getvalue().count(f"(4, {size[0]}, {size[1]}, 3)") == 2
    labels = eval("+".join(re.findall(r"\[\[.*\]\]", printed.getvalue())))
    assert labels == order(data_dir / "images")


def test_the_report_page_has_the_same_step(photos: str) -> None:
    page = Path(photos, "report.html").read_text()
    assert "tf.reduce_sum(tf.one_hot(labels, 3), 0)" in page
    assert "import tensorflow as tf\n" in page


@pytest.mark.stores
def test_labels_on_a_store_are_those_on_a_disk(store: Store, photos: str, tmp_path: Path) -> None:
    path = imgrec.pack(write_photos(tmp_path / "images"), options(store / "data")).info.path
    torch, grain = imgrec.torch_dataset(path, image_size=20), imgrec.grain_source(path)
    wanted = order(path)
    assert [torch[n][1].tolist() for n in range(len(torch))] == wanted
    assert [grain[n]["labels"].tolist() for n in range(len(grain))] == wanted  # type: ignore[union-attr]
    assert torch.targets == imgrec.torch_dataset(photos).targets
    batches = load(path, image_size=20, batch_size=4).as_numpy_iterator()
    assert [label for _, labels in batches for label in labels.tolist()] == wanted
