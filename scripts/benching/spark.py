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


def race_spark(work: Path, images: ImageSet, rounds: int) -> dict[str, Any]:
    """Time packs of a folder and of a DataFrame of its paths, to a disk and to S3, in turns.

    One session runs them all, and packs a few images first: start-up does not count.
    """
    from imgrec.spark import SparkEngine

    source, few = make_images(work, images), make_images(work, ImageSet(images.kind, 200))
    read_all(source)
    disk = work / "output"
    places = {"disk": str(disk), "s3": f"s3://{BUCKET}/out"}
    seconds: dict[str, list[float]] = {}
    server_s: list[float] = []
    with s3_server() as server, SparkEngine(master="local[2]", conf=CONF) as engine:
        for number in range(-1, rounds):
            for how, pack in PACKS.items():
                for where, place in places.items():
                    cleared(disk)
                    begun, before_s = time.perf_counter(), cpu_seconds(server)
                    pack(engine, source if number >= 0 else few, place)
                    if number >= 0:
                        taken = time.perf_counter() - begun
                        seconds.setdefault(f"{how} to {where}", []).append(taken)
                        server_s += [cpu_seconds(server) - before_s] if where == "s3" else []
            medians = {name: f"{each[-1]:.2f} s" for name, each in seconds.items()}
            print(f"  round {number + 1}: {medians}", file=sys.stderr)
    cleared(disk)
    return {"images": images.count, "seconds": seconds, "server_s": server_s}


def cpu_seconds(process: int) -> float:
    """Return how much of a CPU a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(found: dict[str, Any]) -> str:
    """Return the ratios of S3 to disk in a line."""
    medians = {name: statistics.median(each) for name, each in found["seconds"].items()}
    ratios = (
        f"{how} {medians[f'{how} to s3'] / medians[f'{how} to disk']:.2f}"
        f" ({medians[f'{how} to s3']:.1f} s / {medians[f'{how} to disk']:.1f} s)"
        for how in PACKS
    )
    server_s = statistics.median(found["server_s"])
    return (
        f"Spark, {found['images']:,} photos, time to S3 / to a disk: {', '.join(ratios)}; "
        f"the server took {server_s:.1f} s of a CPU"
    )


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
def s3_server() -> Iterator[int]:
    """Run moto in a process of its own, and point all S3 libraries of this process to it.

    Yields its process id.
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
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    moto = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + WAITS_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield moto.pid
    finally:
        moto.kill()
        moto.wait()
