"""What only imgrec is measured by: growing sources, and packs that were killed."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from pathlib import Path

from benching.images import CLASSES, ImageSet, make_images
from benching.packing import imgrec_pack
from benching.runs import FailedError, cleared, environment, timed

FILES = (1_000, 10_000, 100_000)
MOST_FILES = 1_000_000
SHARDS, FINISHED = 50, 45
_COMMENT = b"\xff\xfe"


def growth(work: Path, bases: ImageSet, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Pack ever more small files, every image decoded."""
    points = []
    for size in sizes:
        source = cleared(work / "growth")
        total = _write_images(source, make_images(work, bases), size)
        output = cleared(work / "output")
        run, _ = timed(imgrec_pack(source, output))
        points.append({"files": size, "bytes": total, **run.as_value()})
        shutil.rmtree(source)
    return points


def _write_images(folder: Path, bases: Path, number: int) -> int:
    """Write JPEGs that differ in a comment, as duplicates would cost less; return their bytes."""
    total = 0
    paths = cycle(sorted(bases.glob("*/*.jpg")))
    for label in range(CLASSES):
        (folder / f"class_{label:02d}").mkdir()
    for at, path in zip(range(number), paths, strict=False):
        data = path.read_bytes()
        comment = _COMMENT + (10).to_bytes(2, "big") + at.to_bytes(8, "big")
        data = data[:2] + comment + data[2:]
        (folder / f"class_{at % CLASSES:02d}" / f"img_{at:07d}.jpg").write_bytes(data)
        total += len(data)
    return total


def resume(work: Path, images: ImageSet, rounds: int) -> dict[str, list[float]]:
    """Time a whole pack, and what is left of one that was killed when 45 of 50 shards were done."""
    source, output = make_images(work, images), work / "output"
    command = imgrec_pack(source, output, "--shards", str(SHARDS))
    seconds: dict[str, list[float]] = {"whole": [], "rest": []}
    for _ in range(rounds):
        cleared(output)
        seconds["whole"].append(timed(command)[0].wall_s)
        cleared(output)
        _kill_at(command, output)
        seconds["rest"].append(timed(command)[0].wall_s)
    return seconds


def _kill_at(command: Sequence[str], output: Path) -> None:
    packing = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=environment(), start_new_session=True
    )
    for _ in _until_done(packing):
        if len(list(output.glob("*/.*.incomplete/.notes/*tfrecord*"))) >= FINISHED:
            os.kill(packing.pid, signal.SIGKILL)
            packing.wait()
            return
    raise FailedError("the pack ended before it was killed")


def _until_done(process: subprocess.Popen[bytes]) -> Iterator[int]:
    for number in count():
        if process.poll() is not None:
            return
        yield number
        time.sleep(0.002)


def median_ratio(seconds: dict[str, list[float]]) -> float:
    """Return what continuing takes, as a fraction of a whole pack."""
    return statistics.median(seconds["rest"]) / statistics.median(seconds["whole"])
