#!/usr/bin/env python3
"""Time packing 5,000 photos on Spark's local[2] against two processes of our own.

    .venv/bin/python scripts/bench_spark.py [--work DIR] [--rounds N] [--quick] [--json FILE]

Both engines run first once to warm up, which for Spark means that the JVM and its Python workers
are up; then they run in turn, and medians are compared. CPU seconds are those of this process and
of all that it started, so they hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_pack import QUICK_SETS, SETS, make_images
from bench_tools import WORK, Goal, goal_table, setting, table

if TYPE_CHECKING:
    from imgrec.engine import Engine

TARGET = 1.3
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those it started that are still there."""
    ticks: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    for _ in range(8):
        family |= {pid for pid, (parent, _) in ticks.items() if parent in family}
    return sum(ticks[pid][1] for pid in family) / TICKS


def measure(source: Path, work: Path, engine: Engine) -> tuple[float, float]:
    """Pack once; return wall and CPU seconds."""
    import imgrec

    out = work / "spark-out"
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    wall, cpu = time.perf_counter(), cpu_s()
    imgrec.pack(source, imgrec.PackOptions(data_dir=str(out), val_fraction=0.1), engine=engine)
    return time.perf_counter() - wall, cpu_s() - cpu


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    from imgrec.engine.local import LocalEngine
    from imgrec.spark import SparkEngine

    source = make_images(asked.work, (QUICK_SETS if asked.quick else SETS)["photos5k"])
    figures: dict[str, list[tuple[float, float]]] = {"spark": [], "local": []}
    with SparkEngine(master="local[2]") as spark, LocalEngine(2) as local:
        for number in range(asked.rounds + 1):
            for name, engine in (("spark", spark), ("local", local)):
                found = measure(source, asked.work, engine)
                if number:
                    figures[name].append(found)
    shutil.rmtree(asked.work / "spark-out", ignore_errors=True)
    medians = {
        name: [statistics.median(values) for values in zip(*runs, strict=True)]
        for name, runs in figures.items()
    }
    rows = [(name, f"{wall:.2f}", f"{cpu:.2f}") for name, (wall, cpu) in medians.items()]
    print(table([("seconds", "wall", "CPU"), *rows]))
    ratio = medians["spark"][0] / medians["local"][0]
    goals = [Goal("Spark to processes, wall time", ratio, "<=", TARGET)]
    print(goal_table(goals))
    print(setting(("pyspark",)))
    if asked.json:
        value = {"medians": medians, "goals": [goal.as_value() for goal in goals]}
        asked.json.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
