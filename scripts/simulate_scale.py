#!/usr/bin/env python3
"""Plan millions of samples on Spark's local[2], and show that the driver's memory does not grow.

    .venv/bin/python scripts/simulate_scale.py [--samples 100000,1000000,10000000] [--full]
                                               [--master 'local-cluster[1,2,1024]']

No image is made: the rows are what a first look at images of 1,000 classes would show, one in a
hundred of them a copy of another. They go through all that `imgrec.spark.pack_dataframe` plans:
content, rank, label, split, shards, and the place of each row in its shard. Each size runs in a
process of its own. `--full` goes up to 100 million, and takes hours on two cores.

Memory is that of the driver: the peak of the Python process, and what is left on the heap of the
JVM when all its garbage is collected, which takes several collections: the first one only tells
Spark which broadcast tables nobody needs any more (two pages of 32 MiB), and Spark then lets go of
them. In local[2] the executors are in that JVM, too; `local-cluster[1,2,1024]` gives them one of
their own, so that the heap is the driver's alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benching.figures import table
from benching.runs import environment

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CLASSES = 1_000
MEAN_BYTES = 70_000
SIZES = (100_000, 1_000_000, 10_000_000)
FULL = 100_000_000
GROWTH = 1.1
MASTER = "local[2]"
COLLECTIONS = 3


def synthesize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of `SEEN` for numbers."""
    from xxhash import xxh3_128_digest

    from imgrec.plan.split import ranks_of
    from imgrec.spark.tables import SEEN, batches_of

    for batch in batches:
        numbers = batch.column(0).to_pylist()
        keys = [xxh3_128_digest(b"%d" % (n - (n % 100 == 0))) for n in numbers]
        count = len(numbers)
        columns = {
            "filename": [f"class_{n % CLASSES:03d}/{n:09d}.jpg" for n in numbers],
            "class_name": [f"class_{n % CLASSES:03d}" for n in numbers],
            "split": [""] * count,
            "grp": [""] * count,
            "size": [MEAN_BYTES // 2 + int.from_bytes(key[:4], "big") % MEAN_BYTES for key in keys],
            "rank": [rank - (rank >> 63 << 64) for rank in ranks_of(keys, 0)],
            "key": keys,
            "whole": [b"" for _ in keys],
            "blob": [""] * count,
            "fault": [None] * count,
        }
        if count:
            yield from batches_of(columns, SEEN)


def live_bytes(session: SparkSession) -> int:
    """Return what the JVM of the driver has left on its heap, at the least, after collections."""
    java = session._jvm.java.lang  # type: ignore[union-attr]  # it has one
    runtime = java.Runtime.getRuntime()
    left = []
    for _ in range(COLLECTIONS):
        java.System.gc()
        time.sleep(1)  # in which Spark's cleaner lets go of what has become unreachable
        left.append(runtime.totalMemory() - runtime.freeMemory())
    return min(left)


def plan(samples: int, master: str) -> dict[str, float]:
    """Plan so many samples in this process; return what it took."""
    from imgrec.engine.shipping import ship
    from imgrec.engine.spark import SparkEngine, active_session
    from imgrec.options import PackOptions
    from imgrec.spark.job import Job
    from imgrec.spark.plan import plan_rows
    from imgrec.spark.scan import Seen
    from imgrec.spark.shards import Sharding
    from imgrec.spark.tables import SEEN, SHARDED, ddl
    from imgrec.storage.staging import Staging

    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "",  # here the JVM has work to do
        "spark.sql.shuffle.partitions": "8",
    }
    with SparkEngine(master=master, conf=conf), TemporaryDirectory() as folder:
        session = active_session()
        assert session is not None
        ship(session.sparkContext)
        options = PackOptions(name="scale", val_split=0.1, data_dir=folder)
        started = time.perf_counter()
        with (
            Staging(Path(folder) / "scale/1.0.0") as staging,
            Job(session, staging, options) as job,
        ):
            tasks = max(8, samples // 500_000)
            rows = session.range(0, samples, 1, tasks).mapInArrow(synthesize, ddl(SEEN))
            seen = Seen(
                rows=job.keep(rows),
                good=samples,
                bad=(),
                classes=tuple(f"class_{n:03d}" for n in range(CLASSES)),
                has_groups=False,
                extras=(),
                layout="",
                images=None,
            )
            planned = plan_rows(seen, job)
            sharding = Sharding(planned.shards.lengths, planned.summary.offsets, ())
            placed = job.mapped(planned.rows, sharding, SHARDED)
            shards = placed.select("shard").distinct().count()
            assert shards == len(planned.shards)
            assert planned.planned.count == samples
            seconds = time.perf_counter() - started
            heap = live_bytes(session)
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak
    return {
        "samples": samples,
        "seconds": seconds,
        "shards": shards,
        "python_mb": int(peak[1]) / 1e3,
        "heap_mb": heap / 1e6,
        "cpus": os.cpu_count() or 1,
    }


def main() -> None:
    """Plan each size in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", default=",".join(map(str, SIZES)))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--master", default=MASTER)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(plan(asked.one, asked.master)))
        return
    sizes = [*map(int, asked.samples.split(",")), *([FULL] if asked.full else [])]
    rows = [("samples", "seconds", "rows/s", "shards", "Python MB", "JVM heap MB")]
    found = {}
    for size in sizes:
        command = [sys.executable, __file__, "--one", str(size), "--master", asked.master]
        done = subprocess.run(
            command, env=environment(), stdout=subprocess.PIPE, text=True, check=True
        )
        figures = found[size] = json.loads(done.stdout)
        rows.append(
            (
                f"{size:,}",
                f"{figures['seconds']:,.0f}",
                f"{size / figures['seconds']:,.0f}",
                f"{figures['shards']:,}",
                f"{figures['python_mb']:,.0f}",
                f"{figures['heap_mb']:,.0f}",
            )
        )
        print(table(rows[:1] + rows[-1:]), flush=True)
    print(table(rows))
    if {10**6, 10**7} <= found.keys():
        for what, figure in (("Python", "python_mb"), ("JVM heap", "heap_mb")):
            ratio = found[10**7][figure] / found[10**6][figure]
            print(f"driver memory, {what}, 10 million rows / 1 million: {ratio:.2f} (<= {GROWTH})")


if __name__ == "__main__":
    main()
