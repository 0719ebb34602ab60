"""Packing with Spark to an S3 server, next to a shared disk."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benching.images import ImageSet, make_images, read_all
from benching.runs import cleared

if TYPE_CHECKING:
    from imgrec.engine.spark import SparkEngine

BUCKET = "datasets"
SHARDS = 16
CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"}
WAITS_S = 60


def race_spark(work: Path, images: ImageSet, rounds: int, rclone: Path | None) -> dict[str, Any]:
    """Time packs of a folder and of a DataFrame of its paths, to a disk and to S3, in turns.

    One session runs them all, and packs a few images first: start-up does not count. Each pack
    finds an empty place. The server has half of the CPUs for itself, as if it were another machine,
    and Spark has the others, also for packs to a disk. `cpu_s` is what the driver and the executors
    take, without the server.
    """
    from imgrec.spark import SparkEngine

    source, few = make_images(work, images), make_images(work, ImageSet(images.kind, 200))
    read_all(source)
    disk = work / "output"
    seconds: dict[str, list[float]] = {}
    cpu_s: dict[str, list[float]] = {}
    server_s: dict[str, list[float]] = {}
    with (
        halved_cpus() as (own, others),
        s3_server(work / "s3", rclone, others) as server,
        SparkEngine(master=f"local[{len(own)}]", conf=CONF) as engine,
    ):
        for number in range(-1, rounds):
            for how, pack in PACKS.items():
                for where in ("disk", "s3"):
                    cleared(disk)
                    place = str(disk) if where == "disk" else f"s3://{BUCKET}/{number + 1}"
                    begun, server_before = time.perf_counter(), cpu_seconds(server)
                    before = tree_seconds(server)
                    pack(engine, source if number >= 0 else few, place)
                    if number >= 0:
                        taken = time.perf_counter() - begun
                        seconds.setdefault(f"{how} to {where}", []).append(taken)
                        cpu_s.setdefault(f"{how} to {where}", []).append(
                            tree_seconds(server) - before
                        )
                        server_s.setdefault(f"{how} to {where}", []).append(
                            cpu_seconds(server) - server_before
                        )
            last = {name: f"{each[-1]:.2f} s" for name, each in seconds.items()}
            print(f"  round {number + 1}: {last}", file=sys.stderr)
    cleared(disk)
    return {
        "images": images.count,
        "server": "rclone serve s3" if rclone else "moto",
        "seconds": seconds,
        "cpu_s": cpu_s,
        "server_s": server_s,
    }


@contextmanager
def halved_cpus() -> Iterator[tuple[set[int], set[int]]]:
    """Keep this process, and those that it starts, to one half of its CPUs; yield both halves."""
    usable = sorted(os.sched_getaffinity(0))
    half = max(1, len(usable) // 2)
    own, others = set(usable[:half]), set(usable[half:] or usable)
    os.sched_setaffinity(0, own)
    try:
        yield own, others
    finally:
        os.sched_setaffinity(0, usable)


def cpu_seconds(process: int, *, with_ended: bool = False) -> float:
    """Return how much of a CPU a process has used, perhaps with its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def tree_seconds(but: int) -> float:
    """Return how much of a CPU this process and all below it have used, but one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.name))
    left, total = [os.getpid()], 0.0
    while left:
        process = left.pop()
        left += [child for child in children.get(process, ()) if child != but]
        with suppress(OSError):
            total += cpu_seconds(process, with_ended=True)
    return total


def summary(found: dict[str, Any]) -> str:
    """Return the ratios of S3 to disk, in time and in CPU without the server, a line for each."""
    wall, cpu, server = (
        {name: statistics.median(each) for name, each in found[what].items()}
        for what in ("seconds", "cpu_s", "server_s")
    )
    lines = [f"Spark, {found['images']:,} photos to S3 ({found['server']}) / to a disk:"]
    for how in PACKS:
        far, near = f"{how} to s3", f"{how} to disk"
        lines.append(
            f"{how}: time {wall[far] / wall[near]:.2f} ({wall[far]:.1f} s / {wall[near]:.1f} s), "
            f"CPU without the server {cpu[far] / cpu[near]:.2f} ({cpu[far]:.1f} s / "
            f"{cpu[near]:.1f} s), CPU of the server {server[far]:.1f} s"
        )
    return "\n".join(lines)


def _pack_folder(engine: SparkEngine, source: Path, data_dir: str) -> None:
    import imgrec

    imgrec.pack(source, engine=engine, data_dir=data_dir, shards=SHARDS, overwrite=True)


def _pack_paths(_engine: SparkEngine, source: Path, data_dir: str) -> None:
    from imgrec.engine.spark import active_session
    from imgrec.spark import pack_dataframe

    session = active_session()
    assert session is not None
    paths = [(str(path), path.parent.name) for path in sorted(source.glob("*/*.jpg"))]
    frame = session.createDataFrame(paths, "path string, label string").repartition(8)
    pack_dataframe(
        frame, "paths", image="path", root=str(source),
        data_dir=data_dir, shards=SHARDS, overwrite=True,
    )  # fmt: skip


PACKS: dict[str, Callable[[SparkEngine, Path, str], None]] = {
    "folder": _pack_folder,
    "dataframe": _pack_paths,
}


@contextmanager
def s3_server(folder: Path, rclone: Path | None, cpus: set[int]) -> Iterator[int]:
    """Run an S3 server on some CPUs, and point all S3 libraries of this process to it.

    It is rclone, which keeps objects in a folder, or else moto, which takes more of a CPU. Yields
    its process id.
    """
    import boto3

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        AWS_ACCESS_KEY_ID="benchmark",
        AWS_SECRET_ACCESS_KEY="benchmark",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true",
        NO_PROXY="127.0.0.1",
    )
    cleared(folder)
    command: list[str | Path] = [
        sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)
    ]  # fmt: skip
    if rclone:
        command = [
            rclone, "serve", "s3", folder, "--addr", f"127.0.0.1:{port}", "--config", os.devnull,
            "--auth-key", "benchmark,benchmark",
        ]  # fmt: skip
    running = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    try:
        end = time.monotonic() + WAITS_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield running.pid
    finally:
        running.kill()
        running.wait()
        cleared(folder)
