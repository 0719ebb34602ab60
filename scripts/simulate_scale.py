#!/usr/bin/env python3
"""Plan millions of samples on Spark, and measure the driver's memory.

    .venv/bin/python scripts/simulate_scale.py [--samples 100000,1000000,10000000] [--groups]
                                               [--master 'local-cluster[1,2,1024]']

There are no images. The rows are what a scan finds out about images of 1,000 classes, one in a
hundred of them a copy of another. They go through all that `imgrec.spark.pack_dataframe` plans.
Each size runs in its own process. 100 million samples take hours on two cores.

Memory is the driver's: the peak of the Python process, and the JVM's live heap. With `local[2]` the
executors share that JVM; `local-cluster[1,2,1024]` gives them their own. The last column is the
largest Python process of an executor: with `--groups`, one of them plans all rows.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
GROUP = 10
"""How many rows a group has."""
COLLECTIONS = 3
"""The first one only tells Spark which broadcast tables are unused; Spark then frees them."""


def synthesize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn numbers into rows of `PROBED`."""
    from xxhash import xxh3_128_digest

    from imgrec.planning.split import ranks_of
    from imgrec.spark.job import PROBED, batches_of

    for batch in batches:
        numbers = batch.column(0).to_pylist()
        keys = [xxh3_128_digest(b"%d" % (n - (n % 100 == 0))) for n in numbers]
        count = len(numbers)
        columns = {
            "filename": [f"class_{n % CLASSES:03d}/{n:09d}.jpg" for n in numbers],
            "grp": [f"patient {n // GROUP}" for n in numbers],
            "class_name": [f"class_{n % CLASSES:03d}" for n in numbers],
            "size": [MEAN_BYTES // 2 + int.from_bytes(key[:4], "big") % MEAN_BYTES for key in keys],
            "rank": [rank - (rank >> 63 << 64) for rank in ranks_of(keys, 0)],
            "key": keys,
            **dict.fromkeys(("split", "blob"), [""] * count),
            **dict.fromkeys(("whole", "digest"), [b""] * count),
            "fault": [None] * count,
        }
        if count:
            yield from batches_of(columns, PROBED)


def live_heap_bytes(session: SparkSession) -> int:
    """Collect garbage several times; return the smallest heap."""
    java = session._jvm.java.lang  # type: ignore[union-attr]  # it has one
    runtime = java.Runtime.getRuntime()
    left = []
    for _ in range(COLLECTIONS):
        java.System.gc()
        time.sleep(1)  # Spark's cleaner frees what became unreachable
        left.append(runtime.totalMemory() - runtime.freeMemory())
    return min(left)


def peak_bytes(process: Path) -> int:
    """Return the most memory that a process ever had."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
    return int(peak[1]) << 10 if peak else 0


def workers() -> Iterator[Path]:
    """Yield the Python processes of the executors, which wait for their next task."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                yield process


def measure(samples: int, master: str, *, has_groups: bool) -> dict[str, float]:
    """Plan the samples in a session of this process; return the figures."""
    from imgrec.engine.spark import SparkEngine, active_session

    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "",  # here the JVM has work to do
        "spark.sql.shuffle.partitions": "8",
    }
    with SparkEngine(master=master, conf=conf) as engine:
        list(engine.run(abs, [1]))  # the first task starts the session
        session = active_session()
        assert session is not None
        started = time.perf_counter()
        shards = plan(session, samples, has_groups=has_groups)
        seconds = time.perf_counter() - started
        heap = live_heap_bytes(session)
        task = max(peak_bytes(worker) for worker in workers())
    memory = {
        "python_mb": peak_bytes(Path("/proc/self")) / 1e6,
        "heap_mb": heap / 1e6,
        "task_mb": task / 1e6,
    }
    return {"samples": samples, "seconds": seconds, "shards": shards, **memory}


def plan(session: SparkSession, samples: int, *, has_groups: bool = False) -> int:
    """Plan the samples; return the number of shards."""
    from imgrec.engine.spark import ship
    from imgrec.model import SourceLayout
    from imgrec.options import PackOptions, SourceKind
    from imgrec.spark.frame import Frame
    from imgrec.spark.job import PROBED, Form, Job, Place, ddl
    from imgrec.spark.plan import plan_rows
    from imgrec.spark.scan import FoundLabels, Scanned
    from imgrec.spark.shards import sharded
    from imgrec.storage.staging import Staging

    with TemporaryDirectory() as folder:
        ship(session.sparkContext)
        options = PackOptions(name="scale", val_split=0.1, data_dir=folder)
        with (
            Staging(Path(folder) / "scale/1.0.0") as staging,
            Job(
                session=session, place=Place(staging.results, staging.spool), options=options
            ).running() as job,
        ):
            tasks = max(8, samples // 500_000)
            names = [f"class_{n:03d}" for n in range(CLASSES)]
            rows = session.range(0, samples, 1, tasks).mapInArrow(synthesize, ddl(PROBED))
            scanned = Scanned(
                rows=job.persist(rows),
                good=samples,
                notes=(),
                labels=FoundLabels(
                    class_of={name: name for name in names},
                    images=dict.fromkeys(names, samples // CLASSES),
                    order=None,
                ),
                has_groups=has_groups,
                frame=Frame(
                    rows=rows,
                    is_path=True,
                    form=Form(),
                    layout=SourceLayout(kind=SourceKind.FOLDER, sentence=""),
                ),
                images=None,
            )
            planned = plan_rows(scanned, job)
            assert planned.planned.count == samples
            shards = sharded(planned, Form(), job).select("shard").distinct().count()
            assert shards == len(planned.shards)
            return shards


def main() -> None:
    """Plan each size in its own process, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", default="100000,1000000,10000000")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--groups", action="store_true", help="ten rows a group")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one, asked.master, has_groups=asked.groups)))
        return
    rows = [("samples", "seconds", "rows/s", "shards", "Python MB", "JVM heap MB", "task MB")]
    for size in map(int, asked.samples.split(",")):
        command = [sys.executable, __file__, "--one", str(size), "--master", asked.master]
        command += ["--groups"] if asked.groups else []
        done = subprocess.run(
            command, env=environment(), stdout=subprocess.PIPE, text=True, check=True
        )
        found = json.loads(done.stdout)
        rate = size / found["seconds"]
        figures = (size, found["seconds"], rate, found["shards"])
        rows.append(tuple(f"{figure:,.0f}" for figure in (*figures, *list(found.values())[3:])))
    print(table(rows))


if __name__ == "__main__":
    main()
