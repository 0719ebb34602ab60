"""Datasets packed by the first release stay readable: opened, verified, unpacked and loaded.

They hold what the present format has: class folders in two shards, a file stored anew as PNG, a
skipped one, several labels for an image, a test split and extra columns.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import imgrec

PACKED = Path(__file__).resolve().parent / "packed"
SPLITS = {"petals": {"train": 11, "val": 7}, "tags": {"train": 7, "test": 4}}
CONTENT = {
    "petals": "e03f960a3cddf68a48408925a3fa21e967bf6100e79b12919ef851ed53e34921",
    "tags": "aad92a980b3fd7f00ed90f40f8fad4805475ec899ad23a7a99dfd77d0e7c3380",
}
"""SHA-256 of the filenames, labels, shapes and image bytes of all records, in their order."""
AGAIN = {
    "petals": "--val-split 0.25 --shards 2",
    "tags": "--path-col filename --label-col labels --split-col split --label-sep | "
    "--column age:float --column note:text",
}
"""The options that pack the unpacked files again."""


def _content(name: str) -> str:
    digest = hashlib.sha256()
    dataset = imgrec.open_dataset(PACKED / name)
    for split in SPLITS[name]:
        for record in dataset[split]:
            fields = record.filename, list(record.labels), list(record.shape), dict(record.columns)
            digest.update(repr(fields).encode() + record.image)
    return digest.hexdigest()


@pytest.mark.parametrize("name", SPLITS)
def test_its_records_are_what_they_were(name: str) -> None:
    dataset = imgrec.open_dataset(PACKED / name)
    assert {split: len(dataset[split]) for split in SPLITS[name]} == SPLITS[name]
    assert _content(name) == CONTENT[name]


@pytest.mark.parametrize("name", SPLITS)
def test_it_is_sound(name: str) -> None:
    assert imgrec.verify(PACKED / name).faults == ()


@pytest.mark.parametrize("name", SPLITS)
def test_it_unpacks_to_every_file(name: str, tmp_path: Path) -> None:
    imgrec.unpack(PACKED / name, tmp_path / "files")
    names = {
        record.filename
        for split in SPLITS[name]
        for record in imgrec.open_dataset(PACKED / name)[split]
    }
    found = {p.relative_to(tmp_path / "files").as_posix() for p in tmp_path.rglob("*.*")}
    assert {name for name in names if not name.endswith(".webp")} <= found


@pytest.mark.parametrize(("name", "options"), AGAIN.items())
def test_its_old_report_still_tells_how_to_pack_it_again(
    name: str, options: str, tmp_path: Path
) -> None:
    command = imgrec.unpack(PACKED / name, tmp_path / "files").pack_again
    assert " ".join(command[3:]) == f"--name {name} {options}"


@pytest.mark.parametrize("name", SPLITS)
def test_tensorflow_datasets_and_our_loader_give_the_same_pixels(name: str) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    builder = tfds.builder_from_directory(PACKED / name / "1.0.0")
    examples = list(builder.as_dataset(split="train").as_numpy_iterator())
    records = imgrec.open_dataset(PACKED / name)["train"]
    assert [example["filename"].decode() for example in examples] == [
        record.filename for record in records
    ]
    for example, record in zip(examples, records, strict=True):
        decoded = record.numpy()
        assert example["image"].shape == decoded.shape
        assert np.abs(example["image"].astype(int) - decoded).max() <= 4
    loaded = imgrec.load(PACKED / name, "train", batch_size=None)
    shapes = sorted(tuple(image.shape) for image, _ in loaded.as_numpy_iterator())
    assert shapes == sorted(tuple(record.numpy().shape) for record in records)
