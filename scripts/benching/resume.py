"""What it costs to continue a pack that was killed, as a fraction of a whole pack."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benching.images import ImageSet, make_images
from benching.packers import imgrec_pack
from benching.runs import FailedError, cleared, environment, timed

SHARDS, FINISHED = 50, 45


def measure(work: Path, images: ImageSet, rounds: int) -> dict[str, list[float]]:
    """Time a whole pack, and the rest of one killed when 45 of its 50 shards were finished."""
    source, output = make_images(work, images), work / "output"
    command = imgrec_pack(source, output, "--shards", str(SHARDS))
    seconds: dict[str, list[float]] = {"whole": [], "rest": []}
    for _ in range(rounds):
        cleared(output)
        seconds["whole"].append(timed(command)[0].wall_s)
        cleared(output)
        _kill(command, output)
        seconds["rest"].append(timed(command)[0].wall_s)
    return seconds


def _kill(command: Sequence[str], output: Path) -> None:
    packing = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    while packing.poll() is None:
        if len(list(output.glob("*/.*.incomplete/.notes/*tfrecord*"))) >= FINISHED:
            os.kill(packing.pid, signal.SIGKILL)
            packing.wait()
            return
        time.sleep(0.002)
    raise FailedError("the pack ended before it was killed")


def median_ratio(seconds: Mapping[str, Sequence[float]]) -> float:
    """Return the time of the rest, as a fraction of a whole pack."""
    return statistics.median(seconds["rest"]) / statistics.median(seconds["whole"])
