"""A single bit that is not as it was written: verify finds it, wherever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from damage import change
from inline import faults_of, pack
from pictures import png, write_tree
from sampling import some_of

SHARD = "x-train.tfrecord-00000-of-00001"
DOCUMENTS = ("dataset_info.json", "features.json", "label.labels.txt", "metadata.json")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    files = {"a/1.png": png(1, size=(3, 2)), "b/2.png": png(2, size=(3, 2))}
    return pack(write_tree(root / "x", files), root / "out")


@pytest.mark.parametrize("name", [SHARD, f"{SHARD}.idx", *DOCUMENTS])
def test_every_flipped_bit_of_a_shard_its_index_and_its_metadata_is_found(
    tiny: Path, name: str
) -> None:
    path = tiny / name
    data = path.read_bytes()
    for bit in some_of(range(8 * len(data)), 150):
        change(path, bit // 8, 1 << bit % 8)
        assert name in {name for name, _, _ in faults_of(tiny)}, bit
        path.write_bytes(data)


def test_a_flipped_bit_of_every_byte_of_every_other_file_is_found(tiny: Path) -> None:
    """Of the page, which is long and of which nothing is parsed, every 31st byte is changed."""
    for name in sorted(set(os.listdir(tiny)) - {SHARD, f"{SHARD}.idx", *DOCUMENTS}):
        path = tiny / name
        data = path.read_bytes()
        for at in some_of(range(0, len(data), 31 if name == "report.html" else 1), 40):
            change(path, at, 1 << at % 8)
            assert faults_of(tiny), (name, at)
            path.write_bytes(data)
