"""A small dataset, and ways to damage it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from inline import faults_of, pack, read_shard, reseal, write_shard
from pictures import class_tree, encode, picture, write_tree

SHARD = "flowers-train.tfrecord-00000-of-00001"
VAL = "flowers-val.tfrecord-00000-of-00001"
CHECKSUM = "its SHA-256 differs from the one in SHA256SUMS"


def change(path: Path, at: int, flip: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= flip
    path.write_bytes(data)


def edit_json(path: Path, edit: Callable[[dict[str, object]], object]) -> None:
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    reseal(path.parent)


def change_records(
    folder: Path, edit: Callable[[list[dict[str, object]]], object], shard: str = SHARD
) -> None:
    records = read_shard(folder / shard)
    edit(records)  # type: ignore[arg-type]
    write_shard(folder / shard, records)
    reseal(folder)


def whats(folder: Path, path: str, **options: object) -> list[str]:
    return [what for name, _, what in faults_of(folder, **options) if name == path]


def any_size(features: dict[str, object]) -> None:
    image = features["featuresDict"]["features"]["image"]["image"]  # type: ignore[index]
    image["shape"]["dimensions"] = ["-1", "-1", "3"]


def make_flowers(root: Path) -> Path:
    """Pack two splits of two classes, one image of which is transcoded; the source stays."""
    source = class_tree(root / "flowers", {"rose": 6, "tulip": 6})
    write_tree(source, {"tulip/x.gif": encode(picture(99), "GIF")})
    return pack(source, root / "datasets", val_split=0.25)


def source_of(flowers: Path) -> Path:
    """Return what `make_flowers` packed."""
    return flowers.parents[2] / "flowers"
