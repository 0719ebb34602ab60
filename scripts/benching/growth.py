"""How time and memory of a pack grow with the number of files, and with their bytes."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

from bench_pack import ImageSet, make_images
from bench_tools import checkout_environment

from benching.packing import PACKERS
from benching.runs import Run, cleared, timed

FILES = (1_000, 10_000, 100_000)
MOST_FILES = 1_000_000
GIGABYTES = (1, 2, 4)
MOST_GIGABYTES = (8, 16, 20)
CLASSES = 10
ROUNDS = 3
_FEW = 100_000
"""Up to so many files, the median of several runs counts."""
_COMMENT = b"\xff\xfe"
Point = dict[str, float]


def of_files(work: Path, bases: ImageSet, sizes: tuple[int, ...]) -> list[Point]:
    """Pack ever more small files, every image decoded."""
    return [_point(work, bases, "decode", files=size) for size in sizes]


def of_bytes(work: Path, bases: ImageSet, sizes: tuple[int, ...]) -> list[Point]:
    """Pack ever more gigabytes of photos, their structure checked, as far as the disk goes."""
    points = []
    for gigabytes in sizes:
        if shutil.disk_usage(work).free < 2.2e9 * gigabytes:
            print(f"{gigabytes} GB skipped: the disk has no room for them twice", flush=True)
            continue
        points.append(_point(work, bases, "structure", total_bytes=gigabytes * 10**9))
    return points


def _point(
    work: Path, bases: ImageSet, check: str, *, files: int = 0, total_bytes: int = 0
) -> Point:
    source = cleared(work / "growth")
    made, size = _draw(source, make_images(work, bases), files, total_bytes)
    output = work / "output"
    command = PACKERS[check].command("", source, output)
    runs: list[Run] = []
    for _ in range(ROUNDS if made <= _FEW else 1):
        cleared(output)
        runs.append(timed(command, checkout_environment())[0])
    point: Point = {
        "files": made,
        "bytes": size,
        "wall_s": statistics.median(run.wall_s for run in runs),
        "cpu_s": statistics.median(run.cpu_s for run in runs),
        "main_bytes": max(run.main_bytes for run in runs),
        "worker_bytes": max(run.worker_bytes for run in runs),
    }
    cleared(output)
    shutil.rmtree(source)
    print(
        f"  {made:,} files, {size / 1e9:.2f} GB: {point['wall_s']:.2f} s, "
        f"{point['wall_s'] / made * 1e6:.0f} us a file, "
        f"worker {point['worker_bytes'] / 1e6:.0f} MB",
        file=sys.stderr,
    )
    return point


def _draw(folder: Path, bases: Path, files: int, total_bytes: int) -> tuple[int, int]:
    """Write JPEGs that differ in a comment, as duplicates would cost less; return their totals."""
    for label in range(CLASSES):
        (folder / f"class_{label:02d}").mkdir()
    size = 0
    for number, data in enumerate(_numbered(bases)):
        if number == files if files else size >= total_bytes:
            return number, size
        # Names as cameras give them, in folders of equal size.
        (folder / f"class_{number % CLASSES:02d}" / f"img_{number:07d}.jpg").write_bytes(data)
        size += len(data)
    raise AssertionError("the images are endless")


def _numbered(bases: Path) -> Iterator[bytes]:
    """Yield the images of a folder for ever, each with another number in a comment."""
    paths = cycle(sorted(bases.glob("*/*.jpg")))
    for number in count():
        data = next(paths).read_bytes()
        comment = number.to_bytes(8, "big")
        yield data[:2] + _COMMENT + (2 + len(comment)).to_bytes(2, "big") + comment + data[2:]
