#!/usr/bin/env python3
"""Look for near-duplicates among up to a million images, and hold time and memory to the goals.

    .venv/bin/python scripts/bench_leaks.py [--signatures 10000,100000,1000000] [--json FILE]

The search is measured on made-up signatures, one in a hundred of them a version of another, some
mirrored: all of these must be found. A crowd, of which each is a version of one picture, is the
worst case. Each size is searched in a process of its own. `imgrec leaks` as a whole is measured on
the 50,000 images of 32x32 that scripts/bench_pack.py makes, if they are there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench_tools import WORK, Goal, checkout_environment, goal_table, setting, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZES = (10_000, 100_000, 1_000_000)
CROWD = 100_000
VERSIONS = 0.01
NOISE = 1.0
CROWD_NOISE = 2.0
IMAGES = WORK / "images" / "tiny_50000"
GOAL_SIGNATURES = 1_000_000
GOAL_SECONDS = 60
GOAL_GB = 1.0


class Figures(NamedTuple):
    """What a search of so many signatures took, and what came of it."""

    kind: str
    signatures: int
    wall_s: float
    cpu_s: float
    before_bytes: int
    """Peak memory of the process before it searched."""
    peak_bytes: int
    pairs: int
    found: float
    """The part of the planted versions that is paired with what it is a version of."""

    def row(self) -> tuple[str, ...]:
        """Return the figures as a row of a table."""
        return (
            f"{self.signatures:,} {self.kind}",
            f"{self.wall_s:.2f}",
            f"{self.cpu_s:.2f}",
            f"{self.cpu_s / self.signatures * 1e6:.1f}",
            f"{self.before_bytes / 1e6:,.0f}",
            f"{self.peak_bytes / 1e6:,.0f}",
            f"{self.pairs:,}",
            f"{self.found:.2%}",
        )


TITLES = ("signatures", "wall s", "CPU s", "CPU us/each", "before MB", "peak MB", "pairs", "found")


def main() -> None:
    """Search each size in a fresh process and print what it took."""
    options = _parser().parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure.split())._asdict()))
        return
    facts = setting(("numpy",))
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    results = [measured_apart("random", count) for count in options.signatures]
    results.append(measured_apart("crowd", CROWD))
    print(table([TITLES, *(result.row() for result in results)]))
    goals = [goal for result in results for goal in goals_of(result)]
    goals += goals_of_command()
    if goals:
        print(goal_table(goals))
    if options.json:
        value = {
            "setting": facts,
            "results": [result._asdict() for result in results],
            "goals": [goal.as_value() for goal in goals],
        }
        options.json.write_text(json.dumps(value, indent=2) + "\n")


def goals_of(result: Figures) -> Iterator[Goal]:
    """Yield the goals of a search."""
    what = f"{result.signatures:,} {result.kind}"
    if result.kind == "random":
        yield Goal(f"{what}: versions found", 100 * result.found, ">=", 100, " %")
    if result.signatures == GOAL_SIGNATURES:
        yield Goal(f"{what}: wall time", result.wall_s, "<", GOAL_SECONDS, " s")
        yield Goal(f"{what}: peak memory", result.peak_bytes / 1e9, "<", GOAL_GB, " GB")


def goals_of_command() -> Iterator[Goal]:
    """Run `imgrec leaks` on many small images with two workers."""
    if not IMAGES.is_dir():
        print(f"{IMAGES} is not there: scripts/bench_pack.py makes it")
        return
    command = [sys.executable, "-m", "imgrec", "leaks", str(IMAGES), "--workers", "2", "--quiet"]
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=checkout_environment(), check=True)
    wall_s = time.perf_counter() - started
    yield Goal("leaks of 50,000 images of 32x32, two workers", wall_s, "<", GOAL_SECONDS, " s")


def measured_apart(kind: str, count: int) -> Figures:
    """Measure in a process of its own, so that no size pays for another."""
    command = [sys.executable, str(Path(__file__)), "--measure", f"{kind} {count}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=checkout_environment())
    return Figures(**json.loads(done.stdout))


def measure(kind: str, text: str) -> Figures:
    """Search `text` many signatures of one kind in this process."""
    from imgrec.near.search import find_pairs

    count = int(text)
    signatures, planted = _crowd(count) if kind == "crowd" else _random(count)
    before = _peak_bytes()
    wall, cpu = time.perf_counter(), time.process_time()
    pairs = find_pairs(signatures)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    found = set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    return Figures(
        kind=kind,
        signatures=count,
        wall_s=wall_s,
        cpu_s=cpu_s,
        before_bytes=before,
        peak_bytes=_peak_bytes(),
        pairs=len(found),
        found=sum(pair in found for pair in planted) / len(planted) if planted else 1.0,
    )


def _random(count: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return random signatures, and the pairs of which one is a version of the other."""
    import numpy as np

    chance = np.random.default_rng(count)
    waves = np.empty((count, 63), np.int8)
    for start in range(0, count, 50_000):
        part = waves[start : start + 50_000]
        part[:] = _coded(chance.normal(0, 30, part.shape))
    # Versions stand in the second half, of originals in the first, each of another one.
    versions = int(count * VERSIONS)
    originals = chance.choice(count // 2, versions, replace=False)
    places = count // 2 + chance.choice(count - count // 2, versions, replace=False)
    changed = waves[originals] + chance.normal(0, NOISE, (versions, 63))
    is_odd = np.arange(1, 64) % 8 % 2 == 1
    changed[::3, is_odd] *= -1  # mirrored
    waves[places] = _coded(changed)
    pairs = list(zip(originals.tolist(), places.tolist(), strict=True))
    return _signatures(waves), pairs


def _crowd(count: int) -> tuple[bytes, list[tuple[int, int]]]:
    import numpy as np

    chance = np.random.default_rng(count)
    base = chance.normal(0, 30, 63)
    return _signatures(_coded(base + chance.normal(0, CROWD_NOISE, (count, 63)))), []


def _coded(waves: NDArray[np.float64]) -> NDArray[np.int8]:
    import numpy as np

    return np.clip(np.round(waves), -127, 127).astype(np.int8)


def _signatures(waves: NDArray[np.int8]) -> bytes:
    import numpy as np

    grey = np.full((len(waves), 2), 128, np.uint8)
    return np.hstack([waves.view(np.uint8), grey]).tobytes()


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--signatures",
        type=_sizes,
        default=SIZES,
        metavar="N,...",
        help="default: 10^4, 10^5, 10^6",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--measure", metavar="KIND N", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
