#!/usr/bin/env python3
"""Plan up to a million samples, and hold time and memory against the goals.

    .venv/bin/python scripts/bench_plan.py [--samples 10000,100000,1000000] [--json FILE]

No image is made: the samples are what a scan of a folder of 1,000 classes would find, one in a
hundred of them a copy of another. Each size is planned in a process of its own, with the garbage
collector off as in the `imgrec` command. Peak memory is that of the process, so it includes the
catalog that is planned.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench_tools import Goal, checkout_environment, goal_table, setting, table

if TYPE_CHECKING:
    from imgrec.model import Catalog, Sample

CLASSES = 1_000
COPIES = 0.01
MEAN_BYTES = 70_000
VAL_FRACTION = 0.1
SIZES = (10_000, 100_000, 1_000_000)
GOAL_SAMPLES = 1_000_000
GOAL_SECONDS = 60
GOAL_GB = 1.5


class Figures(NamedTuple):
    """What planning so many samples took, and what came of it."""

    samples: int
    wall_s: float
    cpu_s: float
    catalog_bytes: int
    """Peak memory of the process before it planned."""
    peak_bytes: int
    shards: int
    duplicates: int

    def row(self) -> tuple[str, ...]:
        """Return the figures as a row of a table."""
        return (
            f"{self.samples:,}",
            f"{self.wall_s:.2f}",
            f"{self.cpu_s:.2f}",
            f"{self.cpu_s / self.samples * 1e6:.2f}",
            f"{self.catalog_bytes / 1e6:,.0f}",
            f"{self.peak_bytes / 1e6:,.0f}",
            f"{self.shards:,}",
            f"{self.duplicates:,}",
        )


TITLES = (
    "samples", "wall s", "CPU s", "CPU us/sample", "catalog MB", "peak MB", "shards", "duplicates",
)  # fmt: skip


def main() -> None:
    """Plan each size in a fresh process and print what it took."""
    options = _parser().parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)._asdict()))
        return
    facts = setting(())
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    results = [measured_apart(samples) for samples in options.samples]
    print(table([TITLES, *(result.row() for result in results)]))
    goals = [goal for result in results for goal in goals_of(result)]
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
    """Yield the goals, which are about a million samples."""
    if result.samples == GOAL_SAMPLES:
        what = f"{result.samples:,} samples"
        yield Goal(f"{what}: wall time", result.wall_s, "<", GOAL_SECONDS, " s")
        yield Goal(f"{what}: peak memory", result.peak_bytes / 1e9, "<", GOAL_GB, " GB")


def measured_apart(samples: int) -> Figures:
    """Measure in a process of its own, so that no size pays for another."""
    command = [sys.executable, str(Path(__file__)), "--measure", str(samples)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=checkout_environment())
    return Figures(**json.loads(done.stdout))


def measure(count: int) -> Figures:
    """Plan `count` samples in this process."""
    from imgrec.options import PackOptions
    from imgrec.plan.build import make_plan

    gc.disable()
    catalog = make_catalog(count)
    options = PackOptions(val_fraction=VAL_FRACTION)
    catalog_bytes = _peak_bytes()
    wall, cpu = time.perf_counter(), time.process_time()
    plan = make_plan(catalog, options)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    if plan.planned != count:
        raise SystemExit(f"{plan.planned:,} of {count:,} samples are planned")
    return Figures(
        samples=count,
        wall_s=wall_s,
        cpu_s=cpu_s,
        catalog_bytes=catalog_bytes,
        peak_bytes=_peak_bytes(),
        shards=len(plan.tasks),
        duplicates=sum(len(same.filenames) - 1 for same in plan.duplicates),
    )


def make_catalog(count: int) -> Catalog:
    """Return a catalog of `count` samples, the same on every call."""
    from imgrec.model import Catalog, Samples

    names = [f"n{1440764 + 1373 * number:08d}" for number in range(CLASSES)]
    return Catalog(
        name="imagenet",
        layout="<class>/**/image",
        samples=Samples.of(_samples(names, count)),
        class_folders={name: (name,) for name in names},
    )


def _samples(names: list[str], count: int) -> Iterator[Sample]:
    """Yield samples in the order of a scan; copies are of the same class or the one before."""
    from imgrec.model import Sample

    chance = random.Random(count)
    near = 2 * max(count // len(names), 1)
    recent: list[tuple[int, bytes]] = []
    for number in range(count):
        name = names[number * len(names) // count]
        filename = f"{name}/{name}_{number}.JPEG"
        if recent and chance.random() < COPIES:
            size, content = chance.choice(recent[-near:])
        else:
            size = max(2_000, round(chance.gauss(MEAN_BYTES, MEAN_BYTES / 3)))
            content = chance.randbytes(16)
        recent.append((size, content))
        if len(recent) > 2 * near:
            del recent[:near]
        yield Sample(filename, name, "", size, content, f"/data/imagenet/train/{filename}")


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--samples", type=_sizes, default=SIZES, metavar="N,...", help="default: 10^4, 10^5, 10^6"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--measure", type=int, metavar="N", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
