#!/usr/bin/env python3
"""Time packing archives, manifests and IDX files, and hold the ratios against the goals.

    .venv/bin/python scripts/bench_sources.py [--quick] [--rounds N] [--check C]

All contenders run in turn, round after round, each as fresh processes whose start-up counts, and
medians are compared. The photos are those of `bench_pack.py`; archives and IDX files are made
once and kept beside them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from bench_pack import QUICK_SETS, SETS, make_images
from bench_tools import WORK, Goal, checkout_environment, goal_table, setting

PILLOW_SCRIPT = '''\
"""Encode the images of an IDX file as PNG with Pillow in two processes: FILE."""

import io
import sys
from multiprocessing import Pool

from PIL import Image


def encode(pixels):
    for start in range(0, len(pixels), 784):
        Image.frombytes("L", (28, 28), pixels[start : start + 784]).save(io.BytesIO(), "PNG")
    return len(pixels) // 784


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        pixels = file.read()[16:]
    step = 784 * 1000
    parts = [pixels[at : at + step] for at in range(0, len(pixels), step)]
    with Pool(2) as pool:
        print(sum(pool.imap(encode, parts)))
'''
MANIFEST_ROWS = 100_000
MANIFEST_RATE = 100_000
WAYS = (("path", "train/", ".jpg"), ("file name", "", ".jpg"), ("stem", "", ""))
"""How rows name their images: by what, and what goes before and after the number."""


def make_archives(photos: Path, work: Path) -> dict[str, Path]:
    """Return the photos in archives of each kind, made if they are not there."""
    folder = work / "archives" / photos.name
    folder.mkdir(parents=True, exist_ok=True)
    names = ("stored.zip", "deflated.zip", "photos.tar", "photos.tar.gz")
    kinds = ("zip, stored", "zip, deflated", "tar", "tar.gz")
    paths = {kind: folder / name for kind, name in zip(kinds, names, strict=True)}
    for kind, method in (("zip, stored", ZIP_STORED), ("zip, deflated", ZIP_DEFLATED)):
        if not paths[kind].exists():
            with ZipFile(paths[kind], "w", method) as archive:
                for path in sorted(photos.glob("*/*")):
                    archive.write(path, path.relative_to(photos.parent))
    if not paths["tar"].exists():
        command = ["tar", "cf", str(paths["tar"]), "-C", str(photos.parent), photos.name]
        subprocess.run(command, check=True)
    if not paths["tar.gz"].exists():
        with open(paths["tar.gz"], "wb") as out:
            subprocess.run(["gzip", "-c", str(paths["tar"])], check=True, stdout=out)
    return paths


def make_digits(work: Path, count: int) -> Path:
    """Return a folder of IDX files with `count` images that compress as handwriting does."""
    folder = work / "digits" / str(count)
    if not folder.exists():
        import numpy as np

        folder.mkdir(parents=True)
        chance = np.random.default_rng(1)
        strokes = np.zeros((count, 28, 28), np.uint8)
        strokes[:, 4:24, 10:16] = chance.integers(0, 256, (count, 20, 6))
        strokes[:, 10:14, 4:24] = chance.integers(128, 256, (count, 4, 20))
        head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
        (folder / "train-images-idx3-ubyte").write_bytes(head + strokes.tobytes())
        labels = bytes(number % 10 for number in range(count))
        (folder / "train-labels-idx1-ubyte").write_bytes(
            struct.pack(">4BI", 0, 0, 8, 1, count) + labels
        )
    return folder


def pack(source: Path, output: Path, *options: str) -> None:
    """Pack a source with two workers."""
    command = [sys.executable, "-m", "imgrec", "pack", str(source), "--quiet", "--workers", "2"]
    command += ["--data-dir", str(output), "--name", "bench", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=checkout_environment())
    if done.returncode:
        raise SystemExit(f"packing {source} failed:\n{done.stderr}")


def unpack_and_pack(archive: Path, output: Path, *options: str) -> None:
    """Unpack a compressed tar with the usual tools, and pack the folder."""
    folder = output / "unpacked"
    folder.mkdir(parents=True)
    with subprocess.Popen(["gzip", "-dc", str(archive)], stdout=subprocess.PIPE) as unzipping:
        subprocess.run(["tar", "x", "-C", str(folder)], check=True, stdin=unzipping.stdout)
    (inner,) = folder.iterdir()
    pack(inner, output / "data", *options)


def encode_alone(images: Path, output: Path) -> None:
    """Encode the images of an IDX file with Pillow alone."""
    script = output / "encode.py"
    script.write_text(PILLOW_SCRIPT)
    subprocess.run([sys.executable, str(script), str(images)], check=True, capture_output=True)


def race(
    contenders: Mapping[str, Callable[[Path], None]], work: Path, rounds: int
) -> dict[str, float]:
    """Return the median seconds of each contender, run in turn."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, run in contenders.items():
            output = work / "output"
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            os.sync()
            start = time.perf_counter()
            run(output)
            taken[name].append(time.perf_counter() - start)
            print(f"  round {number + 1}: {name} {taken[name][-1]:.2f} s", file=sys.stderr)
    shutil.rmtree(work / "output", ignore_errors=True)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


class Rate(NamedTuple):
    """How fast the rows of a manifest find their images."""

    how: str
    rows_per_s: float


def resolve_rows(rows: int, rounds: int) -> list[Rate]:
    """Return how fast tables are read and matched with images that are listed already."""
    from imgrec.options import SourceOptions
    from imgrec.source.context import Context
    from imgrec.source.manifests.files import manifest_files
    from imgrec.source.manifests.images import ManifestImages
    from imgrec.source.manifests.manifest import resolve
    from imgrec.source.manifests.paths import Finder
    from imgrec.source.manifests.tables import read_table
    from imgrec.source.probe import Batch, Probes
    from imgrec.source.tree import Folder, Tree
    from imgrec.source.walk import Walk

    def seen(_function: object, batches: Iterable[Batch]) -> Iterator[Probes]:
        """Look at no file, and tell every one from the others."""
        for start, blobs, *_ in batches:
            numbers = range(start, start + len(blobs))
            keys = tuple(number.to_bytes(16, "big") for number in numbers)
            yield Probes(start, array("Q", numbers), keys, {}, (), 0, "", (), 0)

    names = tuple(f"{number:07d}.jpg" for number in range(rows))
    tree = Tree()
    tree.add(Folder("train", names, has_folders=False, blobs=names))
    context = Context(options=SourceOptions(), run=seen, on_progress=lambda _: None, spool="")
    rates = []
    with TemporaryDirectory() as folder:
        for how, prefix, suffix in WAYS:
            table = Path(folder) / f"{how}.csv"
            lines = (f"{prefix}{at:07d}{suffix},class {at % 100}\n" for at in range(rows))
            table.write_text("id,label\n" + "".join(lines))
            seconds = []
            for _ in range(rounds):
                images = ManifestImages(
                    lister=Walk(folder),
                    listed=tree,
                    unreadable=(),
                    finder=Finder(tree.names, folder),
                )
                begin = time.perf_counter()
                files = manifest_files(str(table))
                tables = list(map(read_table, files.paths, files.names))
                found = len(resolve(files, tables, images, {}, context).samples)
                seconds.append(time.perf_counter() - begin)
                if found != rows:
                    raise SystemExit(f"only {found:,} rows of {rows:,} found an image")
            rates.append(Rate(how, rows / statistics.median(seconds)))
    return rates


def main() -> None:
    """Run the benchmark and print its tables."""
    options = _parser().parse_args()
    facts = setting(("pillow", "pyarrow"))
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    sets = QUICK_SETS if options.quick else SETS
    photos = make_images(WORK, sets["photos5k"])
    archives = make_archives(photos, WORK)
    digits = make_digits(WORK, 1_000 if options.quick else 60_000)
    check = ("--check", options.check)
    seconds = race(
        {
            "folder": lambda out: pack(photos, out, *check),
            **{
                kind: lambda out, path=path: pack(path, out, *check)
                for kind, path in archives.items()
            },
            "gzip -dc | tar x, folder": lambda out: unpack_and_pack(
                archives["tar.gz"], out, *check
            ),
            "IDX": lambda out: pack(digits, out),
            "Pillow alone": lambda out: encode_alone(digits / "train-images-idx3-ubyte", out),
        },
        WORK,
        1 if options.quick else options.rounds,
    )
    for name, median in seconds.items():
        print(f"  {name:28} {median:6.2f} s")
    unpacked = seconds["gzip -dc | tar x, folder"]
    goals = [
        *(
            Goal(f"{kind}: time / folder", seconds[kind] / seconds["folder"], "<=", 1.25)
            for kind in ("zip, stored", "zip, deflated", "tar")
        ),
        Goal("tar.gz: time / unpacking and packing", seconds["tar.gz"] / unpacked, "<=", 1.25),
        Goal("IDX: time / Pillow alone", seconds["IDX"] / seconds["Pillow alone"], "<=", 3),
    ]
    rows = 1_000 if options.quick else MANIFEST_ROWS
    for how, rate in resolve_rows(rows, options.rounds):
        goals.append(Goal(f"rows/s that find images by {how}", rate, ">=", MANIFEST_RATE))
    print(goal_table(goals))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--check", default="decode", metavar="C", help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="few images: only to see it works")
    return parser


if __name__ == "__main__":
    main()
