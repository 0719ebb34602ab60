"""The fixed sources of the golden evidence: every kind, made of bytes that never change.

Images are the files of `sample_data/flowers`, or pixels from a seeded generator, so that no
image library decides what a source holds.
"""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
PHOTOS = [path.read_bytes() for path in sorted((SAMPLE_DATA / "flowers").glob("*/*_[0-9][0-9].*"))]
"""About a hundred different photographs, JPEG and PNG."""
TIME_S = 1_700_000_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A source, and how it is packed."""

    make: Callable[[Path], object]
    """Write the source into an empty folder."""
    source: str = "."
    """The path to pack, below that folder."""
    options: Sequence[str] = ()
    """`{here}` stands for that folder."""
    reencodes: bool = False
    """Whether pixels are stored as new PNGs or JPEGs: other libraries may write other bytes."""
    extra: Sequence[Sequence[str]] = ()
    """More commands, run after the pack."""
    exit_code: int = 0


def write(here: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files by their paths below `here`."""
    for name, data in files.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def class_folders(prefix: str = "", count: int = 60) -> dict[str, bytes]:
    """Return photographs in class folders, with sizes of classes that differ."""
    names = "cat", "dog"
    return {f"{prefix}{names[at * at % 3]}/{at:03d}.jpg": PHOTOS[at] for at in range(count)}


def flat(count: int = 40, folder: str = "images") -> dict[str, bytes]:
    """Return photographs in one folder."""
    return {f"{folder}/{at:03d}.jpg": PHOTOS[at] for at in range(count)}


def _folder(here: Path) -> None:
    shutil.copytree(SAMPLE_DATA / "flowers", here / "flowers")


def _tree(here: Path) -> None:
    write(here, class_folders())


def _split_folders(here: Path) -> None:
    for at, photo in enumerate(PHOTOS[:60]):
        split = ("train", "train", "valid", "test")[at % 4]
        write(here, {f"{split}/{('cat', 'dog')[at // 4 % 2]}/{at:03d}.jpg": photo})
    write(here, {"valid/cat/copy of 000.jpg": PHOTOS[0], "train/dog/again.jpg": PHOTOS[4]})


def _tar(here: Path) -> None:
    with tarfile.open(here / "pets.tar.gz", "w:gz") as archive:
        for name, data in class_folders("pets/").items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), TIME_S
            archive.addfile(member, io.BytesIO(data))


def _nested_zips(here: Path) -> None:
    for split, start in (("train", 0), ("test", 40)):
        with zipfile.ZipFile(here / f"{split}.zip", "w") as archive:
            for at in range(start, start + 20):
                archive.writestr(f"{split}/{('cat', 'dog')[at % 2]}/{at:03d}.jpg", PHOTOS[at])


def _several_labels(here: Path) -> None:
    labels = ["sea", "sea sky", "sky", "", "tree sea", "tree"]
    rows = [(f"images/{at:03d}.jpg", labels[at % 6]) for at in range(40)]
    write(here, {**flat(), "labels.csv": table(("path", "tags"), rows)})


def _columns(here: Path) -> None:
    rows = [
        (
            f"{at:03d}.jpg",
            "ab"[at % 2],
            at // 5,
            at / 4,
            "né" * (at % 3),
            ("train", "val")[at % 4 == 3],
        )
        for at in range(40)
    ]
    header = ("file", "kind", "patient", "age", "remark", "split")
    write(here, {**flat(), "table.csv": table(header, rows)})


def _one_hot(here: Path) -> None:
    rows = [(f"{at:03d}.jpg", at % 2, at % 3 // 2, int(at % 5 == 0)) for at in range(40)]
    write(here, {**flat(), "labels.csv": table(("id", "A", "B", "C"), rows)})


def _kaggle(here: Path) -> None:
    rows = [(f"{at:03d}", ("healthy", "rust", "scab")[at % 3]) for at in range(40)]
    tested = [f"{at:03d}" for at in range(40, 52)]
    write(here, flat(folder="train"))
    write(here, {f"test/{name}.jpg": PHOTOS[int(name)] for name in tested})
    write(
        here,
        {
            "train.csv": table(("image_id", "disease"), rows),
            "sample_submission.csv": table(
                ("image_id", "disease"), [(name, "healthy") for name in tested]
            ),
            "../answers.csv": table(
                ("image_id", "disease"),
                [(name, ("rust", "scab")[at % 2]) for at, name in enumerate(tested)],
            ),
        },
    )


def _coco(here: Path) -> None:
    document = {
        "images": [{"id": at + 7, "file_name": f"{at:03d}.jpg"} for at in range(40)],
        "annotations": [
            {"id": at, "image_id": at + 7, "category_id": (3, 9)[at % 2]} for at in range(40)
        ],
        "categories": [{"id": 9, "name": "boat"}, {"id": 3, "name": "car"}],
    }
    write(here, {**flat(), "annotations.json": json.dumps(document)})


def _pixels(seed: int, count: int, shape: tuple[int, ...]) -> np.ndarray:
    values = random.Random(seed).randbytes(count * int(np.prod(shape)))
    return np.frombuffer(values, np.uint8).reshape(count, *shape)


def _pixel_table(here: Path) -> None:
    images = _pixels(1, 24, (8, 8)).reshape(24, 64)
    header = ("label", *(f"pixel{at}" for at in range(64)))
    rows = [(at % 3, *image.tolist()) for at, image in enumerate(images)]
    write(here, {"train.csv": table(header, rows)})


def _npz(here: Path) -> None:
    with zipfile.ZipFile(here / "shapes.npz", "w") as archive:
        for split, count in (("train", 24), ("test", 6)):
            for name, array in (
                (f"x_{split}", _pixels(count, count, (8, 9, 3))),
                (f"y_{split}", np.arange(count, dtype=np.int64) % 3),
            ):
                out = io.BytesIO()
                np.save(out, array)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), out.getvalue())


def _cifar_binary(here: Path) -> None:
    for number, name in enumerate((*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")):
        images = _pixels(number, 4, (3072,))
        records = [bytes([(at + number) % 10]) + image.tobytes() for at, image in enumerate(images)]
        write(here, {f"{name}.bin": b"".join(records)})
    write(here, {"batches.meta.txt": "\n".join("abcdefghij") + "\n"})


def _idx(here: Path) -> None:
    for split, count in (("train", 30), ("t10k", 10)):
        pixels = _pixels(count, count, (7, 5)).tobytes()
        labels = bytes(at % 4 for at in range(count))
        write(
            here,
            {
                f"{split}-images-idx3-ubyte": struct.pack(">IIII", 0x803, count, 7, 5) + pixels,
                f"{split}-labels-idx1-ubyte": struct.pack(">II", 0x801, count) + labels,
            },
        )


def _clutter(here: Path) -> None:
    files = class_folders(count=40)
    write(here, files)
    write(
        here,
        {
            "cat/broken.jpg": PHOTOS[50][:700],
            "cat/empty.png": b"",
            "dog/notes.txt": "nothing",
            "dog/Thumbs.db": b"x",
            "dog/twin.jpg": files["cat/000.jpg"],
            "emu bird/001.jpg": PHOTOS[60],
            "emu bird/002.jpg": PHOTOS[61],
        },
    )


def _classes(here: Path) -> None:
    names = ("cat", "dog", "emu", "fox")
    write(here / "tree", {f"{names[at % 4]}/{at:03d}.jpg": PHOTOS[at] for at in range(60)})
    write(here, {"map.csv": table(("old", "new"), [("cat", "pet"), ("dog", "pet"), ("fox", "")])})


def _names(here: Path) -> None:
    rows = [(f"{at:03d}.jpg", at % 4) for at in range(40)]
    write(here, {**flat(), "labels.csv": table(("file", "label"), rows)})
    write(here, {"names.txt": "zero\none\ntwo\nthree\n"})


def _bursts(here: Path) -> None:
    names = [f"{('cat', 'dog')[at % 2]}/burst{at // 4}_{at}.jpg" for at in range(60)]
    write(here, dict(zip(names, PHOTOS, strict=False)))


def _one_class(here: Path) -> None:
    write(here, {f"cat/{at}.jpg": PHOTOS[at] for at in range(5)})


def _broken_zip(here: Path) -> None:
    write(here, {"pets.zip": (SAMPLE_DATA / "flowers.zip").read_bytes()[:-1000]})


DATASET = "{name}"
_LOOK = (
    ("info", DATASET, "--json"),
    ("head", DATASET, "--json"),
    ("show", DATASET, "3", "--json"),
    ("leaks", DATASET, "--json"),
    ("report", DATASET, "-o", "{here}/../page.html", "--json"),
    ("preview", DATASET, "-o", "{here}/../sheet.png", "--json"),
    ("clean", "--json"),
)

CASES: Mapping[str, Case] = {
    "folder": Case(
        make=_folder, source="flowers", options=("--val-split", "0.1"), reencodes=True,
        extra=(*_LOOK, ("doctor", DATASET, "--json")),
    ),
    "zip": Case(
        make=lambda here: shutil.copy(SAMPLE_DATA / "flowers.zip", here),
        source="flowers.zip",
        options=("--val-split", "0.2", "--test-split", "0.2"),
    ),
    "manifest": Case(
        make=lambda here: shutil.copytree(SAMPLE_DATA, here, dirs_exist_ok=True),
        source="flowers.csv",
        options=("--images", "{here}/flowers", "--val-split", "0.3", "--seed", "7"),
        reencodes=True,
    ),
    "digits": Case(
        make=lambda here: shutil.copytree(SAMPLE_DATA / "digits", here / "digits"),
        source="digits",
        options=("--val-split", "0.1"),
        reencodes=True,
    ),
    "split_folders": Case(make=_split_folders, extra=_LOOK),
    "split_folders_dropped": Case(make=_split_folders, options=("--on-leak", "drop")),
    "split_folders_refused": Case(make=_split_folders, options=("--on-leak", "fail"), exit_code=4),
    "tar": Case(make=_tar, source="pets.tar.gz", options=("--val-split", "0.25")),
    "nested_zips": Case(make=_nested_zips),
    "shards": Case(
        make=_tree, options=("--val-split", "0.25", "--shards", "5", "--check", "structure")
    ),
    "shard_size": Case(make=_tree, options=("--shard-size", "30KiB", "--check", "header")),
    "folds": Case(make=_bursts, options=("--folds", "3", "--group-by", r"burst\d+")),
    "groups": Case(
        make=_bursts,
        options=("--val-split", "0.2", "--test-split", "0.1", "--group-by", r"burst(?P<group>\d+)"),
    ),
    "near_dups": Case(make=_tree, options=("--val-split", "0.2", "--near-dups", "group")),
    "shrunk": Case(
        make=_tree, options=("--short-side", "48", "--quality", "80"), reencodes=True
    ),
    "gzip": Case(make=_tree, options=("--compression", "gzip", "--shards", "2")),
    "array_record": Case(make=_tree, options=("--also", "array_record", "--val-split", "0.1")),
    "several_labels": Case(
        make=_several_labels,
        options=("--manifest", "{here}/labels.csv", "--label-sep", " ", "--val-split", "0.25"),
        extra=_LOOK,
    ),
    "columns": Case(
        make=_columns,
        source="table.csv",
        options=(
            *("--images", "{here}/images", "--label-col", "kind", "--group-col", "patient"),
            *("--split-col", "split", "--column", "age:float", "--column", "patient:int"),
            *("--column", "remark"),
        ),
        extra=_LOOK,
    ),
    "one_hot": Case(
        make=_one_hot, source="labels.csv",
        options=("--images", "{here}/images", "--onehot", "A,B,C", "--val-split", "0.2"),
    ),
    "kaggle": Case(
        make=_kaggle,
        options=("--val-split", "0.2"),
        extra=(
            ("submit", DATASET, "{here}/../answers.csv", "-o", "{here}/../submission.csv", "--json"),  # noqa: E501
        ),
    ),
    "coco": Case(make=_coco, options=("--val-split", "0.2")),
    "pixel_table": Case(make=_pixel_table, source="train.csv", reencodes=True),
    "npz": Case(make=_npz, source="shapes.npz", reencodes=True),
    "cifar": Case(make=_cifar_binary, options=("--val-split", "0.3"), reencodes=True),
    "idx": Case(make=_idx, options=("--val-split", "0.2"), reencodes=True),
    "clutter": Case(make=_clutter, options=("--val-split", "0.1"), extra=_LOOK),
    "clutter_refused": Case(make=_clutter, options=("--on-bad", "fail"), exit_code=3),
    "classes": Case(
        make=_classes, source="tree",
        options=("--map", "{here}/map.csv", "--limit-per-class", "12", "--val-split", "0.25"),
    ),
    "label_names": Case(
        make=_names, source="labels.csv",
        options=("--images", "{here}/images", "--label-names", "{here}/names.txt"),
    ),
    "one_class": Case(make=_one_class, exit_code=3),
    "broken_zip": Case(make=_broken_zip, source="pets.zip", exit_code=3),
    "no_images": Case(make=lambda here: write(here, {"a/b.txt": "c"}), exit_code=3),
    "nothing_there": Case(make=lambda here: None, source="nowhere", exit_code=3),
    "bad_option": Case(make=_tree, options=("--val-split", "7"), exit_code=2),
}  # fmt: skip
